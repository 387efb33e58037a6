"""Stored segments of which no window closes are not read, and lose nothing by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_aggregation import OPERANDS, STREAM

from forced import force_pools
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.plan import AggregationOperator
from headrace.model.predicate import TRUE
from headrace.model.query import Aggregate, AggregateFunction, Aggregation, Query, QueryId, QueryPlan
from headrace.model.types import SqlType
from headrace.model.window import Window
from headrace.operators.common.bundle import pack_bundle, read_bundle
from headrace.operators.windows import aggregation, pool_steps, pooling
from headrace.operators.windows.aggregation import Reduced, reduce_aggregation
from headrace.operators.windows.lifted import lift_tuples
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, segment_from, segment_items
from headrace.operators.windows.slices import in_closing
from headrace.planner.group import Member, plan_group

SCHEMA = pa.schema([(column.name, column.type.arrow) for column in STREAM.columns])


def logic_of(*windows: Window, distinct: bool = False) -> AggregationLogic:
    """One query for each window. One of values that differ needs a bag."""
    members = []
    for number, window in enumerate(windows, 1):
        function = AggregateFunction.COUNT_DISTINCT if distinct else AggregateFunction.SUM
        one = Aggregate(function, OPERANDS["i"], TRUE, SqlType("bigint"))
        body = Aggregation(window, TRUE, (OPERANDS["k"],), (one,), (), None)
        plan = QueryPlan("", (STREAM.name,), body, (), "", "")
        members.append(Member(Query(QueryId(number), f"q{number}", plan), number - 1))
    (operator,) = plan_group(members, {STREAM.name: STREAM}).operators
    assert isinstance(operator, AggregationOperator)
    return AggregationLogic(operator)


def epoch(
    logic: AggregationLogic,
    tuples: list[tuple[int, int]],
    kept: list[Segment],
    clock: tuple[int, int],
    absorbed: list[Segment] | None = None,
) -> tuple[Reduced[Segment], list[tuple[Any, ...]]]:
    """What tuples (key, time) do, and the result rows."""
    rows: list[tuple[Any, ...]] = []

    def keep(signature: str, table: pa.Table, queries: Any, latest: int) -> None:
        rows.extend(zip(*(column.to_pylist() for column in table.columns), strict=True))

    table = pa.Table.from_pylist([{"k": k, "i": 7 * k, "ts": ts} for k, ts in tuples], schema=SCHEMA)
    columns = {operand: table.column(operand.sql) for operand in logic.operator.scanned}
    lifted = lift_tuples(logic.operator, columns, clock[0])
    return reduce_aggregation(logic, lifted, absorbed or [], kept, *clock, keep), sorted(rows)


def stored(reduced: Reduced[Segment]) -> Segment:
    assert reduced.segment is not None
    return segment_from(read_bundle(pack_bundle(segment_items(reduced.segment))))


class Unreadable:
    """In place of the keys of a segment: it says how many there are, and nothing else."""

    num_rows = 5_000


MANY = [(k, k % 30) for k in range(60)]


@pytest.mark.parametrize("way", ["pool", "partials", "bags"])
def test_what_closes_no_window_is_not_read(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force_pools(monkeypatch, lambda: way == "pool")
    logic = logic_of(Window(100, 100), Window(300, 100), distinct=way == "bags")
    clock = [NEVER_US, 30, 40, 40, 99, 100]
    first, _ = epoch(logic, MANY, [], (clock[0], clock[1]))
    old = stored(first)
    assert (old.pool is not None, bool(old.blocks), bool(old.bags)) == (
        way == "pool",
        way != "pool",
        way == "bags",
    )
    kept, unread = [old], stored(first)
    unread.keys = Unreadable()  # type: ignore
    for at in range(1, 4):  # with a tuple, without any, and without any time
        tuples = [(1, 35)] if at == 1 else []
        after, rows = epoch(logic, tuples, [*kept[1:], unread], (clock[at], clock[at + 1]))
        assert rows == [] and (after.segment is not None) == (at == 1)
        kept += [] if after.segment is None else [stored(after)]
    with pytest.raises(
        (AttributeError, TypeError, pa.ArrowException)
    ):  # it is read as soon as a window closes
        epoch(logic, [], [unread], (99, 100))
    _, rows = epoch(logic, [], kept, (99, 100))
    _, same = epoch(logic, [*MANY, (1, 35)], [], (99, 100))
    assert rows == same and len(rows) == 2 * 60


def test_tuples_that_stay_are_kept_though_the_stored_ones_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The choice knows of keys and tuples that nobody reads."""
    force_pools(monkeypatch, lambda: True)
    logic = logic_of(Window(100, 100))
    first, _ = epoch(logic, MANY, [], (NEVER_US, 30))
    unread = stored(first)
    unread.keys = Unreadable()  # type: ignore
    told = []
    monkeypatch.setattr(pooling, "FEW_KEYS", 4_096)
    monkeypatch.setattr(pooling, "decide_pool", lambda times, stays: told.append(stays))
    epoch(logic, [(1, 35)], [unread], (30, 40))
    assert told == [True]


def test_tuples_are_kept_while_each_segment_has_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an epoch in which no window closes, the keys of those before are not known. The way stays all the same."""
    force_pools(monkeypatch, lambda: True)
    monkeypatch.setattr(pooling, "FEW_KEYS", 60)
    logic = logic_of(Window(100, 100))
    first, _ = epoch(logic, MANY, [], (NEVER_US, 30))
    second, _ = epoch(logic, [(k, 35) for k in range(5)], [stored(first)], (30, 40))
    assert second.segment is not None and second.segment.pool is not None
    third, _ = epoch(logic, [(k, 45) for k in range(5)], [stored(second)], (40, 50))
    assert third.segment is not None and third.segment.pool is not None


def test_keys_of_all_segments_that_are_not_read_count(monkeypatch: pytest.MonkeyPatch) -> None:
    logic = logic_of(Window(100, 100))
    halves = [stored(epoch(logic, some, [], (NEVER_US, 30))[0]) for some in (MANY[:30], MANY[30:])]
    force_pools(monkeypatch, lambda: True)
    monkeypatch.setattr(pooling, "FEW_KEYS", 60)
    after, _ = epoch(logic, [(1, 35)], halves, (30, 40))
    assert after.segment is not None and after.segment.pool is not None


def test_of_tuples_only_those_in_closing_windows_become_partials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored tuples are merged into a segment of partials: what no window asks for yet is not worked out."""
    force_pools(monkeypatch, lambda: True)
    logic = logic_of(Window(10, 10), Window(1_000, 1_000))
    first, _ = epoch(logic, [(k, 8 + k % 12) for k in range(60)], [], (NEVER_US, 0))
    made = []
    expand = pool_steps.expand_pooled

    def noted(*args: Any) -> Any:
        made.append(expand(*args))
        return made[-1]

    monkeypatch.setattr(aggregation, "expand_pooled", noted)
    force_pools(monkeypatch, lambda: False)
    _, rows = epoch(logic, [(1, 25)], [], (0, 5), [stored(first)])
    assert rows == [] and not made[0].segment.blocks
    _, rows = epoch(logic, [(1, 25)], [], (5, 10), [stored(first)])
    assert [block.window.range_us for block in made[1].segment.blocks] == [10]
    assert made[1].segment.blocks[0].distinct_slices.tolist() == [0] and len(rows) == 10


def test_stored_values_are_merged_where_times_outgrow_what_they_are_stored_in() -> None:
    """The time of the tuple fits 32 bits, and the end of its last window does not."""
    second = 1_000_000
    logic = logic_of(Window(300 * second, 60 * second), distinct=True)
    first, _ = epoch(logic, [(1, 2_000 * second)], [], (NEVER_US, 2_000 * second))
    old = stored(first)
    assert {bag.bag.slices.dtype for bag in old.bags.values()} == {np.dtype(np.int32)}
    merged, _ = epoch(logic, [], [], (2_000 * second, 2_001 * second), [old])
    _, rows = epoch(logic, [], [stored(merged)], (2_001 * second, 4_000 * second))
    assert len(rows) == 5 and {row[-1] for row in rows} == {1}


def test_slices_are_found_in_the_windows_that_close() -> None:
    """The last of a slice's windows decide, and watermarks may be as far away as numbers go."""
    rng = np.random.default_rng(5)
    windows = (Window(10, 10), Window(30, 5), Window(20, 7), Window(50, 12, 3), Window(5, 5, 2))
    for number in range(60):
        starts = np.unique(rng.integers(-100, 100, rng.integers(0, 20)))
        closed = NEVER_US if number % 5 == 0 else int(rng.integers(-120, 120))
        watermark = FOREVER_US if number % 7 == 0 else max(closed, -120) + int(rng.integers(0, 40))
        if number % 20 == 1:
            watermark = NEVER_US
        for window in windows:
            found = in_closing(window, starts, closed, watermark)
            for slot, start in enumerate(starts.tolist()):
                ends = [s + window.range_us for s in window_starts(window, start)]
                assert found[slot] == any(closed < end <= watermark for end in ends)


def window_starts(window: Window, time: int) -> list[int]:
    """When the windows begin that hold a time."""
    last = time - (time - window.offset_us) % window.slide_us
    every = range(last, last - window.range_us - window.slide_us, -window.slide_us)
    return [start for start in every if start <= time < start + window.range_us]
