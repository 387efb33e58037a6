"""Running numbers as one picture that is redrawn, as a line now and then, or as a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.cli import tables
from headrace.cli.face import GroupInfo
from headrace.cli.screens import Lines, Picture
from headrace.health import Problem, RunState, SourceHealth, SourceState

BARS = "▁▂▃▄▅▆▇█"
PLAIN_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is shown of one moment. Rates are rows per second, latencies seconds.

    `total_s` is None where nobody knows the end. `news` are lines about queries, the newest first, under `news_title`.
    `groups` are shown when there are more than the main one.
    """

    elapsed_s: float = 0.0
    total_s: float | None = None
    title: str = ""
    epoch: int = -1
    epoch_seconds: float = 0.0
    epoch_rows: int = 0
    active: int = 0
    created: int | None = None
    dropped: int = 0
    input_rows: int = 0
    input_rate: float = 0.0
    result_rows: int = 0
    late_rows: int = 0
    event_time_latencies: tuple[float, ...] = ()
    deployment_latencies: tuple[float, ...] = ()
    rate_history: tuple[float, ...] = ()
    active_history: tuple[float, ...] = ()
    news: tuple[str, ...] = ()
    news_title: str = "queries come and go"
    errors: tuple[str, ...] = ()
    run: RunState = RunState.RUNNING
    sources: tuple[SourceHealth, ...] = ()
    problems: tuple[Problem, ...] = ()
    groups: tuple[GroupInfo, ...] = ()
    footer: str = ""

    @property
    def overall_rate(self) -> float:
        """AStream's overall data throughput (its section 4.3): every active query sees every tuple."""
        return self.input_rate * self.active


class View(Protocol):
    def show(self, snapshot: Snapshot) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def view_for(console: Console) -> View:
    return LiveView(console) if console.is_terminal else PlainView(console)


class LiveView(Picture):
    """Redraws one picture in place."""

    def show(self, snapshot: Snapshot) -> None:
        self.draw(render_snapshot(snapshot))


class PlainView(Lines):
    """Prints a line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, every_s: float = PLAIN_EVERY_S) -> None:
        self._console, self._every_s, self._next_s = console, every_s, 0.0

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.elapsed_s >= self._next_s:
            self._console.print(render_line(snapshot), soft_wrap=True)
            self._next_s = (snapshot.elapsed_s // self._every_s + 1) * self._every_s


class LogView(Lines):
    """Prints a line with the time when epochs have brought something, and whenever a problem comes or goes."""

    def __init__(
        self,
        console: Console,
        every_s: float = PLAIN_EVERY_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._console, self._every_s, self._now = console, every_s, now
        self._next_s = 0.0
        self._seen: tuple[int, ...] = (-1,)
        self._problems: dict[tuple[str, str], Problem] = {}

    def say(self, text: str) -> None:
        stamp = self._now().isoformat(sep=" ", timespec="seconds")[:19]
        self._console.print(f"{stamp} {text}", soft_wrap=True, markup=False)

    def show(self, snapshot: Snapshot) -> None:
        self._tell_problems(snapshot)
        seen = (snapshot.epoch, *(group.cursor for group in snapshot.groups[1:]))
        if seen != self._seen and snapshot.elapsed_s >= self._next_s:
            self._seen, self._next_s = seen, snapshot.elapsed_s + self._every_s
            self.say(
                f"epoch {snapshot.epoch}: {snapshot.active:,} active queries, "
                f"{snapshot.input_rows:,} rows in and {snapshot.result_rows:,} out since the start, "
                f"the last epoch took {snapshot.epoch_seconds:.2f} s for {snapshot.epoch_rows:,} rows"
                f"{_lagging(snapshot.groups)}"
            )

    def _tell_problems(self, snapshot: Snapshot) -> None:
        found = {(problem.about, problem.message): problem for problem in snapshot.problems}
        for key, problem in found.items():
            if key not in self._problems:
                self.say(f"PROBLEM {render_problem(problem)}")
        for key, problem in self._problems.items():
            if key not in found:
                self.say(f"over: {problem.about}: {problem.message}")
        self._problems = found


def render_line(s: Snapshot) -> str:
    """One line of plain text with the numbers that matter."""
    parts = [
        f"{s.elapsed_s:4.0f} s",
        f"epoch {s.epoch}" if s.epoch >= 0 else "no epoch yet",
        f"{s.active} active queries",
        f"input {format_rate(s.input_rate)}",
        f"overall {format_rate(s.overall_rate)}",
        f"event-time latency {format_percentiles(s.event_time_latencies)}",
        f"deployment latency {format_percentiles(s.deployment_latencies)}",
        f"{s.result_rows:,} result rows",
    ]
    if s.errors:
        parts.append(f"{len(s.errors)} errors, the last: {s.errors[-1]}")
    return " · ".join(parts) + _lagging(s.groups)


def _lagging(groups: Sequence[GroupInfo]) -> str:
    """What there is to say of groups that are not up to date."""
    said = [f"group {group.name} is {group.doing}" for group in groups if group.lag_epochs > 1]
    return "".join(f"; {line}" for line in said[:SHOWN_GROUPS])


def render_snapshot(s: Snapshot) -> RenderableType:
    news = Text("\n".join(s.news) or "nobody has asked yet", style="default" if s.news else "dim")
    news.no_wrap, news.overflow = True, "ellipsis"
    body = Table.grid(padding=(0, 2), expand=True)
    body.add_column(ratio=2)
    body.add_column(ratio=1)
    body.add_row(_numbers(s), Panel(news, title=s.news_title, border_style="dim"))
    parts: list[RenderableType] = [body]
    if s.sources:
        parts.append(render_sources(s.sources))
    if len(s.groups) > 1:
        parts.append(tables.render_groups(s.groups, SHOWN_GROUPS))
    if s.total_s is not None:
        parts.append(ProgressBar(total=s.total_s, completed=min(s.elapsed_s, s.total_s)))
    for problem in s.problems[:SHOWN_PROBLEMS]:
        parts.append(Text(render_problem(problem), style="red"))
    if len(s.problems) > SHOWN_PROBLEMS:
        parts.append(Text(f"and {len(s.problems) - SHOWN_PROBLEMS} more problems", style="red"))
    if s.errors:
        parts.append(Text("\n".join(s.errors[-3:]), style="red", overflow="ellipsis", no_wrap=True))
    if s.footer:
        parts.append(Text(s.footer, style="dim"))
    return Panel(Group(*parts), title=Text(s.title), border_style="red" if s.problems else "blue")


def _numbers(s: Snapshot) -> Table:
    numbers = Table.grid(padding=(0, 2))
    numbers.add_column(style="dim", min_width=18)
    numbers.add_column(justify="right", style="bold", min_width=13)
    numbers.add_column(style="cyan", no_wrap=True, overflow="ellipsis")
    epoch = f"{s.epoch}" if s.epoch >= 0 else "-"
    took = f"last took {s.epoch_seconds:.2f} s" if s.epoch >= 0 else "waits for input or a query"
    numbers.add_row("epoch", epoch, took if s.run is RunState.RUNNING else f"the run is {s.run.value}")
    numbers.add_row("active queries", f"{s.active:,}", sparkline(s.active_history))
    if s.created is not None:
        numbers.add_row("created / dropped", f"{s.created:,} / {s.dropped:,}", "")
    numbers.add_row("input rate", format_rate(s.input_rate), sparkline(s.rate_history))
    numbers.add_row("overall rate", format_rate(s.overall_rate), "input rate × active queries")
    numbers.add_row("event-time latency", format_percentiles(s.event_time_latencies), "p50 / p95")
    numbers.add_row("deployment latency", format_percentiles(s.deployment_latencies), "p50 / p95")
    numbers.add_row("result rows", f"{s.result_rows:,}", f"{s.late_rows:,} late input rows")
    return numbers


SHOWN_PROBLEMS = 5
SHOWN_SOURCES = 8
SHOWN_GROUPS = 8

SOURCE_STYLES = {
    SourceState.READING: "green",
    SourceState.RETRYING: "yellow",
    SourceState.STOPPED: "red",
    SourceState.DETACHED: "red",
}


def render_sources(sources: Sequence[SourceHealth]) -> RenderableType:
    """A line per stream: whether its tuples come, and what became of its files."""
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    shown = sources[:SHOWN_SOURCES]
    states = max((len(source.state.value) for source in shown), default=0)
    names = min(max((len(source.stream) for source in shown), default=0), 24)
    for name, width in (("stream", names), ("input", states)):
        table.add_column(name, overflow="ellipsis", no_wrap=True, min_width=max(width, len(name)))
    for name in ("rows", "files taken", "waiting", "set aside"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    table.add_column("", style="yellow", overflow="ellipsis", no_wrap=True)
    for source in shown:
        counts = (source.files_taken, source.files_waiting, source.files_aside)
        any_files = any(counts)
        files = ["?" if n is None else f"{n:,}" if any_files else "" for n in counts]
        state = Text(source.state.value, SOURCE_STYLES.get(source.state, "default"))
        table.add_row(Text(source.stream), state, f"{source.rows_taken:,}", *files, Text(_remarks(source)))
    if len(sources) > SHOWN_SOURCES:
        table.add_row(Text(f"and {len(sources) - SHOWN_SOURCES} more", "dim"))
    return table


def _remarks(source: SourceHealth) -> str:
    counts = (
        (source.null_times, "without event time"),
        (source.corrupt_records, "corrupt records"),
        (source.ahead_rows, "dated too far ahead"),
    )
    return ", ".join(f"{count:,} {words}" for count, words in counts if count)


def render_problem(problem: Problem) -> str:
    hint = f" ({problem.hint})" if problem.hint and problem.hint not in problem.message else ""
    return f"{problem.about}: {problem.message}{hint}"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """The last `width` values as bars, the largest one full.

    >>> sparkline([0, 1, 2, 4])
    '▁▃▅█'
    """
    recent = list(values)[-width:]
    top = max(recent, default=0)
    if top <= 0:
        return BARS[0] * len(recent)
    return "".join(BARS[min(int(max(value, 0) / top * len(BARS)), len(BARS) - 1)] for value in recent)


def format_rate(rate: float) -> str:
    """
    >>> format_rate(950), format_rate(20_000), format_rate(5_660_000)
    ('950/s', '20.0 k/s', '5.66 M/s')
    """
    if rate >= 1e6:
        return f"{rate / 1e6:.2f} M/s"
    return f"{rate / 1e3:.1f} k/s" if rate >= 1e3 else f"{rate:.0f}/s"


def format_percentiles(seconds: Sequence[float]) -> str:
    """
    >>> format_percentiles([0.5] * 9 + [1.5])
    '0.50 / 1.05 s'
    >>> format_percentiles([]), format_percentiles([200.0, 27_738_761.83])
    ('-', '161 d / 305 d')

    Files of the past are late by their age.
    """
    if not seconds:
        return "-"
    middle, high = percentile(seconds, 50), percentile(seconds, 95)
    if high < 1000:
        return f"{middle:.2f} / {high:.2f} s"
    return f"{_long_span(middle)} / {_long_span(high)}"


def _long_span(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def percentile(values: Sequence[float], percent: float) -> float:
    """Between the two nearest values, as numpy does by default.

    >>> percentile([4.0, 1.0, 2.0], 50), percentile([1.0, 2.0], 75)
    (2.0, 1.75)
    """
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
