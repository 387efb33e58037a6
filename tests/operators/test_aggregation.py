"""The shared aggregation kernel against a slow evaluator: random queries that come and go, random tuples."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from brute import canonical, windows_of
from coded import coded_columns
from shelf import Groups, Shelf

from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.lanes import keeps_values
from headrace.model.plan import AggregationOperator
from headrace.model.predicate import TRUE, And, Compare, Const, IsNull, Not, Op, Operand, Or, Predicate
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.state import SegmentFile
from headrace.model.types import Column, SqlType
from headrace.model.window import Window
from headrace.operators.common import cells
from headrace.operators.common.placing import Portion
from headrace.operators.windows import aggregation, bags, flat, folding, fresh, grid, sparse
from headrace.operators.windows.aggregation import reduce_aggregation
from headrace.operators.windows.lifted import combine_lifted, lift_tuples, receive_lifted, ship_lifted
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, portion_of_segment, segment_from, segment_items
from headrace.optimizer import membership
from headrace.planner.group import Member, plan_group
from thorough import seeds

STREAM = Stream(
    StreamName("s"),
    (
        Column("k", SqlType("bigint")),
        Column("g", SqlType("double")),
        Column("i", SqlType("bigint")),
        Column("x", SqlType("double")),
        Column("t", SqlType("string")),
        Column("ts", SqlType("timestamp")),
    ),
    "ts",
    0,
)
OPERANDS = {column.name: Operand(column.name, column.type) for column in STREAM.columns}
RESULT_TYPES = {
    AggregateFunction.COUNT_ALL: lambda _: SqlType("bigint"),
    AggregateFunction.COUNT: lambda _: SqlType("bigint"),
    AggregateFunction.SUM: lambda t: SqlType("bigint") if t.name == "bigint" else SqlType("double"),
    AggregateFunction.MIN: lambda t: t,
    AggregateFunction.MAX: lambda t: t,
}


def random_value(rng: random.Random, name: str) -> Any:
    if rng.random() < 0.1:
        return None
    match name:
        case "k":
            return rng.randrange(4)
        case "g":
            return rng.choice([0.0, -0.0, 1.5, math.nan])
        case "i":
            return rng.randrange(-5, 6)
        case "x":
            return rng.choice([math.nan, 1e9, -1e9, rng.uniform(-3, 3), float(rng.randrange(-3, 4))])
        case _:
            return rng.choice(["", "a", "ab", "b", "é", "zz"])


def random_predicate(rng: random.Random, depth: int = 0) -> Predicate:
    pick = rng.random()
    if depth < 2 and pick < 0.35:
        children = tuple(random_predicate(rng, depth + 1) for _ in range(rng.randint(2, 3)))
        build: Any = rng.choice([And, Or])
        return build(children)
    if depth < 2 and pick < 0.45:
        return Not(random_predicate(rng, depth + 1))
    if pick < 0.5:
        return Const(rng.choice([True, False, None]))
    name = rng.choice(["k", "i", "x", "t"])
    if pick < 0.56:
        return IsNull(OPERANDS[name])
    value = random_value(rng, name)
    while value is None:
        value = random_value(rng, name)
    return Compare(OPERANDS[name], rng.choice(list(Op)), value)


def random_aggregate(rng: random.Random) -> Aggregate:
    function = rng.choice(list(AggregateFunction))
    filter_ = random_predicate(rng, 1) if rng.random() < 0.2 else TRUE
    if function is AggregateFunction.COUNT_ALL:
        return Aggregate(function, None, filter_, SqlType("bigint"))
    if function in (AggregateFunction.MIN_BY, AggregateFunction.MAX_BY) or keeps_values(function):
        return random_value_aggregate(rng, function, filter_)
    stringy = function in (AggregateFunction.MIN, AggregateFunction.MAX, AggregateFunction.COUNT)
    operand = OPERANDS[rng.choice(["i", "x", "k", *(["t"] if stringy else [])])]
    result = RESULT_TYPES.get(function, lambda _: SqlType("double"))(operand.type)
    return Aggregate(function, operand, filter_, result)


def random_value_aggregate(rng: random.Random, function: AggregateFunction, filter_: Predicate) -> Aggregate:
    """One of those that ask for all values of a group, or for rows of several."""
    names = rng.sample(["i", "x", "k", "t", "g"], rng.choice([2, 2, 3]))
    row = Operand.row(tuple(OPERANDS[name] for name in names))
    one = OPERANDS[names[0]]
    number = OPERANDS[rng.choice(["i", "x", "k"])]
    match function:
        case AggregateFunction.MIN_BY | AggregateFunction.MAX_BY:
            pair = Operand.row(row.parts[:2])
            return Aggregate(function, pair, filter_, pair.parts[1].type)
        case AggregateFunction.COUNT_DISTINCT:
            return Aggregate(function, rng.choice([row, one, one]), filter_, SqlType("bigint"))
        case AggregateFunction.COLLECT_SET:
            return Aggregate(function, one, filter_, SqlType(f"array<{one.type.name}>"))
        case AggregateFunction.PERCENTILE if rng.random() < 0.5:
            fractions = tuple(rng.choice([0.0, 0.25, 0.5, 0.9, 1.0]) for _ in range(rng.randint(1, 3)))
            return Aggregate(function, number, filter_, SqlType("array<double>"), fractions)
        case AggregateFunction.PERCENTILE:
            return Aggregate(function, number, filter_, SqlType("double"), (rng.random(),))
    floating = function is AggregateFunction.AVG_DISTINCT or number.type.name == "double"
    return Aggregate(function, number, filter_, SqlType("double" if floating else "bigint"))


def random_query(rng: random.Random, number: int) -> Query:
    range_us = rng.randint(1, 40)
    window = Window(range_us, rng.randint(1, range_us), rng.choice([0, 0, 0, rng.randint(0, 9)]))
    keys = tuple(OPERANDS[n] for n in rng.choice([(), ("k",), ("k",), ("t", "g")]))
    aggregates = tuple(random_aggregate(rng) for _ in range(rng.randint(1, 3)))
    where = random_predicate(rng) if rng.random() < 0.9 else TRUE
    body = Aggregation(window, where, keys, aggregates, (), None)
    return Query(QueryId(number), f"q{number}", QueryPlan("", (STREAM.name,), body, (), "", ""))


def read_state(items: Any, operator: str, portion: Portion) -> Segment | None:
    return portion_of_segment(segment_from(items), portion)


def run_epoch(
    operator: AggregationOperator,
    tables: list[pa.Table],
    shelf: Shelf,
    closed: int,
    watermark: int,
    rng: random.Random,
) -> list[pa.Table]:
    columns = [coded_columns(table, operator.scanned) for table in tables]
    blobs = shelf.blobs()
    for some in columns:
        lifted = lift_tuples(operator, some, closed)
        if lifted is not None:
            if rng.random() < 0.5:
                lifted = combine_lifted(operator, lifted)
            for shipment in ship_lifted(operator, lifted, shelf.partitioning):
                blobs[shipment.partition].append(shipment.blob)
    logic, results, left = AggregationLogic(operator), list[pa.Table](), list[SegmentFile]()

    def keep(signature: str, table: pa.Table, queries: Any, latest: int) -> None:
        results.append(table)

    for partition, received in blobs.items():
        held = shelf.held(operator.id, partition)
        absorb = rng.randint(0, len(held))
        kept, absorbed = held[: len(held) - absorb], held[len(held) - absorb :]
        lifted = receive_lifted(operator, received)
        old, stay = shelf.load(absorbed, read_state), shelf.load(kept, read_state)
        reduced = reduce_aggregation(logic, lifted, old, stay, closed, watermark, keep)
        assert not reduced.failures
        left += kept
        if reduced.segment is not None:
            items, end = segment_items(reduced.segment), reduced.segment.last_end_us
            left.append(shelf.write(operator.id, partition, items, end))
    shelf.settle(operator.id, left)
    return results


def close_to(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float | int):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(close_to, left, right))
    return left == right


@pytest.mark.parametrize("seed", seeds(1))
def test_matches_slow_evaluator(seed: int) -> None:
    check_against_slow_evaluator(seed)


@pytest.mark.parametrize("seed", seeds(1, 100))
def test_matches_slow_evaluator_in_small_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only large batches meet otherwise: cells that occur, blocks of tuples and of keys, sparse folds."""
    monkeypatch.setattr(cells, "DENSE_CELLS", 2)
    monkeypatch.setattr(cells, "MEMBER_ELEMENTS", 50)
    monkeypatch.setattr(folding, "BLOCK_ELEMENTS", random.Random(seed).choice([8, 200]))
    monkeypatch.setattr(membership, "GRID_ELEMENTS", random.Random(seed).choice([32, 800]))
    monkeypatch.setattr(membership, "GRID_PER_TUPLE", 1)
    monkeypatch.setattr(aggregation, "KEY_ELEMENTS", 100)
    monkeypatch.setattr(fresh, "DENSE_SLICES", 4)
    monkeypatch.setattr(flat, "OVERLAPPING", random.Random(seed).choice([-1, 4, 1_000]))
    monkeypatch.setattr(bags, "SMALL", random.Random(seed).choice([0, 10]))
    monkeypatch.setattr(bags, "REMEMBERED", 20)
    monkeypatch.setattr(grid, "BLOCK_ELEMENTS", random.Random(seed).choice([3, 40]))
    monkeypatch.setattr(grid, "TURN_ELEMENTS", random.Random(seed).choice([3, 40, 400]))
    check_against_slow_evaluator(seed)


@pytest.mark.parametrize("seed", seeds(1, 200))
@pytest.mark.parametrize("overlapping", [-1, 1_000])
def test_matches_slow_evaluator_with_windows_apart_and_together(
    seed: int, overlapping: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partials of one window after the other, and of all of them in one pass, give the same rows."""
    monkeypatch.setattr(flat, "OVERLAPPING", overlapping)
    check_against_slow_evaluator(seed)


@pytest.mark.parametrize("seed", seeds(1, 300))
def test_matches_slow_evaluator_where_rows_are_listed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only many keys with few tuples meet otherwise."""
    rng = random.Random(seed)
    monkeypatch.setattr(aggregation, "SPARSE_KEYS", 0)
    monkeypatch.setattr(aggregation, "SPARSE_SHARE", math.inf)
    monkeypatch.setattr(aggregation, "KEY_ELEMENTS", rng.choice([100, 1_000, 1 << 20]))
    monkeypatch.setattr(sparse, "BLOCK_ELEMENTS", rng.choice([3, 40, 1 << 20]))
    monkeypatch.setitem(globals(), "random_aggregate", bagless_aggregate)
    steps: list[int] = []
    step = aggregation.sparse_step
    monkeypatch.setattr(aggregation, "sparse_step", lambda *args: steps.append(1) or step(*args))
    check_against_slow_evaluator(seed, changes=rng.random() < 0.5)
    assert steps


def test_listed_rows_of_a_query_that_is_gone_close_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Query 1 is dropped, query 2 has the same window, and time passes without a tuple."""
    monkeypatch.setattr(aggregation, "SPARSE_KEYS", 0)
    monkeypatch.setattr(aggregation, "SPARSE_SHARE", math.inf)
    total = Aggregate(AggregateFunction.SUM, OPERANDS["i"], TRUE, SqlType("bigint"))
    body = Aggregation(Window(10, 10), TRUE, (OPERANDS["k"],), (total,), (), None)
    plan = QueryPlan("", (STREAM.name,), body, (), "", "")
    members = [Member(Query(QueryId(n), f"q{n}", plan), 0) for n in (1, 2)]
    gone, new = (plan_group([member], {STREAM.name: STREAM}).operators[0] for member in members)
    assert isinstance(gone, AggregationOperator) and isinstance(new, AggregationOperator)
    schema = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])
    rows = [{"k": k, "i": 1, "ts": 3 + 10 * (k % 5)} for k in range(60)]
    shelf, rng = Shelf(), random.Random(1)
    assert run_epoch(gone, [pa.Table.from_pylist(rows, schema=schema)], shelf, NEVER_US, 2, rng) == []
    assert run_epoch(new, [pa.Table.from_pylist([], schema=schema)], shelf, 2, 100, rng) == []


def bagless_aggregate(rng: random.Random) -> Aggregate:
    """An aggregate that needs no bag: where there are bags, rows are not listed."""
    while True:
        found = plain_random_aggregate(rng)
        if not keeps_values(found.function):
            return found


plain_random_aggregate = random_aggregate


@pytest.mark.parametrize("seed", seeds(1, 200))
def test_nothing_changes_when_keys_and_queries_move(seed: int) -> None:
    check_against_slow_evaluator(seed, changes=True)


def check_against_slow_evaluator(seed: int, changes: bool = False) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    epochs, watermark, high, base = [], NEVER_US, -(10**9), rng.choice([0, 10**15])
    step, early, late, delay = rng.choice([(25, 20, 30, 10), (5, 0, 5, 0), (8, 6, 8, 12), (3, 30, 3, 30)])
    for e in range(6):
        rows = [
            {c.name: random_value(rng, c.name) for c in STREAM.columns}
            | {"ts": None if rng.random() < 0.02 else base + e * step + rng.randint(-early, late)}
            for _ in range(rng.choice([0, 1, 30, 120]))
        ]
        closed = watermark
        high = max([high, *(r["ts"] for r in rows if r["ts"] is not None)])
        watermark = FOREVER_US if e == 5 else max(watermark, high - delay) if high > -(10**9) else watermark
        epochs.append((rows, closed, watermark))
    lifetimes = {}
    for number in range(1, 25):
        first = rng.randint(0, 4)
        lifetimes[number] = (random_query(rng, number), first, rng.choice([6, 6, rng.randint(first + 1, 6)]))
    found: dict[int, Counter[Any]] = {number: Counter() for number in lifetimes}
    values: dict[tuple[Any, ...], list[Any]] = {}
    groups = Groups(rng, changes)
    for e, (rows, closed, watermark) in enumerate(epochs):
        active = [Member(q, 0) for q, first, last in lifetimes.values() if first <= e < last]
        groups.change(member.query.id for member in active)
        cut = rng.randint(0, len(rows))
        schema = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])
        tables = [pa.Table.from_pylist(part, schema=schema) for part in (rows[:cut], rows[cut:])]
        for group, shelf in enumerate(groups.shelves):
            mine = [member for member in active if groups.home(member.query.id) == group]
            for operator in plan_group(mine, {STREAM.name: STREAM}).operators:
                assert isinstance(operator, AggregationOperator)
                for table in run_epoch(operator, tables, shelf, closed, watermark, rng):
                    for row in result_rows(table, lambda number: lifetimes[number][0].plan.body):
                        found[row[0]][row[1]] += 1
                        values[row[0], row[1]] = row[2]
    for number, (query, first, last) in lifetimes.items():
        assert isinstance(query.plan.body, Aggregation)
        expected = windows_of(query.plan.body, epochs, first, last)
        assert found[number] == Counter(expected.keys()), query
        for place, wanted in expected.items():
            got = values[number, place]
            assert all(close_to(g, w) for g, w in zip(got, wanted, strict=True)), (query, place, got, wanted)


def result_rows(
    table: pa.Table, body: Callable[[int], Any]
) -> Iterator[tuple[int, tuple[Any, ...], list[Any]]]:
    """(query, (window start, window end, keys..), aggregates) of stored rows."""
    raw = table.set_column(1, "window_end", table.column("window_end").cast(pa.int64()))
    for query, end, *values in zip(*(column.to_pylist() for column in raw.columns), strict=True):
        keys, start = len(body(query).keys), end - body(query).window.range_us
        yield query, (start, end, *map(canonical, values[:keys])), values[keys:]


@pytest.mark.parametrize(
    ("window", "delay", "epochs"),
    [
        # a window closes in an epoch whose own slices all stay: what was stored must count once
        (Window(10, 5), 0, [[(7, 1.0)], [(8, 10.0), (12, 100.0)], [(30, 0.0)]]),
        # as many slices stay as came, but others
        (Window(5, 5), 12, [[(12, 1.0)], [(3, 10.0), (18, 100.0)], [(60, 0.0)]]),
    ],
)
def test_stored_partials_count_once(
    window: Window, delay: int, epochs: list[list[tuple[int, float]]]
) -> None:
    aggregate = Aggregate(AggregateFunction.SUM, OPERANDS["x"], TRUE, SqlType("double"))
    body = Aggregation(window, TRUE, (), (aggregate,), (), None)
    member = Member(Query(QueryId(1), "q", QueryPlan("", (STREAM.name,), body, (), "", "")), 0)
    (operator,) = plan_group([member], {STREAM.name: STREAM}).operators
    assert isinstance(operator, AggregationOperator)
    schema = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])
    state = Shelf()
    closed, found, played = NEVER_US, {}, []
    for tuples in epochs:
        rows = [{"ts": ts, "x": x} for ts, x in tuples]
        watermark = max(closed, max(ts for ts, _ in tuples) - delay)
        played.append(([dict.fromkeys(OPERANDS) | row for row in rows], closed, watermark))
        table = pa.Table.from_pylist(rows, schema=schema)
        for result in run_epoch(operator, [table], state, closed, watermark, AbsorbAll(1)):
            found |= {row[1]: row[2] for row in result_rows(result, lambda _: body)}
        closed = watermark
    assert found == windows_of(body, played, 0, len(played))


def test_a_day_that_slides_by_a_second_is_run_in_slices() -> None:
    """86,400 windows hold each tuple: what is kept and computed grows with slices and result rows, not with pairs."""
    second, rng = 1_000_000, random.Random(3)
    window = Window(86_400 * second, second)
    aggregates = tuple(
        Aggregate(function, OPERANDS["i"], TRUE, SqlType("bigint"))
        for function in (AggregateFunction.SUM, AggregateFunction.MAX)
    )
    body = Aggregation(window, TRUE, (), aggregates, (), None)
    member = Member(Query(QueryId(1), "q", QueryPlan("", (STREAM.name,), body, (), "", "")), 0)
    (operator,) = plan_group([member], {STREAM.name: STREAM}).operators
    assert isinstance(operator, AggregationOperator)
    times = np.sort(np.array([rng.randrange(3_600 * second) for _ in range(3_000)])) + 10**15
    values = np.array([rng.randrange(1_000) for _ in times])
    schema = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])
    state = Shelf()
    closed, found = NEVER_US, list[pa.Table]()
    for part in range(0, len(times), 1_000):
        here = slice(part, part + 1_000)
        rows = [{"ts": int(t), "i": int(i)} for t, i in zip(times[here], values[here], strict=True)]
        watermark = FOREVER_US if part == 2_000 else int(times[here][-1])
        table = pa.Table.from_pylist(rows, schema=schema)
        found += run_epoch(operator, [table], state, closed, watermark, AbsorbAll(1))
        closed = watermark
    made = sorted(row for table in found for row in zip(*(c.to_pylist() for c in table.columns), strict=True))
    ends = np.array([row[1].timestamp() for row in made]) * second
    assert len(made) == len(set(ends)) == (times[-1] // second - times[0] // second) + 86_400
    lows, highs = np.searchsorted(times, [ends - window.range_us, ends])
    sums = np.append(0, np.cumsum(values))
    assert [row[2] for row in made] == (sums[highs] - sums[lows]).tolist()
    sample = range(0, len(made), 997)
    assert [made[at][3] for at in sample] == [values[lows[at] : highs[at]].max() for at in sample]


class AbsorbAll(random.Random):
    """Lets `run_epoch` merge every older segment."""

    def randint(self, a: int, b: int) -> int:
        return b


def test_segments_keep_only_the_strings_that_live_partials_need() -> None:
    query = Aggregation(
        Window(10, 10),
        TRUE,
        (),
        (Aggregate(AggregateFunction.MAX, OPERANDS["t"], TRUE, SqlType("string")),),
        (),
        None,
    )
    member = Member(Query(QueryId(1), "q", QueryPlan("", (STREAM.name,), query, (), "", "")), 0)
    (operator,) = plan_group([member], {STREAM.name: STREAM}).operators
    assert isinstance(operator, AggregationOperator)
    schema = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])
    state = Shelf()
    rng, closed, found = AbsorbAll(1), NEVER_US, []
    for epoch in range(20):
        rows = [{"ts": 10 * epoch + i % 10, "t": f"{epoch:02}-{i:02}"} for i in range(50)]
        watermark = 10 * epoch + 5
        table = pa.Table.from_pylist(rows, schema=schema)
        found += run_epoch(operator, [table], state, closed, watermark, rng)
        closed = watermark
    assert [row for table in found for row in table.column("a0").to_pylist()] == [
        f"{e:02}-49" for e in range(19)
    ]
    held = state.load(state.references, read_state)
    sizes = [len(texts) for segment in held for texts in segment.vocabularies.values()]
    assert max(sizes) <= 20
