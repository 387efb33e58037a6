"""Names that both who plans and who runs a plan can tell: of what a join reads, and of the queries of joined rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from headrace.model.predicate import Operand
from headrace.model.query import StreamName
from headrace.model.types import BIGINT

QUERY = Operand("__headrace_query", BIGINT)
"""The id of the query that a joined row is for, where rows feed an aggregation."""


def input_id(stream: StreamName, keys: Iterable[Operand]) -> str:
    """The input of joins that reads a stream by a key."""
    return digest(stream, *map(key_text, keys))


def key_text(key: Operand) -> str:
    return f"{key.plain} {key.sql} {key.type.name}"


def digest(*parts: str) -> str:
    """A short name for these."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
