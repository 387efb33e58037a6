"""Whole jobs without a JVM: map tasks, stages of reduce tasks, segments and results, for one group or for two."""

from __future__ import annotations

import gc
import random
import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_spark import LocalSpark
from pyspark import TaskContext

from headrace.engine import job
from headrace.engine.chain import run_chain
from headrace.engine.job import Job, JobContext, JobResult, reduce_stages, run_job
from headrace.engine.messages import (
    Control,
    EpochTask,
    Report,
    TaskError,
    TaskMetrics,
    decode_control,
    decode_report,
    encode_control,
    encode_report,
)
from headrace.engine.paths import handover_dir, plan_path, segments_dir
from headrace.engine.plans import plan_file
from headrace.engine.records import no_commit
from headrace.engine.tasks import prepared_plan
from headrace.log.chunks import write_chunk
from headrace.model import codec
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch, StreamEpoch
from headrace.model.metrics import OperatorMetrics, QueryCounts
from headrace.model.partitioning import Partitioning, even_partitioning
from headrace.model.plan import SharedPlan
from headrace.model.predicate import TRUE
from headrace.model.query import Aggregation, EpochId, Projection, Query, QueryId, QueryPlan
from headrace.model.state import SegmentFile
from headrace.model.window import SessionWindow, Window
from headrace.operators.common.placing import key_groups_of_integers
from headrace.operators.kinds import operator_kind
from headrace.optimizer.place import Place
from headrace.planner.group import Member, plan_group

sys.path.append(str(Path(__file__).parents[1] / "operators"))

from shelf import Groups, random_partitioning
from test_aggregation import OPERANDS, STREAM, random_query, random_value

from thorough import seeds

SCHEMA = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])
ATTEMPT = SimpleNamespace(taskAttemptId=lambda: 7)


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "unwrap_spark_exception", nullcontext)


def mixed_query(rng: random.Random, number: int) -> Query:
    """Windows, sessions, or a filter."""
    query = random_query(rng, number)
    body = query.plan.body
    assert isinstance(body, Aggregation)
    kind = rng.random()
    if kind < 0.3:
        body = replace(body, window=SessionWindow(rng.choice([2, 5, 9])))
    elif kind < 0.4:
        return replace(
            query, plan=replace(query.plan, body=Projection(body.where, (OPERANDS["i"], OPERANDS["ts"])))
        )
    return replace(query, plan=replace(query.plan, body=body))


def run_epoch(
    root: Path,
    group: str,
    partitioning: Partitioning,
    plan: SharedPlan,
    epoch: Epoch,
    held: list[SegmentFile],
    place: Place = Place.SPARK,
) -> JobResult:
    path = plan_path(group, plan.version)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(plan_file(plan))
    context = JobContext(LocalSpark(), root, group, partitioning, 2)  # type: ignore[arg-type]
    return run_job(context, Job(plan, path, epoch, {}, held, f"{group}{epoch.id}", place=place))


def result_rows(root: Path, result: JobResult, mine: dict[int, int]) -> Counter[Any]:
    """Result rows as values; those of filters once per query that has its slot among them."""
    found: Counter[Any] = Counter()
    for file in result.results:
        for row in pq.read_table(root / file.path).to_pylist():
            rest = tuple(sorted((k, plain(v)) for k, v in row.items() if k[:2] != "qs"))
            if "query" in row:
                found[row["query"], rest] += 1
            else:
                bits = [slot for slot in mine if row[f"qs{slot // 64}"] >> slot % 64 & 1]
                found.update((mine[slot], rest) for slot in bits)
    return found


def plain(value: Any) -> str:
    """A value as text. Sums of floats depend a little on the order in which they are added up."""
    if isinstance(value, float):
        return f"{value:.5g}" if not abs(value) < 1e-3 else "0"
    return repr(value)


def life(
    root: Path, seed: int, changes: bool, places: Sequence[Place] = (Place.SPARK,)
) -> tuple[list[Counter[Any]], Groups, Counter[str]]:
    """The rows of each epoch, of all queries; `places` are taken in turn."""
    rng, moves = random.Random(seed), random.Random(seed + 1)
    queries = {n: (mixed_query(rng, n), rng.randint(0, 2)) for n in range(1, 13)}
    groups = Groups(moves, changes)
    closed, found, seen = NEVER_US, list[Counter[Any]](), Counter[str]()
    for number in range(6):
        rows = [
            {c.name: random_value(rng, c.name) for c in STREAM.columns}
            | {"ts": 8 * number + rng.randint(-6, 8)}
            for _ in range(rng.choice([0, 20, 40]))
        ]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        chunks = (write_chunk(root, "log/s", table, "ts", number),) if rows else ()
        watermark = FOREVER_US if number == 5 else max(closed, 8 * number)
        epoch = Epoch(EpochId(number), (StreamEpoch(STREAM.name, chunks, closed, watermark),))
        active = {n: query for n, (query, first) in queries.items() if first <= number}
        groups.change(active)
        epoch_rows: Counter[Any] = Counter()
        for at, shelf in enumerate(groups.shelves):
            mine = [Member(q, n) for n, q in active.items() if groups.home(n) == at]
            plan = plan_group(mine, {STREAM.name: STREAM})
            place = places[number % len(places)]
            result = run_epoch(root, f"g{at}", shelf.partitioning, plan, epoch, shelf.references, place)
            assert result.metrics.get("own_worker", 0) == (
                place is Place.OWN_WORKER and bool(result.operators)
            )
            assert not result.failures
            epoch_rows += result_rows(root, result, {n: n for n in active})
            shelf.references = result.segments
            seen.update(segment.path for segment in result.segments)
        found.append(epoch_rows)
        closed = watermark
    return found, groups, seen


BY_TURNS = (Place.SPARK, Place.OWN_WORKER, Place.OWN_WORKER)


@pytest.mark.parametrize("seed", seeds(1))
def test_jobs_give_the_same_rows_wherever_they_run_and_however_keys_and_queries_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    print(f"seed {seed}")
    monkeypatch.setattr(job, "OWN_WORKER", SimpleNamespace(run=run_chain))
    alone, _, _ = life(tmp_path / "alone", seed, changes=False)
    assert sum(map(len, alone)) > 50
    by_turns, _, _ = life(tmp_path / "turns", seed, changes=True, places=BY_TURNS)
    assert by_turns == alone
    monkeypatch.setattr(job, "LARGE_BYTES", 0)  # every blob goes through a file
    moved, groups, segments = life(tmp_path / "moved", seed, changes=True)
    assert [sum(rows.values()) for rows in moved] == [sum(rows.values()) for rows in alone]
    assert moved == alone and groups.moves > 5
    for group in ("g0", "g1"):
        assert any(path.startswith(segments_dir(group)) for path in segments)
        assert not list((tmp_path / "moved" / handover_dir(group)).iterdir())


def test_a_repartitioned_file_is_named_by_both_until_it_is_absorbed(tmp_path: Path) -> None:
    rng = random.Random(5)
    body = random_query(rng, 1).plan.body
    assert isinstance(body, Aggregation)
    query = replace(body, keys=(OPERANDS["k"],), where=TRUE, window=Window(90, 90))
    member = Member(Query(QueryId(1), "q", QueryPlan("", (STREAM.name,), query, (), "", "")), 1)
    plan = plan_group([member], {STREAM.name: STREAM})
    rows = [{"k": k, "ts": 1} for k in range(500)]
    chunk = write_chunk(tmp_path, "log/s", pa.Table.from_pylist(rows, schema=SCHEMA), "ts", 0)
    first = Epoch(EpochId(0), (StreamEpoch(STREAM.name, (chunk,), NEVER_US, 0),))
    one = run_epoch(tmp_path, "main", even_partitioning(1), plan, first, [])
    (file,) = one.segments
    assert not file.narrowed
    # level 0 would be absorbed at once: make it an old one
    old = replace(file, level=3)
    second = Epoch(EpochId(1), (StreamEpoch(STREAM.name, (chunk,), 0, 0),))
    four = run_epoch(tmp_path, "main", even_partitioning(4), plan, second, [old])
    parts = [s for s in four.segments if s.path == file.path]
    assert len(parts) == 4 and all(part.narrowed and part.level == 3 for part in parts)
    assert sorted(g for part in parts for low, high in part.key_groups for g in range(low, high)) == list(
        range(256)
    )
    (id_,) = four.operators
    assert four.operators[id_].state_bytes == sum({s.path: s.bytes for s in four.segments}.values())
    last = Epoch(EpochId(2), (StreamEpoch(STREAM.name, (), 0, FOREVER_US),))
    done = run_epoch(tmp_path, "main", random_partitioning(rng), plan, last, four.segments)
    assert done.rows == QueryCounts.of([1], [500]) and not done.segments


@pytest.mark.parametrize("window", [Window(90, 90), SessionWindow(5)])
def test_tasks_tell_which_key_groups_their_work_was_for(
    tmp_path: Path, window: Window | SessionWindow
) -> None:
    body = random_query(random.Random(2), 1).plan.body
    assert isinstance(body, Aggregation)
    query = replace(body, keys=(OPERANDS["k"],), where=TRUE, window=window)
    member = Member(Query(QueryId(1), "q", QueryPlan("", (STREAM.name,), query, (), "", "")), 1)
    plan = plan_group([member], {STREAM.name: STREAM})
    keys = [*range(40), *[7] * 3000]
    rows = [{"k": k, "ts": 1} for k in keys]
    chunk = write_chunk(tmp_path, "log/s", pa.Table.from_pylist(rows, schema=SCHEMA), "ts", 0)
    epoch = Epoch(EpochId(0), (StreamEpoch(STREAM.name, (chunk,), NEVER_US, 0),))
    result = run_epoch(tmp_path, "main", even_partitioning(3), plan, epoch, [])
    busy = key_groups_of_integers(np.array(keys))
    assert set(result.key_seconds) == set(busy.tolist())
    (spent,) = result.operators.values()
    assert sum(result.key_seconds.values()) == pytest.approx(spent.reduce_seconds)
    alone = run_epoch(tmp_path, "main", even_partitioning(1), plan, epoch, [])
    assert not alone.key_seconds, "one task has everything in any case"


def test_metrics_tell_what_operators_and_queries_cost(tmp_path: Path) -> None:
    rng = random.Random(3)
    members = [Member(mixed_query(rng, n), n) for n in range(1, 15)]
    plan = plan_group(members, {STREAM.name: STREAM})
    rows = [{c.name: random_value(rng, c.name) for c in STREAM.columns} | {"ts": 5} for _ in range(200)]
    chunk = write_chunk(tmp_path, "log/s", pa.Table.from_pylist(rows, schema=SCHEMA), "ts", 0)
    epoch = Epoch(EpochId(0), (StreamEpoch(STREAM.name, (chunk,), NEVER_US, FOREVER_US),))
    result = run_epoch(tmp_path, "main", even_partitioning(2), plan, epoch, [])
    assert set(result.operators) == {operator.id for operator in plan.operators}
    from brute import truth

    for operator in plan.operators:
        spent = result.operators[operator.id]
        assert spent.tuples == 200 and spent.map_seconds > 0
        assert (spent.shuffled_bytes > 0) == (operator_kind(operator).stages(operator, False) > 0)
        assert spent.rows == result.rows.only(operator.queries)
    for member in members:
        body = member.query.plan.body
        assert isinstance(body, Aggregation | Projection)
        accepted = sum(truth(body.where, row) is True for row in rows)
        found = [spent.matched.get(member.query.id) for spent in result.operators.values()]
        assert sum(found) == accepted, member.query
    assert result.metrics["bytes_shuffled"] == sum(o.shuffled_bytes for o in result.operators.values())
    clocks = result.metrics
    assert 0 < clocks["read_cpu"] < clocks["map_cpu"] and 0 < clocks["closing_cpu"] < clocks["reduce_cpu"]


@pytest.mark.parametrize("seed", range(2))
def test_a_plan_that_is_let_go_needs_no_garbage_collector(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers keep plans out of the collector's sight, once for each plan."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    queries = [mixed_query(rng, n) for n in range(1, 12)]
    plan = plan_group([Member(query, n) for n, query in enumerate(queries)], {STREAM.name: STREAM})
    rows = [{c.name: random_value(rng, c.name) for c in STREAM.columns} | {"ts": 5} for _ in range(50)]
    chunk = write_chunk(tmp_path, "log/s", pa.Table.from_pylist(rows, schema=SCHEMA), "ts", 0)
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    for number, task in enumerate((None, ATTEMPT, ATTEMPT)):
        monkeypatch.setattr(TaskContext, "get", lambda task=task: task)
        if number == 1:
            prepared_plan.cache_clear()
        epoch = Epoch(EpochId(number), (StreamEpoch(STREAM.name, (chunk,), NEVER_US, FOREVER_US),))
        run_epoch(tmp_path, "main", even_partitioning(1), plan, epoch, [])
    assert len(frozen) == 1, "in Spark's workers only, and only when a plan is made ready"
    found = prepared_plan(str(tmp_path), plan_path("main", plan.version))
    logic = [weakref.ref(one) for one in found.logic.values()]
    gc.collect()
    gc.disable()
    try:
        del found
        prepared_plan.cache_clear()
        assert logic and not any(one() for one in logic)
    finally:
        gc.enable()


def test_messages_come_back() -> None:
    task = EpochTask("r", "main", "p", 3, even_partitioning(3), {"s": NEVER_US}, {"s": 5}, "a", "h")
    segment = SegmentFile("o", "path", 1, 0, 9, 7, ((0, 3), (5, 9)), True, (1, 2))
    control = Control(task, 1, (("o",), ("p", "q")), (segment,))
    assert decode_control(encode_control(control)) == control
    report = Report(
        (segment,),
        metrics=TaskMetrics(1.5, bytes_read=3),
        operators={
            "o": OperatorMetrics(
                tuples=3, matched=QueryCounts.of((1,), (2,)), rows=QueryCounts.of((1,), (5,))
            )
        },
        error=TaskError("engine", "CODE", "message", None, "hint"),
    )
    assert decode_report(encode_report(report)) == report
    with pytest.raises(TypeError, match="a Control"):
        decode_report(encode_control(control))


def test_counts_of_older_versions_are_read() -> None:
    """They were JSON objects by query."""
    counts = QueryCounts.of([7, 300], [2**40, 1])
    now = replace(no_commit("g"), rows=counts, operators={"o": OperatorMetrics(matched=counts)})
    assert codec.loads(codec.dumps(now)) == now
    before = codec.to_json(now)
    before["rows"] = before["operators"]["o"]["matched"] = {"300": 1, "7": 2**40}
    assert codec.from_json(before) == now


def test_selections_alone_have_one_stage_with_nothing_in_it() -> None:
    assert reduce_stages([], False) == [[]]
