"""A product against joined rows that are grouped: CPU time of the kernels for the same queries and tuples.

    python -m headrace_bench.strategies [--queries 40] [--tuples 50000] [--sides 2,4] [--keys 400000,100000,25000,6000]

Each query joins streams by a key, under a random predicate on each, and sums a column by that key in one window. What
the two strategies cost per key and per joined row is what `optimizer/strategies` weighs.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headrace.model.epoch import NEVER_US
from headrace.model.partitioning import even_partitioning
from headrace.model.plan import AggregationOperator, GroupingOperator, JoinOperator, SharedPlan
from headrace.model.predicate import TRUE, Compare, Op, Operand
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
from headrace.model.strategy import Choice, Strategies, Strategy
from headrace.model.types import BIGINT, TIMESTAMP, Column
from headrace.model.window import Window
from headrace.operators.join.block import JoinedBlock
from headrace.operators.join.feed import Feed, Gathering
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.products import Factors, multiply
from headrace.operators.join.reduce import Outlet, reduce_join
from headrace.operators.join.tuples import prepare_join, receive_join, ship_join
from headrace.operators.windows.aggregation import reduce_aggregation
from headrace.operators.windows.lifted import (
    Lifted,
    combine_lifted,
    lift_tuples,
    receive_lifted,
    ship_lifted,
)
from headrace.operators.windows.prepared import AggregationLogic
from headrace.planner.group import Member, plan_group

K, V, WINDOW, VALUES = Operand("k", BIGINT), Operand("v", BIGINT), Window(10, 10), 100
NAMES = [StreamName(name) for name in "abcdef"]
COLUMNS = (Column("k", BIGINT), Column("v", BIGINT), Column("ts", TIMESTAMP))
ALONE = even_partitioning(1)
STREAMS = {name: Stream(name, COLUMNS, "ts", 0) for name in NAMES}

Data = dict[str, dict[str, pa.Array]]
"""The columns of each stream."""

Done = tuple[int, int]
"""(result rows, keys of all sides or joined rows)."""


def main() -> None:
    options = parse_options()
    for sides in options.sides:
        for keys in options.keys:
            compare(sides, keys, options)


def parse_options() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--tuples", type=int, default=50_000, help="of each stream in the window")
    parser.add_argument("--sides", type=numbers, default=[2, 4])
    parser.add_argument("--keys", type=numbers, default=[400_000, 100_000, 25_000, 6_000])
    parser.add_argument("--repeat", type=int, default=3, help="the least of so many runs counts")
    return parser.parse_args()


def compare(sides: int, keys: int, options: argparse.Namespace) -> None:
    rng, generator = random.Random(1), np.random.default_rng(1)
    queries = [random_query(rng, number, sides) for number in range(1, options.queries + 1)]
    data: Data = {str(name): random_tuples(generator, options.tuples, keys) for name in NAMES[:sides]}
    small: Data = {str(name): random_tuples(generator, 1_000, 100) for name in NAMES[:sides]}
    taken: dict[Strategy, tuple[float, Done]] = {}
    for strategy, run in ((Strategy.PRODUCT, run_product), (Strategy.JOINED_GROUPS, run_joined)):
        strategies = Strategies.of({query.id: Choice(strategy, "measured here") for query in queries})
        plan = plan_group([Member(query, query.id - 1) for query in queries], STREAMS, strategies=strategies)
        run(plan, small)  # so that compiled kernels are there
        taken[strategy] = least(options.repeat, run, plan, data)
    (product, (rows, met)), (joined, (same, made)) = taken[Strategy.PRODUCT], taken[Strategy.JOINED_GROUPS]
    assert rows == same, "both strategies have the same groups"
    print(
        f"{sides} streams, {options.tuples / keys:6.2f} tuples per key: "
        f"product {product:5.2f} s for {met:>10,} keys ({product / met * 1e9:4.0f} ns each), "
        f"joined {joined:5.2f} s for {made:>11,} rows ({joined / max(made, 1) * 1e9:6.0f} ns each)",
        flush=True,
    )


def least(
    repeat: int, run: Callable[[SharedPlan, Data], Done], plan: SharedPlan, data: Data
) -> tuple[float, Done]:
    found = []
    for _ in range(repeat):
        started = time.process_time()
        done = run(plan, data)
        found.append((time.process_time() - started, done))
    return min(found)


def random_query(rng: random.Random, id_: int, sides: int) -> Query:
    joined = tuple(JoinSide(name, WINDOW, Compare(V, Op.GT, rng.randrange(VALUES))) for name in NAMES[:sides])
    total = Aggregate(AggregateFunction.SUM, Operand("s1_v", BIGINT), TRUE, BIGINT)
    then = Aggregation(WINDOW, TRUE, (Operand("s0_k", BIGINT),), (total,), ())
    hub = Hub(tuple(range(sides)), ((K,),) * sides)
    body = Join(joined, (hub,), (Carried("s0_k", 0, K), Carried("s1_v", 1, V)), (), then)
    return Query(QueryId(id_), f"q{id_}", QueryPlan("", tuple(NAMES[:sides]), body, (), "", ""))


def random_tuples(generator: np.random.Generator, tuples: int, keys: int) -> dict[str, pa.Array]:
    times = pa.array(generator.integers(0, WINDOW.range_us, tuples)).cast(TIMESTAMP.arrow)
    drawn = (generator.integers(0, most, tuples) for most in (keys, VALUES))
    return dict(zip(("k", "v"), map(pa.array, drawn), strict=True)) | {"ts": times}


def columns(data: dict[str, pa.Array], operands: tuple[Operand, ...]) -> dict[Operand, pa.ChunkedArray]:
    return {operand: pa.chunked_array([data[operand.sql]]) for operand in operands}


def run_product(plan: SharedPlan, data: Data) -> Done:
    factors, rows, keys = Factors(), 0, 0
    for operator in plan.operators:
        assert isinstance(operator, AggregationOperator)
        lifted = lift_tuples(operator, columns(data[operator.stream], operator.scanned), NEVER_US)
        assert lifted is not None
        blobs = [one.blob for one in ship_lifted(operator, combine_lifted(operator, lifted), ALONE)]
        received, logic = receive_lifted(operator, blobs), AggregationLogic(operator)
        reduce_aggregation(logic, received, [], [], NEVER_US, WINDOW.range_us, factors.taking(operator.id))
    for product in plan.products:
        for output in product.outputs:
            for sides in factors.of(output):
                keys += sum(side.num_rows for side in sides)
                found = multiply(output, product.keys, sides)
                rows += 0 if found is None else found.table.num_rows
    return rows, keys


def run_joined(plan: SharedPlan, data: Data) -> Done:
    (operator,) = (one for one in plan.operators if isinstance(one, JoinOperator))
    groupings = {one.id: one for one in plan.operators if isinstance(one, GroupingOperator)}
    logic, blobs = JoinLogic(operator), []
    for number, input_ in enumerate(operator.inputs):
        tuples = prepare_join(logic, number, columns(data[input_.stream], input_.scanned), NEVER_US, [])
        assert tuples is not None
        blobs += [one.blob for one in ship_join(logic, tuples, ALONE)]
    fed: dict[str, list[bytes]] = defaultdict(list)

    def gathering(grouping: GroupingOperator) -> Gathering:
        def send(found: Lifted) -> None:
            fed[grouping.id] += [one.blob for one in ship_lifted(grouping, found, ALONE)]

        return Gathering(grouping, send)

    feeds = [Feed(logic, i, groupings[chain.feeds or ""]) for i, chain in enumerate(operator.chains)]
    gathered = {id_: gathering(grouping) for id_, grouping in groupings.items()}

    def consume(chain: int, block: JoinedBlock) -> None:
        for found in feeds[chain].lifted(block, Counter()):
            gathered[feeds[chain].operator.id].add(found)

    outlet = Outlet(consume, lambda shipment: None, ALONE)
    received = receive_join(logic, blobs)
    reduced = reduce_join(logic, received, [], [], NEVER_US, WINDOW.range_us, outlet)
    rows = 0
    for id_, waiting in gathered.items():
        waiting.flush()
        ready, batch = AggregationLogic(groupings[id_]), receive_lifted(groupings[id_], fed[id_])
        tables: list[pa.Table] = []
        emit = lambda signature, table, queries, latest_us, into=tables: into.append(table)  # noqa: E731
        reduce_aggregation(ready, batch, [], [], NEVER_US, WINDOW.range_us, emit)
        rows += sum(table.num_rows for table in tables)
    return rows, reduced.rows.total


if __name__ == "__main__":
    main()
