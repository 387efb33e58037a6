"""Random shared joins and a slow, obvious evaluator of them: Python loops over tuples, queries and sides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from brute import canonical, compare, truth
from coded import coded_columns

from headrace.model.epoch import NEVER_US
from headrace.model.plan import AcrossPositions, JoinOperator
from headrace.model.predicate import (
    TRUE,
    And,
    Compare,
    Const,
    IsNull,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
)
from headrace.model.query import (
    Across,
    Carried,
    Join,
    JoinedRows,
    JoinSide,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.query import Hub as PlannedHub
from headrace.model.types import Column, SqlType
from headrace.model.window import Window
from headrace.planner.group import Member, plan_group
from headrace.planner.joins import Joining

Row = dict[str, Any]

TS = Operand("ts", SqlType("timestamp"))
NUMBER = Operand("n", SqlType("bigint"))
COLUMNS = {
    "k": Operand("k", SqlType("bigint")),
    "j": Operand("j", SqlType("bigint")),
    "x": Operand("x", SqlType("double")),
    "s": Operand("s", SqlType("string")),
    "b": Operand("b", SqlType("boolean")),
}
NAN = float("nan")
VALUES: dict[str, list[Any]] = {
    "k": [1, 2, 3, -(2**62), None],
    "j": [1, 2, 3, None],
    "x": [0.0, -0.0, NAN, 1.5, None],
    "s": ["", "a", "é", "longer than eight bytes", "longer than eight bytez", None],
    "b": [True, False, None],
}
KEYS = [("k",), ("k",), ("x",), ("s",), ("b",), ("k", "s"), ("x", "k"), ("s", "x", "b")]


@dataclass(frozen=True)
class Side:
    """A side of a query: which stream, how long, and which of its tuples."""

    stream: int
    window: Window
    predicate: Predicate


Hub = tuple[tuple[int, tuple[str, ...]], ...]
"""(side, names of its key's parts) of all sides that meet on one key."""


@dataclass(frozen=True)
class Ask:
    """A query of a test."""

    id: int
    slot: int
    sides: tuple[Side, ...]
    hubs: tuple[Hub, ...]
    across: tuple[AcrossPositions, ...]
    outputs: tuple[tuple[int, Operand], ...]

    def keys_of(self, side: int) -> list[tuple[str, ...]]:
        return [names for hub in self.hubs for at, names in hub if at == side]


@dataclass(frozen=True)
class Schema:
    """The streams of a test: `wide[i]` says whether stream i has its integers as BIGINT. Joins are on `keys`."""

    keys: tuple[tuple[str, ...], ...]
    wide: tuple[bool, ...]

    def key(self, stream: int, name: str) -> Operand:
        if name in ("k", "j") and not self.wide[stream]:
            return Operand(f"cast({name} as int)", SqlType("int"), plain=False)
        return COLUMNS[name]


def random_predicate(rng: random.Random, depth: int = 0) -> Predicate:
    choice = rng.random()
    name = rng.choice(list(COLUMNS))
    operand = COLUMNS[name]
    if depth < 2 and choice < 0.15:
        return Not(random_predicate(rng, depth + 1))
    if depth < 2 and choice < 0.35:
        build: Any = rng.choice([And, Or])
        return build(tuple(random_predicate(rng, depth + 1) for _ in range(2)))
    if choice < 0.45:
        return IsNull(operand)
    if choice < 0.65:
        return Const(rng.choice([True, True, True, False, None]))
    value = rng.choice([v for v in VALUES[name] if v is not None])
    return Compare(operand, rng.choice(list(Op)), int(value) if name == "b" else value)


def random_ask(rng: random.Random, schema: Schema, id_: int, slot: int) -> Ask:
    slide = rng.choice([2, 3, 5, 10])
    phase = rng.randrange(slide)
    sides: list[Side] = []
    for _ in range(rng.choice([2, 2, 2, 3, 3, 4] if len(schema.keys) == 1 else [2, 3, 3, 3, 4, 4, 5])):
        length = slide + rng.choice([0, 0, 1, 4, 10])
        predicate = random_predicate(rng) if rng.random() < 0.6 / len(schema.keys) else TRUE
        stream = rng.randrange(len(schema.wide))
        sides.append(Side(stream, Window(length, slide, phase - length), predicate))
    hubs = random_hubs(rng, schema, len(sides))
    across = []
    for _ in range(rng.choice([0, 0, 1, 2])):
        left, right = rng.sample(range(len(sides)), 2)
        operand = rng.choice([*COLUMNS.values(), TS])
        across.append(AcrossPositions(left, operand, rng.choice(list(Op)), right, operand))
    outputs = [(i, NUMBER) for i in range(len(sides))]
    for i, side in enumerate(sides):
        names = [name for hub in hubs for at, key in hub if at == i for name in key]
        pool = [*COLUMNS.values(), TS, *(schema.key(side.stream, name) for name in names)]
        outputs += [(i, operand) for operand in rng.sample(pool, 2)]
    return Ask(id_, slot, tuple(sides), hubs, tuple(across), tuple(dict.fromkeys(outputs)))


def random_hubs(rng: random.Random, schema: Schema, sides: int) -> tuple[Hub, ...]:
    """A random tree; with one key, a hub of all sides."""

    def names(key: tuple[str, ...]) -> tuple[str, ...]:
        swap = len(schema.keys) > 1 and rng.random() < 0.3
        return tuple({"k": "j", "j": "k"}.get(name, name) if swap else name for name in key)

    hubs: list[tuple[tuple[str, ...], list[tuple[int, tuple[str, ...]]]]] = []
    for side in range(1, sides):
        if not hubs or (len(schema.keys) > 1 and rng.random() < 0.6):
            key = rng.choice(schema.keys)
            hubs.append((key, [(rng.randrange(side), names(key))]))
            hubs[-1][1].append((side, names(key)))
        else:
            key, members = rng.choice(hubs)
            members.append((side, names(key)))
    return tuple(tuple(members) for _, members in hubs)


def query_of(schema: Schema, ask: Ask) -> Query:
    """The query as the catalog would have it."""
    carried: dict[tuple[int, Operand], Carried] = {}

    def carry(side: int, operand: Operand) -> int:
        carried.setdefault((side, operand), Carried(f"c{len(carried)}", side, operand))
        return list(carried).index((side, operand))

    for side, operand in ask.outputs:
        carry(side, operand)
    across = tuple(
        Across(carry(one.left_position, one.left), one.op, carry(one.right_position, one.right))
        for one in ask.across
    )
    sides = tuple(JoinSide(StreamName(f"s{s.stream}"), s.window, s.predicate) for s in ask.sides)
    hubs = []
    for hub in ask.hubs:
        numbers = tuple(sorted(dict(hub)))
        keys = (tuple(schema.key(ask.sides[at].stream, n) for n in dict(hub)[at]) for at in numbers)
        hubs.append(PlannedHub(numbers, tuple(keys)))
    body = Join(sides, tuple(hubs), tuple(carried.values()), across, JoinedRows(("c0",)))
    streams = tuple(dict.fromkeys(side.stream for side in sides))
    return Query(QueryId(ask.id), f"q{ask.id}", QueryPlan("", streams, body, (), "", ""))


def leaves_of(schema: Schema, ask: Ask) -> tuple[tuple[str, int], ...]:
    """The names by which stored rows know the sides."""
    body = query_of(schema, ask).plan.body
    assert isinstance(body, Join)
    return Joining(QueryId(ask.id), ask.slot, body).leaves


def plan_joins(schema: Schema, asks: Iterable[Ask]) -> tuple[JoinOperator, ...]:
    """What the planner makes of these queries: an operator for each set of streams that are joined."""
    streams = {
        name: Stream(name, (Column(TS.sql, TS.type),), TS.sql, 0)
        for name in (StreamName(f"s{number}") for number in range(len(schema.wide)))
    }
    plan = plan_group((Member(query_of(schema, ask), ask.slot) for ask in asks), streams)
    found = tuple(operator for operator in plan.operators if isinstance(operator, JoinOperator))
    assert found == plan.operators
    return found


def plan_join(schema: Schema, asks: Iterable[Ask]) -> JoinOperator:
    """The same for queries over one set of streams."""
    (operator,) = plan_joins(schema, asks)
    return operator


def random_rows(rng: random.Random, schema: Schema, count: int, around: int, first: int) -> list[Row]:
    rows = []
    for i in range(count):
        row = {name: rng.choice(values) for name, values in VALUES.items()}
        if not all(schema.wide) and row["k"] == -(2**62):
            row["k"] = -7
        late = rng.choice([0, 0, 0, 4, 15])
        row["ts"] = None if rng.random() < 0.05 else around - late + rng.randrange(6)
        row["n"] = first + i
        row |= {f"cast({name} as int)": row[name] for name in ("k", "j")}
        rows.append(row)
    return rows


def as_columns(rows: list[Row], operands: Iterable[Operand]) -> dict[Operand, pa.ChunkedArray]:
    found, wanted = {}, tuple(operands)
    for operand in wanted:
        values = [row[operand.sql] for row in rows]
        if operand == TS:
            found[operand.sql] = pa.array(values, pa.int64()).cast(operand.type.arrow)
        else:
            found[operand.sql] = pa.array(values, operand.type.arrow)
    return coded_columns(pa.table(found), wanted)


Arrived = tuple[Row, int, int]
"""A tuple, the watermark before its epoch, and its epoch."""


def joined(ask: Ask, arrived: list[list[Arrived]], epoch: int) -> Counter[tuple[Any, ...]]:
    """{(number of each tuple, bound)}: the query's rows whose last tuple came in `epoch`, given all it has seen."""

    def key(a: Arrived, names: tuple[str, ...]) -> tuple[Any, ...]:
        return tuple(canonical(a[0][name]) for name in names)

    found: list[tuple[Arrived, ...]] = [()]
    for i, side in enumerate(ask.sides):
        met = [(hub[0][0], hub[0][1], dict(hub)[i]) for hub in ask.hubs if i in dict(hub) and hub[0][0] < i]
        fit: dict[tuple[Any, ...], list[Arrived]] = {}
        for a in arrived[side.stream]:
            whole = all(None not in key(a, names) for names in ask.keys_of(i))
            if a[0]["ts"] is not None and whole and truth(side.predicate, a[0]) is True:
                fit.setdefault(tuple(key(a, mine) for _, _, mine in met), []).append(a)
        found = [
            (*row, a)
            for row in found
            for a in fit.get(tuple(key(row[other], names) for other, names, _ in met), ())
        ]
        checks = [c for c in ask.across if max(c.left_position, c.right_position) == i]
        found = [row for row in found if all(_across(c, row) for c in checks) and _shares_window(ask, row)]
    return Counter(
        (*(a[0]["n"] for a in row), max(c if a["ts"] < c else NEVER_US for a, c, _ in row))
        for row in found
        if max(a[2] for a in row) == epoch
    )


def _across(condition: AcrossPositions, row: tuple[Arrived, ...]) -> bool:
    left = row[condition.left_position][0][condition.left.sql]
    right = row[condition.right_position][0][condition.right.sql]
    return left is not None and right is not None and compare(left, condition.op, right)


def _shares_window(ask: Ask, row: tuple[Arrived, ...]) -> bool:
    window = ask.sides[0].window
    phase = window.offset_us + window.range_us
    after = max(max(a["ts"], closed) for a, closed, _ in row)
    until = min(a["ts"] + side.window.range_us for (a, _, _), side in zip(row, ask.sides, strict=False))
    return (until - phase) // window.slide_us > (after - phase) // window.slide_us
