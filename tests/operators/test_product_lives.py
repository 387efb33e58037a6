"""A random life of products: the sides of every key meet in one partition, however keys and queries move."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from shelf import Groups, Shelf
from test_aggregation import read_state

from headrace.model.epoch import NEVER_US
from headrace.model.plan import AggregationOperator, SharedPlan
from headrace.model.predicate import TRUE, Compare, Op, Operand, Predicate
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
from headrace.model.types import BIGINT, TIMESTAMP, Column, SqlType
from headrace.model.window import Window
from headrace.operators.join.products import Factors, multiply
from headrace.operators.windows.aggregation import reduce_aggregation
from headrace.operators.windows.lifted import lift_tuples, receive_lifted, ship_lifted
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import segment_items
from headrace.planner.group import Member, plan_group
from thorough import seeds

TYPES = {"a": SqlType("int"), "b": BIGINT}
"""The sides' keys are integers of different widths."""
COLUMNS = {name: (Column("k", t), Column("v", BIGINT), Column("ts", TIMESTAMP)) for name, t in TYPES.items()}
STREAMS = {StreamName(n): Stream(StreamName(n), columns, "ts", 0) for n, columns in COLUMNS.items()}
V = Operand("v", BIGINT)

Rows = dict[int, dict[tuple[int, int], tuple[int, int | None]]]
"""{query: {(end of the window, key): (COUNT(*), SUM(b.v))}}."""


def random_query(rng: random.Random, id_: int) -> Query:
    slide = rng.choice([2, 3, 5])
    windows = [Window(length, slide, -length) for length in (slide, slide + rng.choice([0, 4, 9]))]
    wheres: list[Predicate] = [rng.choice([TRUE, Compare(V, Op.GT, rng.randrange(4))]) for _ in range(2)]
    sides = tuple(
        JoinSide(StreamName(name), window, where)
        for name, window, where in zip("ab", windows, wheres, strict=True)
    )
    keys = tuple((Operand("k", TYPES[name]),) for name in "ab")
    carried = (Carried("key", 0, keys[0][0]), Carried("value", 1, V))
    aggregates = (
        Aggregate(AggregateFunction.COUNT_ALL, None, TRUE, BIGINT),
        Aggregate(AggregateFunction.SUM, Operand("value", BIGINT), TRUE, BIGINT),
    )
    then = Aggregation(max(windows), TRUE, (Operand("key", TYPES["a"]),), aggregates, ())
    body = Join(sides, (Hub((0, 1), keys),), carried, (), then)
    return Query(QueryId(id_), f"q{id_}", QueryPlan("", tuple(STREAMS), body, (), "", ""))


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.groups = Groups(self.rng, changes=True)
        self.members: list[Member] = []
        self.seen: dict[int, dict[str, list[tuple[dict[str, Any], int]]]] = {}
        self.closed = NEVER_US
        self.found = 0

    def run(self, epoch: int) -> None:
        rng = self.rng
        self.members = [member for member in self.members if rng.random() < 0.9]
        for _ in range(rng.choice([0, 1, 2]) if self.members else 3):
            id_ = len(self.seen) + 1
            self.members.append(Member(random_query(rng, id_), id_))
            self.seen[id_] = {"a": [], "b": []}
        self.groups.change(member.query.id for member in self.members)
        arrived = {name: [self._row(epoch) for _ in range(rng.randrange(15))] for name in "ab"}
        for member in self.members:
            for name, rows in arrived.items():
                self.seen[member.query.id][name] += [(row, self.closed) for row in rows]
        times = [row["ts"] for rows in arrived.values() for row in rows]
        watermark = max(self.closed, max(times, default=NEVER_US) - 3)
        for group, shelf in enumerate(self.groups.shelves):
            mine = [member for member in self.members if self.groups.home(member.query.id) == group]
            made = self._run_group(shelf, plan_group(mine, STREAMS), arrived, watermark)
            for member in mine:
                expected = self._expected(member.query, watermark)
                assert made.get(member.query.id, {}) == expected, member.query
                self.found += len(expected)
        self.closed = watermark

    def _row(self, epoch: int) -> dict[str, Any]:
        rng = self.rng
        ts = 3 * epoch - rng.choice([0, 0, 3, 9]) + rng.randrange(6)
        return {"k": rng.choice([0, 1, -1, 7, None]), "v": rng.choice([*range(6), None]), "ts": ts}

    def _run_group(
        self, shelf: Shelf, plan: SharedPlan, arrived: dict[str, list[dict[str, Any]]], watermark: int
    ) -> Rows:
        operators = [o for o in plan.operators if isinstance(o, AggregationOperator)]
        factors = {partition: Factors() for partition in shelf.blobs()}
        for operator in operators:
            schema = pa.schema([(c.name, c.type.arrow) for c in COLUMNS[operator.stream]])
            table = pa.Table.from_pylist(arrived[operator.stream], schema=schema)
            columns = {operand: table.column(operand.sql) for operand in operator.scanned}
            lifted, blobs = lift_tuples(operator, columns, self.closed), shelf.blobs()
            for one in [] if lifted is None else ship_lifted(operator, lifted, shelf.partitioning):
                blobs[one.partition].append(one.blob)
            self._reduce(shelf, operator, blobs, factors, watermark)
        rows: Rows = defaultdict(dict)
        for product in plan.products:
            for output in product.outputs:
                for mine in factors.values():
                    for sides in mine.of(output):
                        made = multiply(output, product.keys, sides)
                        for row in [] if made is None else made.table.to_pylist():
                            end = round(row["window_end"].timestamp() * 1_000_000)
                            assert (end, row["k0"]) not in rows[row["query"]]
                            rows[row["query"]][end, row["k0"]] = (row["a0"], row["a1"])
        return rows

    def _reduce(
        self,
        shelf: Shelf,
        operator: AggregationOperator,
        blobs: dict[int, list[bytes]],
        factors: dict[int, Factors],
        watermark: int,
    ) -> None:
        logic, left = AggregationLogic(operator), list[SegmentFile]()
        for partition, received in blobs.items():
            held = shelf.load(shelf.held(operator.id, partition), read_state)
            lifted, emit = receive_lifted(operator, received), factors[partition].taking(operator.id)
            reduced = reduce_aggregation(logic, lifted, held, [], self.closed, watermark, emit)
            if reduced.segment is not None:
                items, end = segment_items(reduced.segment), reduced.segment.last_end_us
                left.append(shelf.write(operator.id, partition, items, end))
        shelf.settle(operator.id, left)

    def _expected(self, query: Query, watermark: int) -> dict[tuple[int, int], tuple[int, int | None]]:
        body = query.plan.body
        assert isinstance(body, Join)
        found: dict[tuple[int, int], tuple[int, int | None]] = {}
        slide = body.sides[0].window.slide_us
        for end in range(max(self.closed, -1000) + 1, watermark + 1):
            if end % slide:
                continue
            sides = []
            for name, side in zip("ab", body.sides, strict=True):
                mine: dict[int, list[int | None]] = defaultdict(list)
                for row, closed in self.seen[query.id][name]:
                    inside = end - side.window.range_us <= row["ts"] < end
                    if inside and end > closed and row["k"] is not None and wanted(side, row):
                        mine[row["k"]].append(row["v"])
                sides.append(mine)
            for key in sides[0].keys() & sides[1].keys():
                left, right = sides[0][key], sides[1][key]
                values = [value for value in right if value is not None]
                found[end, key] = (len(left) * len(right), len(left) * sum(values) if values else None)
        return found


def wanted(side: JoinSide, row: dict[str, Any]) -> bool:
    match side.where:
        case Compare(_, _, value):
            return row["v"] is not None and row["v"] > value
    return True


@pytest.mark.parametrize("seed", seeds(1))
def test_sides_meet_however_keys_and_queries_move(seed: int) -> None:
    print(f"seed {seed}")
    life = Life(seed)
    for epoch in range(7):
        life.run(epoch)
    assert life.found > 10 and life.groups.moves > 2
