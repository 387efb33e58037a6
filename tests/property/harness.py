"""Runs a scenario through Headrace and through plain Spark, and says where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from generate import FOREVER, Lived, Scenario, Step
from generate_values import RandomStream
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.catalog.queries import QueryState
from headrace.model.errors import HeadraceError, SqlError
from headrace.model.window import Window
from headrace.results.compare import compare_rows

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
ORACLE = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true", **INTERPRETED}

AUDIT_EVERY = 3
"""Of the queries that plain Spark has confirmed already, so many are audited as well; the others all are."""

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class Verdict:
    """What a run showed. `differences` are texts for people; empty when all is well."""

    compared: int = 0
    audited: int = 0
    quarantined: int = 0
    refused: int = 0
    rows: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.compared} compared with plain Spark, {self.audited} audited, {self.quarantined} quarantined as "
            f"Spark fails, {self.refused} refused as Spark refuses, {self.rows} rows"
        )


class Oracle:
    """Plain Spark in a session of its own, over exactly the tuples it is given."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark.newSession()
        for key, value in ORACLE.items():
            self.spark.conf.set(key, value)

    def show(self, stream: RandomStream, tables: Iterable[pa.Table]) -> None:
        table = pa.concat_tables([*tables, stream.schema.empty_table()])
        frame = self.spark.createDataFrame(table, StructType.fromDDL(stream.ddl))
        frame.coalesce(1).createOrReplaceTempView(stream.name)

    def rows(self, sql: str) -> Rows:
        return rows_of(self.spark.sql(sql))

    def refuses(self, sql: str) -> bool:
        try:
            self.spark.sql(sql)
        except PySparkException:
            return True
        return False


def rows_of(frame: DataFrame) -> Rows:
    table = frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).toArrow()
    return (
        list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []
    )


def play(
    hr: Any, scenario: Scenario, verdict: Verdict, oracle: Oracle, until: int | None = None
) -> Iterator[int]:
    """Run the epochs, yielding each one's number after it has run."""
    for stream in scenario.streams:
        hr.create_stream(
            stream.name,
            stream.ddl,
            event_time=stream.event_time.name,
            watermark=f"{stream.delay_us} microseconds",
        )
        oracle.show(stream, ())
    for epoch in range(scenario.epochs):
        for stream in scenario.streams:
            for table in scenario.steps[stream.name][epoch].tables:
                hr.append(stream.name, table)
            if epoch == scenario.epochs - 1 and stream.name in scenario.closes:
                hr.close_stream(stream.name)
        for lived in scenario.queries:
            if lived.first == epoch:
                _create(hr, lived, verdict, oracle)
            if lived.last == epoch and lived.name in {info.name for info in hr.queries()}:
                hr.drop_query(lived.name)
        hr.run_available()
        yield epoch


def _create(hr: Any, lived: Lived, verdict: Verdict, oracle: Oracle) -> None:
    try:
        hr.create_query(lived.query.text, name=lived.name)
    except SqlError as error:
        if "[RANGE" not in lived.query.text and oracle.refuses(lived.query.text):
            verdict.refused += 1
        else:
            verdict.differences.append(f"{lived.name}: refused: {error}\n  {lived.query.text}")
    except Exception as error:
        verdict.differences.append(f"{lived.name}: cannot be created: {error!r}\n  {lived.query.text}")


def judge(hr: Any, scenario: Scenario, verdict: Verdict, oracle: Oracle) -> None:
    """Compare every query with plain Spark over its lifetime, and audit it."""
    known = {info.name: info for info in hr.queries()}
    lifetimes: dict[tuple[str, int, int], list[Lived]] = {}
    for lived in scenario.queries:
        if lived.name in known:
            lifetimes.setdefault((lived.stream.name, lived.first, lived.last), []).append(lived)
    for (_, first, last), members in lifetimes.items():
        stream = members[0].stream
        steps = scenario.steps[stream.name][first:last]
        oracle.show(stream, (table for step in steps for table in step.tables))
        for lived in members:
            info, query = known[lived.name], hr.query(lived.name)
            try:
                problem = _judge(query, info, lived, steps, verdict, oracle)
            except HeadraceError as error:
                problem = f"{error.render()} {error.__cause__!r}"[:2000]
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"[:2000]
            if problem is not None:
                explained = query.explain()
                where = f"{lived.name} in epochs [{first}, {last}) {info.state}"
                verdict.differences.append(f"{where}: {problem}\n  {lived.query.text}\n{explained}")


def _judge(
    query: Any, info: Any, lived: Lived, steps: tuple[Step, ...], verdict: Verdict, oracle: Oracle
) -> str | None:
    plan = query._entry().query.plan
    comparable = not lived.query.windowed or not late_for(plan.window, steps, lived.stream)
    try:
        expected = oracle.rows(plan.plain_sql)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        if info.error is None:
            return None if not comparable else f"plain Spark fails, Headrace does not: {reason}"
        verdict.quarantined += 1
        return None if query.audit().ok else "what came before the failure differs from plain Spark"
    if info.error is not None:
        return f"quarantined, though plain Spark does not fail: {info.error}"
    final = steps[-1].watermark_us
    if lived.query.windowed and final != FOREVER:
        comparable = comparable and lived.query.ends is not None
        expected = [row for row in expected if comparable and _micros(row[lived.query.ends or 0]) <= final]
    if comparable:
        actual = rows_of(query.results())
        verdict.compared += 1
        verdict.rows += len(expected)
        missing, unexpected = compare_rows(expected, actual)
        if missing or unexpected:
            return (
                f"differs from plain Spark: {len(missing)} missing, {len(unexpected)} unexpected of {len(expected)}\n"
                f"  missing    {missing[:3]}\n  unexpected {unexpected[:3]}"
            )
        if verdict.compared % AUDIT_EVERY:
            return None
    report = query.audit()
    verdict.audited += 1
    if not report.ok:
        return f"{report}\n  missing    {report.missing[:3]}\n  unexpected {report.unexpected[:3]}"
    return None


def late_for(window: Window, steps: tuple[Step, ...], stream: RandomStream) -> bool:
    """Whether some window had closed before a tuple of it came."""
    for step in steps:
        for table in step.tables:
            times = table.column(stream.event_time.name).cast(pa.int64()).drop_null().to_pylist()
            if any(window.starts_of(time)[0] + window.range_us <= step.closed_us for time in times):
                return True
    return False


def _micros(end: Any) -> int:
    """The end of a window in a row: a timestamp, or the window itself."""
    moment = end["end"] if isinstance(end, dict) else end
    return pa.scalar(moment, pa.timestamp("us", None if moment.tzinfo is None else "UTC")).value


def check(hr: Any, spark: SparkSession, scenario: Scenario, compiled: bool = False) -> Verdict:
    """The whole of it: run, compare, audit. `compiled` runs epochs with Spark's code generation, as people do."""
    verdict, oracle = Verdict(), Oracle(spark)
    interpret(hr._reader, hr._auditor, *([] if compiled else [hr._runner.spark]))
    for _ in play(hr, scenario, verdict, oracle):
        pass
    judge(hr, scenario, verdict, oracle)
    return verdict


def interpret(*sessions: SparkSession) -> None:
    """Let these sessions interpret expressions: over few tuples that is several times as fast as compiling them."""
    for session in sessions:
        for key, value in INTERPRETED.items():
            session.conf.set(key, value)


__all__ = ["Oracle", "QueryState", "Verdict", "check", "judge", "play"]
