"""Each kernel timed by itself, so that a regression is seen where it happens. Off by default: `make kernels`.

    .venv/bin/pytest bench/kernels --benchmark-autosave          # keep a run
    .venv/bin/pytest bench/kernels --benchmark-compare           # and compare with it

AStream's tuples, 250,000 of them as one task gets them, 1,000 keys, 1 and 1,000 mixed aggregation queries, whose
predicates have one to three conjuncts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from headrace.model.epoch import NEVER_US
from headrace.model.partitioning import even_partitioning
from headrace.model.plan import AggregationOperator
from headrace.model.predicate import Operand
from headrace.operators.common.regions import regions_of
from headrace.operators.windows.aggregation import reduce_aggregation
from headrace.operators.windows.folding import KeyBlock, fold_block
from headrace.operators.windows.lifted import (
    Lifted,
    combine_lifted,
    lift_tuples,
    receive_lifted,
    ship_lifted,
)
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment
from headrace.planner.group import plan_group
from headrace_bench import astream
from headrace_bench.tasks import STREAM, make_members

ROWS, KEYS, RATE = 250_000, 1_000, 50_000
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Case:
    """An operator in the middle of a stream: the next epoch's tuples are there, and the segment of those before."""

    operator: AggregationOperator
    logic: AggregationLogic
    columns: dict[Operand, pa.ChunkedArray]
    lifted: Lifted
    blobs: list[bytes]
    segment: Segment
    closed_us: int
    watermark_us: int


def make_case(queries: int, columns: int) -> Case:
    members = make_members(queries, columns=columns)
    (operator,) = plan_group(members, {STREAM.name: STREAM}).operators
    assert isinstance(operator, AggregationOperator)
    logic, segments, marks = AggregationLogic(operator), [], [NEVER_US]
    for epoch in range(2):
        table = astream.tuples(ROWS, START, RATE, KEYS, first=epoch * ROWS)
        columns = {o: table.column(o.sql) for o in operator.scanned}
        lifted = lift_tuples(operator, columns, marks[-1])
        assert lifted is not None
        combined = combine_lifted(operator, lifted)
        blobs = [shipment.blob for shipment in ship_lifted(operator, combined, even_partitioning(1))]
        marks.append(table["ts"][-1].value)
        if epoch == 0:
            received = receive_lifted(operator, blobs)
            reduced = reduce_aggregation(logic, received, [], [], marks[0], marks[1], lambda *_: None)
            assert reduced.segment is not None
            segments.append(reduced.segment)
    return Case(operator, logic, columns, lifted, blobs, segments[0], marks[1], marks[2])


@pytest.fixture(
    scope="module",
    params=[(1, 1), (1_000, 1), (1_000, 2), (1_000, 3)],
    ids=["1 query", "1,000 queries", "1,000 of 2 conjuncts", "1,000 of 3 conjuncts"],
)
def case(request: pytest.FixtureRequest) -> Case:
    return make_case(*request.param)


Benchmark = Callable[..., Any]


def test_plan(benchmark: Benchmark) -> None:
    members = make_members(1_000)
    benchmark(lambda: plan_group(members, {STREAM.name: STREAM}))


def test_regions(benchmark: Benchmark, case: Case) -> None:
    index = case.operator.operands[0]
    benchmark(lambda: regions_of(case.columns[index.operand], index))


def test_cells(benchmark: Benchmark, case: Case) -> None:
    family, regions = case.logic.families[0], case.lifted.regions
    benchmark(lambda: list(family.blocks(regions, len(case.lifted.slice))))


def test_partials(benchmark: Benchmark, case: Case) -> None:
    benchmark(lambda: combine_lifted(case.operator, lift_tuples(case.operator, case.columns, case.closed_us)))


def test_shipping(benchmark: Benchmark, case: Case) -> None:
    benchmark(
        lambda: receive_lifted(
            case.operator, [s.blob for s in ship_lifted(case.operator, case.lifted, even_partitioning(2))]
        )
    )


def test_fold(benchmark: Benchmark, case: Case) -> None:
    lifted = receive_lifted(case.operator, case.blobs)
    assert lifted is not None
    block = KeyBlock(0, KEYS, lifted, lifted.keys.ids, slice(None))
    benchmark(lambda: fold_block(case.logic, block, []))


def test_windows(benchmark: Benchmark, case: Case) -> None:
    """No new tuple: what is stored is combined into the windows that close, and lowered to rows."""
    rows: list[int] = []

    def keep(signature: str, table: pa.Table, queries: Any, latest_us: int) -> None:
        rows.append(table.num_rows)

    benchmark(
        lambda: reduce_aggregation(
            case.logic, None, [case.segment], [], case.closed_us, case.watermark_us, keep
        )
    )
    assert sum(rows)


def test_epoch(benchmark: Benchmark, case: Case) -> None:
    """Everything a reduce task does but writing."""

    def run() -> None:
        received = receive_lifted(case.operator, case.blobs)
        reduce_aggregation(
            case.logic, received, [case.segment], [], case.closed_us, case.watermark_us, lambda *_: None
        )

    benchmark(run)
