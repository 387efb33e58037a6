"""Random shared joins and a slow, obvious evaluator of them: Python loops over tuples, queries and members."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from brute import canonical, compare, order, truth

from headrace.model.epoch import NEVER_US
from headrace.model.plan import (
    AcrossMembers,
    Family,
    JoinChain,
    JoinedQuery,
    JoinFilter,
    JoinInput,
    JoinMember,
    JoinOperator,
    OperandIndex,
    ScanPath,
)
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
    operands_of,
)
from headrace.model.query import QueryId, StreamName
from headrace.model.types import SqlType
from headrace.model.window import Window

Row = dict[str, Any]

TS = Operand("ts", SqlType("timestamp"))
NUMBER = Operand("n", SqlType("bigint"))
COLUMNS = {
    "k": Operand("k", SqlType("bigint")),
    "x": Operand("x", SqlType("double")),
    "s": Operand("s", SqlType("string")),
    "b": Operand("b", SqlType("boolean")),
}
NAN = float("nan")
VALUES: dict[str, list[Any]] = {
    "k": [1, 2, 3, -(2**62), None],
    "x": [0.0, -0.0, NAN, 1.5, None],
    "s": ["", "a", "é", "longer than eight bytes", "longer than eight bytez", None],
    "b": [True, False, None],
}
KEYS = [("k",), ("k",), ("x",), ("s",), ("b",), ("k", "s"), ("x", "k"), ("s", "x", "b")]


@dataclass(frozen=True)
class Side:
    """A member of a query: which input in which role, how long, and which of its tuples."""

    input: int
    role: int
    window: Window
    predicate: Predicate


@dataclass(frozen=True)
class Ask:
    """A query of a test."""

    id: int
    slot: int
    sides: tuple[Side, ...]
    across: tuple[AcrossMembers, ...]
    outputs: tuple[tuple[int, Operand], ...]

    @property
    def members(self) -> tuple[JoinMember, ...]:
        return tuple(JoinMember(side.input, side.role) for side in self.sides)


@dataclass(frozen=True)
class Schema:
    """The inputs of a test: `wide[i]` says whether input i has its integers as BIGINT."""

    keys: tuple[str, ...]
    wide: tuple[bool, ...]

    def operand(self, input_: int, name: str) -> Operand:
        found = COLUMNS[name]
        return found if self.wide[input_] or name != "k" else Operand("k", SqlType("bigint"))

    def key(self, input_: int, name: str) -> Operand:
        if name == "k" and not self.wide[input_]:
            return Operand("cast(k as int)", SqlType("int"), plain=False)
        return COLUMNS[name]


def random_predicate(rng: random.Random, depth: int = 0) -> Predicate:
    choice = rng.random()
    name = rng.choice(list(COLUMNS))
    operand = COLUMNS[name]
    if depth < 2 and choice < 0.15:
        return Not(random_predicate(rng, depth + 1))
    if depth < 2 and choice < 0.35:
        build = rng.choice([And, Or])
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
    for _ in range(rng.choice([2, 2, 2, 3, 3, 4])):
        input_ = rng.randrange(len(schema.wide))
        role = sum(side.input == input_ for side in sides)
        length = slide + rng.choice([0, 0, 1, 4, 10])
        predicate = random_predicate(rng) if rng.random() < 0.6 else TRUE
        sides.append(Side(input_, role, Window(length, slide, phase - length), predicate))
    across = []
    for _ in range(rng.choice([0, 0, 1, 2])):
        left, right = rng.sample(range(len(sides)), 2)
        operand = rng.choice([*COLUMNS.values(), TS])
        across.append(AcrossMembers(left, operand, rng.choice(list(Op)), right, operand))
    outputs = [(i, NUMBER) for i in range(len(sides))]
    for i, side in enumerate(sides):
        pool = [*COLUMNS.values(), TS, *(schema.key(side.input, name) for name in schema.keys)]
        outputs += [(i, operand) for operand in rng.sample(pool, 2)]
    return Ask(id_, slot, tuple(sides), tuple(across), tuple(dict.fromkeys(outputs)))


def plan_joins(schema: Schema, asks: Iterable[Ask]) -> JoinOperator:
    """What the planner would make of these queries."""
    asks = list(asks)
    inputs = tuple(_plan_input(schema, number, asks) for number in range(len(schema.wide)))
    shapes: dict[tuple[Any, ...], list[Ask]] = {}
    for ask in asks:
        shapes.setdefault((ask.members, ask.id % 3 == 0), []).append(ask)
    chains = tuple(
        JoinChain(
            members,
            f"chain{number}",
            tuple(dict.fromkeys(output for ask in found for output in ask.outputs)),
            tuple(
                JoinedQuery(QueryId(a.id), a.slot, tuple(s.window for s in a.sides), a.across) for a in found
            ),
        )
        for number, ((members, _), found) in enumerate(shapes.items())
    )
    return JoinOperator("joins", inputs, chains)


def _plan_input(schema: Schema, number: int, asks: list[Ask]) -> JoinInput:
    keys = tuple(schema.key(number, name) for name in schema.keys)
    filters, wanted = [], {}
    for ask in asks:
        for i, side in enumerate(ask.sides):
            if side.input == number:
                filters.append(JoinFilter(QueryId(ask.id), ask.slot, side.role, side.predicate))
                used = [o for at, o in ask.outputs if at == i]
                used += [a.left for a in ask.across if a.left_member == i]
                used += [a.right for a in ask.across if a.right_member == i]
                wanted.update(dict.fromkeys(o for o in used if o != TS and o not in keys))
    constants: dict[Operand, set[Any]] = {}
    for filter_ in filters:
        for atom in _atoms(filter_.predicate):
            constants.setdefault(atom.operand, set())
            if isinstance(atom, Compare):
                value = atom.value
                constants[atom.operand].add("NaN" if value != value else value)
    operands = tuple(
        OperandIndex(
            operand,
            tuple(sorted((NAN if v == "NaN" and operand.sql == "x" else v for v in found), key=order)),
        )
        for operand, found in constants.items()
    )
    at = {index.operand: i for i, index in enumerate(operands)}
    families: dict[tuple[int, ...], list[int]] = {}
    for column, filter_ in enumerate(filters):
        used_by = tuple(sorted(at[o] for o in operands_of(filter_.predicate)))
        families.setdefault(used_by, []).append(column)
    return JoinInput(
        f"input{number}",
        StreamName(f"s{number}"),
        ScanPath.FAST,
        TS,
        keys,
        tuple(wanted),
        operands,
        tuple(filters),
        tuple(Family(o, tuple(c)) for o, c in families.items()),
    )


def _atoms(predicate: Predicate) -> list[Any]:
    match predicate:
        case Not(child):
            return _atoms(child)
        case And(children) | Or(children):
            return [atom for child in children for atom in _atoms(child)]
        case Const():
            return []
        case _:
            return [predicate]


def random_rows(rng: random.Random, schema: Schema, count: int, around: int, first: int) -> list[Row]:
    rows = []
    for i in range(count):
        row = {name: rng.choice(values) for name, values in VALUES.items()}
        if not all(schema.wide) and row["k"] == -(2**62):
            row["k"] = -7
        late = rng.choice([0, 0, 0, 4, 15])
        row["ts"] = None if rng.random() < 0.05 else around - late + rng.randrange(6)
        row["n"] = first + i
        row["cast(k as int)"] = row["k"]
        rows.append(row)
    return rows


def as_columns(rows: list[Row], operands: Iterable[Operand]) -> dict[Operand, pa.ChunkedArray]:
    found = {}
    for operand in operands:
        values = [row[operand.sql] for row in rows]
        if operand == TS:
            array = pa.array(values, pa.int64()).cast(operand.type.arrow)
        else:
            array = pa.array(values, operand.type.arrow)
        found[operand] = pa.chunked_array([array])
    return found


Arrived = tuple[Row, int, int]
"""A tuple, the watermark before its epoch, and its epoch."""


def joined(ask: Ask, schema: Schema, arrived: list[list[Arrived]], epoch: int) -> Counter[tuple[Any, ...]]:
    """{(number of each tuple, bound)}: the query's rows whose last tuple came in `epoch`, given all it has seen."""

    found: list[tuple[tuple[Any, ...], tuple[Arrived, ...]]] = []
    for i, side in enumerate(ask.sides):
        fit: dict[tuple[Any, ...], list[Arrived]] = {}
        for a in arrived[side.input]:
            key = tuple(canonical(a[0][k]) for k in schema.keys)
            if a[0]["ts"] is not None and None not in key and truth(side.predicate, a[0]) is True:
                fit.setdefault(key, []).append(a)
        found = (
            [(key, (*row, a)) for key, row in found for a in fit.get(key, ())]
            if i
            else [(key, (a,)) for key, rows in fit.items() for a in rows]
        )
        checks = [c for c in ask.across if max(c.left_member, c.right_member) == i]
        found = [(key, row) for key, row in found if all(_across(c, row) for c in checks)]
    return Counter(
        (*(a[0]["n"] for a in row), max(c if a["ts"] < c else NEVER_US for a, c, _ in row))
        for _, row in found
        if max(a[2] for a in row) == epoch and _shares_window(ask, row)
    )


def _across(condition: AcrossMembers, row: tuple[Arrived, ...]) -> bool:
    left = row[condition.left_member][0][condition.left.sql]
    right = row[condition.right_member][0][condition.right.sql]
    return left is not None and right is not None and compare(left, condition.op, right)


def _shares_window(ask: Ask, row: tuple[Arrived, ...]) -> bool:
    window = ask.sides[0].window
    phase = window.offset_us + window.range_us
    after = max(max(a["ts"], closed) for a, closed, _ in row)
    until = min(a["ts"] + side.window.range_us for (a, _, _), side in zip(row, ask.sides, strict=True))
    return (until - phase) // window.slide_us > (after - phase) // window.slide_us
