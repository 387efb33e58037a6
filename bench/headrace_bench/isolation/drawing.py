"""The plots of the report, one per panel, as the paper's figures have them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from headrace_bench.isolation.cases import FUNCTIONAL, ISOLATED, PANELS, POLICIES
from headrace_bench.isolation.figures import (
    CORES,
    Told,
    at_once,
    capacity_at_once,
    isolated_course,
    sustained,
)
from headrace_bench.plots import save

MARKS = dict(zip(POLICIES, ("s", "o", "^", "v", "D"), strict=True))
COLOURS = dict(zip(POLICIES, ("0.45", "tab:blue", "tab:green", "tab:olive", "tab:red"), strict=True))
"""A policy looks the same in every plot."""

DEAR = "QPriceAnomaly"
"""Queries of this kind call a function; in plots, all others are one."""


def draw_panel(panel: str, found: Sequence[Told], path: Path) -> None:
    """Draw a panel into a file."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    if panel.startswith("6") or panel == "11a":
        figure, axes = pyplot.subplots(1, 2, figsize=(11, 3.8))
        _resources(axes, panel, found)
    elif panel.startswith("7"):
        figure, one = pyplot.subplots(figsize=(7, 3.8))
        _climbs(one, found)
    elif panel.startswith("10"):
        figure, axes = pyplot.subplots(1, 2 if panel == "10c" else 3, figsize=(12, 3.8))
        _settling(axes, found) if panel == "10c" else _tuned(axes, panel, found)
    elif panel == "11b":
        figure, one = pyplot.subplots(figsize=(9, 3.8))
        _growth(one, found)
    else:
        figure, axes = pyplot.subplots(2, 2, figsize=(12, 6.4), sharex=True)
        _course(axes, found)
    figure.suptitle(f"{panel}: {PANELS[panel]}", fontsize=11)
    save(figure, path)


def _resources(axes: Any, panel: str, found: Sequence[Told]) -> None:
    for policy in POLICIES:
        points = sorted((told.queries, told.last) for told in found if told.policy == policy)
        if not points:
            continue
        counts = [count for count, _ in points]
        lows = [max(stretch.latency_s.values()) for _, stretch in points]
        left = lows if panel == "11a" else [stretch.cpu for _, stretch in points]
        style = {"marker": MARKS[policy], "color": COLOURS[policy], "label": policy}
        axes[0].plot(counts, left, **style)
        axes[1].plot(counts, [stretch.worst for _, stretch in points], **style)
    axes[0].set(
        xscale="log",
        yscale="log",
        xlabel="queries",
        ylabel="s" if panel == "11a" else "cores",
        title="latency of the slowest query" if panel == "11a" else "CPU seconds per second",
    )
    for which in (axes[0].yaxis.set_major_formatter, axes[0].yaxis.set_minor_formatter):
        which(lambda value, _: f"{value:g}")
    axes[1].set(xscale="log", xlabel="queries", ylim=(0, 1.05), title="worst query: share of its input")
    shown = sorted({told.queries for told in found})
    for one in axes:
        one.set_xticks(shown, [str(count) for count in shown])
        one.set_xticks([], minor=True)
        one.grid(True, alpha=0.3)
    axes[1].legend(fontsize=8)


def _climbs(axes: Any, found: Sequence[Told]) -> None:
    counts = sorted({told.queries for told in found})
    policies = [policy for policy in POLICIES if any(told.policy == policy for told in found)]
    width = 0.9 / len(policies)
    for place, policy in enumerate(policies):
        runs = [told for told in found if told.policy == policy]
        rates = [capacity_at_once(told) if policy == ISOLATED else sustained(told) for told in runs]
        bars = axes.bar(
            [counts.index(told.queries) + (place - len(policies) / 2) * width for told in runs],
            [rate if isfinite(rate) else 0.0 for rate in rates],
            width=width,
            align="edge",
            label=policy,
            color=COLOURS[policy],
        )
        axes.bar_label(bars, [f"{rate / 1000:.1f}k" if isfinite(rate) else "?" for rate in rates], fontsize=7)
    axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    axes.set(
        xlabel="queries",
        ylabel="tuples/s that every query is given",
        title="isolated: all at once, by their CPU seconds alone",
    )
    axes.legend(fontsize=8)
    axes.grid(True, axis="y", alpha=0.3)


def _tuned(axes: Any, panel: str, found: Sequence[Told]) -> None:
    by = "threshold" if panel == "10a" else "merge_every_s"
    at = [getattr(told, by) for told in found]
    axes[0].plot(at, [told.last.cpu for told in found], "D-")
    axes[0].set(ylabel="cores", title="CPU seconds per second", ylim=(0, None))
    axes[1].plot(at, [told.last.worst for told in found], "D-")
    axes[1].set(ylim=(0, 1.05), title="worst query: share of its input")
    axes[2].plot(at, [100 * told.looked_raw for told in found], "D-", label="as they were")
    axes[2].plot(at, [100 * told.looked for told in found], "x--", label="if there is one every 10 s")
    axes[2].set(ylabel="%", ylim=(0, None), title="CPU of looks / time of epochs")
    axes[2].legend(fontsize=8)
    for one in axes:
        one.set(xlabel=by.replace("_", " "))
        one.grid(True, alpha=0.3)


def _settling(axes: Any, found: Sequence[Told]) -> None:
    """Groups and CPU, second by second, of every workload."""
    for told in found:
        at = [point.at for point in told.series]
        axes[0].plot(at, [point.groups for point in told.series], drawstyle="steps-post", label=told.load)
        axes[1].plot(at, _smooth([point.cpu for point in told.series]), label=told.load)
    axes[0].set(xlabel="s", title="groups", ylim=(0, None))
    axes[1].set(xlabel="s", title="CPU seconds per second", ylabel="cores", ylim=(0, None))
    axes[1].legend(fontsize=7)
    for one in axes:
        one.grid(True, alpha=0.3)


def _growth(axes: Any, found: Sequence[Told]) -> None:
    """What waits while the pulse lasts, by kind of query."""
    kinds = sorted({kind for told in found for kind in told.kinds.values()})
    width = 0.9 / len(found)
    for place, told in enumerate(found):
        grown = [kind_growth(told, kind) for kind in kinds]
        at = [i + (place - len(found) / 2) * width for i in range(len(kinds))]
        axes.bar(at, grown, width=width, align="edge", label=told.policy, color=COLOURS[told.policy])
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(
        ylabel="tuples/s", title="growth of what waits during the pulse (isolated: all at once, computed)"
    )
    axes.legend(fontsize=8)
    axes.grid(True, axis="y", alpha=0.3)


def kind_growth(told: Told, kind: str, phase: str = "pulse") -> float:
    """By how many tuples per second what waits for a kind of query grew in the last half of a phase, on average.

    Queries that ran alone are told of as if all had run at the same time, with the cores that there are.
    """
    (stretch,) = (one for one in told.stretches if one.phase == phase)
    found = [query for query, its in told.kinds.items() if its == kind]
    if told.policy == ISOLATED:
        shares = at_once(stretch)
        return sum(stretch.rate * (1 - shares[query]) for query in found) / len(found)
    return sum(stretch.growth[query] for query in found) / len(found)


def _course(axes: Any, found: Sequence[Told]) -> None:
    """CPU, groups, the mean share and what waits, second by second; dotted: queries that call a function."""
    live = [told for told in found if told.series]
    for told in live:
        at = [point.at for point in told.series]
        style = {"lw": 2.2 if told.policy == FUNCTIONAL else 1.1, "color": COLOURS[told.policy]}
        axes[0][0].plot(at, [point.cpu for point in told.series], label=told.policy, **style)
        axes[0][1].plot(at, [point.groups for point in told.series], drawstyle="steps-post", **style)
        for dear in sorted({kind == DEAR for kind in told.series[-1].shares}):
            dash, who = (":", f"{told.policy}: {DEAR}") if dear else ("-", told.policy)
            shares = [_mean_of(point.shares, dear=dear) for point in told.series]
            axes[1][0].plot(at, shares, dash, label=who, **style)
            axes[1][1].plot(at, [_mean_of(point.waiting, dear=dear) for point in told.series], dash, **style)
    for told in (told for told in found if told.policy == ISOLATED):
        course = list(isolated_course(told))
        axes[0][0].plot(range(1, len(course) + 1), course, color=COLOURS[ISOLATED], ls="--")
        for one in axes.flat:
            for edge in told.ends[:-1]:
                one.axvline(edge, color="0.8", lw=0.8)
    axes[0][0].set(
        title="CPU seconds per second (dashed: isolated, all at once, computed)",
        ylabel="cores",
        ylim=(0, CORES + 0.5),
    )
    axes[0][1].set(title="groups")
    axes[1][0].set(title="mean share of the input of 5 s that queries are given", xlabel="s", ylim=(0, 2))
    axes[1][1].set(title="tuples that wait", xlabel="s")
    if live:
        axes[0][0].legend(fontsize=7)
        axes[1][0].legend(fontsize=7, ncol=2)
    for one in axes.flat:
        one.grid(True, alpha=0.3)


def _mean_of(by_kind: dict[str, float], *, dear: bool) -> float:
    found = [value for kind, value in by_kind.items() if (kind == DEAR) == dear]
    return sum(found) / len(found) if found else 0.0


def _smooth(values: Sequence[float], width: int = 3) -> list[float]:
    """Means of a few seconds: epochs are no even flow."""
    return [sum(values[max(0, i - width + 1) : i + 1]) / min(i + 1, width) for i in range(len(values))]
