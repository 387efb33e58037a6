"""Expressions whose values Arrow can carry from Spark to Python."""

from __future__ import annotations

from headrace.model.types import Kind, SqlType


def carried(text: str, type_: SqlType) -> str:
    """`text`, which is of `type_`, as Python gets it: an interval of months, which Arrow lacks, as their number.

    >>> carried("m", SqlType("interval year")), carried("n", SqlType("int"))
    ('CAST(CAST(m AS INTERVAL MONTH) AS INT)', 'n')
    """
    return f"CAST(CAST({text} AS INTERVAL MONTH) AS INT)" if type_.kind is Kind.MONTHS else text
