"""Why a query has no rows: sentences that follow from a few facts. Pure, so that every case is tested without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.catalog.queries import QueryState
from headrace.health import RunState, SourceState
from headrace.looking.showing import count, html_text, show_duration, show_seconds, show_time, show_way
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.grouping import MAIN
from headrace.model.window import AnyWindow, SessionWindow, Window


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """A stream as a query sees it. Tuples are counted up to the last committed epoch; `waiting` ones are in no epoch.

    `since` counts those of the epochs in which the query was active, and `first_us` is the earliest event time among
    them. `kept` counts those that came before the query and are still in the log.
    """

    name: str
    source: SourceState
    watermark_us: int = NEVER_US
    rows: int = 0
    late: int = 0
    waiting: int = 0
    since: int = 0
    first_us: int | None = None
    error: str | None = None
    kept: int = 0


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Where the group of a query stands, which has it since epoch `since`.

    `cursor` is the last epoch that the group has behind it, and `newest` the newest sealed one. The oldest epoch in
    between has waited for `lag_seconds`. A group that is `catching_up` does so on purpose, and its query goes to
    `target` then. `error` is why its next epoch is tried again.
    """

    name: str = MAIN
    since: int = 0
    cursor: int = -1
    newest: int = -1
    lag_seconds: float = 0.0
    catching_up: bool = False
    target: str | None = None
    error: str | None = None

    @property
    def behind(self) -> int:
        """How many sealed epochs it has not run."""
        return max(0, self.newest - self.cursor)


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What is known of a query. `epoch` is the last committed one, below 0 before any; `began_us` is the watermark
    before its first epoch, up to which windows were closed already. `missing` are functions that it waits for.
    """

    name: str
    state: QueryState
    streams: tuple[StreamFacts, ...]
    rows: int = 0
    window: AnyWindow | None = None
    first_epoch: int | None = None
    last_epoch: int | None = None
    error: str | None = None
    epoch: int = -1
    run: RunState = RunState.IDLE
    began_us: int = NEVER_US
    group: GroupFacts = GroupFacts()
    missing: tuple[str, ...] = ()

    @property
    def watermark_us(self) -> int:
        """Windows close when all streams have passed their end."""
        return min((stream.watermark_us for stream in self.streams), default=NEVER_US)

    @property
    def next_end_us(self) -> int | None:
        """The end of the window that closes next; None where that depends on the data, or nothing is known yet."""
        if not isinstance(self.window, Window) or self.watermark_us in (NEVER_US, FOREVER_US):
            return None
        return next_end(self.window, max(self.watermark_us, self.began_us))

    @property
    def first_end_us(self) -> int | None:
        """The end of the first window that can hold a tuple of the query; None before any tuple came."""
        moments = [stream.first_us for stream in self.streams if stream.first_us is not None]
        if self.window is None or not moments:
            return None
        if isinstance(self.window, SessionWindow):
            return min(moments) + self.window.gap_us
        # a join has rows only where all of its streams have tuples
        return max(first_end(self.window, max(moments)), next_end(self.window, self.began_us))


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """How a query does: `reasons` say why it has no rows, and are empty when it has some.

    `standing` says that its group catches up, lags or fails, whether there are rows or not; most of the time there is
    nothing to say.
    """

    name: str
    state: QueryState
    rows: int
    reasons: tuple[str, ...]
    watermark: datetime | None = None
    next_window_end: datetime | None = None
    group: str = MAIN
    standing: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"query {self.name} is {self.state.value} and has {count(self.rows, 'row')}"
        said = self.reasons or self.standing
        return f"{head}: {'; '.join(said)}" if said else head

    @property
    def why(self) -> str:
        return "; ".join(self.reasons)

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        return html_text(str(self))


def status_of(facts: QueryFacts) -> QueryStatus:
    return QueryStatus(
        facts.name,
        facts.state,
        facts.rows,
        () if facts.rows else why_empty(facts),
        _moment(facts.watermark_us),
        None if facts.next_end_us is None else _moment(facts.next_end_us),
        facts.group.name,
        standing(facts),
    )


def standing(facts: QueryFacts) -> tuple[str, ...]:
    """What there is to say of the group of a query that runs: it fails, catches up or lags."""
    group = facts.group
    if facts.error is not None or facts.state in (QueryState.QUARANTINED, QueryState.DROPPED):
        return ()
    said = [f"it waits for {name}(): register the function again" for name in facts.missing]
    if group.error is not None:
        said.append(f"epoch {group.cursor + 1} of its group {group.name} is tried again: {group.error}")
    if facts.state is not QueryState.ACTIVE:
        return tuple(said)
    if group.catching_up:
        then = "" if group.target is None else f", then it joins group {group.target}"
        said.append(f"catching up: {show_way(group.since, group.cursor, group.newest)}{then}")
    elif group.behind > 1:
        waited = show_seconds(group.lag_seconds)
        said.append(f"its group {group.name} is {count(group.behind, 'epoch')} ({waited}) behind")
    return tuple(said)


def why_empty(facts: QueryFacts) -> tuple[str, ...]:
    """The reasons why a query without rows has none, the deepest first."""
    if facts.error is not None:
        return (f"the query failed and was taken out: {facts.error}",)
    said = standing(facts)
    if facts.first_epoch is None or facts.epoch < facts.first_epoch:
        return (*(said or (_not_begun(facts),)), *_no_input(facts))
    if facts.last_epoch is not None and facts.last_epoch <= facts.first_epoch:
        return ("the query was dropped before an epoch had tuples for it",)
    return (*said, *(_no_tuples(facts) or _open_windows(facts) or (_nothing_passed(facts),)))


def _not_begun(facts: QueryFacts) -> str:
    if facts.state is QueryState.DROPPED:
        return "the query was dropped before any epoch had run with it"
    ran = "no epoch has run" if facts.epoch < 0 else "no epoch has run since the query was created"
    match facts.run:
        case RunState.RUNNING:
            return f"{ran}: it begins with the next one"
        case RunState.RETRYING:
            return f"{ran}: the run has trouble and tries again; health() says why"
        case RunState.IDLE | RunState.STOPPED:
            return f"{ran}: `headrace run`, run_available() or start() runs epochs"


def _no_input(facts: QueryFacts) -> tuple[str, ...]:
    """Streams from which nothing can come as things are."""
    found = [_source_trouble(stream) for stream in facts.streams if not stream.waiting]
    return tuple(sentence for sentence in found if sentence)


def _source_trouble(stream: StreamFacts) -> str | None:
    name, said = stream.name, "" if stream.error is None else f": {stream.error}"
    match stream.source:
        case SourceState.DETACHED:
            return f"stream {name} has no source attached: attach_source('{name}', ...) gives it one again"
        case SourceState.RETRYING:
            return f"the source of stream {name} cannot be read at the moment{said}"
        case SourceState.STOPPED:
            return f"the source of stream {name} has stopped{said}"
        case SourceState.APPEND | SourceState.UNATTENDED | SourceState.READING | SourceState.CLOSED:
            return None


def _no_tuples(facts: QueryFacts) -> tuple[str, ...]:
    """What is to say of the streams that brought the query no tuple; one is enough to leave a join empty."""
    return tuple(_silence(stream, facts) for stream in facts.streams if not stream.since)


def _silence(stream: StreamFacts, facts: QueryFacts) -> str:
    name = stream.name
    if stream.waiting:
        until = "until its group has come to them" if facts.group.behind else "for the next epoch"
        return f"{count(stream.waiting, 'tuple')} of stream {name} wait {until}"
    trouble = _source_trouble(stream)
    if trouble:
        return trouble
    if stream.rows:
        came = count(stream.rows, "tuple")
        said = (
            f"the query began after the data: it sees tuples from epoch {facts.first_epoch} on, "
            f"and the {came} of stream {name} came before"
        )
        kept = "" if stream.kept == stream.rows else f" the {stream.kept:,} of"
        again = f"start='earliest' (START 'earliest' in SQL) lets a query see{kept} them that the log has"
        return f"{said}: {again}" if stream.kept else said
    match stream.source:
        case SourceState.APPEND:
            return f"stream {name} has had no tuples: append() and INSERT INTO feed it"
        case SourceState.UNATTENDED:
            return f"no tuple of stream {name} has been taken in yet: `headrace run` reads its source"
        case SourceState.CLOSED:
            return f"stream {name} was closed without tuples"
        case _:
            return f"the source of stream {name} has brought no tuples yet"


def _open_windows(facts: QueryFacts) -> tuple[str, ...]:
    """What a query with a window waits for; empty when a window of it has closed."""
    if facts.window is None:
        return ()
    timeless = [stream.name for stream in facts.streams if stream.first_us is None]
    if timeless:
        return (f"no tuple of stream {timeless[0]} has an event time, so that none is in a window",)
    mark, end = facts.watermark_us, facts.first_end_us
    if end is None or mark >= end:
        return ()
    if mark == NEVER_US:
        early = [stream.name for stream in facts.streams if stream.watermark_us == NEVER_US]
        return (
            f"all tuples of stream {early[0]} are dated too far ahead of the clock to move its watermark, so that "
            "no window closes: its max_ahead bounds that",
        )
    what = "session" if isinstance(facts.window, SessionWindow) else "window"
    slowest = min(facts.streams, key=lambda stream: stream.watermark_us)
    of = f" of stream {slowest.name}" if len(facts.streams) > 1 else ""
    closes = "closes" if what == "window" else "can close"
    said = f"the watermark{of} is at {show_time(mark)} and the first {what} {closes} at {show_time(end)}"
    return (f"{said}: newer tuples, or CLOSE STREAM, move it",)


def _nothing_passed(facts: QueryFacts) -> str:
    since = sum(stream.since for stream in facts.streams)
    late = sum(stream.late for stream in facts.streams)
    said = f"{count(since, 'tuple')} came since the query began, and none of them made a row"
    return f"{said}: {count(late, 'tuple')} came late" if late else f"{said}: its conditions let nothing pass"


def first_end(window: Window, moment_us: int) -> int:
    """The earliest end of a window that holds a moment.

    >>> first_end(Window(10, 5), 12), first_end(Window(10, 10), 12)
    (15, 20)
    """
    return window.last_start(moment_us - window.range_us) + window.slide_us + window.range_us


def next_end(window: Window, mark_us: int) -> int:
    """The earliest end of a window after a watermark.

    >>> next_end(Window(10, 5), 12), next_end(Window(10, 5), 15)
    (15, 20)
    """
    if mark_us == NEVER_US:
        return NEVER_US
    return window.last_start(mark_us - window.range_us) + window.slide_us + window.range_us


def describe_window(window: AnyWindow) -> str:
    """A window in words.

    >>> describe_window(Window(10_000_000, 5_000_000)), describe_window(SessionWindow(5_000_000))
    ('10 seconds long, one every 5 seconds', 'sessions that end after 5 seconds without a tuple')
    """
    if isinstance(window, SessionWindow):
        return f"sessions that end after {show_duration(window.gap_us)} without a tuple"
    if window.tumbles:
        text = f"{show_duration(window.range_us)} long, one after the other"
    else:
        text = f"{show_duration(window.range_us)} long, one every {show_duration(window.slide_us)}"
    return text + (f", shifted by {show_duration(window.offset_us)}" if window.offset_us else "")


def _moment(us: int) -> datetime | None:
    if us in (NEVER_US, FOREVER_US):
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    except OverflowError:
        return None
