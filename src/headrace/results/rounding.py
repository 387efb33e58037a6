"""How far two right answers in floating point may lie apart where they should be zero.

Sums in another order differ in their last digits. Where the terms cancel, those digits are all that is left: the
correlation of noise may come out as 0 in one order and as -1.8e-17 in another, and no relative tolerance calls them
equal. What is left is bounded by the size of the terms, so the tolerance is too: `NOISE` times the largest value that
the query reads (its square where an aggregate multiplies two values, 1 where it has no unit). Only queries that add
floating-point numbers up get one; values that are merely selected or compared are held to the relative tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyspark.sql import SparkSession

from headrace.model.query import Stream, log_relation
from headrace.model.types import Kind
from headrace.sql.text.dialect import tokenize
from headrace.sql.text.names import quote_name

NOISE = 1e-12
"""About the rounding of a million additions (1e6 × 2⁻⁵³), relative to the largest of what is added."""

_SUMS = frozenset({"sum", "try_sum", "avg", "mean", "try_avg", "regr_avgx", "regr_avgy"})
_SUMS |= {"std", "stddev", "stddev_pop", "stddev_samp"}
_PRODUCTS = frozenset({"variance", "var_pop", "var_samp", "covar_pop", "covar_samp"})
_PRODUCTS |= {"regr_sxx", "regr_syy", "regr_sxy"}
_NUMERIC = (Kind.FLOATING, Kind.INTEGER, Kind.DECIMAL)
_WITHOUT_UNIT = frozenset({"corr", "regr_r2", "skewness", "kurtosis", "regr_slope", "regr_intercept"})


def rounding_noise(text: str, scale: float) -> float:
    """The absolute tolerance for the results of a query, of whose inputs the largest is `scale` in size.

    >>> rounding_noise("SELECT corr(x, y) FROM t", 1000.0), rounding_noise("SELECT sum(x) FROM t", 1000.0)
    (1e-12, 1e-09)
    >>> rounding_noise("SELECT x, max(y) FROM t GROUP BY x", 1000.0)
    0.0
    """
    names = words_of(text)
    sizes = [0.0]
    if names & _SUMS:
        sizes.append(scale)
    if names & _PRODUCTS:
        sizes.append(scale * scale)
    if names & _WITHOUT_UNIT:
        sizes.append(1.0)
    largest = max(sizes)
    return NOISE * largest if math.isfinite(largest) else 0.0


def words_of(text: str) -> set[str]:
    """Every word of a text, in small letters: names of functions and columns are among them.

    >>> sorted(words_of("SELECT Sum(`a b`) FROM t"))
    ['a b', 'from', 'select', 'sum', 't']
    """
    return {token.text.lower() for token in tokenize(text)} - set("(),")


def input_scale(spark: SparkSession, streams: Sequence[Stream], text: str) -> float:
    """The largest absolute value in the numeric columns that a text names, of the log as it was last shown to the
    session (`run_log_sql`). One small job.
    """
    words, largest = words_of(text), 0.0
    for number, stream in enumerate(streams):
        read = [
            f"CAST({quote_name(column.name)} AS DOUBLE)"
            for column in stream.columns
            if column.type.kind in _NUMERIC and column.name.lower() in words
        ]
        if read:
            sizes = ", ".join(f"max(abs(nanvl({value}, NULL)))" for value in read)
            (row,) = spark.sql(f"SELECT {sizes} FROM {log_relation(number)}").collect()
            largest = max([largest, *(float(value) for value in row if value is not None)])
    return largest
