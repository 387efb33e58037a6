"""The checkup: from what a session knows about its run, its sources and its queries to one `Health`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from headrace.catalog.catalog import Catalog
from headrace.catalog.queries import QueryEntry
from headrace.engine.delivered import Delivered
from headrace.engine.splits.runner import SPLIT_PREFIX
from headrace.health import Health, Problem, RunState, SetAside, SourceHealth, SourceState
from headrace.log.arrivals import Arrivals
from headrace.log.report import InputReport
from headrace.log.seal import Sealer
from headrace.log.sources import FRAME, source_from
from headrace.log.unattended import Unattended
from headrace.looking.grouped import lag_seconds, members_by_group
from headrace.looking.showing import show_names
from headrace.looking.splits import split_problems
from headrace.model.epoch import Oddities
from headrace.model.errors import HeadraceError, HeadraceWarning
from headrace.model.grouping import MAIN, GroupKind, kind_of
from headrace.model.query import Stream
from headrace.running.run import Running
from headrace.storage.warehouse import Warehouse

RUN = "the run"

LAG_SECONDS = 30.0
"""A group whose oldest waiting epoch was sealed longer ago than this is worth a word."""

_PACKAGE = os.path.dirname(__file__)
_CONTEXTLIB = contextlib.__file__


@dataclass(slots=True)
class Checkup:
    """Looks at a session from outside; `running` is None for a reader. Lists folders, but asks Spark nothing."""

    warehouse: Warehouse
    catalog: Catalog
    arrivals: Arrivals
    sealer: Sealer
    group: Delivered
    running: Running | None
    opened: dict[str, Oddities] = field(default_factory=dict)
    unattended: dict[str, Unattended] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.opened = self.oddities()

    def oddities(self) -> dict[str, Oddities]:
        """Tuples worth knowing of, by stream, in all sealed epochs."""
        latest = self.sealer.latest
        return {} if latest is None else {str(inflow.stream): inflow.oddities for inflow in latest.streams}

    def health(self) -> Health:
        """The state of everything."""
        state = RunState.STOPPED if self.running is None else self.running.state
        reports = {str(stream.name): self._report(stream) for stream in self.catalog.streams()}
        problems = tuple(self._problems(reports))
        troubles = [] if self.running is None else list(self.running.troubles.values())
        error = troubles[0].error if troubles else None
        return Health(
            not problems,
            state,
            None if error is None else in_a_line(error),
            problems,
            tuple(self._source(stream, reports[stream.name]) for stream in self.catalog.streams()),
            tuple(file for report in reports.values() for file in report.aside),
        )

    def sources(self, streams: Iterable[str]) -> tuple[SourceHealth, ...]:
        """The input of some streams; dropped ones are left out."""
        found = self._known(streams)
        return tuple(self._source(stream, self._report(stream)) for stream in found)

    def trouble(self, entry: QueryEntry) -> list[Problem]:
        """What keeps rows from the results of a query: trouble of its own group, of sealing and of its streams."""
        streams = self._known(entry.query.plan.streams)
        about = (problem for stream in streams for problem in self.of_source(stream))
        return [*self.of_functions(entry), *self.of_group(entry.group), *about]

    def of_functions(self, entry: QueryEntry) -> list[Problem]:
        """The functions that a live query waits for: nobody has registered them since the warehouse was opened."""
        if self.running is None or not entry.live or entry.error is not None:
            return []
        table, about = self.catalog.functions, f"query `{entry.query.name}`"
        missing = [
            table.not_registered(name, "the query waits for it") for name in table.missing(entry.query)
        ]
        return [Problem(about, in_a_line(error), error.hint, entry.requested_at) for error in missing]

    def _known(self, streams: Iterable[str]) -> list[Stream]:
        return [self.catalog.stream(name) for name in streams if self.catalog.has_stream(name)]

    def forget(self, stream: str) -> None:
        """A stream was dropped; another one may get its name."""
        self.unattended.pop(stream, None)
        self.opened.pop(stream, None)

    def of_group(self, group: str) -> list[Problem]:
        """What keeps a group from its epochs: it fails, it lags, or no epoch can be sealed."""
        found = self.of_groups()
        return [*found.get("", ()), *found.get(group, ())]

    def of_groups(self) -> dict[str, list[Problem]]:
        """What keeps the run, by group. The empty name stands for sealing, which is for all of them."""
        if self.running is None:
            return {}
        found: dict[str, list[Problem]] = {}
        members = {name: [e.query.name for e in es] for name, es in members_by_group(self.catalog).items()}
        alone = not members.keys() - {MAIN}
        for group, retry in self.running.troubles.items():
            if (error := retry.error) is not None:
                whose = not group or (alone and group == MAIN)
                about, text = RUN if whose else f"group `{group}`", in_a_line(error)
                if group.startswith(SPLIT_PREFIX):
                    about = f"split `{group.removeprefix(SPLIT_PREFIX)}`"
                elif not whose:
                    text = f"{text}; {_queries_of(members.get(group, ()))}"
                found[group] = [Problem(about, text, error.hint, retry.since)]
        if self.running.state in (RunState.RUNNING, RunState.RETRYING):
            for group in {MAIN, *members} - found.keys():
                if (lag := self._lag(group, members.get(group, ()))) is not None:
                    found[group] = [lag]
        return found

    def errors(self) -> dict[str, str]:
        """Why an epoch is tried again, by group. The empty name stands for sealing."""
        troubles = {} if self.running is None else self.running.troubles
        return {name: in_a_line(retry.error) for name, retry in troubles.items() if retry.error is not None}

    def _lag(self, group: str, members: Sequence[str]) -> Problem | None:
        """A word about a group that is far behind. One that catches up on purpose is where it should be.

        The word stays the same as long as the group lags, so that a log has it once. `hr.groups()` has the numbers.
        """
        behind, now = self.group.behind(group), time.time()
        if behind < 2 or kind_of(group) is GroupKind.TRANSIT:
            return None
        seconds = lag_seconds(self.sealer, self.group.cursor(group), now)
        if seconds <= LAG_SECONDS:
            return None
        text = f"it is more than {LAG_SECONDS:.0f} seconds behind; {_queries_of(members)}"
        hint = (
            "other groups do not wait for it; move queries elsewhere, drop some, or give it more partitions"
        )
        return Problem(f"group `{group}`", text, hint, now - seconds)

    def of_source(self, stream: Stream) -> list[Problem]:
        """What keeps tuples of a stream's source away, as far as that is known without a look at its folder."""
        return list(self._of_source(stream, self._report(stream, look=False)))

    def warn_reader(self, entry: QueryEntry) -> None:
        """Warn somebody who reads results that input is missing from them."""
        for problem in self.trouble(entry):
            text = f"rows of query `{entry.query.name}` may be missing: {problem.about}: {problem.message}"
            warn(text)

    def warn_detached(self, stream: Stream) -> None:
        """Warn somebody who closes a stream whose source cannot be asked for the rest."""
        if self._state(stream) is SourceState.DETACHED:
            text = f"stream `{stream.name}` is closed without its source: what came since it was attached is not read"
            warn(text)

    @contextmanager
    def news(self) -> Iterator[None]:
        """Warn of what is set aside or found odd in the block."""
        known, odd = set(self._aside()), self.oddities()
        try:
            yield
        finally:
            new = [file for file in self._aside() if file not in known]
            for stream in self.catalog.streams():
                mine = [file for file in new if file.stream == stream.name]
                found = [aside_text([file.path for file in mine], mine[-1].reason)] if mine else []
                found += self._odd(stream, odd.get(stream.name, Oddities()))
                for text in found:
                    warn(f"stream `{stream.name}`: {text}")

    def _aside(self) -> list[SetAside]:
        feeds = {} if self.running is None else self.running.feeds.all()
        return [file for feed in feeds.values() for file in feed.ingest.aside.all()]

    def _report(self, stream: Stream, *, look: bool = True) -> InputReport:
        feed = None if self.running is None else self.running.feeds.get(stream.name)
        if feed is not None:
            return feed.ingest.report(look=look)
        if stream.name not in self.unattended:
            described = self.catalog.source(stream.name)
            if described is None:
                return InputReport()
            source = None if described["kind"] == FRAME else source_from(described)
            self.unattended[stream.name] = Unattended(self.warehouse, self.arrivals, stream, source)
        return self.unattended[stream.name].report(look=look)

    def _source(self, stream: Stream, report: InputReport) -> SourceHealth:
        latest = self.sealer.latest
        inflow = None if latest is None else latest.of(stream.name)
        odd = Oddities() if inflow is None else inflow.oddities
        feed = None if self.running is None else self.running.feeds.get(stream.name)
        error = None if feed is None else feed.retry.error
        return SourceHealth(
            stream.name,
            self._state(stream),
            None if error is None else in_a_line(error),
            None if error is None or feed is None else feed.retry.retry_at,
            report.files_taken,
            report.files_waiting,
            len(report.aside),
            0 if inflow is None else inflow.total[0],
            odd.null_times,
            odd.corrupt,
            odd.ahead,
        )

    def _state(self, stream: Stream) -> SourceState:
        if self.arrivals.closed(stream.name):
            return SourceState.CLOSED
        feed = None if self.running is None else self.running.feeds.get(stream.name)
        if feed is None:
            described = self.catalog.source(stream.name)
            if described is None:
                return SourceState.APPEND
            kept = self.running is None and described["kind"] != FRAME
            return SourceState.UNATTENDED if kept else SourceState.DETACHED
        if feed.retry.error is None:
            return SourceState.READING
        return SourceState.STOPPED if feed.retry.error.code == "SOURCE_STOPPED" else SourceState.RETRYING

    # problems

    def _problems(self, reports: dict[str, InputReport]) -> Iterator[Problem]:
        for _, found in sorted(self.of_groups().items()):
            yield from found
        if self.running is not None:
            yield from split_problems(self.running.splits.runners(), time.time())
        yield from self._of_sharing()
        for stream in self.catalog.streams():
            yield from self._of_source(stream, reports[stream.name])
            for text in self._odd(stream, self.opened.get(stream.name, Oddities())):
                yield Problem(f"stream `{stream.name}`", text, None, 0.0)
        for entry in self.catalog.current():
            yield from self.of_functions(entry)
            if entry.error is not None and entry.live:
                about = f"query `{entry.query.name}`"
                yield Problem(about, f"it is quarantined: {entry.error}", "drop it", entry.requested_at)

    def _of_sharing(self) -> Iterator[Problem]:
        """Why nobody decides about groups at the moment. Epochs go on meanwhile."""
        trouble = None if self.running is None else self.running.conducting.trouble
        if trouble is not None and trouble.error is not None:
            text = f"who shares with whom stays as it is: {in_a_line(trouble.error)}"
            yield Problem("sharing", text, "it is tried again; rows are not affected", trouble.since)

    def _of_source(self, stream: Stream, report: InputReport) -> Iterator[Problem]:
        about = f"stream `{stream.name}`"
        feed = None if self.running is None else self.running.feeds.get(stream.name)
        if feed is not None and feed.retry.error is not None:
            yield Problem(about, in_a_line(feed.retry.error), feed.retry.error.hint, feed.retry.since)
        # of another file system we do not ask whether it still has the file
        aside = [file for file in report.aside if os.path.exists(file.path) or not os.path.isabs(file.path)]
        if aside:
            text = aside_text([file.path for file in aside], aside[-1].reason)
            hint = "replace the file and it is read, or remove it"
            if report.files_waiting is None:  # Structured Streaming reads each name once
                hint = "put the mended file under another name, and remove this one"
            yield Problem(about, text, hint, aside[0].at)
        if report.changed:
            paths = [path for path, _ in report.changed]
            text = f"{counted(len(paths), 'file')} changed after being taken, and not read again: {paths[-1]}"
            yield Problem(about, text, "put new rows into a file of a new name", report.changed[0][1])

    def _odd(self, stream: Stream, before: Oddities) -> Iterator[str]:
        now = self.oddities().get(stream.name, Oddities())
        if (corrupt := now.corrupt - before.corrupt) > 0:
            yield f"{counted(corrupt, 'record')} could not be read as the stream's columns; what could not is NULL"
        if (nulls := now.null_times - before.null_times) > 0:
            time = stream.event_time
            yield f"{counted(nulls, 'tuple')} without event time: `{time}` is NULL, and no window holds them"
        if (ahead := now.ahead - before.ahead) > 0:
            yield self._ahead(stream, ahead)

    def _ahead(self, stream: Stream, ahead: int) -> str:
        latest = self.sealer.latest
        inflow = None if latest is None else latest.of(stream.name)
        span = None if inflow is None else inflow.oddities.ahead_us
        newest = "" if span is None else f" (up to {as_time(span[1])})"
        bound = timedelta(microseconds=stream.max_ahead_us or 0)
        return (
            f"{counted(ahead, 'tuple')} dated more than {bound} ahead of the clock{newest}: that does not move the "
            "watermark. If the dates are right, create the stream with max_ahead=None"
        )


def warn(text: str) -> None:
    """Warn where somebody called us, however deep we are in our own code."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, _CONTEXTLIB)):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, HeadraceWarning, stacklevel=level)


def _queries_of(members: Sequence[str]) -> str:
    return f"its queries: {show_names(members)}" if members else "it has no queries"


def in_a_line(error: HeadraceError) -> str:
    """An error's code, message and detail; the hint stands elsewhere."""
    return f"{error.code}: {error.message}" + (f" ({error.detail})" if error.detail else "")


def aside_text(paths: list[str], reason: str) -> str:
    return f"{counted(len(paths), 'file')} set aside that could not be read: {paths[-1]} ({reason})"


def counted(number: int, thing: str) -> str:
    """
    >>> counted(1, "file"), counted(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def as_time(us: int) -> str:
    try:
        return (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=us)).isoformat(" ", "seconds")
    except OverflowError:
        return f"{us} microseconds since 1970"
