"""CPU seconds of a whole job, map and reduce tasks, in one process and without Spark.

    python -m headrace_bench.jobs

Spark's own work is left out, so that small changes of the tasks can be seen. To compare with another checkout, run it
there in turn, a few times. The least of several epochs is what to look at.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.engine import job
from headrace.engine.job import Job, JobContext, run_job
from headrace.engine.plans import plan_file
from headrace.log.chunks import write_chunk
from headrace.model.epoch import NEVER_US, Epoch, StreamEpoch
from headrace.model.partitioning import even_partitioning
from headrace.model.predicate import TRUE, Compare, Op, Operand
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    EpochId,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.state import SegmentFile
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Column, SqlType
from headrace.model.window import Window
from headrace.planner.group import Member, plan_group

sys.path.append(str(Path(__file__).parents[2] / "tests" / "engine"))

from local_spark import LocalSpark

STREAM = Stream(
    StreamName("s"),
    (
        Column("k", BIGINT),
        Column("u", SqlType("string")),
        Column("v", BIGINT),
        Column("x", DOUBLE),
        Column("ts", TIMESTAMP),
    ),
    "ts",
    0,
)
OPERANDS = {column.name: Operand(column.name, column.type) for column in STREAM.columns}
KEYS, EPOCHS, SECOND = 1_000, 6, 1_000_000
SPAN_US = 20 * SECOND
FUNCTIONS = (AggregateFunction.SUM, AggregateFunction.MAX, AggregateFunction.COUNT)


def members(count: int, key: str) -> list[Member]:
    """Sliding and tumbling windows with one range predicate each."""
    rng, found = random.Random(1), []
    for number in range(1, count + 1):
        range_us = rng.choice([5, 10, 20]) * SECOND
        aggregate = Aggregate(rng.choice(FUNCTIONS), OPERANDS["v"], TRUE, BIGINT)
        window = Window(range_us, rng.choice([range_us, range_us // 5]))
        where = Compare(OPERANDS["x"], Op.GT, rng.random())
        body = Aggregation(window, where, (OPERANDS[key],), (aggregate,), ())
        plan = QueryPlan("", (STREAM.name,), body, (), "", "")
        found.append(Member(Query(QueryId(number), f"q{number}", plan), number - 1))
    return found


def tuples(rows: int, epoch: int) -> pa.Table:
    rng = np.random.default_rng(epoch)
    keys = rng.integers(0, KEYS, rows)
    names = pa.array([f"user-{number:05d}" for number in range(KEYS)])
    times = np.sort(rng.integers(0, SPAN_US, rows)) + epoch * SPAN_US
    return pa.table(
        {
            "k": keys,
            "u": names.take(pa.array(keys)),
            "v": rng.integers(0, 1000, rows),
            "x": rng.random(rows),
            "ts": pa.array(times).cast(TIMESTAMP.arrow),
        }
    )


def run(root: Path, queries: int, rows: int, key: str) -> list[float]:
    """CPU seconds of each epoch but the first."""
    plan = plan_group(members(queries, key), {STREAM.name: STREAM})
    (root / "plan.json").write_bytes(plan_file(plan))
    context = JobContext(LocalSpark(), root, "main", even_partitioning(2), 2)
    held: list[SegmentFile] = []
    spent, closed = [], NEVER_US
    for number in range(EPOCHS):
        chunk = write_chunk(root, "log/s", tuples(rows, number), "ts", number)
        watermark = (number + 1) * SPAN_US
        epoch = Epoch(EpochId(number), (StreamEpoch(STREAM.name, (chunk,), closed, watermark),))
        began = time.process_time()
        held = run_job(context, Job(plan, "plan.json", epoch, {}, held, f"a{number}")).segments
        spent.append(time.process_time() - began)
        closed = watermark
    return spent[1:]


def main() -> None:
    vars(job)["unwrap_spark_exception"] = nullcontext  # there is no Spark whose exceptions could be unwrapped
    for queries, rows, key in (
        (1, 500_000, "k"),
        (1, 500_000, "u"),
        (100, 500_000, "k"),
        (1_000, 300_000, "k"),
    ):
        with tempfile.TemporaryDirectory(prefix="headrace-jobs-") as root:
            spent = sorted(run(Path(root), queries, rows, key))
        print(
            f"{queries:5} queries by {key}, {rows:,} tuples: least {spent[0]:.3f} s, median {spent[2]:.3f} s"
        )


if __name__ == "__main__":
    main()
