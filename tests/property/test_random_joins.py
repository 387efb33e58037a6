"""Random joins equal what plain Spark gives over the same tuples, by SQL that does not come from Headrace."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from generate_joins import DDL, DELAY_US, NAMES, SCHEMA, Joined, JoinScenario, random_joins
from harness import Rows, rows_of
from pyspark.sql.types import StructType

from forced import forced_choice
from headrace.model.errors import HeadraceError
from headrace.model.grouping import MAIN
from headrace.model.strategy import Strategy
from headrace.planner.strategies import possible_strategies
from headrace.results.compare import compare_rows

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("HEADRACE_PROPERTY_QUERIES", "20"))
ROUNDS = int(os.environ.get("HEADRACE_PROPERTY_ROUNDS", "1"))
FIRST = int(os.environ.get("HEADRACE_PROPERTY_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_random_joins_equal_spark(seed: int, spark: Any, open_session: Callable[..., Any]) -> None:
    print(f"HEADRACE_PROPERTY_SEED={seed}")
    scenario = random_joins(seed, QUERIES)
    hr, steps, problems = _play(scenario, open_session)
    problems += _judge_all(hr, scenario, _Oracle(spark, hr, scenario, steps))
    shared = sum(info.shared for info in hr.queries())
    print(f"{len(scenario.queries)} joins, {shared} shared")
    assert not problems, "\n\n".join(problems)
    assert shared > len(scenario.queries) // 3


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_strategies_that_change_at_random_give_the_same_rows(
    seed: int, spark: Any, open_session: Callable[..., Any]
) -> None:
    """Products and joined groups turn into each other between epochs, while windows are open."""
    print(f"HEADRACE_PROPERTY_SEED={seed}")
    rng = random.Random(seed)
    chosen: dict[int, Strategy] = {}
    moved: Counter[Strategy] = Counter()
    both = (Strategy.PRODUCT, Strategy.JOINED_GROUPS)

    def change(hr: Any) -> None:
        changed = {}
        group = hr._running.groups.get(MAIN)
        for entry in hr._catalog.active_entries(max(group.commit.epoch, 0), MAIN):
            if possible_strategies(entry.query.plan.body) == both:
                before = chosen.setdefault(entry.query.id, Strategy.PRODUCT)
                if rng.random() < 0.5:
                    chosen[entry.query.id] = both[1 - both.index(before)]
                    changed[entry.query.id] = forced_choice(entry.query, chosen[entry.query.id])
                    moved[chosen[entry.query.id]] += 1
        group.change_strategies(changed)

    scenario = random_joins(seed, QUERIES // 2, by_key=True)
    hr, steps, problems = _play(scenario, open_session, change)
    problems += _judge_all(hr, scenario, _Oracle(spark, hr, scenario, steps))
    print(f"{len(scenario.queries)} joins, {len(chosen)} of them by their key, changed to {dict(moved)}")
    assert not problems, "\n\n".join(problems)
    assert len(chosen) >= 4 and set(moved) == set(both)
    running = hr._delivered.commit_of(MAIN).strategies.by_query()
    assert {query: choice.strategy for query, choice in running.items()}.items() <= chosen.items()


def _judge_all(hr: Any, scenario: JoinScenario, oracle: _Oracle) -> list[str]:
    problems = []
    for query in sorted(scenario.queries, key=lambda query: (query.first, query.last)):
        problem = _judge(hr, query, oracle)
        if problem is not None:
            problems.append(f"{query.name} in [{query.first}, {query.last}): {problem}\n  {query.text}")
    return problems


def _play(
    scenario: JoinScenario, open_session: Callable[..., Any], before: Callable[[Any], None] | None = None
) -> tuple[Any, dict[int, int], list[str]]:
    """(the session, the step that each sealed epoch was, what went wrong); `before` is called before each step."""
    hr, steps = open_session(), {}
    problems = []
    for name in NAMES:
        hr.create_stream(name, DDL, event_time="ts", watermark=f"{DELAY_US} microseconds")
    for epoch in range(scenario.epochs):
        if epoch in scenario.reopens:
            hr.close()
            hr = open_session(rebuild=scenario.rebuilds)
        known = {info.name for info in hr.queries()}
        for query in scenario.queries:
            if query.first == epoch:
                try:
                    hr.create_query(query.text, name=query.name)
                except HeadraceError as error:
                    problems.append(f"{query.name}: {error}\n  {query.text}")
            elif query.last == epoch and query.name in known:
                hr.drop_query(query.name)
        for name in NAMES:
            if scenario.tables[name][epoch].num_rows:
                hr.append(name, scenario.tables[name][epoch])
        last = -1 if hr._sealer.latest is None else int(hr._sealer.latest.id)
        if before is not None:
            before(hr)
        hr.run_available()
        steps |= dict.fromkeys(range(last + 1, int(hr._sealer.latest.id) + 1), epoch)
    return hr, steps, problems


class _Oracle:
    """Plain Spark over the tuples of a lifetime, each with the watermarks before its epoch."""

    def __init__(self, spark: Any, hr: Any, scenario: JoinScenario, steps: dict[int, int]) -> None:
        self._spark, self._hr, self._scenario, self._steps = spark.newSession(), hr, scenario, steps
        self._spark.conf.set("spark.sql.session.timeZone", "UTC")
        self._shown: tuple[int, int] | None = None

    def rows(self, query: Joined, first: int, last: int) -> Rows:
        if self._shown != (first, last):
            for name in NAMES:
                self._show(name, first, last)
            self._shown = (first, last)
        until = self._hr._sealer.epoch(last - 1).watermark_us(query.streams)
        return rows_of(self._spark.sql(query.oracle, args={"until": until}))

    def _show(self, name: str, first: int, last: int) -> None:
        marked = SCHEMA
        for column in (*(f"closed_{mark}" for mark in NAMES), "t_us"):
            marked = marked.append(pa.field(column, pa.int64()))
        pieces = [marked.empty_table()]
        for epoch in self._hr._sealer.epochs(first, last):
            table = self._scenario.tables[name][self._steps[epoch.id]]
            times = table.column("ts").cast(pa.int64())
            for mark in NAMES:
                closed = pa.array([epoch.of(mark).closed_us] * table.num_rows, pa.int64())
                table = table.append_column(f"closed_{mark}", closed)
            pieces.append(table.append_column("t_us", times))
        ddl = f"{DDL}, {', '.join(f'closed_{mark} BIGINT' for mark in NAMES)}, t_us BIGINT"
        whole = pa.concat_tables(pieces).combine_chunks()  # PySpark loses what follows an empty chunk
        frame = self._spark.createDataFrame(whole, StructType.fromDDL(ddl))
        frame.coalesce(1).createOrReplaceTempView(f"log_{name}")


def _judge(hr: Any, query: Joined, oracle: _Oracle) -> str | None:
    if query.name not in {info.name for info in hr.queries()}:
        return None
    handle = hr.query(query.name)
    entry = handle._entry()
    if entry.error is not None:
        return f"quarantined: {entry.error}"
    last = hr._sealer.latest.id + 1 if entry.last_epoch is None else int(entry.last_epoch)
    expected = oracle.rows(query, int(entry.first_epoch), last)
    missing, unexpected = compare_rows(expected, rows_of(handle.results()))
    if missing or unexpected:
        return (
            f"{len(missing)} missing, {len(unexpected)} unexpected of {len(expected)}\n  missing {missing[:3]}\n"
            f"  unexpected {unexpected[:3]}\n{handle.explain()}"
        )
    report = handle.audit()
    return None if report.ok else str(report)


def test_the_schema_is_what_the_streams_say() -> None:
    assert [field.name for field in SCHEMA] == [part.split()[0] for part in DDL.split(", ")]
