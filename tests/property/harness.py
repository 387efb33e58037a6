"""Runs a scenario through Headrace and through plain Spark, and says where they differ."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from generate import FOREVER, Lived, Scenario, Step
from generate_values import RandomStream
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import HeadraceError, SqlError
from headrace.model.window import AnyWindow, SessionWindow
from headrace.results.compare import compare_rows
from interpreted import COMPILED, INTERPRETED, set_all

ORACLE = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true", **INTERPRETED}

AUDIT_EVERY = 3
"""Of the queries that plain Spark has confirmed already, so many are audited as well; the others all are."""

Rows = list[tuple[Any, ...]]
Opens = Callable[..., Any]
"""Opens the scenario's warehouse, with the options given."""


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
        self.spark, self._compiling = spark.newSession(), spark.newSession()
        set_all(self.spark, ORACLE)
        set_all(self._compiling, ORACLE | COMPILED)

    def frame(self, stream: RandomStream, tables: Iterable[pa.Table]) -> DataFrame:
        table = pa.concat_tables([*tables, stream.schema.empty_table()])
        return self.spark.createDataFrame(table, stream.ddl).coalesce(1)

    def show(self, stream: RandomStream, tables: Iterable[pa.Table]) -> None:
        self._shown = (stream, list(tables))
        self.frame(*self._shown).createOrReplaceTempView(stream.name)

    def rows(self, sql: str, compiled: bool = False) -> Rows:
        """Spark's rows. What it raises may depend on whether it compiles: `compiled` is how people run it."""
        if not compiled:
            return rows_of(self.spark.sql(sql))
        stream, tables = self._shown
        table = pa.concat_tables([*tables, stream.schema.empty_table()])
        frame = self._compiling.createDataFrame(table, stream.ddl)
        frame.coalesce(1).createOrReplaceTempView(stream.name)
        return rows_of(self._compiling.sql(sql))

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


class Run:
    """A scenario under way. `compiled` runs epochs with Spark's code generation, as people do."""

    def __init__(self, opens: Opens, spark: SparkSession, scenario: Scenario, compiled: bool = False) -> None:
        self._opens, self.scenario, self._compiled = opens, scenario, compiled
        self.verdict, self.oracle = Verdict(), Oracle(spark)
        self._rng = random.Random(scenario.seed)
        self.hr = self._open()

    def _open(self) -> Any:
        hr = self._opens(**self.scenario.options)
        for session in (hr._reader, hr._auditor):
            set_all(session, INTERPRETED)
        jobs = COMPILED | {"spark.sql.adaptive.enabled": "false"} if self._compiled else INTERPRETED
        set_all(hr._running.groups.spark, jobs)
        return hr

    def play(self) -> None:
        """Run all epochs."""
        for stream in self.scenario.streams:
            delay = f"{stream.delay_us} microseconds"
            self.hr.create_stream(stream.name, stream.ddl, event_time=stream.event_time.name, watermark=delay)
            self.oracle.show(stream, ())
        for epoch in range(self.scenario.epochs):
            if epoch in self.scenario.reopens:
                self.hr.close()
                self.hr = self._open()
            self._step(epoch)

    def _step(self, epoch: int) -> None:
        scenario = self.scenario
        for stream in scenario.streams:
            for table in scenario.steps[stream.name][epoch].tables:
                self.hr.append(stream.name, self._given(stream, table))
            if epoch == scenario.epochs - 1 and stream.name in scenario.closes:
                self.hr.close_stream(stream.name)
        known = {info.name for info in self.hr.queries()}
        for lived in scenario.queries:
            if lived.first == epoch:
                self._create(lived)
            elif lived.last == epoch and lived.name in known:
                self.hr.drop_query(lived.name)
        self.hr.run_available()

    def _given(self, stream: RandomStream, table: pa.Table) -> Any:
        """The table as one of the things that `append` takes."""
        match self._rng.randrange(8):
            case 0:
                return table.to_pylist()
            case 1:
                return self.oracle.frame(stream, [table])
            case _:
                return table

    def _create(self, lived: Lived) -> None:
        text = lived.query.text
        try:
            self.hr.create_query(text, name=lived.name)
        except SqlError as error:
            if not {"[RANGE", "[SESSION"} & set(text.split()) and self.oracle.refuses(text):
                self.verdict.refused += 1
            else:
                self.verdict.differences.append(f"{lived.name}: refused: {error}\n  {text}")
        except Exception as error:
            self.verdict.differences.append(f"{lived.name}: cannot be created: {error!r}\n  {text}")


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
                problem = _judge(query, info, lived, steps, scenario, verdict, oracle)
            except HeadraceError as error:
                problem = f"{error.render()} {error.__cause__!r}"[:2000]
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"[:2000]
            if problem is not None:
                explained = query.explain()
                where = f"{lived.name} in epochs [{first}, {last}) {info.state}"
                verdict.differences.append(f"{where}: {problem}\n  {lived.query.text}\n{explained}")


def _judge(
    query: Any,
    info: Any,
    lived: Lived,
    steps: tuple[Step, ...],
    scenario: Scenario,
    verdict: Verdict,
    oracle: Oracle,
) -> str | None:
    plan = query._entry().query.plan
    whole_steps = scenario.max_epoch_rows is None
    comparable = not lived.query.windowed or (whole_steps and not late_for(plan.window, steps, lived.stream))
    try:
        expected = oracle.rows(plan.plain_sql, compiled=lived.query.risky)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        if info.error is None:
            return None if not comparable else f"plain Spark fails, Headrace does not: {reason}"
        verdict.quarantined += 1
        return None if not query.audit().differs else "what came before the failure differs from plain Spark"
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


def late_for(window: AnyWindow, steps: tuple[Step, ...], stream: RandomStream) -> bool:
    """Whether some window had closed before a tuple of it came, or may have, if it is a session."""
    seen: list[int] = []
    for step in steps:
        for table in step.tables:
            times = table.column(stream.event_time.name).cast(pa.int64()).drop_null().to_pylist()
            if isinstance(window, SessionWindow):
                left, gap = [time for time in seen if time + window.gap_us <= step.closed_us], window.gap_us
                late = (t + gap <= step.closed_us or any(t <= x + gap for x in left) for t in times)
                seen += times
            else:
                late = (window.starts_of(time)[0] + window.range_us <= step.closed_us for time in times)
            if any(late):
                return True
    return False


def _micros(end: Any) -> int:
    """The end of a window in a row: a timestamp, or the window itself."""
    moment = end["end"] if isinstance(end, dict) else end
    return pa.scalar(moment, pa.timestamp("us", None if moment.tzinfo is None else "UTC")).value


def check(opens: Opens, spark: SparkSession, scenario: Scenario, compiled: bool = False) -> Verdict:
    """The whole of it: run, compare, audit."""
    run = Run(opens, spark, scenario, compiled)
    run.play()
    judge(run.hr, scenario, run.verdict, run.oracle)
    return run.verdict
