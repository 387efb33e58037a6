"""What the conductor's looks cost the driver, without Spark.

    python -m headrace_bench.looks [queries]

Plays a stream and one group with so many range queries, and prints the CPU seconds of a look, which comes every ten
seconds, and of deciding where a new query starts.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.catalog.events import EventBook
from headrace.engine.conductor.conductor import Conductor
from headrace.engine.conductor.facts import LiveQuery
from headrace.engine.conductor.measured import Measured
from headrace.engine.conductor.sampling import StreamSample
from headrace.engine.conductor.stage import Standing
from headrace.engine.records import Metrics
from headrace.model.grouping import MAIN
from headrace.model.metrics import OperatorMetrics, QueryCounts
from headrace.model.predicate import And, Compare, Op, Operand
from headrace.model.query import NO_NEEDS, Projection, QueryId, QueryPlan, StreamName
from headrace.model.types import BIGINT
from headrace.optimizer.grouping.policies import Policy
from headrace.optimizer.grouping.values import FunctionName
from headrace.storage.warehouse import Warehouse

RATE, DOMAIN, LOOKS = 50_000, 10_000, 12
VALUE = Operand("v", BIGINT)


def plan_of(low: int) -> QueryPlan:
    """A query that takes a tenth of the tuples."""
    both = And((Compare(VALUE, Op.GE, low), Compare(VALUE, Op.LT, low + DOMAIN // 10)))
    return QueryPlan("SELECT v", (StreamName("s"),), Projection(both, (VALUE,)), (), "", "")


class PlayedStage:
    """One group that keeps up with its input."""

    cores = 2

    def __init__(self, queries: int) -> None:
        lows = np.random.default_rng(1).integers(0, DOMAIN, queries).tolist()
        self.live = [LiveQuery(QueryId(i), f"q{i}", plan_of(low), MAIN) for i, low in enumerate(lows)]
        self.now, self.epoch = 1_000.0, 0

    def queries(self) -> list[LiveQuery]:
        return self.live

    def tasks(self, groups: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(groups, self.cores)

    def next_number(self) -> int:
        return 0

    def arrived(self) -> dict[str, int]:
        return {"s": self.epoch * RATE}

    def standings(self, groups: Iterable[str]) -> dict[str, Standing]:
        return {name: Standing(self.arrived()) for name in groups}

    def function_costs(self) -> dict[FunctionName, float]:
        return {}

    def sample(self, stream: str, columns: Sequence[str], tuples: int) -> StreamSample | None:
        values = np.random.default_rng(self.epoch).integers(0, DOMAIN, tuples)
        return StreamSample(stream, tuples, {"v": pa.chunked_array([pa.array(values)])})

    def move(self, moves: Sequence[tuple[QueryId, str]]) -> None:
        raise AssertionError("nobody has a reason to move")

    def resize(self, group: str, tasks: int) -> None:
        raise AssertionError("nobody has a reason to ask for tasks")

    def step(self) -> Measured:
        """An epoch of a second."""
        self.epoch, self.now = self.epoch + 1, self.now + 1
        matched = QueryCounts.of_mapping({query.id: RATE // 10 for query in self.live})
        return Measured(
            MAIN,
            self.epoch,
            self.now,
            self.cores,
            frozenset(query.id for query in self.live),
            Metrics(seconds=0.4, map_cpu=0.2, reduce_cpu=0.2, finish_cpu=0.05),
            {"op": OperatorMetrics(map_seconds=0.2, reduce_seconds=0.2, tuples=RATE, matched=matched)},
            {"op": tuple(query.id for query in self.live)},
            self.arrived(),
            self.arrived(),
        )


def main() -> None:
    queries = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    stage, looks, places = PlayedStage(queries), list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        events = EventBook(Warehouse(Path(folder, "w")))
        conductor = Conductor(stage, events, Policy.FUNCTIONAL, clock=lambda: stage.now)
        while len(looks) < LOOKS:
            conductor.measured(stage.step())
            began = time.process_time()
            if conductor.look() is not None:
                looks.append(time.process_time() - began)
        for low in range(200):
            began = time.process_time()
            conductor.place([(plan_of(low), NO_NEEDS)])
            places.append(time.process_time() - began)
    look, place = statistics.median(looks), statistics.median(places)
    print(
        f"{queries:,} queries: a look takes {look * 1e3:.0f} ms of CPU, {look / 10:.2%} of ten seconds of a core;"
    )
    print(f"deciding where a new query starts takes {place * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
