"""The report of a split's cost model: predicted against measured here, and the paper's figures by simulation.

Splitters and processors run one after the other on one core, and their CPU seconds are what counts. The curves beyond
this machine are simulated with the paper's cluster of 560 cores (`headrace.optimizer.splitting.figures`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from headrace.engine.splits.workers import own_cores
from headrace.log.chunks import ROW_GROUP_ROWS
from headrace.optimizer.splitting import figures
from headrace.optimizer.splitting.costs import Shares
from headrace.optimizer.splitting.engine_costs import Cut, EngineCosts
from headrace.optimizer.splitting.planning import splitters_by_heuristic
from headrace_bench.epochs import folder
from headrace_bench.split_costs import SHARES, Bench, Measured, calibrate, shown
from headrace_bench.split_router import Routed, routed

MOST_SPLITTERS = 128
"""More files than these are not merged here: p = q ends there."""

PAPER_Q = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
WINDOWS = tuple(64 << power for power in range(12))
ROUTER = (
    "p",
    "q",
    "dealing windows out, ms",
    "tuples/s of the router",
    "of the time",
    "the rest of an epoch, ms",
)
FAN_OUTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Point:
    """One split: what was measured of it, and what was predicted."""

    choice: str
    costs: EngineCosts
    measured: Measured

    @property
    def cut(self) -> Cut:
        return self.measured.cut

    @property
    def predicted_rate(self) -> float:
        return self.costs.splitter.rate(self.cut)

    @property
    def measured_rate(self) -> float:
        return self.measured.routing_rate

    @property
    def predicted_efficiency(self) -> float:
        return self.costs.efficiency(self.cut)

    @property
    def measured_efficiency(self) -> float:
        return self.measured.efficiency

    def cells(self) -> tuple[str, ...]:
        cut = self.cut
        return (self.choice, str(cut.sub_streams), str(cut.splitters), *shown(self.costs, self.measured))


def write_report(place: Path, sub_streams: Sequence[int], rows: int, window: int, desired: int) -> Path:
    """Measure and draw; the path of the page."""
    pa.set_cpu_count(1)
    place.mkdir(parents=True, exist_ok=True)
    with folder() as root:
        bench = Bench(root, rows, window)
        costs = calibrate(bench)
        read = rows / bench.read()
        router = [routed(bench, n, n) for n in sub_streams]
        points = [
            measured(bench, costs, choice, q, splitters(q))
            for choice, splitters in choices(costs, rows, desired).items()
            for q in sub_streams
            if splitters(q) <= MOST_SPLITTERS
        ]
    draw_measured(place / "splits-measured.png", points)
    draw_paper(place / "splits-paper.png")
    page = place / "splits.md"
    page.write_text(page_text(points, costs, rows, read, router))
    return page


def choices(costs: EngineCosts, rows: int, desired: float) -> dict[str, Callable[[int], int]]:
    """The ways to choose p for q sub-streams."""
    one = costs.splitter.rate(Cut(rows, Shares(1.0, 0.0, 0.0), 1))
    return {
        "heuristic": lambda q: splitters_by_heuristic(desired, one, q, SHARES.broadcast),
        "model": lambda q: costs.splitters_for(desired, Cut(rows, SHARES, q)),
        "p = 1": lambda q: 1,
        "p = q": lambda q: q,
    }


def measured(bench: Bench, costs: EngineCosts, choice: str, q: int, p: int) -> Point:
    """Predict and measure one split, with as many processors as this machine has cores."""
    click.echo(f"{choice}: q = {q}, p = {p}")
    cut = Cut(bench.rows, SHARES, q, p, min(q, own_cores()))
    return Point(choice, costs, bench.measure(cut))


def page_text(
    points: Sequence[Point], costs: EngineCosts, rows: int, read: float, router: Sequence[Routed]
) -> str:
    headers = (
        *("choice", "q", "p", "routing predicted /s", "measured /s", "merging predicted /s", "measured /s"),
        *("efficiency predicted", "measured"),
    )
    lines = _table(headers, [point.cells() for point in points])
    window_s = ROW_GROUP_ROWS / costs.splitter.rate(Cut(ROW_GROUP_ROWS, SHARES, 512))
    dealt = _table(ROUTER, [one.cells(window_s) for one in router])
    rates = off([(p.predicted_rate, p.measured_rate) for p in points])
    shares = off([(p.predicted_efficiency, p.measured_efficiency) for p in points])
    listed = ", ".join(
        f"{part.name} {getattr(side, part.name) * 1e9:,.1f}"
        for side in (costs.splitter, costs.processor)
        for part in fields(side)
    )
    return f"""# What splitting costs

{rows:,} tuples of Linear Road's size in one epoch, 99 % routed, 0.5 % broadcast, 0.5 % omitted; CPU seconds.
"Routing" is what the busiest splitter allows when each has a core, "merging" the same of {own_cores()} processors,
which share the sub-streams. Efficiency (equation 7) is the share of the CPU time that goes into splitting.
Reading alone: {read:,.0f} tuples per second on one core. Calibrated costs in ns: {listed}.
Predicted routing rates differ from measured ones by {rates}, efficiencies by {shares}.

{lines}

![predicted and measured](splits-measured.png)

## The router

CPU milliseconds of the driver for one epoch of p windows of {ROW_GROUP_ROWS:,} tuples. A splitter takes
{window_s * 1e3:.1f} ms for such a window, so that the router's share of the time that splitting takes is as shown, if
there is a core for every splitter.

{dealt}

## The paper

Beyond this machine, by simulation of the paper's 560 cores (figures 4 to 7):

![the paper's figures](splits-paper.png)
"""


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (headers, ("---",) * len(headers), *rows))


def off(pairs: Sequence[tuple[float, float]]) -> str:
    """How far predictions are off, on average and at most."""
    errors = [abs(predicted / measured - 1) for predicted, measured in pairs]
    return f"{sum(errors) / len(errors):.0%} on average and {max(errors):.0%} at most"


def draw_measured(path: Path, points: Sequence[Point]) -> None:
    """Rate and efficiency over q: lines are predicted, dots are measured."""
    pyplot = _pyplot()
    figure, (rates, shares) = pyplot.subplots(1, 2, figsize=(12, 4.5))
    for number, choice in enumerate(dict.fromkeys(point.choice for point in points)):
        mine, color = [p for p in points if p.choice == choice], f"C{number}"
        q = [p.cut.sub_streams for p in mine]
        for axes, kind in ((rates, "rate"), (shares, "efficiency")):
            axes.plot(q, [getattr(p, f"predicted_{kind}") for p in mine], "--", color=color)
            axes.plot(q, [getattr(p, f"measured_{kind}") for p in mine], "o-", color=color, label=choice)
    rates.set_yscale("log")
    rates.set_ylabel("tuples per second, a core for each process")
    shares.set_ylabel("efficiency (equation 7)")
    shares.set_ylim(0, 1)
    for axes in (rates, shares):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("sub-streams q (dashed: predicted)")
        axes.legend()
    _save(figure, path)


def draw_paper(path: Path) -> None:
    """Figures 4 to 7 of the paper, simulated."""
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(2, 2, figsize=(12, 8.5))
    windows, fan_outs, rates, shares = panels.ravel()
    for fan_out in (1, 16, 64):
        windows.plot(WINDOWS, _mega(figures.router_by_window(WINDOWS, fan_out)), "o-", label=f"p = {fan_out}")
    windows.set(title="figure 4: the router by window size", xlabel="window, bytes", ylabel="Mbps")
    fan_outs.plot(FAN_OUTS, _mega(figures.router_by_fan_out(FAN_OUTS)), "o-", label="single router")
    fan_outs.plot(FAN_OUTS, _mega(figures.router_by_fan_out(FAN_OUTS, 16)), "o-", label="tree")
    fan_outs.set(title="figure 5: the router by splitters", xlabel="splitters p", ylabel="Mbps")
    for choice in figures.CHOICES:
        found = figures.scale_up(choice, PAPER_Q)
        rates.plot(PAPER_Q, _mega([one.rate for one in found]), "o-", label=choice)
        shares.plot(PAPER_Q, [one.efficiency for one in found], "o-", label=choice)
    rates.set(title="figure 6: rate", xlabel="sub-streams q", ylabel="Mbps")
    shares.set(title="figure 7: efficiency", xlabel="sub-streams q", ylabel="efficiency (equation 7)")
    for axes in panels.ravel():
        axes.set_xscale("log", base=2)
        axes.legend(fontsize=8)
    _save(figure, path)


def _mega(rates: Sequence[float]) -> list[float]:
    return [rate / figures.MEGA for rate in rates]


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    _pyplot().close(figure)
