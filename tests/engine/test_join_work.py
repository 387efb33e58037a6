"""What running jobs count of joins: tuples, keys and joined rows of each query, against loops over the tuples."""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine import job
from headrace.engine.costs import divide_costs
from headrace.engine.job import JobResult
from headrace.log.chunks import write_chunk
from headrace.model.epoch import NEVER_US, Epoch, StreamEpoch
from headrace.model.partitioning import even_partitioning
from headrace.model.plan import SharedPlan
from headrace.model.query import EpochId, Join, Query
from headrace.model.statistics import NOTHING_KNOWN, Statistics, add_epoch, add_join_counts
from headrace.model.strategy import Strategies, Strategy
from headrace.operators.common.placing import key_groups_of_integers
from headrace.optimizer.measuring import measure_join
from headrace.optimizer.strategies import estimate_join
from headrace.planner.group import Member, plan_group

sys.path.append(str(Path(__file__).parents[1] / "operators"))

from test_product_lives import STREAMS, random_query, wanted
from test_tasks import run_epoch

from forced import forced_choice

END = 60
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "unwrap_spark_exception", nullcontext)


def arriving(root: Path, rng: random.Random, keys: int) -> tuple[Epoch, dict[str, list[Row]]]:
    """Tuples of both streams within (0, 50); all of their windows have ended by END."""
    parts, rows_of = [], {}
    for name, stream in STREAMS.items():
        rows = [
            {
                "k": rng.choice([*range(keys), None]),
                "v": rng.choice([*range(6), None]),
                "ts": rng.randrange(50),
            }
            for _ in range(80)
        ]
        schema = pa.schema([(c.name, c.type.arrow) for c in stream.columns])
        chunk = write_chunk(root, f"log/{name}", pa.Table.from_pylist(rows, schema=schema), "ts", 0)
        parts.append(StreamEpoch(name, (chunk,), NEVER_US, END))
        rows_of[str(name)] = rows
    return Epoch(EpochId(0), tuple(parts)), rows_of


def accepted(query: Query, rows_of: dict[str, list[Row]]) -> list[list[Row]]:
    """The tuples that each side of a query lets in. NULL is no key of a join."""
    body = query.plan.body
    assert isinstance(body, Join)
    return [
        [row for row in rows_of[side.stream] if row["k"] is not None and wanted(side, row)]
        for side in body.sides
    ]


def window_keys(query: Query, rows_of: dict[str, list[Row]]) -> list[set[tuple[int, int | None]]]:
    """For each side, (window end, key) of the tuples it lets in. A product makes a row for NULL, too."""
    body = query.plan.body
    assert isinstance(body, Join)
    found = []
    for side in body.sides:
        window, rows = side.window, [row for row in rows_of[side.stream] if wanted(side, row)]
        starts = ((row, start) for row in rows for start in window.starts_of(row["ts"]))
        found.append({(start + window.range_us, row["k"]) for row, start in starts})
    return found


def joined_rows(root: Path, result: JobResult) -> Counter[int]:
    """Per query, the joined rows behind its groups: their COUNT(*)."""
    found: Counter[int] = Counter()
    for file in result.results:
        for row in pq.read_table(root / file.path).to_pylist():
            found[row["query"]] += row["a0"]
    return found


def run(root: Path, queries: list[Query], strategy: Strategy, epoch: Epoch) -> tuple[SharedPlan, JobResult]:
    strategies = Strategies.of({query.id: forced_choice(query, strategy) for query in queries})
    plan = plan_group([Member(q, int(q.id)) for q in queries], STREAMS, strategies=strategies)
    return plan, run_epoch(root, "main", even_partitioning(3), plan, epoch, [])


@pytest.mark.parametrize("seed", range(3))
def test_what_is_counted_equals_loops(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    queries = [random_query(rng, number) for number in range(1, 9)]
    epoch, rows_of = arriving(tmp_path, rng, rng.choice([3, 40]))
    _, product = run(tmp_path, queries, Strategy.PRODUCT, epoch)
    plan, joined = run(tmp_path, queries, Strategy.JOINED_GROUPS, epoch)
    rows = joined_rows(tmp_path, product)
    assert rows == joined_rows(tmp_path, joined) and rows.total() > 30
    as_product, as_joined = (
        {c.query: c for c in add_join_counts(result.joins)} for result in (product, joined)
    )
    costs = divide_costs(joined.operators, plan)
    for query in queries:
        sides = accepted(query, rows_of)
        assert as_product[query.id].keys == sum(map(len, window_keys(query, rows_of)))
        assert as_product[query.id].rows == as_joined[query.id].rows == rows[int(query.id)]
        counted = as_joined[query.id].sides
        assert sorted((one.tuples, one.keys) for one in counted) == sorted(
            (len(side), len({row["k"] for row in side})) for side in sides
        )
        (join,) = [o.id for o in plan.operators if o.id in joined.operators and o.reads]
        matched = joined.operators[join].matched.get(query.id)
        assert matched == sum(map(len, sides))
    spent = sum(o.map_seconds + o.reduce_seconds for o in joined.operators.values())
    assert sum(cost.cpu_seconds for cost in costs.values()) == pytest.approx(spent)


def test_work_that_was_measured_is_that_of_the_windows(tmp_path: Path) -> None:
    """An epoch that closes every window: exactly known for a product, and near it for joined rows."""
    rng = random.Random(5)
    query = random_query(rng, 1)
    epoch, rows_of = arriving(tmp_path, rng, 40)
    known = Epoch(epoch.id, tuple(StreamEpoch(p.stream, p.chunks, 0, END) for p in epoch.streams))
    keys = sum(map(len, window_keys(query, rows_of)))
    for strategy, most in ((Strategy.PRODUCT, 1.0), (Strategy.JOINED_GROUPS, 1.5)):
        _, result = run(tmp_path, [query], strategy, epoch)
        (count,) = add_join_counts(result.joins)
        assert measure_join(query, count, epoch) is None, "the first epoch has no beginning"
        work = measure_join(query, count, known)
        assert work is not None and work.windows >= 3
        estimate = estimate_join(query, add_epoch(NOTHING_KNOWN, Statistics(joins=(work,))))
        assert estimate is not None and estimate.measured
        assert estimate.rows * work.windows == pytest.approx(joined_rows(tmp_path, result)[1])
        assert 1 / most <= estimate.keys * work.windows / keys <= most


def test_what_a_join_takes_is_divided_among_the_key_groups_of_its_tuples(tmp_path: Path) -> None:
    rng = random.Random(1)
    queries = [random_query(rng, number) for number in range(1, 9)]
    epoch, rows_of = arriving(tmp_path, rng, 3)
    plan, result = run(tmp_path, queries, Strategy.JOINED_GROUPS, epoch)
    joins = [operator for operator in plan.operators if operator.reads]
    keys = [row["k"] for rows in rows_of.values() for row in rows if row["k"] is not None]
    known = set(key_groups_of_integers(np.array(keys)).tolist())
    assert known <= set(result.key_seconds) and len(result.key_seconds) < 256
    spent = sum(result.operators[join.id].reduce_seconds for join in joins)
    assert sum(result.key_seconds.values()) >= 0.99 * spent
