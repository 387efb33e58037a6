"""The plots of a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace_bench.campaign import Curve
from headrace_bench.run import Finished
from headrace_bench.trial import Outcome

NAMES = {
    "headrace": "Headrace",
    "spark": "Spark, a streaming query each",
    "fused": "Spark, fused by hand",
    "flink": "Flink SQL, one statement set",
}


def draw(folder: Path, name: str, finished: Sequence[Finished]) -> dict[str, str]:
    """Plots by section; file names, since the page lies beside them."""
    import matplotlib

    matplotlib.use("agg")
    found = {}
    for one in finished:
        good = [outcome for outcome in one.outcomes if not outcome.failure]
        match one.section.name:
            case "comparison" if len(good) > 1:
                found["comparison"] = _draw_comparison(folder / f"{name}-comparison.png", good)
                found["comparison-phases"] = _draw_phases(folder / f"{name}-phases.png", good)
            case ("join" | "complex" | "predicates" | "rare") as kind if len(good) > 1:
                first = one.section.trials[0]
                alike = [o for o in good if (o.trial.columns, o.trial.keys) == (first.columns, first.keys)]
                found[kind] = _draw_comparison(folder / f"{name}-{kind}.png", alike)
            case "sustainable" if good:
                found["sustainable"] = _draw_ages(folder / f"{name}-ages.png", good[0])
            case _ if one.section.curve and len(good) > 1:
                path = folder / f"{name}-{one.section.name}.png"
                found[one.section.name] = _draw_curve(path, one.section.curve, good)
    return found


def _draw_comparison(path: Path, outcomes: Sequence[Outcome]) -> str:
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    for system, label in NAMES.items():
        points = sorted(
            (o.trial.queries, o.throughput, o.overall) for o in outcomes if o.trial.system == system
        )
        if points:
            counts, slowest, overall = zip(*points, strict=True)
            left.plot(counts, slowest, "o-", label=label)
            right.plot(counts, overall, "o-", label=label)
    left.set_title("throughput that every query sees")
    right.set_title("overall throughput (rate x queries)")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="queries", ylabel="events/s")
        axes.grid(True, alpha=0.3)
    right.legend(fontsize=8)
    return save(figure, path)


def _draw_phases(path: Path, outcomes: Sequence[Outcome]) -> str:
    from matplotlib import pyplot

    ours = sorted((o for o in outcomes if o.trial.system == "headrace"), key=lambda o: o.trial.queries)
    figure, axes = pyplot.subplots(figsize=(7, 3.8))
    bottom = [0.0] * len(ours)
    labels = [f"{o.trial.queries:,}" for o in ours]
    for phase in dict.fromkeys(phase for o in ours for phase in o.phases_s):
        values = [o.phases_s.get(phase, 0.0) for o in ours]
        if any(values):
            axes.bar(labels, values, bottom=bottom, label=phase)
            bottom = [b + v for b, v in zip(bottom, values, strict=True)]
    axes.set(xlabel="queries", ylabel="task seconds, warm-up included", title="Headrace: cost by phase")
    axes.legend()
    return save(figure, path)


def _draw_ages(path: Path, outcome: Outcome) -> str:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.8))
    for probe in outcome.probes:
        times, ages = zip(*probe.ages, strict=True)
        axes.plot(times, ages, "-" if probe.sustained else "--", label=f"{probe.rate:,}/s")
    axes.set(xlabel="s", ylabel="age of the oldest tuple without results, s")
    axes.set_title(f"{outcome.trial.queries:,} queries; dashed: not sustained")
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)
    return save(figure, path)


def _draw_curve(path: Path, curve: Curve, outcomes: Sequence[Outcome]) -> str:
    from matplotlib import pyplot

    late = [o for o in outcomes if o.half is not None and o.half.latencies]
    figure, panels = pyplot.subplots(1, 2 if late else 1, figsize=(11 if late else 7, 3.8), squeeze=False)
    values = [getattr(o.trial, curve.field) for o in outcomes]
    panels[0][0].plot(values, [o.throughput for o in outcomes], "o-")
    panels[0][0].set(xlabel=curve.unit, ylabel="events/s", ylim=(0, None), title="throughput")
    if late:
        at = [getattr(o.trial, curve.field) for o in late]
        for name in ("p50", "p95", "max"):
            panels[0][1].plot(at, [o.half.latencies[name] for o in late if o.half], "o-", label=name)
        panels[0][1].set(xlabel=curve.unit, ylabel="s", ylim=(0, None))
        panels[0][1].set_title("event-time latency at half the throughput")
        panels[0][1].legend(fontsize=8)
    for axes in panels[0]:
        if min(values) > 0 and max(values) / min(values) > 20:
            axes.set_xscale("log")
        axes.grid(True, alpha=0.3)
    return save(figure, path)


def save(figure: Any, path: Path) -> str:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path.name
