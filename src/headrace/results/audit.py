"""The audit: plain Spark over the same tuples, compared row by row with what the query delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.catalog.queries import QueryEntry
from headrace.engine.delivered import QueryView
from headrace.engine.errors import spark_reason
from headrace.engine.fallback import run_log_sql
from headrace.engine.files import check_results
from headrace.engine.logview import LogReader, LogSpan
from headrace.engine.stored import ResultReader
from headrace.health import SourceHealth
from headrace.log.seal import Sealer
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.query import Fallback, Join, Query, Stream
from headrace.model.tables import numbered_columns
from headrace.model.window import SessionWindow, Window
from headrace.results.buckets import LARGE_ROWS, Difference, Settle, can_be_hashed, compare_large
from headrace.results.compare import Row, compare_rows
from headrace.results.rounding import input_scale, rounding_noise
from headrace.results.view import Excerpt, query_frame, readable

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

    def __repr__(self) -> str:
        return f"<audit of {self}>"

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
    """The time of a query's life that log and results still cover.

    What plain Spark makes of `log` is compared with the rows of the same windows that were delivered from epoch
    `delivered` on.
    """

    log: LogSpan
    delivered: int
    note: str | None = None

    def after(self, end_us: int | None) -> Span:
        """The same without the windows that end by then."""
        if end_us is None or end_us <= self.log.after_us:
            return self
        return replace(self, log=replace(self.log, after_us=end_us))


def audit_query(log: LogReader, sealer: Sealer, entry: QueryEntry, view: QueryView) -> AuditReport:
    """Run the query by plain Spark over its lifetime and compare as multisets. Costs a full read of both.

    Windows that end by `view.after_us` are not shown any more, so they are not compared.
    """
    query = entry.query
    streams = [log.streams[name] for name in query.plan.streams]
    span = audit_span(entry, streams, sealer, view.cursor, view.expired)
    if span is None:
        note = "the query has not been active in any epoch yet"
        if entry.error is not None:
            note = "the query was quarantined in its first epoch"
        return AuditReport(query.name, entry.error is None, 0, 0, (), (), 0, 0, note, entry.error)
    span = span.after(view.after_us)
    try:
        check_results(log.root, view.files)
        expected, actual = run_log_sql(log, query, span.log), _delivered_rows(log, entry, view, span)
        text = query.plan.log_sql
        settle = _settling(lambda: rounding_noise(text, input_scale(log.spark, streams, text)))
        found = _compare(expected, actual, view.stored_rows * _windows_of_a_row(query), settle)
        missing, unexpected = found.missing, found.unexpected
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
        expected_rows=found.expected_rows,
        actual_rows=found.actual_rows,
        missing=tuple(dict(zip(names, row, strict=True)) for row in missing[:SHOWN]),
        unexpected=tuple(dict(zip(names, row, strict=True)) for row in unexpected[:SHOWN]),
        missing_rows=len(missing),
        unexpected_rows=len(unexpected),
        note=_note(span, found),
        error=entry.error,
        verbatim=query.plan.verbatim,
    )


def _windows_of_a_row(query: Query) -> int:
    """In how many windows a stored row shows: joined rows are stored once."""
    window = query.plan.window
    if not isinstance(query.plan.body, Join) or not isinstance(window, Window):
        return 1
    return max(1, window.range_us // window.slide_us)


def _compare(expected: DataFrame, actual: DataFrame, rows: int, settle: Settle) -> Difference:
    """Both sides as multisets: in the driver, unless about so many rows would be too much for it."""
    if rows >= LARGE_ROWS and can_be_hashed(expected):
        return compare_large(expected, actual, lambda frame: list(_rows(frame)), settle)
    wanted, found = list(_rows(expected)), list(_rows(actual))
    return Difference(len(wanted), len(found), *settle(*compare_rows(wanted, found)))


def _settling(noise: Callable[[], float]) -> Settle:
    """Compares rows that differ once more: perhaps they do only by what is left of terms that cancel.

    How much `noise` there may be is asked once, if at all.
    """
    known: list[float] = []

    def settle(missing: list[Row], unexpected: list[Row]) -> tuple[list[Row], list[Row]]:
        if not missing or not unexpected:
            return missing, unexpected
        if not known:
            known.append(noise())
        return compare_rows(missing, unexpected, known[0])

    return settle


def _note(span: Span, found: Difference) -> str | None:
    """What was not compared."""
    if found.complete:
        return span.note
    counted = "so many rows differ that not all of them were counted"
    return counted if span.note is None else f"{span.note}; {counted}"


def _delivered_rows(log: LogReader, entry: QueryEntry, view: QueryView, span: Span) -> DataFrame:
    """What the query has delivered of a span."""
    reader = ResultReader(log.spark, log.root, log.streams)
    excerpt = Excerpt(span.log.after_us, span.log.began_us, span.delivered)
    return query_frame(reader, entry, replace(view, until_us=span.log.until_us), excerpt)


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
        return Span(LogSpan(first, last, until_us=until), first)
    delivered = min(max(first, expired + 1), last)
    window = entry.query.plan.window
    note = f"only what log and results still hold was compared: from epoch {delivered} on"
    if window is None:
        return Span(LogSpan(delivered, last, until_us=until), delivered, note)
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
                case never:
                    assert_never(never)
    if isinstance(
        entry.query.plan.body, Fallback
    ):  # its rows tell when they were delivered, not their window
        while delivered < last and _watermark(sealer, delivered, names) < after:
            delivered += 1
        after = max(after, _watermark(sealer, delivered, names))
    return Span(LogSpan(first, last, after, until, began), delivered, note)


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
        return sealer.head(epoch).closed_us(streams)
    return sealer.head(epoch - 1).watermark_us(streams)


def _ahead(sealer: Sealer, epoch: int, stream: Stream, until: int) -> int | None:
    """The latest event time that did not move the watermark by an epoch, where windows that end by `until` may hold one
    of these.
    """
    latest = sealer.latest
    inflow = sealer.head(min(epoch, int(latest.id))).of(stream.name) if latest is not None else None
    ahead_us = None if inflow is None else inflow.oddities.ahead_us
    return ahead_us[1] if ahead_us is not None and ahead_us[0] < until else None


def _rows(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    table = readable(frame).toDF(*numbered_columns(len(frame.columns))).toArrow()
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
