"""The audit: plain Spark over the same tuples, compared row by row with what the query delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.queries import QueryEntry
from headrace.engine.errors import spark_reason
from headrace.engine.fallback import run_log_sql
from headrace.engine.files import check_results
from headrace.engine.logview import LogIndex
from headrace.engine.records import ResultFile
from headrace.health import SourceHealth
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.query import Fallback, Join, Stream
from headrace.model.window import SessionWindow, Window
from headrace.results.compare import compare_rows
from headrace.results.rounding import input_scale, rounding_noise
from headrace.results.view import query_frame, readable

SHOWN = 20


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found. `missing` and `unexpected` hold the first differing rows as dicts.

    `note` says what part of the query's life was compared, when it was not all of it. `error` is why the query was
    quarantined: such a query is never ok, because plain Spark would have gone on or failed, and its rows end early.
    `inputs` tells, for each stream of the query, what was taken in and what was not: rows that are in no log cannot
    differ.
    `verbatim` says that plain Spark ran the query's own text; otherwise it ran a rendering of how Headrace reads it.
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
    error: str | None = None
    inputs: tuple[SourceHealth, ...] = ()
    verbatim: bool = True

    @property
    def differs(self) -> bool:
        """Whether rows are missing or unexpected in what was compared."""
        return bool(self.missing_rows or self.unexpected_rows)

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  input of {source}" for source in self.inputs)])

    @property
    def verdict(self) -> str:
        """The comparison in one line."""
        if self.ok:
            how = "" if self.verbatim else ", which ran a rendering of the query"
            return f"{self.query}: ok, {self.actual_rows} rows equal plain Spark's{how}"
        if self.error is not None and not self.differs:
            equal = f"the {self.actual_rows} rows it delivered before equal plain Spark's"
            return f"{self.query}: QUARANTINED ({self.error}); {equal}"
        return (
            f"{self.query}: DIFFERS from plain Spark: {self.missing_rows} rows missing, "
            f"{self.unexpected_rows} unexpected ({self.expected_rows} expected, {self.actual_rows} found)"
        )


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a query's life that log and results still cover.

    Tuples of epochs [first, last) against rows delivered from epoch `delivered` on, for windows that end in
    (after_us, until_us], and for sessions that start after `began_us`.
    """

    first: int
    last: int
    delivered: int
    after_us: int
    until_us: int
    note: str | None
    began_us: int = NEVER_US


def audit_query(
    spark: SparkSession,
    root: Path,
    streams: Sequence[Stream],
    entry: QueryEntry,
    files: Sequence[ResultFile],
    sealer: Sealer,
    index: LogIndex,
    committed: int,
    expired: int,
    whole_after_us: int | None = None,
) -> AuditReport:
    """Run the query by plain Spark over its lifetime and compare as multisets. Costs a full read of both.

    Windows that end by `whole_after_us` are not shown any more.
    """
    span = audit_span(entry, streams, sealer, committed, expired)
    query = entry.query
    if span is None:
        note = "the query has not been active in any epoch yet"
        if entry.error is not None:
            note = "the query was quarantined in its first epoch"
        return AuditReport(query.name, entry.error is None, 0, 0, (), (), 0, 0, note, entry.error)
    after_us = max(span.after_us, NEVER_US if whole_after_us is None else whole_after_us)
    ends = (after_us, span.until_us)
    try:
        epochs = (span.first, span.last)
        plain = run_log_sql(spark, root, streams, index, query, epochs, ends, span.began_us)
        expected = list(_rows(plain))
        check_results(root, files)
        view = query_frame(
            spark,
            root,
            {str(stream.name): stream for stream in streams},
            entry,
            files,
            until_us=span.until_us,
            after_us=after_us,
            first_epoch=span.delivered,
            began_us=span.began_us,
        )
        actual = list(_rows(view))
        missing, unexpected = compare_rows(expected, actual)
        if missing and unexpected:  # perhaps only what is left of terms that cancel
            noise = rounding_noise(query.plan.log_sql, input_scale(spark, streams, query.plan.log_sql))
            missing, unexpected = compare_rows(missing, unexpected, noise)
    except HeadraceError:
        raise
    except Exception as error:
        raise EngineError(
            "AUDIT_FAILED", f"query `{query.name}` could not be audited", detail=spark_reason(error)
        ) from error
    names = [column.name for column in query.plan.columns]
    return AuditReport(
        query=query.name,
        ok=not missing and not unexpected and entry.error is None,
        expected_rows=len(expected),
        actual_rows=len(actual),
        missing=tuple(dict(zip(names, row, strict=True)) for row in missing[:SHOWN]),
        unexpected=tuple(dict(zip(names, row, strict=True)) for row in unexpected[:SHOWN]),
        missing_rows=len(missing),
        unexpected_rows=len(unexpected),
        note=span.note,
        error=entry.error,
        verbatim=query.plan.verbatim,
    )


def audit_span(
    entry: QueryEntry, streams: Sequence[Stream], sealer: Sealer, committed: int, expired: int
) -> Span | None:
    """What to compare; None when the query never ran. Raises when the log holds nothing of its life any more.

    Results of epochs up to `expired` may be gone, and so may the log before its first epoch. A window counts when all
    that it was made of is still there: tuples of expired epochs have event times up to the watermark then plus the
    delay.
    """
    if entry.first_epoch is None:
        return None
    begin = int(entry.first_epoch)
    last = min(committed + 1, committed + 1 if entry.last_epoch is None else int(entry.last_epoch))
    if last <= begin:
        return None
    first = max(begin, sealer.first)
    if last <= first:
        raise log_expired(entry, last, first)
    names = [stream.name for stream in streams]
    until = _watermark(sealer, last, names)
    if first == begin and expired < begin:
        return Span(first, last, first, NEVER_US, until, None)
    delivered = min(max(first, expired + 1), last)
    window = entry.query.plan.window
    note = f"only what log and results still hold was compared: from epoch {delivered} on"
    if window is None:
        return Span(delivered, last, delivered, NEVER_US, until, note)
    after = _watermark(sealer, delivered, names)
    began = NEVER_US
    whole = delivered if isinstance(entry.query.plan.body, Join) else first
    for stream in streams if whole > begin else ():  # joined rows are stored long before their windows close
        if (before := _watermark(sealer, whole, [stream.name])) not in (NEVER_US, FOREVER_US):
            match window:
                case Window(range_us):
                    after = max(after, before + stream.watermark_us + range_us)
                    if (ahead := _ahead(sealer, whole, stream, until)) is not None:
                        after = max(after, ahead + range_us)
                case SessionWindow(gap_us) if isinstance(entry.query.plan.body, Fallback):
                    raise log_expired(entry, last, first)
                case SessionWindow(gap_us):
                    began = before + stream.watermark_us + gap_us
                    if (ahead := _ahead(sealer, whole, stream, until)) is not None:
                        began = max(began, ahead + gap_us)
    if isinstance(
        entry.query.plan.body, Fallback
    ):  # its rows tell when they were delivered, not their window
        while delivered < last and _watermark(sealer, delivered, names) < after:
            delivered += 1
        after = max(after, _watermark(sealer, delivered, names))
    return Span(first, last, delivered, after, until, note, began)


def log_expired(entry: QueryEntry, last: int, first: int) -> EngineError:
    return EngineError(
        "AUDIT_LOG_EXPIRED",
        f"query `{entry.query.name}` ended in epoch {last}, the log begins in {first}",
        hint="audit sooner, or open the warehouse with a longer log_retention",
    )


def _watermark(sealer: Sealer, epoch: int, streams: Sequence[str]) -> int:
    """The watermark of a query over these streams before an epoch, which need not be sealed itself."""
    latest = sealer.latest
    if latest is not None and epoch <= latest.id:
        return sealer.epoch(epoch).closed_us(streams)
    return sealer.epoch(epoch - 1).watermark_us(streams)


def _ahead(sealer: Sealer, epoch: int, stream: Stream, until: int) -> int | None:
    """The latest event time that did not move the watermark by an epoch, where windows that end by `until` may hold one
    of these.
    """
    latest = sealer.latest
    part = sealer.epoch(min(epoch, int(latest.id))).of(stream.name) if latest is not None else None
    ahead_us = None if part is None else part.oddities.ahead_us
    return ahead_us[1] if ahead_us is not None and ahead_us[0] < until else None


def _rows(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    table = readable(frame).toDF(*(f"c{i}" for i in range(len(frame.columns)))).toArrow()
    return zip(*map(_values, table.columns), strict=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; moments beyond the years that Python knows stay Arrow scalars, which can be compared."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar
