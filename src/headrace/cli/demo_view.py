"""What the demo shows while it plays: one picture of the running numbers, or a plain line now and then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"
PLAIN_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the demo shows at one moment. Rates are rows per second, latencies seconds."""

    elapsed_s: float = 0.0
    total_s: float = 60.0
    epoch: int = -1
    epoch_seconds: float = 0.0
    active: int = 0
    created: int = 0
    dropped: int = 0
    input_rate: float = 0.0
    result_rows: int = 0
    late_rows: int = 0
    event_time_latencies: tuple[float, ...] = ()
    deployment_latencies: tuple[float, ...] = ()
    rate_history: tuple[float, ...] = ()
    active_history: tuple[float, ...] = ()
    events: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

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


class LiveView:
    """Redraws one picture in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(render_snapshot(snapshot), refresh=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


class PlainView:
    """Prints a line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, every_s: float = PLAIN_EVERY_S) -> None:
        self._console, self._every_s, self._next_s = console, every_s, 0.0

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.elapsed_s >= self._next_s:
            self._console.print(render_line(snapshot), soft_wrap=True)
            self._next_s = (snapshot.elapsed_s // self._every_s + 1) * self._every_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


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
    return " · ".join(parts)


def render_snapshot(s: Snapshot) -> RenderableType:
    numbers = Table.grid(padding=(0, 2))
    numbers.add_column(style="dim", min_width=18)
    numbers.add_column(justify="right", style="bold", min_width=13)
    numbers.add_column(style="cyan", no_wrap=True, overflow="ellipsis")
    epoch = f"{s.epoch}" if s.epoch >= 0 else "-"
    numbers.add_row(
        "epoch", epoch, f"last took {s.epoch_seconds:.2f} s" if s.epoch >= 0 else "first one starts ..."
    )
    numbers.add_row("active queries", f"{s.active:,}", sparkline(s.active_history))
    numbers.add_row("created / dropped", f"{s.created:,} / {s.dropped:,}", "")
    numbers.add_row("input rate", format_rate(s.input_rate), sparkline(s.rate_history))
    numbers.add_row("overall rate", format_rate(s.overall_rate), "input rate × active queries")
    numbers.add_row("event-time latency", format_percentiles(s.event_time_latencies), "p50 / p95")
    numbers.add_row("deployment latency", format_percentiles(s.deployment_latencies), "p50 / p95")
    numbers.add_row("result rows", f"{s.result_rows:,}", f"{s.late_rows:,} late purchases")
    events = Text("\n".join(s.events) or "nobody has asked yet", style="default" if s.events else "dim")
    events.no_wrap, events.overflow = True, "ellipsis"
    body = Table.grid(padding=(0, 2), expand=True)
    body.add_column(ratio=2)
    body.add_column(ratio=1)
    body.add_row(numbers, Panel(events, title="queries come and go", border_style="dim"))
    parts: list[RenderableType] = [body, ProgressBar(total=s.total_s, completed=min(s.elapsed_s, s.total_s))]
    if s.errors:
        parts.append(Text("\n".join(s.errors[-3:]), style="red", overflow="ellipsis", no_wrap=True))
    title = f"One stream, {s.active:,} queries · {s.elapsed_s:.0f} of {s.total_s:.0f} s · Ctrl-C ends it"
    return Panel(Group(*parts), title=title, border_style="blue")


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
    >>> format_percentiles([0.5] * 9 + [2.0])
    '0.50 / 1.32 s'
    >>> format_percentiles([])
    '-'
    """
    if not seconds:
        return "-"
    middle, high = np.percentile(np.asarray(seconds), (50, 95))
    return f"{middle:.2f} / {high:.2f} s"
