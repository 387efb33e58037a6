"""The compiled kernels that `test_compiled.py` does not have, each by itself: a table of what runs, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace.model.plan.predicates import index_operands
from headrace.model.predicate import And, Compare, Op, Operand
from headrace.model.types import BIGINT
from headrace.operators.common.boxes import BoxMaker, BoxTable
from headrace.operators.common.matching import Matcher
from headrace.operators.compiled.accepted import add_accepted, keep_accepted, merge_accepted
from headrace.operators.compiled.joins import add_runs_of_bits, narrow_ranges, repeat_rows
from headrace.operators.compiled.matches import count_matches, list_matches, put_pairs, put_words
from headrace.operators.compiled.sessions import keep_in_sessions
from headrace.operators.compiled.spans import find_slices, keep_stored_rows, match_ids
from headrace.operators.compiled.spans import place_rows as place_rows_in_spans
from headrace.operators.compiled.storing import pick_stored, span_of_windows
from headrace.operators.compiled.texts import hash_texts
from headrace.operators.windows.packed import PackedPart
from headrace.operators.windows.prepared import ask_bits
from headrace.optimizer.membership import Homes
from headrace.workloads.linear_road.kernels import (
    MARK,
    READINGS,
    STOP,
    STRETCHES,
    VEHICLE,
    VEHICLES,
    drive,
    drive_through,
    index_vehicles,
    summarise,
)

TUPLES, QUERIES, KEYS = 200_000, 1_000, 200

Run = Callable[[], Any]


def accepted(rng: np.random.Generator) -> dict[str, Run]:
    """20,000 keys of ten tuples each, of which 1,000 columns of a window accept a tenth."""
    words = -(-QUERIES // 64)
    sets = np.bitwise_and.reduce(rng.integers(0, 2**63, (3, words, TUPLES)).astype(np.uint64))
    edges = np.arange(0, TUPLES + 1, 10)
    (asked,) = ask_bits(np.arange(QUERIES), np.zeros(QUERIES, np.int64))
    some = (sets, np.stack([edges[:-1], edges[1:]]), asked.first, asked.mask, asked.entries)
    values, floats = rng.integers(0, 1_000, (1, TUPLES)), rng.random((1, TUPLES))
    into = np.zeros((QUERIES, len(edges) - 1), np.int64)
    means, spreads = np.zeros(into.shape), np.zeros(into.shape)
    rows, ones = asked.measures, np.ones((1, TUPLES), np.int64)
    return {
        "add_accepted": lambda: add_accepted(*some, rows, values, into),
        "keep_accepted": lambda: keep_accepted(*some, rows, values, True, into),
        "merge_accepted": lambda: merge_accepted(*some, rows, rows, rows, ones, floats, into, means, spreads),
    }


def matches(rng: np.random.Generator) -> dict[str, Run]:
    """1,000 queries of an equality and a price; as bit rows half of the time."""
    flight, price = (Operand(name, BIGINT) for name in ("flight", "price"))
    where = [And((Compare(flight, Op.EQ, n % 100), Compare(price, Op.GT, n % 50))) for n in range(QUERIES)]
    indexes = list(index_operands(where))
    maker = BoxMaker(indexes)
    table = BoxTable.of(indexes, [maker.boxes(predicate) or [] for predicate in where])
    homes = np.zeros(table.boxes, np.int64)
    regions = [2 * rng.integers(0, 100, TUPLES) + 1, rng.integers(0, 100, TUPLES)]
    shares = np.zeros((table.boxes, table.operands))
    both = Matcher(table, Homes(rng.random(table.boxes) < 0.5, homes, shares, 0.0), np.arange(QUERIES))
    lists = Matcher(table, Homes(np.ones(table.boxes, bool), homes, shares, 0.0))
    codes = both.codes(regions)
    counts = np.zeros(len(both.column), np.int64)
    found = both._every(codes, np.arange(len(counts))).found
    by_query = both.matching(codes)
    ends = np.cumsum(by_query)
    every, tuples = both._every(codes, both.column).found, np.empty(ends[-1], np.int64)
    listed = lists._every(codes, np.arange(len(lists.column))).found
    most = int(lists.candidates_of(codes) * TUPLES) + 1
    boxes, of, count = np.empty((most, 1), np.int32), np.empty(most, np.int64), np.zeros(1, np.int64)
    words = np.zeros((-(-QUERIES // 64), TUPLES), np.uint64)

    def list_all() -> None:
        count[0] = 0
        list_matches(listed, boxes, of, count)

    return {
        "count_matches": lambda: count_matches(found, counts),
        "put_pairs": lambda: put_pairs(every, tuples, ends - by_query),
        "list_matches": list_all,
        "put_words": lambda: put_words(every, words, both.own),
    }


def joins(rng: np.random.Generator) -> dict[str, Run]:
    """Ranges of time of 200,000 rows; sets of 12 queries; a row is in two windows of three queries."""
    times = np.sort(rng.integers(0, 60_000_000, TUPLES))
    early = rng.integers(0, 60_000_000, TUPLES)
    sets = (np.uint64(1) << rng.integers(0, 12, TUPLES).astype(np.uint64))[None]
    few, windows = 20_000, np.full(64, -1)
    windows[:12] = 0
    each = np.stack([times[:few], times[:few]])
    slides, phases, ranges = np.array([5_000_000]), np.zeros(1, np.int64), np.array([[10_000_000] * 2])
    out, counts = np.empty((3, 4 * few), np.int64), np.zeros(64, np.int64)
    repeated = (
        np.ascontiguousarray(sets[:, :few]),
        each,
        times[:few].copy(),
        windows,
        slides,
        phases,
        ranges,
    )
    return {
        "narrow_ranges": lambda: narrow_ranges(
            times, early, early + 10_000, np.zeros(TUPLES, np.int64), np.full(TUPLES, TUPLES)
        ),
        "add_runs_of_bits": lambda: add_runs_of_bits(sets[0], counts),
        "repeat_rows": lambda: repeat_rows(*repeated, np.zeros(3, np.int64), *out, counts),
    }


def spans(rng: np.random.Generator) -> dict[str, Run]:
    """50 windows of 20 entries, five spans each, and stored rows of 200 keys in three slices."""
    windows, entries_each = 50, 20
    entries, bounds = np.arange(windows + 1) * entries_each, np.arange(windows + 1) * 5
    size = windows * entries_each * 5 * KEYS
    partials = rng.integers(0, 100, size)
    times, starts = np.sort(rng.integers(0, 4_000_000, TUPLES)), np.arange(0, 4_000_000, 10_000)
    low = np.tile(np.arange(5) * 1_000_000, windows)
    rows = np.arange(windows + 1) * (TUPLES // windows)
    ends = np.empty((2, TUPLES), np.int32)
    ids = np.sort(rng.choice(10**6, windows * entries_each, replace=False))
    found, at = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    begin = np.stack([entries[:-1], entries[1:]], axis=1).ravel()
    part = PackedPart.of(np.split(rng.integers(0, 99, (len(ids), 3 * KEYS)).astype(np.int16), windows))
    every = np.tile(np.arange(entries_each), windows)
    of_row = np.tile(np.arange(3 * KEYS), windows)
    runs, first = np.arange(3 * windows + 1) * KEYS, np.tile(np.arange(3), windows)
    told = (part.types, part.firsts, np.full(windows, 3 * KEYS), every, every, entries, of_row, of_row % KEYS)
    where = (runs, first, first + 2, np.arange(windows + 1) * 3, entries, bounds, KEYS)
    places, of = np.tile(np.arange(5 * KEYS), windows), np.arange(windows + 1) * 5 * KEYS
    width = np.full(windows, 2, np.uint8)
    stored = PackedPart.empty(width, np.full(windows, entries_each * 5 * KEYS))
    instead, span = np.full(windows, -1), np.zeros((windows, 2), np.int64)
    here = (partials, entries, bounds, KEYS)
    return {
        "find_slices": lambda: find_slices(
            times, starts, np.empty(TUPLES, np.int64), np.zeros(len(starts), np.bool_)
        ),
        "place_rows_in_spans": lambda: place_rows_in_spans(
            times, rows, low, low + 2_000_000, bounds, ends[0], ends[1]
        ),
        "match_ids": lambda: match_ids(ids, entries, ids, begin, found, at, np.empty(windows + 1, np.int64)),
        "keep_stored_rows": lambda: keep_stored_rows(*part.numbers, *told, *where, True, partials),
        "span_of_windows": lambda: span_of_windows(*here, 0, span),
        "pick_stored": lambda: pick_stored(
            *here, places, of, width, stored.firsts, instead, 0, *stored.numbers
        ),
    }


def others(rng: np.random.Generator) -> dict[str, Run]:
    """Texts of 20 bytes, and rows in 1,000 sessions for each of 100 entries."""
    offsets, data = np.arange(TUPLES + 1) * 20, rng.integers(0, 255, 20 * TUPLES).astype(np.uint8)
    hashes = np.empty(TUPLES, np.uint64)
    keys = np.sort(rng.integers(0, TUPLES // 4, TUPLES))
    rows, one, columns = np.arange(TUPLES), np.zeros(1, np.int64), np.zeros(100, np.int64)
    session, shift = np.sort(rng.integers(0, 1_000, TUPLES)), np.arange(100) * 1_000
    placed = (rows, one, np.full(1, TUPLES), columns, shift, session)
    into = np.zeros(100_000, np.int64)
    return {
        "hash_texts": lambda: hash_texts(offsets, data, hashes),
        "keep_in_sessions": lambda: keep_in_sessions(keys, *placed, True, into),
    }


def linear_road(rng: np.random.Generator) -> dict[str, Run]:
    """A minute of 50,000 vehicles with two reports each; journeys over a road of 100 segments."""
    cars, count = 50_000, 100_000
    vehicles, stops = np.zeros(count, VEHICLE), np.zeros(count, STOP)
    vehicles["vid"] = np.arange(count)
    buckets, counters = np.full(1 << 18, -1, np.int32), np.zeros(8, np.int64)
    tuples = np.zeros((9, count), np.int32)
    tuples[2], tuples[6] = np.tile(np.arange(cars), 2), rng.integers(0, 100, count)
    tuples[7], tuples[4] = tuples[6] * 5_280, 1
    table = np.full((3, STRETCHES), -1, np.int32)
    four, longs = np.empty((3, 4, count), np.int32), np.empty((2, count), np.int64)
    touched = np.empty(count, np.int32)

    def play() -> None:
        buckets.fill(-1)
        counters.fill(0)
        counters[MARK] = 1
        drive(
            *(tuples, 0, count, vehicles, buckets, touched, stops, counters, table),
            *(longs[0], four[0], four[1], longs[1], four[2]),
        )
        assert (counters[VEHICLES], counters[READINGS]) == (cars, count)

    def index() -> None:
        buckets.fill(-1)
        index_vehicles(vehicles, buckets, 0, cars)

    stretch = rng.integers(0, STRETCHES, count)
    readings = np.sort((stretch << 40) | (rng.integers(0, cars, count) << 8) | 50)
    requests = np.stack(
        [rng.integers(low, high, 10_000) for low, high in ((0, 100), (0, 100), (1, 8), (1, 1_441))]
    )
    seconds = rng.integers(30, 300, (672, STRETCHES)).astype(np.int32)
    journeys = np.empty((2, 10_000), np.int32)
    return {
        "drive": play,
        "index_vehicles": index,
        "summarise": lambda: summarise(readings, np.zeros((4, STRETCHES), np.int64)),
        "drive_through": lambda: drive_through(requests.astype(np.int32), seconds, seconds, journeys),
    }


TABLES: dict[Callable[[np.random.Generator], dict[str, Run]], tuple[str, ...]] = {
    accepted: ("add_accepted", "keep_accepted", "merge_accepted"),
    matches: ("count_matches", "put_pairs", "list_matches", "put_words"),
    joins: ("narrow_ranges", "add_runs_of_bits", "repeat_rows"),
    spans: (
        *("find_slices", "place_rows_in_spans", "match_ids", "keep_stored_rows"),
        *("span_of_windows", "pick_stored"),
    ),
    others: ("hash_texts", "keep_in_sessions"),
    linear_road: ("drive", "index_vehicles", "summarise", "drive_through"),
}
CASES = [(make, name) for make, names in TABLES.items() for name in names]


@pytest.mark.parametrize(("make", "name"), CASES, ids=[name for _, name in CASES])
def test_kernel(
    benchmark: Callable[..., Any], make: Callable[[np.random.Generator], dict[str, Run]], name: str
) -> None:
    benchmark(make(np.random.default_rng(1))[name])
