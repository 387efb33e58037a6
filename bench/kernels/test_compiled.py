"""Each compiled kernel by itself, beside the numpy way that it took the place of. Off by default: `make kernels`.

200,000 tuples of 200 keys, and 1,000 queries of one to three conjuncts over operands of 50 regions each. A query
accepts two fifths of the regions of each operand that it compares, so a tuple matches 400, 160 or 64 queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.plan.predicates import index_operands
from headrace.model.predicate import And, Compare, Op, Operand
from headrace.model.types import BIGINT
from headrace.operators.common.bitrows import ordered_by_row
from headrace.operators.common.boxes import BoxMaker, BoxTable
from headrace.operators.common.encode import ranges
from headrace.operators.common.keys import encode_keys
from headrace.operators.common.matching import Matcher, Matches, codes_of, homes_for
from headrace.operators.compiled.bins import (
    add_to_bins,
    add_to_cells,
    keep_in_bins,
    keep_in_cells,
    place_in_cells,
    run_totals,
)
from headrace.operators.compiled.matches import (
    add_values,
    merge_moments_of,
    order_by_row,
    update_four,
)
from headrace.operators.compiled.sessions import (
    add_to_sessions,
    count_wanted,
    find_sessions,
    list_wanted,
    place_rows,
)
from headrace.operators.compiled.spans import add_slices, add_stored_rows, keep_slices, put_totals
from headrace.operators.compiled.sparse import (
    add_runs,
    count_keys,
    extremes_of_runs,
    list_keys,
    name_places,
    sort_rows,
)
from headrace.operators.compiled.storing import list_live
from headrace.operators.compiled.windows import (
    add_ranges,
    add_stored,
    extreme_ranges,
    find_span,
    keep_stored,
    mark_live,
    pick_cells,
    pick_rows,
    pick_values,
    subtract_totals,
)
from headrace.operators.join.groups import group_rows
from headrace.operators.join.probing import (
    Candidates,
    Rows,
    Tuples,
    drop_empty,
    pairs_of_groups,
    probe,
)
from headrace.operators.join.windows import Containment, Moments
from headrace.operators.sessions.micro import merge_runs
from headrace.operators.windows.packed import PackedPart
from headrace.operators.windows.segment import few_distinct

TUPLES, KEYS, QUERIES, REGIONS = 200_000, 200, 1_000, 50
WORDS = -(-QUERIES // 64)
ACCEPTED = 0.4

Benchmark = Callable[..., Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Matching:
    """What the kernels take, and the same as numpy would have it: accepts[operand][region, query]."""

    accepts: tuple[Array, ...]
    regions: Array
    row: Array
    arguments: tuple[Any, ...]
    values: Array


def make_matching(conjuncts: int) -> Matching:
    rng = np.random.default_rng(conjuncts)
    accepts = tuple(rng.random((REGIONS, QUERIES)) < ACCEPTED for _ in range(conjuncts))
    regions = rng.integers(0, REGIONS, (TUPLES, conjuncts))
    row = rng.integers(0, KEYS, TUPLES)
    order, bounds = np.empty(TUPLES, np.int64), np.zeros(KEYS + 1, np.int64)
    order_by_row(row, order, bounds)
    table = np.concatenate([pack(accepted) for accepted in accepts])
    codes = (regions + np.arange(conjuncts) * REGIONS).astype(np.int32)
    entries = np.full(WORDS * 64, -1, np.int64)
    entries[:QUERIES] = np.arange(QUERIES)
    mask = pack(np.ones((1, QUERIES), bool))[0]
    arguments = (codes, table, mask, *no_lists(len(table), conjuncts), entries, order, bounds), False
    return Matching(accepts, regions, row, arguments, rng.integers(0, 1_000, TUPLES))


def no_lists(codes: int, operands: int) -> tuple[Array, ...]:
    """No box is a candidate."""
    nothing, flat = np.empty(0, np.int32), np.empty((0, operands), np.int32)
    return np.zeros(codes + 1, np.int64), nothing, flat, flat, nothing, nothing


def pack(flags: Array) -> Array:
    """A row of flags as words of 64 bits, the first flag in the lowest bit."""
    padded = np.zeros((len(flags), WORDS * 64), bool)
    padded[:, :QUERIES] = flags
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


@pytest.fixture(scope="module", params=[1, 2, 3], ids=["1 conjunct", "2 conjuncts", "3 conjuncts"])
def matching(request: pytest.FixtureRequest) -> Matching:
    return make_matching(request.param)


def add_once_per_query(found: Matching, into: Array) -> None:
    """numpy goes over all tuples once per query."""
    for query in range(QUERIES):
        wanted = np.ones(TUPLES, bool)
        for operand, accepted in enumerate(found.accepts):
            wanted &= accepted[:, query][found.regions[:, operand]]
        into[query] += np.bincount(found.row[wanted], found.values[wanted], KEYS).astype(np.int64)


def test_order_by_row(benchmark: Benchmark) -> None:
    row = np.random.default_rng(0).integers(0, KEYS, TUPLES)
    order = np.empty(TUPLES, np.int64)
    benchmark(lambda: order_by_row(row, order, np.zeros(KEYS + 1, np.int64)))
    assert (np.diff(row[order]) >= 0).all()


def test_add_values(benchmark: Benchmark, matching: Matching) -> None:
    into = np.zeros((QUERIES, KEYS), np.int64)
    benchmark.pedantic(lambda: add_values(*matching.arguments, matching.values, into), rounds=5)  # type: ignore
    expected = np.zeros_like(into)
    add_once_per_query(matching, expected)
    assert (into == 5 * expected).all(), "five rounds added the same five times"


def four_of(queries: int, values: Array) -> tuple[Array, Array, list[Array]]:
    """What `update_four` takes: the values of all four measures, and partials of each for each query."""
    places = np.full((-(-queries // 64) * 64, 4), -1, np.int64)
    places[:queries] = np.arange(queries)[:, None]
    starts = (0, 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    return np.stack([values] * 4, axis=1), places, [np.full((queries, KEYS), start) for start in starts]


def test_update_four(benchmark: Benchmark, matching: Matching) -> None:
    values, places, into = four_of(QUERIES, matching.values)
    run = lambda: update_four(*matching.arguments, values, places, *into)  # noqa: E731
    benchmark.pedantic(run, rounds=5)  # type: ignore
    expected = np.zeros_like(into[0])
    add_once_per_query(matching, expected)
    assert (into[0] == 5 * expected).all(), "five rounds added the same five times"


def test_add_values_with_numpy(benchmark: Benchmark, matching: Matching) -> None:
    into = np.zeros((QUERIES, KEYS), np.int64)
    benchmark.pedantic(lambda: add_once_per_query(matching, into), rounds=1)  # type: ignore


def test_add_floats(benchmark: Benchmark, matching: Matching) -> None:
    into, values = np.zeros((QUERIES, KEYS)), matching.values.astype(np.float64)
    benchmark.pedantic(lambda: add_values(*matching.arguments, values, into), rounds=5)  # type: ignore


EQUALITIES = {"100 equalities": 100, "10,000 equalities": 10_000}


def make_candidates(queries: int) -> tuple[tuple[Any, ...], Array]:
    """Queries `flight = n AND price > m` over as many flights: about half of the tuples match one query each."""
    flight, price = (Operand(name, BIGINT) for name in ("flight", "price"))
    where = [And((Compare(flight, Op.EQ, n), Compare(price, Op.GT, n % 50))) for n in range(queries)]
    indexes = index_operands(where)
    maker = BoxMaker(indexes)
    table = BoxTable.of(indexes, [maker.boxes(predicate) or [] for predicate in where])
    rng = np.random.default_rng(queries)
    regions = [2 * rng.integers(0, queries, TUPLES) + 1, rng.integers(0, 100, TUPLES)]
    matcher = Matcher(table, homes_for(table, codes_of(table, regions), 1))
    ordered = ordered_by_row(rng.integers(0, KEYS, TUPLES), KEYS)
    matches = Matches(
        matcher, matcher.codes(regions), *matcher.entries(np.arange(queries)), *ordered, sparse=True
    )
    return matches.arguments, rng.integers(0, 1_000, TUPLES)


@pytest.mark.parametrize("queries", EQUALITIES.values(), ids=EQUALITIES.keys())
def test_update_four_of_candidates(benchmark: Benchmark, queries: int) -> None:
    arguments, drawn = make_candidates(queries)
    values, places, into = four_of(queries, drawn)
    benchmark.pedantic(lambda: update_four(*arguments, values, places[:queries], *into), rounds=5)  # type: ignore


def test_merge_moments(benchmark: Benchmark, matching: Matching) -> None:
    ones, means = np.ones(TUPLES, np.int64), matching.values.astype(np.float64)
    counts, into, spreads = (
        np.zeros((QUERIES, KEYS), np.int64),
        np.zeros((QUERIES, KEYS)),
        np.zeros((QUERIES, KEYS)),
    )
    given = (*matching.arguments, ones, means, np.zeros(TUPLES), counts, into, spreads)
    benchmark.pedantic(lambda: merge_moments_of(*given), rounds=5)  # type: ignore


ENTRIES, WINDOWS, WIDE_KEYS = 50, 10, 20_000


@pytest.fixture(scope="module", params=[1.0, 0.1], ids=["every key", "one key in ten"])
def closed(request: pytest.FixtureRequest) -> tuple[Array, Array]:
    """Counts and values [entry, window, key] of closed windows."""
    rng = np.random.default_rng(1)
    counts = (rng.random((ENTRIES, WINDOWS, WIDE_KEYS)) < request.param).astype(np.int64)
    return counts, rng.integers(0, 1_000, counts.shape)


def test_picking(benchmark: Benchmark, closed: tuple[Array, Array]) -> None:
    counts, values = (part.ravel() for part in closed)
    start, runs = np.arange(ENTRIES) * WINDOWS * WIDE_KEYS, np.empty(ENTRIES * WINDOWS, np.int64)
    first, last = np.zeros(ENTRIES, np.int64), np.full(ENTRIES, WINDOWS)
    bounds = np.arange(WINDOWS + 1) * WIDE_KEYS

    def pick() -> Array:
        picked = np.empty(counts.size + 1, np.int32)
        pick_rows(counts, start, first, last, bounds, runs, picked)
        ends = np.append(0, np.cumsum(runs.reshape(ENTRIES, -1).sum(axis=1)))
        found = np.empty(ends[-1], np.int64)
        pick_values(values, start, ends, picked[: ends[-1]], found)
        return found

    benchmark(pick)


def test_picking_by_numpy(benchmark: Benchmark, closed: tuple[Array, Array]) -> None:
    counts, values = closed

    def pick() -> tuple[Array, Array]:
        flat = np.flatnonzero(counts > 0)
        return flat % WIDE_KEYS, values.ravel()[flat]

    benchmark(pick)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_totals(benchmark: Benchmark, dtype: Any) -> None:
    """Windows of three slices, as four look-ups each."""
    running = np.random.default_rng(1).integers(0, 9, (2 * ENTRIES, WINDOWS + 3, 2_000)).astype(dtype)
    low, first = np.arange(ENTRIES), np.arange(WINDOWS)
    sums = np.empty((ENTRIES, WINDOWS, 2_000), dtype)
    benchmark(lambda: subtract_totals(running, low, low + ENTRIES, first, first + 3, sums))


@pytest.mark.parametrize("kernel", ["totals", "slices", "extremes", "rows", "stored"])
def test_spans(benchmark: Benchmark, kernel: str) -> None:
    """50 windows of five spans each, of three slices and of stored rows; entries and keys as above."""
    rng, windows, keys = np.random.default_rng(1), 50, 200
    entries, spans = np.arange(windows + 1) * (ENTRIES // windows), np.arange(windows + 1) * 5
    first = np.tile(np.arange(5), windows)
    partials = rng.integers(0, 100, (ENTRIES, 8 * keys))
    running = rng.integers(0, 9, (2 * ENTRIES, 9, keys)).astype(np.int32)
    low, none, bounds = np.arange(ENTRIES), np.empty(0, np.int64), np.arange(9) * keys
    into = np.zeros(ENTRIES * 5 * keys, np.int64)
    some = (partials, none, bounds, keys, entries, spans, first, first + 3)
    stored = rng.integers(0, 100, (ENTRIES, 3 * keys)).astype(np.int16)
    part = PackedPart.of(np.split(stored, windows))
    every, of = np.tile(np.arange(ENTRIES // windows), windows), np.arange(windows + 1) * 3
    rows = np.tile(np.arange(3 * keys).reshape(keys, 3).T.ravel(), windows)
    of_key, runs = np.tile(np.arange(keys), 3 * windows), np.arange(3 * windows + 1) * keys
    begin, end = np.tile(np.arange(3), windows), np.tile(np.arange(3) + 2, windows)
    length = np.full(windows, 3 * keys)
    told = (part.types, part.firsts, length, every, every, entries, rows, of_key, runs, begin, end, of)
    live, found = np.empty(5 * keys, np.bool_), np.empty((2, 5 * windows * keys), np.int64)
    run = {
        "totals": lambda: put_totals(running, low, low + ENTRIES, entries, spans, first, first + 3, into),
        "slices": lambda: add_slices(*some, into),
        "extremes": lambda: keep_slices(*some, True, 0, into),
        "rows": lambda: add_stored_rows(*part.numbers, *told, entries, spans, keys, into),
        "stored": lambda: list_live(
            into, entries, spans, keys, live, *found, np.empty(windows + 1, np.int64)
        ),
    }
    benchmark(run[kernel])


def test_ranges(benchmark: Benchmark, closed: tuple[Array, Array]) -> None:
    first = np.arange(WINDOWS - 2)
    sums = np.zeros((ENTRIES, WINDOWS - 2, WIDE_KEYS), np.int64)
    benchmark(lambda: add_ranges(closed[1], first, first + 3, sums))


def test_extremes_of_ranges(benchmark: Benchmark, closed: tuple[Array, Array]) -> None:
    first = np.arange(WINDOWS - 2)
    found = np.zeros((ENTRIES, WINDOWS - 2, WIDE_KEYS), np.int64)
    benchmark(lambda: extreme_ranges(closed[1], first, first + 3, True, found))


@pytest.mark.parametrize("kernel", ["sum", "least", "numpy"])
def test_stored(benchmark: Benchmark, kernel: str) -> None:
    """Stored partials into a grid."""
    rng = np.random.default_rng(1)
    part = rng.integers(0, 100, (ENTRIES, WIDE_KEYS)).astype(np.int16)
    rows, entries = np.arange(WIDE_KEYS), np.arange(ENTRIES)
    slots, keys = np.sort(rng.integers(0, WINDOWS, WIDE_KEYS)), rng.permutation(WIDE_KEYS)
    bounds, every = np.searchsorted(slots, np.arange(WINDOWS + 1)), np.arange(WINDOWS + 1)
    into = np.zeros((ENTRIES, WINDOWS, WIDE_KEYS), np.int64)

    def by_numpy() -> None:
        into[entries[:, None], slots[None, :], keys[None, :]] += part[np.ix_(entries, rows)]

    places = (part, entries, rows, entries, keys, bounds, every[:-1], every[1:])
    ways = {
        "sum": lambda: add_stored(*places, into),
        "least": lambda: keep_stored(*places, True, 2**15 - 1, into),
        "numpy": by_numpy,
    }
    benchmark(ways[kernel])


FEW, SLOTS = 200_000, 16
"""Rows of many keys, each with one or two in a few of the slots."""


@pytest.fixture(scope="module")
def few() -> tuple[Array, Array]:
    """(keys, slots) of rows, by key and slot."""
    rng = np.random.default_rng(1)
    flat = np.sort(rng.choice(FEW * SLOTS // 2, FEW, replace=False))
    return (flat // SLOTS).astype(np.int32), (flat % SLOTS).astype(np.int32)


@pytest.mark.parametrize("kernel", ["compiled", "numpy"])
def test_placing_rows(benchmark: Benchmark, few: tuple[Array, Array], kernel: str) -> None:
    """Rows in any order into that of keys and slots."""
    mixed = np.random.default_rng(1).permutation(FEW)
    keys, slots = few[0][mixed], few[1][mixed]

    def place() -> None:
        by_slot, order = np.empty(FEW, np.int32), np.empty(FEW, np.int32)
        sort_rows(slots, np.zeros(SLOTS + 1, np.int64), np.arange(FEW, dtype=np.int32), by_slot)
        sort_rows(keys, np.zeros(FEW + 1, np.int64), by_slot, order)
        distinct, count = np.empty((2, FEW), np.int32), np.zeros(1, np.int64)
        name_places(slots, keys, order, np.empty(FEW, np.int64), distinct, count)

    ways = {
        "compiled": place,
        "numpy": lambda: np.unique(keys.astype(np.int64) * SLOTS + slots, return_inverse=True),
    }
    benchmark(ways[kernel])


def test_few_distinct(benchmark: Benchmark, few: tuple[Array, Array]) -> None:
    slices = few[1].astype(np.int64) * 1_000_000
    benchmark(lambda: few_distinct(slices))


def test_windows_of_few_rows(benchmark: Benchmark, few: tuple[Array, Array]) -> None:
    """Windows of three slots each: the keys that are in each, and sums and extremes of their rows."""
    keys, slots = few
    first, last = np.maximum(np.arange(SLOTS) - 2, 0), np.arange(SLOTS) + 1
    until = np.minimum(np.arange(SLOTS) + 3, SLOTS)
    part = np.random.default_rng(1).integers(0, 100, (4, FEW))

    def close() -> None:
        counts = np.zeros(SLOTS, np.int64)
        count_keys(keys, slots, first, last, counts)
        next_, total = np.cumsum(counts) - counts, counts.sum()
        listed, runs = np.empty(total, np.int32), np.empty((2, total), np.int64)
        list_keys(keys, slots, first, last, until, next_, listed, runs)
        found = np.empty((4, total), np.int64)
        add_runs(part, runs, found)
        extremes_of_runs(part, runs, True, found)

    benchmark(close)


@pytest.mark.parametrize("in_time", [True, False], ids=["in time", "in no order"])
def test_find_sessions(benchmark: Benchmark, in_time: bool) -> None:
    """A minute of 1,000 keys, and sessions with a gap of 100 ms."""
    rng = np.random.default_rng(1)
    keys, starts = rng.integers(0, 1_000, TUPLES), rng.integers(0, 60_000_000, TUPLES)
    starts = np.sort(starts) if in_time else starts
    benchmark(lambda: merge_runs(keys, starts, starts, 100_000))


@pytest.mark.parametrize("keys", [1_000, 100_000, 1_000_000])
@pytest.mark.parametrize("way", ["near", "far", "arrow"])
def test_numbering_keys(benchmark: Benchmark, keys: int, way: str) -> None:
    """500,000 tuples of so many keys, drawn evenly: whole numbers side by side, or far apart."""
    values = np.random.default_rng(3).integers(0, keys, 500_000) * (1_000_003_777 if way == "far" else 1)
    column = pa.array(values)
    if way == "arrow":
        benchmark(lambda: column.dictionary_encode(null_encoding="encode"))
    else:
        benchmark(lambda: encode_keys([column], len(values)))


@pytest.mark.parametrize("kernel", ["list", "find", "place", "add", "sort"])
def test_sessions_of_queries(benchmark: Benchmark, kernel: str) -> None:
    """1,000 queries want 400 of 1,000 micro-sessions each, of 100 keys. `sort` puts all of these in order at once."""
    rng, rows = np.random.default_rng(2), 1_000
    keys, starts = np.sort(rng.integers(0, 100, rows)), rng.integers(0, 10**6, rows)
    starts = starts[np.lexsort((starts, keys))]
    wanted, cells = rng.random((QUERIES, 50)) < ACCEPTED, rng.integers(0, 50, rows)
    limits, counts, none = np.full(QUERIES, -1), np.empty(QUERIES, np.int64), np.empty(0, np.int64)
    count_wanted(cells, wanted, starts, limits, counts)
    first, every = np.cumsum(counts) - counts, np.arange(QUERIES)
    listed = np.empty(counts.sum() + 1, np.int64)
    list_wanted(cells, wanted, starts, limits, first, listed)
    found, sizes = np.empty((3, len(listed)), np.int64), np.empty(QUERIES, np.int64)
    open_ = (none, none, none, np.zeros(QUERIES + 1, np.int64), np.full(QUERIES, 20_000))
    inputs = (every, every, keys, starts, starts, listed, first, counts, *open_, first, *found, sizes)
    find_sessions(*inputs)
    bounds, taken = np.append(0, np.cumsum(sizes)), ranges(first, sizes)
    session = np.empty(len(listed), np.int64)
    placed = (keys, starts, listed, first, counts, every, found[0, taken], found[2, taken], bounds, session)
    place_rows(*placed)
    groups, moments = np.repeat(every, counts) * 100 + keys[listed[:-1]], starts[listed[:-1]]
    runs: dict[str, Callable[[], Any]] = {
        "list": lambda: list_wanted(cells, wanted, starts, limits, first, listed),
        "find": lambda: find_sessions(*inputs),
        "place": lambda: place_rows(*placed),
        "add": lambda: add_to_sessions(
            starts,
            listed,
            first,
            counts,
            every,
            np.zeros(QUERIES, np.int64),
            session,
            np.zeros(bounds[-1], np.int64),
        ),
        "sort": lambda: merge_runs(groups[::-1], moments[::-1], moments[::-1], 20_000),
    }
    benchmark(runs[kernel])


@pytest.mark.parametrize("kernel", ["place", "add", "keep", "add to cells", "keep in cells", "bincount"])
def test_bins(benchmark: Benchmark, kernel: str) -> None:
    """Tuples into the bins of 40 cells and as many rows as there are slices and keys."""
    rng, size = np.random.default_rng(1), 40 * 5_000
    bins, values = rng.integers(0, size, TUPLES), rng.integers(0, 1_000, TUPLES)
    found, placed = np.zeros(size, np.int64), np.empty(TUPLES, np.int64)
    cells, row, first = bins // 5_000, bins % 5_000, np.arange(-1, 40) * 5_000
    run = {
        "place": lambda: place_in_cells(cells, first, row, placed),
        "add": lambda: add_to_bins(bins, values, found),
        "keep": lambda: keep_in_bins(bins, values, True, found),
        "add to cells": lambda: add_to_cells(cells, first, row, values, found),
        "keep in cells": lambda: keep_in_cells(cells, first, row, values, True, found),
        "bincount": lambda: np.bincount(bins, weights=values, minlength=size).astype(np.int64),
    }
    benchmark(run[kernel])


@pytest.mark.parametrize("kernel", ["run_totals", "numpy"])
def test_running_totals(benchmark: Benchmark, kernel: str) -> None:
    """Totals of cells and slices, 32 bits wide; every round takes the totals of the one before."""
    running = np.zeros((40, 11, 500), np.int32)
    running[:, 1:] = np.random.default_rng(1).integers(0, 9, (40, 10, 500))

    def by_numpy() -> None:
        np.add.accumulate(running[:, 1:], axis=1, out=running[:, 1:])
        np.add.accumulate(running, axis=0, out=running)

    run = {"run_totals": lambda: run_totals(running, 0, 40), "numpy": by_numpy}
    benchmark(run[kernel])


def test_picking_cells(benchmark: Benchmark, closed: tuple[Array, Array]) -> None:
    slots, keys = np.divmod(np.flatnonzero(closed[0].any(axis=0)), WIDE_KEYS)
    picked = np.empty((ENTRIES, len(slots)), np.int16)
    benchmark(lambda: pick_cells(closed[1], slots, keys, 0, -1, picked))


@pytest.mark.parametrize("kernel", ["live", "span"])
def test_looking_over_a_grid(benchmark: Benchmark, closed: tuple[Array, Array], kernel: str) -> None:
    live, span = np.zeros((WIDE_KEYS, closed[1].shape[1]), bool), np.zeros(2, np.int64)
    ways = {
        "live": lambda: mark_live(closed[1], live),
        "span": lambda: find_span(closed[1], 0, span),
    }
    benchmark(ways[kernel])


PROBING, PROBED = 1_000, 12_000


@pytest.mark.parametrize("way", ["list", "groups", "numpy"])
def test_probing(benchmark: Benchmark, way: str) -> None:
    """1,000 rows and 12,000 tuples of one key; 12 queries want a tenth of each side, and windows allow all pairs."""
    rng = np.random.default_rng(1)
    low = rng.integers(0, 90, 12)
    accepts = (np.arange(100)[:, None] >= low) & (np.arange(100)[:, None] < low + 10)
    table = (accepts.astype(np.uint64) << np.arange(12, dtype=np.uint64)).sum(axis=1)
    sets, theirs = (table[None, rng.integers(0, 100, count)] for count in (PROBING, PROBED))
    none = np.zeros(1, np.int64)
    anything = Containment([], 1, Moments(none, none, none), Moments(none, none, none))
    anything.table = np.full((1, 1), ~np.uint64(0))
    zeros, others = np.zeros(PROBING, np.int64), np.zeros(PROBED, np.int64)

    def by_list() -> int:
        candidates = Candidates(np.arange(PROBING), zeros, np.full(PROBING, PROBED))
        found = probe(candidates, Rows(sets, [zeros]), Tuples(theirs, others), [anything], 1 << 18)
        return sum(len(left) for left, _, _ in found)

    def by_groups() -> int:
        left, right = group_rows(zeros, [zeros], sets), group_rows(others, [others], theirs)
        every = Candidates(
            np.arange(len(left.keys)), np.zeros_like(left.keys), np.full_like(left.keys, len(right.keys))
        )
        rows, tuples = (
            Rows(sets[:, left.heads], [zeros[left.heads]]),
            Tuples(theirs[:, right.heads], others[right.heads]),
        )
        pairs = probe(every, rows, tuples, [anything], 1 << 18)
        parts = (part for a, b, both in pairs for part in pairs_of_groups(left, right, a, b, both, 1 << 18))
        return sum(len(i) for i, _, _ in parts)

    def by_numpy() -> int:
        found = 0
        for row in range(0, PROBING, 20):
            left, right = np.repeat(np.arange(row, row + 20), PROBED), np.tile(np.arange(PROBED), 20)
            found += len(drop_empty(left, right, np.take(sets, left, axis=1) & theirs[:, right])[0])
        return found

    ways = {"list": by_list, "groups": by_groups, "numpy": by_numpy}
    assert ways[way]() == by_list() > 0
    benchmark(ways[way])
