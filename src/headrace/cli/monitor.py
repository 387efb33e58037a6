"""From what a session says of itself to what is shown of it: rates, latencies over time, queries, sources, problems."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.cli import tables
from headrace.cli.face import GroupInfo, Served, SessionMetrics
from headrace.cli.live import Snapshot
from headrace.health import Health

RATE_OVER_S = 5.0
NEWS = 8
LOOK_EVERY_S = 1.0
AT_MOST = 0.02
"""The part of the time that asking for health and queries may take: with ten thousand of them it is done less often."""


class Monitor:
    """Keeps the recent past of a session's numbers; each call adds the present."""

    def __init__(self) -> None:
        self._inputs: deque[tuple[float, int]] = deque()
        self._latencies: deque[float] = deque(maxlen=1_000)
        self._rates: deque[float] = deque(maxlen=120)
        self._actives: deque[float] = deque(maxlen=120)
        self._seen_epoch: int | None = None

    def numbers(self, metrics: SessionMetrics, elapsed: float) -> Snapshot:
        """The numbers of now, `elapsed` seconds after the start; what else is shown is left empty."""
        self._inputs.append((elapsed, metrics.input_rows))
        while len(self._inputs) > 2 and self._inputs[0][0] < elapsed - RATE_OVER_S:
            self._inputs.popleft()
        (since, before), (until, after) = self._inputs[0], self._inputs[-1]
        rate = (after - before) / (until - since) if until > since else 0.0
        if metrics.epoch != self._seen_epoch:
            if self._seen_epoch is not None and metrics.event_time_latency is not None:
                self._latencies.append(metrics.event_time_latency)
            self._seen_epoch = metrics.epoch
            self._rates.append(rate)
            self._actives.append(metrics.active_queries)
        return Snapshot(
            elapsed_s=elapsed,
            epoch=metrics.epoch,
            epoch_seconds=metrics.last_epoch_seconds,
            epoch_rows=metrics.last_epoch_rows,
            active=metrics.active_queries,
            input_rows=metrics.input_rows,
            input_rate=rate,
            result_rows=metrics.result_rows,
            late_rows=metrics.late_rows,
            event_time_latencies=tuple(self._latencies),
            deployment_latencies=tuple(metrics.deployment_latencies),
            rate_history=tuple(self._rates),
            active_history=tuple(self._actives),
        )


class Board:
    """The picture of any warehouse: numbers, queries with their rows, groups, sources and problems."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._monitor = clock, Monitor()
        self._lines: tuple[str, ...] = ()
        self._infos: dict[str, tuple[str, int]] = {}
        self._recent: list[str] = []
        self._look_at = 0.0
        self._health: Health | None = None
        self._groups: tuple[GroupInfo, ...] = ()

    def snapshot(self, session: Served, elapsed: float, title: str, footer: str = "") -> Snapshot:
        """What to show now, `elapsed` seconds after the start."""
        if self._health is None or self._clock() >= self._look_at:
            self._look(session)
        health = self._health
        assert health is not None
        return replace(
            self._monitor.numbers(session.metrics(), elapsed),
            title=title,
            news=self._lines,
            news_title=f"{len(self._infos):,} quer{'y' if len(self._infos) == 1 else 'ies'}",
            run=health.run,
            sources=health.sources,
            problems=health.problems,
            groups=self._groups,
            footer=footer,
        )

    def _look(self, session: Served) -> None:
        """Ask for health and queries anew; queries come first whose state or rows changed last."""
        began = self._clock()
        self._health, self._groups = session.health(), tuple(session.groups())
        found = list(session.queries())
        now = {info.name: (tables.state_name(info.state), info.rows) for info in found}
        changed = [name for name, seen in now.items() if self._infos.get(name) != seen]
        if changed:
            first = set(changed[-NEWS:])
            self._recent = [*reversed(changed[-NEWS:]), *(n for n in self._recent if n not in first)][:NEWS]
        self._infos = now
        self._lines = query_lines(self._recent, now)
        spent = self._clock() - began
        self._look_at = began + max(LOOK_EVERY_S, spent / AT_MOST)


def query_lines(names: Sequence[str], known: dict[str, tuple[str, int]]) -> tuple[str, ...]:
    """
    >>> query_lines(["spend", "gone"], {"spend": ("active", 1200)})
    ('spend  active  1,200 rows',)
    """
    shown = [name for name in names if name in known]
    width = max((len(name) for name in shown), default=0)
    return tuple(f"{name:{width}}  {known[name][0]}  {known[name][1]:,} rows" for name in shown)
