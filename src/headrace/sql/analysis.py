"""What only Spark can say about a query: the names and types of its columns."""

from __future__ import annotations

from typing import Protocol

from headrace.model.query import Stream
from headrace.model.types import Column


class Analyzer(Protocol):
    """Spark's analyser, as far as `sql/` needs it; the engine implements it with a SparkSession."""

    def schema(self, sql: str, stream: Stream) -> tuple[Column, ...]:
        """Output columns of `sql`, where `stream` is visible under its own name as an empty relation.

        Raises SqlError when Spark refuses the text.
        """
        ...
