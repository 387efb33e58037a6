"""Names of result tables: queries whose rows have the same types share one, however many they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from zlib import crc32

from headrace.model.predicate import Operand
from headrace.model.types import SqlType


def result_signature(keys: Iterable[SqlType], aggregates: Iterable[SqlType], rows: str = "windows") -> str:
    """The table for aggregation results with these key and aggregate types; `rows` says what a row is of.

    >>> result_signature([SqlType("bigint")], [SqlType("double"), SqlType("decimal(10,2)")])
    'windows-bigint-by-double-decimal_10_2'
    """
    parts = ["-".join(re.sub(r"\W+", "_", t.name).strip("_") for t in types) for types in (keys, aggregates)]
    name = f"{rows}-{parts[0] or 'all'}-by-{parts[1] or 'none'}"
    return name if len(name) <= 120 else f"{rows}-{crc32(name.encode()):08x}"


def output_column(operand: Operand) -> str:
    """The stored name of a selected value: plain columns and expressions alike, stable across plans."""
    return f"o_{crc32(f'{operand.plain}:{operand.type.name}:{operand.sql}'.encode()):08x}"


def joined_column(input_id: str, role: int, operand: Operand) -> str:
    """The stored name of what a joined row carries of one input, whatever the order of the join."""
    return f"j_{crc32(f'{input_id}:{role}:{operand.plain}:{operand.type.name}:{operand.sql}'.encode()):08x}"
