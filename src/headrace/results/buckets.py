"""Large results compared where they are: by buckets of a hash. Only those that differ are brought to the driver.

Ten million rows as Python objects fill the driver, and with it the process that runs everybody's queries. So Spark puts
the rows of both sides into buckets by a hash of all their columns, and counts and adds hashes up per bucket:

    expected   | 152  a41f.. | 149  07c2.. | 160  9be0.. |
    delivered  | 152  a41f.. | 149  07c2.. | 159  33d1.. |   the last one is fetched from both sides, and compared

Floats are hashed without their last bits, which depend on the order of additions. Two values that the tolerance tells
apart never lose what they differ by. Now and then, two that are equal get different hashes. Then their buckets are
fetched, and the rows compared as all others are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.model.tables import numbered_columns
from headrace.model.types import Kind, SqlType
from headrace.results.compare import Row, compare_rows
from headrace.results.view import readable

LARGE_ROWS = 500_000
"""From so many delivered rows on, they are compared by buckets. It takes Spark a shuffle, but the driver no memory."""

BUCKETS = 1 << 16
FETCHED_ROWS = 1_000_000
"""About so many rows of a side are in the driver at a time, unless a single bucket has more."""

FEW_BUCKETS = 500
"""Up to so many buckets are named one by one."""

DIFFERENT_ENOUGH = 100_000
"""Once so many rows differ, no more are looked for."""

_KEPT_BITS = float(2**22 + 1)
"""Multiplying by this and taking the excess away leaves 31 of 53 bits, which is finer than the tolerance."""

_HASH, _BUCKET, _COUNT, _LOW, _HIGH = "hash", "bucket", "rows", "low", "high"

Rows = Callable[[DataFrame], list[Row]]
Settle = Callable[[list[Row], list[Row]], tuple[list[Row], list[Row]]]
"""What is still missing and unexpected once these rows, of all buckets so far, are compared with each other."""


@dataclass(slots=True)
class Difference:
    """How many rows there are, those that are missing and unexpected, and whether all that differ were looked for."""

    expected_rows: int
    actual_rows: int
    missing: list[Row] = field(default_factory=list)
    unexpected: list[Row] = field(default_factory=list)
    complete: bool = True


def can_be_hashed(frame: DataFrame) -> bool:
    """Whether all columns have a hash that tells different values apart: parts of nested ones cannot be got at."""
    return all(_kind(field_.dataType.simpleString()) is not Kind.NESTED for field_ in frame.schema.fields)


def _kind(text: str) -> Kind:
    return SqlType(text).kind


def compare_large(
    expected: DataFrame, actual: DataFrame, rows: Rows, settle: Settle = compare_rows
) -> Difference:
    """Both sides as multisets. `rows` brings the rows of a frame to the driver; all their columns can be hashed.

    A row and the one that it is equal to but for the last bits may be in different buckets. So what differs is settled
    before the search is given up, and at the end.
    """
    left, right = _hashed(expected), _hashed(actual)
    wanted, found = _sums(left), _sums(right)
    differ = np.flatnonzero((wanted != found).any(axis=0))
    result = Difference(int(wanted[0].sum()), int(found[0].sum()))
    for condition in _conditions(differ, np.maximum(wanted[0], found[0])):
        missing, unexpected = compare_rows(rows(_some(left, condition)), rows(_some(right, condition)))
        result.missing += missing
        result.unexpected += unexpected
        if len(result.missing) + len(result.unexpected) > DIFFERENT_ENOUGH:
            result.missing, result.unexpected = settle(result.missing, result.unexpected)
            if len(result.missing) + len(result.unexpected) > DIFFERENT_ENOUGH:
                result.complete = False
                return result
    result.missing, result.unexpected = settle(result.missing, result.unexpected)
    return result


def _hashed(frame: DataFrame) -> DataFrame:
    """The rows with the bucket of each, and its hash."""
    names = numbered_columns(len(frame.columns))
    kinds = [_kind(field_.dataType.simpleString()) for field_ in frame.schema.fields]
    numbered = readable(frame).toDF(*names)
    # hashes pass over NULL, so it is said for each column whether it is that
    parts = [f"{name} IS NULL, {_hashable(name, kind)}" for name, kind in zip(names, kinds, strict=True)]
    hashed = numbered.selectExpr(*names, f"xxhash64({', '.join(parts)}) AS {_HASH}")
    return hashed.selectExpr(*names, _HASH, f"CAST(pmod({_HASH}, {BUCKETS}) AS INT) AS {_BUCKET}")


def _hashable(name: str, kind: Kind) -> str:
    """A column as it is hashed: values that are equal for the audit, or nearly, should be the same."""
    if kind is Kind.STRING:
        return f"CAST({name} AS BINARY)"  # whatever its collation takes for equal
    if kind is not Kind.FLOATING:
        return name
    wide = f"(CAST({name} AS DOUBLE) + 0.0D)"  # -0.0 is 0.0
    cut = f"({_KEPT_BITS}D * {wide})"
    return (
        f"CASE WHEN isnan({wide}) THEN CAST('NaN' AS DOUBLE) "
        f"WHEN abs({wide}) > 1e300D THEN {wide} ELSE {cut} - ({cut} - {wide}) END"
    )


def _sums(hashed: DataFrame) -> np.ndarray:
    """[what, bucket]: rows, and the sums of the lower and of the upper half of their hashes."""
    low, high = f"{_HASH} & 4294967295L", f"shiftrightunsigned({_HASH}, 32)"
    sum_up = (
        F.expr(f"count(*) AS {_COUNT}"),
        F.expr(f"sum({low}) AS {_LOW}"),
        F.expr(f"sum({high}) AS {_HIGH}"),
    )
    found = hashed.groupBy(_BUCKET).agg(*sum_up).toArrow()
    sums = np.zeros((3, BUCKETS), np.int64)
    for i, name in enumerate((_COUNT, _LOW, _HIGH)):
        sums[i, found[_BUCKET].to_numpy()] = found[name].to_numpy()
    return sums


def _conditions(differ: np.ndarray, rows: np.ndarray) -> Iterator[str]:
    """Which buckets to fetch at a time: single ones where few differ, else runs of neighbours with those between them.

    >>> rows = np.full(10, 600_000)
    >>> list(_conditions(np.array([2, 7]), rows))
    ['bucket IN (2, 7)']
    """
    if len(differ) == 0:
        return
    if len(differ) <= FEW_BUCKETS and rows[differ].sum() <= 2 * FETCHED_ROWS:
        yield f"{_BUCKET} IN ({', '.join(map(str, differ.tolist()))})"
        return
    low = int(differ[0])
    while low <= differ[-1]:
        many = np.flatnonzero(np.cumsum(rows[low:]) > FETCHED_ROWS)
        high = max(low + 1, low + int(many[0])) if len(many) else BUCKETS
        if ((differ >= low) & (differ < high)).any():
            yield f"{_BUCKET} >= {low} AND {_BUCKET} < {high}"
        low = high


def _some(hashed: DataFrame, condition: str) -> DataFrame:
    return hashed.where(condition).drop(_HASH, _BUCKET)
