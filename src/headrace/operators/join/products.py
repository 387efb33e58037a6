"""Aggregations of joined rows by the join's key, as products of the sides' aggregations: no row is ever joined.

In one window and key, every tuple of a side meets every combination of the others' tuples. So COUNT(*) is the product
of the sides' counts, a SUM or COUNT over one side is multiplied by the others' counts, and what does not depend on how
often a value occurs stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.metrics import Numbers
from headrace.model.plan import Factor, ProductOutput
from headrace.model.query import AggregateFunction
from headrace.model.tables import QUERY, WINDOW_END, aggregate_column, key_column
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Kind, SqlType
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.encode import one_chunk, to_arrow, to_physical
from headrace.operators.common.keys import unify_keys
from headrace.operators.protocol import Emit

_SCALED = frozenset((AggregateFunction.COUNT_ALL, AggregateFunction.COUNT, AggregateFunction.SUM))
_SAMPLES = frozenset((AggregateFunction.VAR_SAMP, AggregateFunction.STDDEV_SAMP))
BATCH_ROWS = 1 << 17
"""Rows of about so many groups are multiplied at a time: what tells them apart then fits the processor's caches."""

OVERFLOW = "[ARITHMETIC_OVERFLOW] a SUM over a join does not fit its result's type"


class Factors:
    """The rows of the sides' operators, by query, until all of them are there."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], dict[int, list[pa.Table]]] = {}

    def taking(self, operator: str) -> Emit:
        """What takes the rows of an operator: those of a query follow each other."""

        def take(signature: str, table: pa.Table, queries: Numbers, latest_us: int | None) -> None:
            found = self._tables.setdefault((operator, signature), {})
            ids = table.column(QUERY).to_numpy()
            bounds = np.append(np.flatnonzero(np.diff(ids, prepend=-1)), len(ids))
            for low, high in pairwise(bounds.tolist()):
                found.setdefault(int(ids[low]), []).append(table.slice(low, high - low))

        return take

    def keys(self, output: ProductOutput) -> dict[int, int]:
        """How many keys all sides of each of an output's queries have, in all windows: a row is a key in a window."""
        sides = [self._tables.get(side, {}) for side in zip(output.sides, output.tables, strict=True)]
        found = {
            int(query): sum(table.num_rows for side in sides for table in side.get(query, ()))
            for query in output.queries
        }
        return {query: count for query, count in found.items() if count}

    def of(self, output: ProductOutput) -> Iterator[list[pa.Table]]:
        """The rows of an output's queries, side by side, some queries at a time: those that have rows of all sides."""
        sides = [self._tables.get(side, {}) for side in zip(output.sides, output.tables, strict=True)]
        found: list[list[pa.Table]] = [[] for _ in sides]
        rows = 0
        for query in output.queries:
            if all(query in side for side in sides):
                for tables, side in zip(found, sides, strict=True):
                    tables += side[query]
                rows += sum(table.num_rows for side in sides for table in side[query])
                if rows >= BATCH_ROWS:
                    yield [pa.concat_tables(tables) for tables in found]
                    found, rows = [[] for _ in sides], 0
        if rows:
            yield [pa.concat_tables(tables) for tables in found]


@dataclass(slots=True)
class Multiplied:
    """Joined groups as result rows, how many each query got, and the queries that failed with the reason.

    `latest_us` is when the last of their windows ends. `joined` is how many rows each query would have had to join.
    """

    table: pa.Table
    latest_us: int
    rows: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    joined: dict[int, float] = field(default_factory=dict)


def multiply(output: ProductOutput, keys: int, sides: Sequence[pa.Table]) -> Multiplied | None:
    """The rows of some of an output's queries; None when no group has tuples of all sides.

    `sides` hold rows `(query, window_end, k0.., a0..)` of these queries, each group of a query at most once.
    """
    found = [_with_keys(side, keys) for side in sides]
    if any(table.num_rows == 0 for table in found):
        return None
    places = _meet(_group_codes(found, keys))
    if len(places[0]) == 0:
        return None
    taken = [table.take(pa.array(place)) for table, place in zip(found, places, strict=True)]
    product = _Product(
        [to_physical(table.column(aggregate_column(0)), BIGINT).values for table in taken], taken
    )
    columns = {name: taken[0].column(name) for name in (QUERY, WINDOW_END)}
    for i, (side, key) in enumerate(output.keys):
        columns[key_column(i)] = taken[side].column(key_column(key))
    failed = np.zeros(len(places[0]), bool)
    for i, factor in enumerate(output.factors):
        columns[aggregate_column(i)], broken = product.value(factor)
        if broken is not None:
            failed |= broken
    table = pa.table(columns)
    queries = table.column(QUERY).to_numpy()
    joined = _joined_rows(queries, product.counts)
    bad = np.unique(queries[failed])
    if len(bad):
        kept = ~np.isin(queries, bad)
        table, queries = table.filter(pa.array(kept)), queries[kept]
    counted = zip(*np.unique(queries, return_counts=True), strict=True)
    latest_us = int(to_physical(table.column(WINDOW_END), TIMESTAMP).values.max(initial=0))
    return Multiplied(
        table,
        latest_us,
        {int(query): int(count) for query, count in counted},
        dict.fromkeys(bad.tolist(), OVERFLOW),
        joined,
    )


def _joined_rows(queries: Ints, counts: Sequence[Ints]) -> dict[int, float]:
    """How many rows the tuples of groups make that all sides have, added up by the groups' queries.

    >>> _joined_rows(np.array([1, 2, 1]), [np.array([3, 1, 2]), np.array([4, 5, 1])])
    {1: 14.0, 2: 5.0}
    """
    rows = np.ones(len(queries))
    for count in counts:
        rows *= count  # as floats: a hot key may make more rows than an integer can count
    found, at = np.unique(queries, return_inverse=True)
    return dict(zip(found.tolist(), np.bincount(at, rows).tolist(), strict=True))


def _with_keys(table: pa.Table, keys: int) -> pa.Table:
    """The rows whose keys are not NULL: NULL joins nothing."""
    for i in range(keys):
        column = table.column(key_column(i))
        if column.null_count:
            table = table.filter(pc.is_valid(column))
    return table


def _group_codes(sides: Sequence[pa.Table], keys: int) -> list[Ints]:
    """A number for each row of each side, equal where query, window and key are."""
    columns = [
        [to_physical(side.column(QUERY), BIGINT).values for side in sides],
        [to_physical(side.column(WINDOW_END), TIMESTAMP).values for side in sides],
        _key_codes([[side.column(key_column(i)) for i in range(keys)] for side in sides]),
    ]
    codes = [np.zeros(side.num_rows, np.int64) for side in sides]
    most = 1
    for column in columns:
        low, high = min(int(p.min()) for p in column), max(int(p.max()) for p in column)
        if most * (high - low + 1) >= 2**63:
            bounds = np.cumsum([0, *map(len, column)])
            for values in (codes, column):
                dense = np.unique(np.concatenate(values), return_inverse=True)[1]
                values[:] = [dense[a:b] for a, b in pairwise(bounds)]
            low, high = 0, int(max(p.max() for p in column))
            most = int(max(c.max() for c in codes)) + 1
        span = high - low + 1
        codes = [code * span + (p - low) for code, p in zip(codes, column, strict=True)]
        most *= span
    return codes


def _key_codes(sides: Sequence[Sequence[pa.ChunkedArray]]) -> list[Ints]:
    """A number for each key of each side: an integer is one itself, others are found by hashing."""
    if len(sides[0]) == 1 and all(pa.types.is_integer(column.type) for (column,) in sides):
        return [one_chunk(column.cast(pa.int64())).to_numpy() for (column,) in sides]
    tables = []
    for columns in sides:
        wide = [c.cast(pa.int64()) if pa.types.is_integer(c.type) else c for c in columns]
        tables.append(pa.table({key_column(i): one_chunk(column) for i, column in enumerate(wide)}))
    return unify_keys(tables)[1]


def _meet(codes: Sequence[Ints]) -> list[Ints]:
    """For each side, the rows of the groups that all sides have, in one order: the smallest side's."""
    smallest = min(range(len(codes)), key=lambda side: len(codes[side]))
    places = {smallest: np.arange(len(codes[smallest]))}
    for side in sorted(set(range(len(codes))) - {smallest}, key=lambda side: len(codes[side])):
        wanted = pa.array(codes[smallest][places[smallest]])
        found = pc.index_in(pa.array(codes[side]), wanted)
        rows = np.flatnonzero(np.asarray(found.is_valid()))
        at = found.drop_null().to_numpy()
        order = np.argsort(at, kind="stable")
        places = {known: place[at[order]] for known, place in places.items()} | {side: rows[order]}
    return [places[side] for side in range(len(codes))]


@dataclass(slots=True)
class _Product:
    """The sides' rows of the same groups, one below the other, with the counts of their tuples."""

    counts: list[Ints]
    tables: list[pa.Table]

    def times(self, side: int | None) -> tuple[Ints, Bools]:
        """How often a tuple of a side occurs among the joined rows (of None, how many rows there are), and where that
        does not fit.
        """
        times, broken = np.ones_like(self.counts[0]), np.zeros(len(self.counts[0]), bool)
        for i, count in enumerate(self.counts):
            if i != side:
                broken |= _too_large(times, count, 63)
                times = times * count
        return times, broken

    def value(self, factor: Factor) -> tuple[pa.Array, Bools | None]:
        """An aggregate of the joined rows, and where it does not fit its type (None: nowhere)."""
        times, many = self.times(factor.side)
        value, broken = self._value(factor, times)
        return value, many if broken is None else broken | many

    def _value(self, factor: Factor, times: Ints) -> tuple[pa.Array, Bools | None]:
        if factor.side is None:
            return to_arrow(times, None, BIGINT), None
        column = one_chunk(self.tables[factor.side].column(aggregate_column(factor.column)))
        if factor.function in _SAMPLES:
            counted = one_chunk(self.tables[factor.side].column(aggregate_column(factor.count)))
            return _sample(
                factor, to_physical(column, DOUBLE).values, to_physical(counted, BIGINT).values * times
            ), None
        if factor.function not in _SCALED:
            return column, None
        if factor.type.kind is Kind.DECIMAL:
            return _decimals(column, times, factor.type)
        physical = to_physical(column, factor.type)
        scaled = physical.values * times
        if factor.type.kind is Kind.FLOATING:
            return to_arrow(scaled, physical.valid, factor.type), None
        broken = _too_large(physical.values, times, 31 if factor.type.kind is Kind.MONTHS else 63)
        if physical.valid is not None:
            broken &= physical.valid
        return to_arrow(scaled, physical.valid, factor.type), broken if broken.any() else None


def _sample(factor: Factor, population: Array, count: Ints) -> pa.Array:
    """Sample variance from the population's; NULL for fewer than two values."""
    value = population * count / np.maximum(count - 1, 1)
    if factor.function is AggregateFunction.STDDEV_SAMP:
        value = np.sqrt(value)
    return to_arrow(value, count > 1, DOUBLE)


def _too_large(values: Ints, times: Ints, bits: int) -> Bools:
    """Where a product does not fit an integer of so many bits and a sign."""
    broken = np.abs(values.astype(np.float64) * times) >= 2.0 ** (bits - 1)
    for i in np.flatnonzero(broken):
        broken[i] = not -(2**bits) <= int(values[i]) * int(times[i]) < 2**bits
    return broken


def _decimals(column: pa.Array, times: Ints, type_: SqlType) -> tuple[pa.Array, Bools | None]:
    """Sums of decimals, multiplied in Python: they do not fit 64 bits."""
    most = Decimal(10) ** (type_.precision - type_.scale)
    with localcontext(prec=100):
        pairs = zip(column.to_pylist(), times.tolist(), strict=True)
        values = [None if value is None else value * count for value, count in pairs]
        broken = np.array([value is not None and abs(value) >= most for value in values], bool)
        kept = [None if bad else value for value, bad in zip(values, broken, strict=True)]
    return pa.array(kept, type_.arrow), broken if broken.any() else None
