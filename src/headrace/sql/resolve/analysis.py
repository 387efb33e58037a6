"""What only Spark can say about a query: the names and types of its columns."""

from __future__ import annotations

from typing import Protocol

from headrace.model.query import Stream
from headrace.model.types import Column
from headrace.sql import errors


class Analyzer(Protocol):
    """Spark's analyser, as far as `sql/` needs it; the engine implements it with a SparkSession."""

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        """Output columns of `sql`, where each stream is visible under its own name as an empty relation.

        Raises SqlError when Spark refuses the text.
        """
        ...

    def difference(self, original: str, rendered: str) -> str | None:
        """Where Spark's parser reads two queries differently, in its own words; None when it reads them alike.

        Names of result columns do not count. Raises SqlError when Spark cannot read `original`.
        """
        ...


def check_types(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns, if results can hold them; raises SqlError that names the first that cannot be."""
    for column in columns:
        if not column.type.travels:
            variant = "variant" in column.type.name
            raise errors.unsupported(
                f"the column {column.name} is of type {column.type.name}, which no result can hold",
                hint="take values out of it with variant_get(), or CAST it to STRING"
                if variant
                else "CAST it to STRING",
            )
        if column.type.twin_field is not None:
            raise errors.unsupported(
                f"the column {column.name} has a struct with two fields `{column.type.twin_field}`: no file holds it",
                hint="give its fields different names, such as transform(a, x -> named_struct('l', x, 'r', x)) "
                "for arrays_zip(a, a)",
            )
    return columns
