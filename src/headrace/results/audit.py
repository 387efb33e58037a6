"""The audit: plain Spark over the same tuples, compared row by row with what the query delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.queries import QueryEntry
from headrace.engine.errors import spark_reason
from headrace.engine.fallback import run_log_sql
from headrace.engine.logview import LogIndex
from headrace.engine.records import ResultFile
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.errors import EngineError
from headrace.model.query import Fallback, Stream
from headrace.results.compare import compare_rows
from headrace.results.view import query_frame

SHOWN = 20


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found. `missing` and `unexpected` hold the first differing rows as dicts.

    `note` says what part of the query's life was compared, when it was not all of it.
    """

    query: str
    ok: bool
    expected_rows: int
    actual_rows: int
    missing: tuple[dict[str, Any], ...]
    unexpected: tuple[dict[str, Any], ...]
    missing_rows: int
    unexpected_rows: int
    note: str | None = None

    def __str__(self) -> str:
        if self.ok:
            return f"{self.query}: ok, {self.actual_rows} rows equal plain Spark's"
        return (
            f"{self.query}: DIFFERS from plain Spark: {self.missing_rows} rows missing, "
            f"{self.unexpected_rows} unexpected ({self.expected_rows} expected, {self.actual_rows} found)"
        )


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a query's life that log and results still cover."""

    first: int
    last: int
    after_us: int
    until_us: int
    note: str | None


def audit_query(
    spark: SparkSession,
    root: Path,
    stream: Stream,
    entry: QueryEntry,
    files: Sequence[ResultFile],
    sealer: Sealer,
    index: LogIndex,
    committed: int,
    expired_us: int,
) -> AuditReport:
    """Run the plain rendering over the query's lifetime and compare as multisets. Costs a full read of both."""
    span = audit_span(entry, stream, sealer, committed, expired_us)
    query = entry.query
    if span is None:
        return AuditReport(query.name, True, 0, 0, (), (), 0, 0, "the query has not been active in any epoch yet")
    ends = (span.after_us, span.until_us)
    try:
        plain = run_log_sql(spark, root, stream, index, query, (span.first, span.last), ends)
        expected = list(_rows(plain))
        view = query_frame(
            spark, root, stream, entry, files, after_us=span.after_us, first_epoch=span.first
        )
        actual = list(_rows(view))
    except Exception as error:
        raise EngineError(
            "AUDIT_FAILED", f"query `{query.name}` could not be audited", detail=spark_reason(error)
        ) from error
    missing, unexpected = compare_rows(expected, actual)
    names = [column.name for column in query.plan.columns]
    return AuditReport(
        query=query.name,
        ok=not missing and not unexpected,
        expected_rows=len(expected),
        actual_rows=len(actual),
        missing=tuple(dict(zip(names, row, strict=True)) for row in missing[:SHOWN]),
        unexpected=tuple(dict(zip(names, row, strict=True)) for row in unexpected[:SHOWN]),
        missing_rows=len(missing),
        unexpected_rows=len(unexpected),
        note=span.note,
    )


def audit_span(
    entry: QueryEntry, stream: Stream, sealer: Sealer, committed: int, expired_us: int
) -> Span | None:
    """Epochs and window ends to compare; None when the query never ran. Raises when nothing is left to compare."""
    if entry.first_epoch is None:
        return None
    last = min(committed + 1, committed + 1 if entry.last_epoch is None else entry.last_epoch)
    first = max(int(entry.first_epoch), sealer.first)
    if last <= entry.first_epoch:
        return None
    part = sealer.epoch(last - 1).of(stream.name)
    until = NEVER_US if part is None else part.watermark_us
    after, note = expired_us, None
    if first > entry.first_epoch:
        if isinstance(entry.query.plan.body, Fallback) or last <= first:
            raise EngineError(
                "AUDIT_LOG_EXPIRED",
                f"query `{entry.query.name}` began in epoch {entry.first_epoch}, the log begins in {first}",
                hint="audit sooner, or open the warehouse with a longer log_retention",
            )
        before = sealer.epoch(first).of(stream.name)
        closed = NEVER_US if before is None else before.closed_us
        window = entry.query.plan.window
        if closed not in (NEVER_US, FOREVER_US) and window is not None:
            after = max(after, closed + stream.watermark_us + window.range_us)
        note = f"only what the log still holds was compared: from epoch {first} on"
    return Span(first, last, after, until, note)


def _rows(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    table = frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).toArrow()
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
