"""Joined rows that feed an aggregation: a random life of the two operators against loops over pairs and windows."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from shelf import Groups, Shelf
from test_aggregation import read_state
from test_join import read_state as read_joined

from forced import forced
from headrace.model.epoch import NEVER_US
from headrace.model.plan import GroupingOperator, JoinOperator
from headrace.model.predicate import TRUE, And, Compare, Op, Operand, Predicate
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Carried,
    Hub,
    Join,
    JoinSide,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.state import SegmentFile
from headrace.model.strategy import Strategy
from headrace.model.types import BIGINT, TIMESTAMP, Column, SqlType
from headrace.model.window import Window
from headrace.operators.join import partners
from headrace.operators.join.block import JoinedBlock
from headrace.operators.join.feed import Feed, Gathering, _Asking
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.reduce import Outlet, reduce_join
from headrace.operators.join.state import join_items
from headrace.operators.join.tuples import prepare_join, receive_join, ship_join
from headrace.operators.windows.aggregation import reduce_aggregation
from headrace.operators.windows.lifted import Lifted, receive_lifted, ship_lifted
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import segment_items
from headrace.planner.group import Member, plan_group

SEEDS = int(os.environ.get("HEADRACE_EXAMPLES", "2"))
PARTITIONS = 2
K, V, S = Operand("k", BIGINT), Operand("v", BIGINT), Operand("s", SqlType("string"))
COLUMNS = (Column("k", BIGINT), Column("v", BIGINT), Column("s", SqlType("string")), Column("ts", TIMESTAMP))
STREAMS = {StreamName(name): Stream(StreamName(name), COLUMNS, "ts", 0) for name in "ab"}

Row = dict[str, Any]
Arrived = tuple[Row, int, int]
"""A tuple, the watermark before its epoch, and its epoch."""


def named(side: int, operand: Operand) -> Operand:
    return Operand(f"s{side}_{operand.sql}", operand.type)


def random_query(rng: random.Random, id_: int) -> Query:
    slide = rng.choice([2, 3, 5])
    phase = rng.randrange(slide)
    lengths = [slide + rng.choice([0, 0, 1, 4, 9]) for _ in range(2)]
    windows = [Window(length, slide, phase - length) for length in lengths]
    wheres: list[Predicate] = [rng.choice([TRUE, Compare(V, Op.GT, rng.randrange(4))]) for _ in range(2)]
    sides = tuple(
        JoinSide(StreamName(name), window, where)
        for name, window, where in zip("ab", windows, wheres, strict=True)
    )
    carried = tuple(Carried(named(side, o).sql, side, o) for side in (0, 1) for o in (K, V, S))
    only = And((Compare(named(0, V), Op.LT, 4), Compare(named(1, S), Op.EQ, "x")))
    aggregates = [
        Aggregate(AggregateFunction.COUNT_ALL, None, TRUE, BIGINT),
        Aggregate(AggregateFunction.COUNT_ALL, None, only, BIGINT),
        Aggregate(AggregateFunction.SUM, named(0, V), TRUE, BIGINT),
        Aggregate(AggregateFunction.MAX, named(1, S), TRUE, SqlType("string")),
    ]
    keys = rng.choice([(), (named(1, S),), (named(0, K),), (named(1, V), named(0, S))])
    chosen = tuple(rng.sample(aggregates, rng.randint(1, 4)))
    then = Aggregation(max(windows, key=lambda w: w.range_us), TRUE, keys, chosen, ())
    body = Join(sides, (Hub((0, 1), ((K,), (K,))),), carried, (), then)
    plan = QueryPlan("", tuple(STREAMS), body, (), "", "")
    return Query(QueryId(id_), f"q{id_}", plan)


def random_rows(rng: random.Random, around: int) -> list[Row]:
    return [
        {
            "k": rng.choice([1, 2, 3, None]),
            "v": rng.choice([*range(6), None]),
            "s": rng.choice(["x", "y", "", None]),
            "ts": around - rng.choice([0, 0, 0, 4, 15]) + rng.randrange(6),
        }
        for _ in range(rng.randrange(12))
    ]


def as_columns(rows: list[Row], operands: tuple[Operand, ...]) -> dict[Operand, pa.ChunkedArray]:
    arrays = {"k": pa.int64(), "v": pa.int64(), "s": pa.string(), "ts": pa.int64()}
    made = {name: pa.array([row[name] for row in rows], type_) for name, type_ in arrays.items()}
    made["ts"] = made["ts"].cast(TIMESTAMP.arrow)
    return {operand: pa.chunked_array([made[operand.sql]]) for operand in operands}


class Life:
    """Queries come and go, tuples come late; what closes in an epoch is compared at its end."""

    gathers = 1 << 20

    def __init__(self, seed: int, changes: bool = False) -> None:
        self.rng = random.Random(seed)
        self.groups = Groups(self.rng, changes, PARTITIONS)
        self.members: list[Member] = []
        self.seen: dict[int, tuple[list[Arrived], list[Arrived]]] = {}
        self.closed = NEVER_US
        self.found = 0

    def run(self, epoch: int) -> None:
        rng = self.rng
        self.members = [member for member in self.members if rng.random() < 0.85]
        free = [slot for slot in (0, 1, 63, 64, 70) if slot not in {m.slot for m in self.members}]
        for slot in free[: rng.choice([1, 2, 3]) if epoch < 2 else rng.choice([0, 1])]:
            id_ = len(self.seen) + 1
            self.members.append(Member(random_query(rng, id_), slot))
            self.seen[id_] = ([], [])
        self.groups.change(member.query.id for member in self.members)
        arrived = {name: random_rows(rng, 6 * epoch) for name in "ab"}
        for member in self.members:
            for side, name in enumerate("ab"):
                self.seen[member.query.id][side].extend((r, self.closed, epoch) for r in arrived[name])
        times = [row["ts"] for rows in arrived.values() for row in rows]
        watermark = max(self.closed, max(times, default=NEVER_US) - 4)
        rows: dict[int, dict[tuple[Any, ...], tuple[Any, ...]]] = {}
        for group, shelf in enumerate(self.groups.shelves):
            mine = [member for member in self.members if self.groups.home(member.query.id) == group]
            strategies = forced((member.query for member in mine), Strategy.JOINED_GROUPS)
            plan = plan_group(mine, STREAMS, strategies=strategies)
            joins = [o for o in plan.operators if isinstance(o, JoinOperator)]
            groupings = {o.id: o for o in plan.operators if isinstance(o, GroupingOperator)}
            fed = self._join(shelf, joins[0], groupings, arrived, watermark) if joins else {}
            rows |= self._group(shelf, groupings, fed, watermark)
        for member in self.members:
            expected = self._expected(member.query, watermark)
            assert rows.get(member.query.id, {}) == expected, member.query
            self.found += len(expected)
        self.closed = watermark

    def _join(
        self,
        shelf: Shelf,
        operator: JoinOperator,
        groupings: dict[str, GroupingOperator],
        arrived: dict[str, list[Row]],
        watermark: int,
    ) -> dict[tuple[str, int], list[bytes]]:
        logic = JoinLogic(operator)
        blobs = shelf.blobs()
        for number, input_ in enumerate(operator.inputs):
            columns = as_columns(arrived[input_.stream], input_.scanned)
            tuples = prepare_join(logic, number, columns, self.closed, [])
            for one in [] if tuples is None else ship_join(logic, tuples, shelf.partitioning):
                blobs[one.partition].append(one.blob)
        feeds = [Feed(logic, i, groupings[chain.feeds or ""]) for i, chain in enumerate(operator.chains)]
        fed: dict[tuple[str, int], list[bytes]] = defaultdict(list)

        def gathering(grouping: GroupingOperator) -> Gathering:
            def ship(lifted: Lifted) -> None:
                for one in ship_lifted(grouping, lifted, shelf.partitioning):
                    fed[grouping.id, one.partition].append(one.blob)

            return Gathering(grouping, ship, self.gathers)

        gathered = {id_: gathering(grouping) for id_, grouping in groupings.items()}

        def consume(chain: int, block: JoinedBlock) -> None:
            for lifted in feeds[chain].lifted(block, Counter()):
                gathered[feeds[chain].operator.id].add(lifted)

        def send(shipment: Any) -> None:
            raise AssertionError("there is one key")

        left: list[SegmentFile] = []
        for partition, received in blobs.items():
            held = shelf.load(shelf.held(operator.id, partition), read_joined)
            outlet = Outlet(consume, send, shelf.partitioning)
            reduced = reduce_join(
                logic, receive_join(logic, received), held, [], self.closed, watermark, outlet
            )
            if reduced.segment is not None:
                items, end = join_items(reduced.segment), reduced.segment.last_end_us
                left.append(shelf.write(operator.id, partition, items, end))
        shelf.settle(operator.id, left)
        for waiting in gathered.values():
            waiting.flush()
        return fed

    def _group(
        self,
        shelf: Shelf,
        groupings: dict[str, GroupingOperator],
        fed: dict[tuple[str, int], list[bytes]],
        watermark: int,
    ) -> dict[int, dict[tuple[Any, ...], tuple[Any, ...]]]:
        """{query: {(end of the window, key..): aggregates}}."""
        rows: dict[int, dict[tuple[Any, ...], tuple[Any, ...]]] = defaultdict(dict)

        def emit(signature: str, table: pa.Table, queries: Any, latest_us: int) -> None:
            ends = table.column("window_end").cast(pa.int64()).to_pylist()
            for row, end in zip(table.to_pylist(), ends, strict=True):
                key = (end, *(row[name] for name in row if name[0] == "k"))
                assert key not in rows[row["query"]]
                rows[row["query"]][key] = tuple(row[name] for name in row if name[0] == "a")

        for id_, operator in groupings.items():
            logic = AggregationLogic(operator)
            left: list[SegmentFile] = []
            for partition in shelf.blobs():
                lifted = receive_lifted(operator, fed.get((id_, partition), []))
                held = shelf.load(shelf.held(id_, partition), read_state)
                reduced = reduce_aggregation(logic, lifted, held, [], self.closed, watermark, emit)
                if reduced.segment is not None:
                    items, end = segment_items(reduced.segment), reduced.segment.last_end_us
                    left.append(shelf.write(id_, partition, items, end))
            shelf.settle(id_, left)
        return rows

    def _expected(self, query: Query, watermark: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        body = query.plan.body
        assert isinstance(body, Join) and isinstance(body.then, Aggregation)
        groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        left, right = self.seen[query.id]
        for a, a_closed, _ in left:
            for b, b_closed, _ in right:
                if a["k"] is None or a["k"] != b["k"] or not all(map(_wanted, body.sides, (a, b))):
                    continue
                row = {f"s{i}_{name}": value for i, side in enumerate((a, b)) for name, value in side.items()}
                last = min(r["ts"] + s.window.range_us for r, s in zip((a, b), body.sides, strict=True))
                for end in range(max(a["ts"], b["ts"], a_closed, b_closed, self.closed) + 1, last + 1):
                    if (
                        end <= watermark
                        and (end - body.window.offset_us - body.window.range_us) % (body.window.slide_us) == 0
                    ):
                        groups[end, *(row[key.sql] for key in body.then.keys)].append(row)
        return {
            key: tuple(_aggregate(one, rows) for one in body.then.aggregates) for key, rows in groups.items()
        }


def _wanted(side: JoinSide, row: Row) -> bool:
    match side.where:
        case Compare(_, _, value):
            return row["v"] is not None and row["v"] > value
    return True


def _aggregate(one: Aggregate, rows: list[Row]) -> Any:
    if one.filter != TRUE:
        rows = [r for r in rows if r["s0_v"] is not None and r["s0_v"] < 4 and r["s1_s"] == "x"]
    if one.input is None:
        return len(rows)
    values = [row[one.input.sql] for row in rows if row[one.input.sql] is not None]
    best = sum if one.function is AggregateFunction.SUM else max
    return best(values) if values else None


def play(seeds: range, changes: bool = False) -> None:
    found = 0
    for seed in seeds:
        print("seed", seed)
        life = Life(seed, changes)
        for epoch in range(7):
            life.run(epoch)
        found += life.found
    assert found > 10 * len(seeds)


def test_equals_loops_over_pairs_and_windows() -> None:
    play(range(SEEDS))


def test_nothing_changes_when_keys_and_queries_move() -> None:
    play(range(900, 900 + SEEDS // 2), changes=True)


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "BLOCK_ROWS", 3)
    monkeypatch.setattr(Life, "gathers", 8)
    play(range(501, 501 + SEEDS))


def test_a_hot_key_costs_memory_by_its_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 tuples on each side make 2,250,000 rows for three groups."""
    monkeypatch.setattr(partners, "BLOCK_ROWS", 1 << 14)
    monkeypatch.setattr(Life, "gathers", 1 << 14)
    window = Window(10, 10)
    sides = tuple(JoinSide(StreamName(name), window, TRUE) for name in "ab")
    carried = tuple(Carried(named(1, operand).sql, 1, operand) for operand in (V, S))
    counted = Aggregate(AggregateFunction.COUNT_ALL, None, TRUE, BIGINT)
    then = Aggregation(window, TRUE, (named(1, S),), (counted,), ())
    body = Join(sides, (Hub((0, 1), ((K,), (K,))),), carried, (), then)
    life = Life(0)
    life.members = [Member(Query(QueryId(1), "q", QueryPlan("", tuple(STREAMS), body, (), "", "")), 0)]
    plan = plan_group(life.members, STREAMS)
    (join,) = (o for o in plan.operators if isinstance(o, JoinOperator))
    (grouping,) = (o for o in plan.operators if isinstance(o, GroupingOperator))
    (shelf,) = life.groups.shelves
    rows = [{"k": 1, "v": i, "s": "xyz"[i % 3], "ts": 5} for i in range(1500)]
    tracemalloc.start()
    fed = life._join(shelf, join, {grouping.id: grouping}, {"a": rows, "b": rows}, NEVER_US)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    found = life._group(shelf, {grouping.id: grouping}, fed, 10)
    assert found == {1: {(10, text): (1500 * 500,) for text in "xyz"}}
    assert peak < 16e6 and sum(len(blob) for blobs in fed.values() for blob in blobs) < 10_000


def test_windows_of_many_queries_are_numbered_without_comparing_each_with_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10,000 queries with windows of their own took five seconds whenever a plan changed."""
    compared = 0

    def equal(left: Window, right: object) -> bool:
        nonlocal compared
        compared += 1
        return isinstance(right, Window) and left.range_us == right.range_us

    queries: Any = [
        SimpleNamespace(slot=n, query=n, windows=(Window(10 + n, 10), Window(10 + n, 10))) for n in range(128)
    ]
    monkeypatch.setattr(Window, "__eq__", equal)
    asking = _Asking((0, 1), queries, np.arange(128))
    assert asking.windows.tolist() == list(range(128)) and compared < 1_000
