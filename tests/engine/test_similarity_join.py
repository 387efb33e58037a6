"""Joins that a score of vectors connects, as whole jobs without a JVM, against loops over all pairs."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from local_spark import LocalSpark
from test_function_calls import rows_of

from headrace.engine import job
from headrace.engine.functions import pickled, write_function
from headrace.engine.job import Job, JobContext, JobResult, run_job
from headrace.engine.paths import plan_path
from headrace.engine.plans import plan_file
from headrace.log.chunks import write_chunk
from headrace.model.blocks import BLOCKS
from headrace.model.epoch import NEVER_US, Epoch, StreamEpoch
from headrace.model.partitioning import even_partitioning
from headrace.model.plan import JoinOperator
from headrace.model.query import EpochId, Fallback, Join, JoinedRows, Query, QueryId, Stream, StreamName
from headrace.model.state import SegmentFile
from headrace.model.tables import joined_column
from headrace.model.types import Column, SqlType
from headrace.operators.common.scores import COSINE
from headrace.operators.join import partners
from headrace.operators.join.partners import Meeting, Pairs
from headrace.planner.explain import explain_query
from headrace.planner.group import Member, plan_group
from headrace.planner.joins import Joining
from headrace.planner.strategies import default_choice
from headrace.sql import ShapeCache, parse_query
from headrace.storage.warehouse import Warehouse
from similar_cases import COLUMNS, SECOND, VECTORS, Ask, embed, exact, tuples
from sql_fakes import FakeAnalyzer
from thorough import seeds

STREAMS = {
    name: Stream(StreamName(name), tuple(Column(c, SqlType(t)) for c, t in COLUMNS), "ts", 0)
    for name in ("offers", "wishes")
}
SCHEMA = pa.schema([(name, SqlType(type_).arrow) for name, type_ in COLUMNS])


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "unwrap_spark_exception", nullcontext)


class World:
    def __init__(self, root: Path) -> None:
        warehouse = Warehouse(root / "w")
        self.warehouse = warehouse.root
        self.files = (write_function(warehouse, "embed", VECTORS, pickled("embed", embed)),)
        self.shapes = ShapeCache(FakeAnalyzer())
        self.shapes.register("embed", VECTORS)
        self.held: list[SegmentFile] = []

    def query(self, number: int, text: str) -> Query:
        return Query(QueryId(number), f"q{number}", parse_query(text, STREAMS, self.shapes))

    def run(
        self, number: int, queries: list[Query], rows: dict[str, list[dict[str, Any]]], partitions: int = 2
    ) -> JobResult:
        plan = plan_group([Member(q, int(q.id)) for q in queries], {s.name: s for s in STREAMS.values()})
        assert all(isinstance(operator, JoinOperator) for operator in plan.operators) and not plan.fallbacks
        path = plan_path("main", plan.version)
        (self.warehouse / path).parent.mkdir(parents=True, exist_ok=True)
        (self.warehouse / path).write_bytes(plan_file(plan))
        parts = []
        for name, some in rows.items():
            table = pa.Table.from_pylist(some, schema=SCHEMA)
            chunk = write_chunk(self.warehouse, f"log/{name}", table, "ts", number)
            parts.append(StreamEpoch(StreamName(name), (chunk,), NEVER_US, NEVER_US))
        spark: Any = LocalSpark()
        context = JobContext(spark, self.warehouse, "main", even_partitioning(partitions), 2, self.files)
        result = run_job(context, Job(plan, path, Epoch(EpochId(number), tuple(parts)), {}, self.held, "a"))
        self.held = result.segments
        return result


def _id_columns(query: Query) -> list[str]:
    """The columns of stored rows that have the ids of a query's sides."""
    body = query.plan.body
    assert isinstance(body, Join) and isinstance(body.then, JoinedRows) and body.then.where is None
    leaves = Joining(query.id, int(query.id), body).leaves
    return [joined_column(*leaves[c.side], c.operand) for c in body.carried if c.operand.sql == "id"]


@pytest.mark.parametrize("seed", seeds(1))
def test_similar_tuples_meet_as_loops_say_whatever_the_partitions(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng, world = random.Random(seed), World(tmp_path)
    asks = [Ask(rng, n) for n in range(1, 7)]
    queries = [world.query(ask.number, ask.text()) for ask in asks]
    found: dict[int, Counter[Any]] = {ask.number: Counter() for ask in asks}
    every: dict[str, list[dict[str, Any]]] = {"offers": [], "wishes": []}
    for epoch in range(3):
        rows = {name: tuples(rng, 25, 1_000 * epoch + 100 * i) for i, name in enumerate(every)}
        result = world.run(epoch, queries, rows, partitions=rng.choice([1, 2, 5]))
        assert not result.failures
        for query in queries:
            names = _id_columns(query)
            kept = rows_of(world, result, int(query.id))  # type: ignore[arg-type]
            found[int(query.id)].update(tuple(row[name] for name in names) for row in kept)
        for name, some in rows.items():
            every[name] += some
    for ask in asks:
        assert found[ask.number] == ask.rows(every), (ask.number, ask.text())
    assert sum(sum(rows.values()) for rows in found.values()) > 20


def test_blocks_are_spread_over_partitions_and_few_pairs_are_scored_exactly(tmp_path: Path) -> None:
    world, rng = World(tmp_path), random.Random(1)
    window = "[RANGE 30 SECONDS SLIDE 30 SECONDS]"
    texts = [
        f"SELECT l.id FROM offers {window} AS l, wishes {window} AS r "
        f"WHERE vector_cosine_similarity(l.v, r.v) > {bound} AND l.n > {level}"
        for bound, level in ((0.9, 1), (0.97, 0))
    ]
    rows = {"offers": tuples(rng, 200, 0, 32), "wishes": tuples(rng, 200, 1_000, 32)}
    queries = [world.query(n, text) for n, text in enumerate(texts, 1)]
    result = world.run(0, queries, rows, 4)
    assert len({segment.path for segment in world.held}) > 1 and BLOCKS == 8
    (spent,) = result.operators.values()
    odd = 0.1 * 2 * 200 * 200  # zero vectors, and those with an element that is NULL
    assert 0 < spent.functions[COSINE].rows < 1.5 * odd


def test_vectors_of_different_lengths_fail_the_queries_that_meet_them(tmp_path: Path) -> None:
    world, rng = World(tmp_path), random.Random(3)
    window = "[RANGE 30 SECONDS SLIDE 30 SECONDS]"
    texts = [
        f"SELECT l.id FROM offers {window} AS l, wishes {window} AS r "
        f"WHERE vector_cosine_similarity(l.v, r.v) > 0.9 AND l.n {op} 9"
        for op in ("<", ">=")
    ]
    odd = tuples(rng, 1, 500)[0] | {"v": [1.0, 2.0], "n": 9}
    rows = {"offers": [*tuples(rng, 20, 0), odd], "wishes": tuples(rng, 20, 100)}
    result = world.run(0, [world.query(n, text) for n, text in enumerate(texts, 1)], rows)
    assert list(result.failures) == [2]
    assert "VECTOR_DIMENSION_MISMATCH" in result.failures[2] and COSINE in result.failures[2]


def test_explain_tells_of_blocks_and_of_what_calls_decide(tmp_path: Path) -> None:
    world, window = World(tmp_path), "[RANGE 30 SECONDS SLIDE 30 SECONDS]"
    query = world.query(
        1,
        f"SELECT l.id FROM offers {window} AS l, wishes {window} AS r "
        "WHERE vector_cosine_similarity(l.v, embed(r.text)) > 0.9",
    )
    plan = plan_group([Member(query, 1)], {s.name: s for s in STREAMS.values()})
    body = query.plan.body
    said = explain_query(query, plan, default_choice(body))
    assert "each tuple is in all of 8 blocks" in said and "each tuple is in one block" in said
    assert "decided last, by calls: vector_cosine_similarity(" in said and "> 0.9" in said


WINDOW = "[RANGE 30 SECONDS SLIDE 30 SECONDS]"


@pytest.mark.parametrize("asked", [("ab",), ("ac",), ("bc",), ("ab", "ac", "bc")])
def test_a_score_of_any_two_of_three_streams_selects_what_loops_select(
    tmp_path: Path, asked: tuple[str, ...]
) -> None:
    rng, world = random.Random(len(asked)), World(tmp_path)
    queries = [
        world.query(
            n,
            f"SELECT a.id, b.id AS x, c.id AS y FROM offers {WINDOW} AS a, wishes {WINDOW} AS b, offers {WINDOW} AS c "
            f"WHERE a.n = b.n AND b.n = c.n AND vector_cosine_similarity({pair[0]}.v, {pair[1]}.v) > 0.5",
        )
        for n, pair in enumerate(asked)
    ]
    every: dict[str, list[dict[str, Any]]] = {"offers": [], "wishes": []}
    found: Counter[Any] = Counter()
    for epoch in range(2):
        rows = {name: tuples(rng, 10, 1_000 * epoch + 100 * i) for i, name in enumerate(every)}
        result = world.run(epoch, queries, rows)
        assert not result.failures
        for query in queries:
            kept = rows_of(world, result, int(query.id))  # type: ignore[arg-type]
            found.update((int(query.id), *(row[name] for name in _id_columns(query))) for row in kept)
        for name, some in rows.items():
            every[name] += some
    wanted: Counter[Any] = Counter()
    for joined in product(every["offers"], every["wishes"], every["offers"]):
        windows, numbers = {row["ts"] // (30 * SECOND) for row in joined}, {row["n"] for row in joined}
        if len(windows) == len(numbers) == 1:
            for n, pair in enumerate(asked):
                value = exact(COSINE, *(joined["abc".index(side)]["v"] for side in pair))
                if value is not None and value > 0.5:
                    wanted[n, *(row["id"] for row in joined)] += 1
    assert found == wanted and len(wanted) > 10


@pytest.mark.parametrize(
    "condition",
    [
        "vector_cosine_similarity(l.v, r.v) > 0.5 + 0.4",
        "vector_cosine_similarity(l.v, r.v) > 0.9 AND concat(l.text, r.text) LIKE '%ab%'",
    ],
)
def test_a_score_that_tasks_cannot_decide_stores_no_cross_product(tmp_path: Path, condition: str) -> None:
    text = f"SELECT l.id, r.id AS other FROM offers {WINDOW} AS l, wishes {WINDOW} AS r WHERE {condition}"
    body = World(tmp_path).query(1, text).plan.body
    assert isinstance(body, Fallback) and "every pair of tuples would be stored" in body.reason


def test_pairs_with_a_score_are_made_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, rng = World(tmp_path), random.Random(4)
    query = world.query(
        1,
        f"SELECT l.id, r.id AS other FROM offers {WINDOW} AS l, wishes {WINDOW} AS r "
        "WHERE vector_inner_product(l.v, r.v) > -1000.0",
    )
    rows = {"offers": tuples(rng, 30, 0), "wishes": tuples(rng, 30, 100)}
    wanted, sizes, wanting = world.run(0, [query], rows).rows, list[int](), Meeting._wanted

    def watched(*arguments: Any) -> Pairs:
        sizes.append(len(arguments[-1]))
        return wanting(*arguments)

    monkeypatch.setattr(partners, "BLOCK_ROWS", 16)
    monkeypatch.setattr(Meeting, "_wanted", watched)
    world.held = []
    assert world.run(1, [query], rows).rows == wanted and wanted.get(1) > 300
    assert max(sizes) == 16


@pytest.mark.parametrize("beside", ["", " AND l.n = r.n"])
def test_a_score_that_is_compared_with_null_selects_nothing(tmp_path: Path, beside: str) -> None:
    world, rng = World(tmp_path), random.Random(6)
    texts = [
        f"SELECT l.id, r.id AS other FROM offers {WINDOW} AS l, wishes {WINDOW} AS r "
        f"WHERE vector_inner_product(l.v, r.v) > {bound}{beside}"
        for bound in ("NULL", "-1000.0")
    ]
    rows = {"offers": tuples(rng, 20, 0), "wishes": tuples(rng, 20, 100)}
    result = world.run(0, [world.query(n, text) for n, text in enumerate(texts, 1)], rows)
    assert result.rows.queries.tolist() == [2] and not result.failures
    world.held = []
    assert not world.run(1, [world.query(1, texts[0])], rows).rows
