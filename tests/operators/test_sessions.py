"""The shared session kernel against a slow evaluator that plays every tuple: random queries that come and go.

 gap 5         closed
0    5    10    |15    20
a-----~~~~~     |              a's session ends at 10 and has left: b, which is not late, begins a new one
              b-|---~~~~~      c is late for a gap of 5 and not for one of 9
          c     |
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from brute import canonical, sessions_of
from coded import coded_columns
from shelf import Groups, Shelf
from test_aggregation import OPERANDS, STREAM, close_to, random_query, random_value

from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.plan import SessionOperator
from headrace.model.predicate import TRUE
from headrace.model.query import Aggregate, AggregateFunction, Aggregation, Query, QueryId, QueryPlan
from headrace.model.state import SegmentFile
from headrace.model.types import SqlType
from headrace.model.window import SessionWindow
from headrace.operators.common import boxes, cells
from headrace.operators.common.placing import Portion
from headrace.operators.sessions import micro
from headrace.operators.sessions import reduce as sessions
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import (
    combine_micros,
    merge_runs,
    prepare_micros,
    receive_micros,
    ship_micros,
)
from headrace.operators.sessions.reduce import reduce_sessions
from headrace.operators.sessions.segment import (
    SessionSegment,
    portion_of_sessions,
    session_segment_from,
    session_segment_items,
)
from headrace.operators.windows.aggregation import Reduced
from headrace.planner.group import Member, plan_group
from thorough import seeds

SCHEMA = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])

Found = dict[int, list[tuple[tuple[Any, ...], list[Any]]]]


def read_state(items: Any, operator: str, portion: Portion) -> SessionSegment | None:
    return portion_of_sessions(session_segment_from(items), operator, portion)


def run_epoch(
    operator: SessionOperator, tables: list[pa.Table], shelf: Shelf, closed: int, watermark: int, found: Found
) -> list[Reduced[SessionSegment]]:
    blobs = shelf.blobs()
    for table in tables:
        micros = prepare_micros(operator, coded_columns(table, operator.scanned), closed)
        if micros is not None:
            combined = combine_micros(operator, micros, closed)
            for shipment in ship_micros(operator, combined, shelf.partitioning):
                blobs[shipment.partition].append(shipment.blob)
    logic, done = SessionLogic(operator), []

    def emit(signature: str, rows: pa.Table, queries: Any, latest: int) -> None:
        keys = len(operator.keys)
        for name in ("window_start", "window_end"):
            rows = rows.set_column(rows.column_names.index(name), name, rows.column(name).cast(pa.int64()))
        assert max(rows.column("window_end").to_pylist()) == latest
        for query, *row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            found[query].append(((*map(canonical, row[: 2 + keys]),), row[2 + keys :]))

    left: list[SegmentFile] = []
    for partition, received in blobs.items():
        held = shelf.load(shelf.held(operator.id, partition), read_state)
        reduced = reduce_sessions(logic, receive_micros(operator, received), held, closed, watermark, emit)
        if reduced.segment is not None:
            items, end = session_segment_items(reduced.segment, operator.id), reduced.segment.last_end_us
            left.append(shelf.write(operator.id, partition, items, end))
        done.append(reduced)
    shelf.settle(operator.id, left)
    return done


COUNT_ALL = (Aggregate(AggregateFunction.COUNT_ALL, None, TRUE, SqlType("bigint")),)


def random_session_query(rng: random.Random, number: int) -> Query:
    query = random_query(rng, number)
    assert isinstance(query.plan.body, Aggregation)
    body = replace(query.plan.body, window=SessionWindow(rng.choice([1, 2, 3, 5, 9, 20])))
    return replace(query, plan=replace(query.plan, body=body))


@pytest.mark.parametrize("seed", seeds(4))
def test_rows_are_ordered_as_numpy_orders_them(seed: int) -> None:
    """Few and many groups, in time or not, already in order, one row."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([1, 2, 3, 500]))
    groups = rng.integers(0, int(rng.choice([1, 5, 10**6])), rows)
    starts = rng.integers(-50, 50, rows)
    starts = np.sort(starts) if seed % 2 else starts
    order = np.lexsort((starts, groups))
    assert micro.ordered(groups, starts).tolist() == order.tolist()
    assert micro.ordered(groups[order], starts[order]).tolist() == list(range(rows))


@pytest.mark.parametrize("seed", seeds(4))
def test_runs_are_those_of_a_loop(seed: int) -> None:
    """Rows that touch, lie inside of each other or leave a gap; no row."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([0, 1, 2, 300]))
    groups = rng.integers(0, 5, rows)
    starts = rng.integers(-(10**6), 10**6, rows)
    lasts = starts + rng.choice([0, 10, 50_000], rows)
    gap = int(rng.integers(0, 30_000))
    merged = micro.merge_runs(groups, starts, lasts, gap)
    found = []
    for low, high, last in zip(merged.first, [*merged.first[1:], rows], merged.lasts, strict=False):
        found.append((sorted(merged.order[low:high].tolist()), int(last)))
    expected: list[tuple[list[int], int]] = []
    for group in range(5):
        mine = sorted(np.flatnonzero(groups == group).tolist(), key=lambda row: (starts[row], row))
        for i, row in enumerate(mine):
            if i and starts[row] - gap <= max(lasts[before] for before in mine[:i]):
                expected[-1] = (sorted([*expected[-1][0], row]), max(expected[-1][1], int(lasts[row])))
            else:
                expected.append(([row], int(lasts[row])))
    assert found == expected


@pytest.mark.parametrize("seed", seeds(1))
def test_matches_slow_evaluator(seed: int) -> None:
    check_against_slow_evaluator(seed)


@pytest.mark.parametrize("seed", seeds(1, 100))
def test_matches_slow_evaluator_in_small_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only large batches meet otherwise: matches, cells that occur, blocks of rows and of keys."""
    monkeypatch.setattr(cells, "DENSE_CELLS", 2)
    monkeypatch.setattr(boxes, "MOST_BOXES", 16 if seed % 2 else 0)
    monkeypatch.setattr(cells, "MEMBER_ELEMENTS", 50)
    monkeypatch.setattr(sessions, "BLOCK_ELEMENTS", 20)
    monkeypatch.setattr(micro, "WORTH_MERGING", 1.0)
    check_against_slow_evaluator(seed)


@pytest.mark.parametrize("seed", seeds(1, 200))
def test_nothing_changes_when_keys_and_queries_move(seed: int) -> None:
    check_against_slow_evaluator(seed, changes=True)


def check_against_slow_evaluator(seed: int, changes: bool = False) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    epochs = random_epochs(rng)
    lifetimes = {}
    for number in range(1, 25):
        first = rng.randint(0, 4)
        last = rng.choice([6, 6, rng.randint(first + 1, 6)])
        lifetimes[number] = (random_session_query(rng, number), first, last)
    found: Found = defaultdict(list)
    groups = Groups(rng, changes)
    for e, (rows, closed, watermark) in enumerate(epochs):
        active = [Member(q, 0) for q, first, last in lifetimes.values() if first <= e < last]
        groups.change(member.query.id for member in active)
        cut = rng.randint(0, len(rows))
        tables = [pa.Table.from_pylist(part, schema=SCHEMA) for part in (rows[:cut], rows[cut:])]
        for group, shelf in enumerate(groups.shelves):
            mine = [member for member in active if groups.home(member.query.id) == group]
            for operator in plan_group(mine, {STREAM.name: STREAM}).operators:
                assert isinstance(operator, SessionOperator)
                for reduced in run_epoch(operator, tables, shelf, closed, watermark, found):
                    assert not reduced.failures
    for number, (query, first, last) in lifetimes.items():
        assert isinstance(query.plan.body, Aggregation)
        expected = sessions_of(query.plan.body, epochs, first, last)
        key = repr
        got = sorted(found[number], key=lambda item: key(item[0]))
        wanted = sorted(expected, key=lambda item: key(item[0]))
        assert [place for place, _ in got] == [place for place, _ in wanted], query
        for (place, left), (_, right) in zip(got, wanted, strict=True):
            assert all(map(close_to, left, right)), (query, place, left, right)


def random_epochs(rng: random.Random) -> list[tuple[list[dict[str, Any]], int, int]]:
    epochs, watermark, high, base = [], NEVER_US, -(10**9), rng.choice([0, 10**15])
    step, early, late, delay = rng.choice([(25, 20, 30, 10), (5, 0, 5, 0), (8, 6, 8, 12), (9, 20, 3, 5)])
    for e in range(6):
        rows = [
            {c.name: random_value(rng, c.name) for c in STREAM.columns}
            | {"ts": None if rng.random() < 0.02 else base + e * step + rng.randint(-early, late)}
            for _ in range(rng.choice([0, 1, 10, 40]))
        ]
        closed = watermark
        high = max([high, *(r["ts"] for r in rows if r["ts"] is not None)])
        watermark = FOREVER_US if e == 5 else max(watermark, high - delay) if high > -(10**9) else watermark
        epochs.append((rows, closed, watermark))
    return epochs


def test_merging_needs_no_small_span() -> None:
    """Moments so far apart that groups cannot be told by an offset are ranked first."""
    rng = np.random.default_rng(7)
    groups, starts = rng.integers(0, 5, 200), rng.integers(0, 60, 200)
    lasts = starts + rng.integers(0, 4, 200)
    near = merge_runs(groups, starts, lasts, 2)
    far = merge_runs(groups, starts * 2**55, lasts * 2**55, 2 * 2**55)
    assert near.first.tolist() == far.first.tolist()
    assert (near.lasts * 2**55).tolist() == far.lasts.tolist()


def test_a_sum_that_overflows_fails_its_query_only() -> None:
    def query(number: int, function: AggregateFunction) -> Query:
        aggregate = Aggregate(function, OPERANDS["i"], TRUE, SqlType("bigint"))
        body = Aggregation(SessionWindow(5), TRUE, (), (aggregate,), (), None)
        return Query(QueryId(number), f"q{number}", QueryPlan("", (STREAM.name,), body, (), "", ""))

    members = [Member(query(1, AggregateFunction.SUM), 0), Member(query(2, AggregateFunction.MAX), 0)]
    (operator,) = plan_group(members, {STREAM.name: STREAM}).operators
    assert isinstance(operator, SessionOperator)
    found: Found = defaultdict(list)
    state = Shelf()
    for closed, watermark, ts in [(NEVER_US, 0, 0), (0, 100, 3)]:
        table = pa.Table.from_pylist([{"ts": ts, "i": 2**63 - 1 - ts}], schema=SCHEMA)
        done = run_epoch(operator, [table], state, closed, watermark, found)
    failures = [failure for reduced in done for failure in reduced.failures.items()]
    assert failures == [(1, "[ARITHMETIC_OVERFLOW] a SUM does not fit its result's type")]
    assert dict(found) == {2: [((0, 8), [2**63 - 1])]}
    assert not state.references
