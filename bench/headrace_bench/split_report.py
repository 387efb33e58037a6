"""The report of a split's cost model: predicted against measured here, and the paper's figures by simulation.

Splitters and processors run one after the other on one core, and their CPU seconds are what counts. The rate of a split
is what its busiest process allows when each has a core of its own. The curves beyond this machine are simulated with
the paper's cluster of 560 cores (`headrace.optimizer.splitting.figures`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from headrace.optimizer.splitting import figures
from headrace.optimizer.splitting.costs import Costs, Shares, work_of
from headrace.optimizer.splitting.planning import splitters_by_heuristic, splitters_by_model
from headrace_bench.epochs import folder
from headrace_bench.split_costs import SHARES, Bench, calibrate

MOST_SPLITTERS = 128
"""More files than these are not merged here: p = q ends there."""

PAPER_Q = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
WINDOWS = tuple(64 << power for power in range(12))
FAN_OUTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Point:
    """One split: its numbers, and rate (tuples per second, a core for each process) and efficiency (equation 7)."""

    choice: str
    sub_streams: int
    splitters: int
    predicted_rate: float
    measured_rate: float
    predicted_efficiency: float
    measured_efficiency: float

    def cells(self) -> tuple[str, ...]:
        rates = (f"{rate:,.0f}" for rate in (self.predicted_rate, self.measured_rate))
        shares = (f"{share:.2f}" for share in (self.predicted_efficiency, self.measured_efficiency))
        return (self.choice, str(self.sub_streams), str(self.splitters), *rates, *shares)


def write_report(place: Path, sub_streams: Sequence[int], rows: int, window: int, desired: int) -> Path:
    """Measure and draw; the path of the page."""
    place.mkdir(parents=True, exist_ok=True)
    with folder() as root:
        bench = Bench(root, rows, window)
        costs = calibrate(bench)
        read = rows / bench.read()
        points = [
            point
            for choice, splitters in choices(costs, desired).items()
            for q in sub_streams
            if (point := measured(bench, costs, choice, q, splitters(q))) is not None
        ]
    draw_measured(place / "splits-measured.png", points)
    draw_paper(place / "splits-paper.png")
    page = place / "splits.md"
    page.write_text(page_text(points, costs, rows, read))
    return page


def choices(costs: Costs, desired: float) -> dict[str, Callable[[int], int]]:
    """The ways to choose p for q sub-streams."""
    one = 1 / costs.splitter(Shares(1.0, 0.0, 0.0), 1)
    return {
        "heuristic": lambda q: splitters_by_heuristic(desired, one, q, SHARES.broadcast),
        "model": lambda q: splitters_by_model(desired, costs, SHARES, q),
        "p = 1": lambda q: 1,
        "p = q": lambda q: q,
    }


def measured(bench: Bench, costs: Costs, choice: str, q: int, p: int) -> Point | None:
    """Predict and measure one split; None when it has too many files for this machine."""
    if p > MOST_SPLITTERS:
        return None
    click.echo(f"{choice}: q = {q}, p = {p}")
    done = bench.split_by(p, q, SHARES)
    split_s = sum(seconds for seconds, _ in done)
    merge_s, _ = bench.merge(q, [report for _, report in done])
    busiest = max(max(seconds for seconds, _ in done), merge_s / q)
    work = work_of(costs, SHARES, p, q, levels=0)
    slowest = max(work.splitters / p, SHARES.received(q) * costs.processor(p))
    return Point(
        *(choice, q, p, 1 / slowest, bench.rows / busiest),
        *(work.efficiency, split_s / (split_s + merge_s)),
    )


def page_text(points: Sequence[Point], costs: Costs, rows: int, read: float) -> str:
    headers = ("choice", "q", "p", "rate predicted /s", "measured /s", "efficiency predicted", "measured")
    table = [headers, ("---",) * len(headers), *(point.cells() for point in points)]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
    errors = [abs(p.predicted_rate / p.measured_rate - 1) for p in points]
    named = {
        "read a window": costs.read_window,
        "split": costs.split,
        "emit": costs.emit,
        "read": costs.read,
        "merge per input": costs.merge,
    }
    listed = ", ".join(f"{name} {cost * 1e9:.1f}" for name, cost in named.items())
    return f"""# What splitting costs

{rows:,} tuples of Linear Road's size, 99 % routed, 0.5 % broadcast, 0.5 % omitted; CPU seconds on one core.
Reading alone: {read:,.0f} tuples per second. Calibrated costs in ns per tuple: {listed}.
Predicted rates differ from measured ones by {sum(errors) / len(errors):.0%} on average, {max(errors):.0%} at most.

{lines}

![predicted and measured](splits-measured.png)

Beyond this machine, by simulation of the paper's 560 cores (figures 4 to 7):

![the paper's figures](splits-paper.png)
"""


def draw_measured(path: Path, points: Sequence[Point]) -> None:
    """Rate and efficiency over q: lines are predicted, dots are measured."""
    pyplot = _pyplot()
    figure, (rates, shares) = pyplot.subplots(1, 2, figsize=(12, 4.5))
    for number, choice in enumerate(dict.fromkeys(point.choice for point in points)):
        mine, color = [p for p in points if p.choice == choice], f"C{number}"
        q = [p.sub_streams for p in mine]
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
