"""Random joins equal what plain Spark gives over the same tuples, by SQL that does not come from Headrace."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from generate_joins import DDL, DELAY_US, NAMES, SCHEMA, Joined, JoinScenario, random_joins
from harness import interpret, rows_of
from pyspark.sql.types import StructType

from headrace.model.errors import HeadraceError
from headrace.results.compare import compare_rows

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("HEADRACE_PROPERTY_QUERIES", "30"))
ROUNDS = int(os.environ.get("HEADRACE_PROPERTY_ROUNDS", "4"))
FIRST = int(os.environ.get("HEADRACE_PROPERTY_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_random_joins_equal_spark(seed: int, spark: Any, open_session: Callable[..., Any]) -> None:
    print(f"HEADRACE_PROPERTY_SEED={seed}")
    scenario = random_joins(seed, QUERIES)
    hr, problems = _play(scenario, open_session)
    shared = sum(info.shared for info in hr.queries())
    for query in scenario.queries:
        problem = _judge(spark, hr, scenario, query)
        if problem is not None:
            problems.append(f"{query.name} in [{query.first}, {query.last}): {problem}\n  {query.text}")
    print(f"{len(scenario.queries)} joins, {shared} shared")
    assert not problems, "\n\n".join(problems)
    assert shared > len(scenario.queries) // 3


def _play(scenario: JoinScenario, open_session: Callable[..., Any]) -> tuple[Any, list[str]]:
    hr = open_session()
    interpret(hr._reader, hr._auditor, hr._group.spark)
    problems = []
    for name in NAMES:
        hr.create_stream(name, DDL, event_time="ts", watermark=f"{DELAY_US} microseconds")
    for epoch in range(scenario.epochs):
        if epoch in scenario.reopens:
            hr.close()
            hr = open_session(rebuild=scenario.rebuilds)
            interpret(hr._reader, hr._auditor, hr._group.spark)
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
        hr.run_available()
    return hr, problems


def _judge(spark: Any, hr: Any, scenario: JoinScenario, query: Joined) -> str | None:
    if query.name not in {info.name for info in hr.queries()}:
        return None
    handle = hr.query(query.name)
    entry = handle._entry()
    if entry.error is not None:
        return f"quarantined: {entry.error}"
    epochs = list(
        hr._sealer.epochs(int(entry.first_epoch), int(entry.last_epoch or hr._sealer.latest.id + 1))
    )
    oracle = spark.newSession()
    interpret(oracle)
    oracle.conf.set("spark.sql.session.timeZone", "UTC")
    for name in NAMES:
        pieces = []
        for epoch in epochs:
            table = scenario.tables[name][epoch.id]
            times = table.column("ts").cast(pa.int64())
            marks = {n: pa.array([epoch.of(n).closed_us] * table.num_rows, pa.int64()) for n in NAMES}
            for mark, values in marks.items():
                table = table.append_column(f"closed_{mark}", values)
            pieces.append(table.append_column("t_us", times))
        ddl = f"{DDL}, {', '.join(f'closed_{n} BIGINT' for n in NAMES)}, t_us BIGINT"
        frame = oracle.createDataFrame(pa.concat_tables(pieces), StructType.fromDDL(ddl))
        frame.coalesce(1).createOrReplaceTempView(f"log_{name}")
    until = epochs[-1].watermark_us(query.streams)
    expected = rows_of(oracle.sql(query.oracle, args={"until": until}))
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
