"""The aims for groups that merge and split themselves, against what the runs saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import median

import numpy as np

from headrace_bench.aims import Verdict
from headrace_bench.isolation.cases import FUNCTIONAL, ISOLATED, MERGE_S
from headrace_bench.isolation.figures import (
    CORES,
    SLOWER,
    Stretch,
    Told,
    at_once,
    isolated_course,
)

FEWER = 10.7
"""CPU seconds of isolated groups against those of functional isolation, at least, for 128 queries of W1, 10 %."""

MANY = "W1, 128 queries, 10%"
LOOKED = 0.02
DELAY_S = 1.0
ERROR = 0.2
TOGETHER = 10
"""Groups are looked at every so many epochs by default. What a second of input holds is partly chance."""

Panels = Mapping[str, list[Told]]


def judge_isolation(panels: Panels) -> list[Verdict]:
    """A line for every aim that these runs can say something about."""
    ours = list(_ours(panels))
    return [
        *_fewer(ours),
        *_never_more(ours),
        *_in_any_window(ours),
        *_as_fast(ours),
        *_splits(told for _, told, _ in ours),
        *_settles(panels),
        *_monitoring(told for _, told, _ in ours),
        *_delays(told for _, told, _ in ours),
        *_errors(told for _, told, _ in ours),
    ]


def _ours(panels: Panels) -> Iterator[tuple[str, Told, Told | None]]:
    """Every run of functional isolation with that of the same queries alone, where there is one.

    A run that several panels have counts once, for the first of them.
    """
    known: set[str] = set()
    for panel, all_told in panels.items():
        for told in all_told:
            if told.policy == FUNCTIONAL and told.case not in known:
                known.update([told.case] if told.case else [])
                same = (t for t in all_told if t.policy == ISOLATED and t.load == told.load)
                yield panel, told, next(same, None)


def _pairs(found: Iterable[tuple[str, Told, Told | None]]) -> Iterator[tuple[str, Told, Stretch, Stretch]]:
    """The settled parts of runs, each with the same queries alone at the same rate. Climbs are meant to fail."""
    for panel, told, isolated in found:
        if isolated is not None and not told.climbs:
            alone = {stretch.phase: stretch for stretch in isolated.stretches}
            for stretch in told.stretches:
                if stretch.phase in alone and stretch.phase != "settling":
                    yield panel, told, stretch, alone[stretch.phase]


def _fewer(ours: list[tuple[str, Told, Told | None]]) -> Iterator[Verdict]:
    for panel, told, stretch, alone in _pairs(ours):
        if panel == "6a" and told.load == MANY:
            ratio = alone.cpu / stretch.cpu
            yield Verdict(
                f"CPU seconds of isolated groups against functional isolation, {MANY}",
                f"at least {FEWER:g} times",
                f"{ratio:.1f} times ({alone.cpu:.2f} against {stretch.cpu:.2f} cores)",
                ratio >= FEWER,
                f"{ratio:.1f} times",
            )


def _never_more(ours: list[tuple[str, Told, Told | None]]) -> Iterator[Verdict]:
    found = [
        (stretch.cpu / alone.cpu, panel, told.load, stretch.phase)
        for panel, told, stretch, alone in _pairs(ours)
    ]
    if found:
        ratio, panel, load, phase = max(found)
        yield Verdict(
            "CPU seconds of functional isolation against isolated groups, at any point",
            "never more",
            f"{ratio:.2f} times at most ({panel}: {load}, {phase})",
            ratio <= 1,
            "more",
        )


WINDOW_S = 10
"""So many seconds are compared at a time: epochs of groups that are behind take some of them."""


def _in_any_window(ours: list[tuple[str, Told, Told | None]]) -> Iterator[Verdict]:
    found = [
        (ratio, panel, told.load, at)
        for panel, told, isolated in ours
        if isolated is not None and not told.climbs and isolated.ends
        for at, ratio in window_ratios(told, list(isolated_course(isolated)))
    ]
    if found:
        ratio, panel, load, at = max(found)
        yield Verdict(
            f"CPU seconds of functional isolation in any {WINDOW_S} s, against isolated groups on {CORES} cores, too",
            "never more",
            f"{ratio:.2f} times at most ({panel}: {load}, after {at:.0f} s)",
            ratio <= 1,
            "more",
        )


def window_ratios(told: Told, isolated: Sequence[float]) -> Iterator[tuple[float, float]]:
    """For every second at which a window ends: the CPU seconds in it as a multiple of those of isolated groups.

    >>> from headrace_bench.isolation.figures import Point
    >>> run = Told("functional", "", 1, [], series=[Point(float(at), 1, 1.0, {}, {}) for at in range(1, 13)])
    >>> list(window_ratios(run, [2.0] * 11 + [4.0]))
    [(10.0, 0.5), (11.0, 0.5), (12.0, 0.45454545454545453)]
    """
    done, at = [(0.0, 0.0)], 0.0
    for point in told.series:
        done.append((point.at, done[-1][1] + point.cpu * (point.at - at)))
        at = point.at
    whole = [0.0, *accumulate(isolated)]
    times, sums = zip(*done, strict=True)
    for end in range(WINDOW_S, min(len(isolated), int(at)) + 1):
        ours = float(np.interp(end, times, sums) - np.interp(end - WINDOW_S, times, sums))
        yield float(end), ours / max(1e-9, whole[end] - whole[end - WINDOW_S])


def _as_fast(ours: list[tuple[str, Told, Told | None]]) -> Iterator[Verdict]:
    """Two lines if all queries alone, at once, would need more cores than there are: against that, and one by one."""
    pairs = list(_pairs(ours))
    together = [(stretch, at_once(alone), panel, told) for panel, told, stretch, alone in pairs]
    by_turns = [(stretch, alone.shares, panel, told) for panel, told, stretch, alone in pairs]
    yield from _slowest(together, f"with {CORES} cores for all of them, in steady states", binds=True)
    if together != by_turns:
        yield from _slowest(by_turns, f"each with {CORES} cores, in steady states", binds=False)


def _slowest(
    pairs: Iterable[tuple[Stretch, dict[str, float], str, Told]], where: str, *, binds: bool
) -> Iterator[Verdict]:
    found = [
        (stretch.shares[query] / shares[query], query, panel, told.load, stretch.phase)
        for stretch, shares, panel, told in pairs
        for query in stretch.shares
    ]
    if found:
        share, query, panel, load, phase = min(found)
        below = sum(one[0] < SLOWER for one in found)
        yield Verdict(
            f"throughput of every query against alone, {where}",
            f"at least {SLOWER:.0%}" if binds else "told, for there are no such cores",
            f"{share:.0%} at least ({query} of {panel}: {load}, {phase}); {below} of {len(found)} below",
            below == 0,
            f"{below} below",
            binds,
        )


def _splits(runs: Iterable[Told]) -> Iterator[Verdict]:
    epochs = [count for told in runs for count in told.split_epochs]
    if epochs:
        yield Verdict(
            "epochs from back-pressure to a split",
            "at most 2",
            f"{median(epochs):g} (median), {max(epochs)} at most, of {len(epochs)} splits",
            max(epochs) <= 2,
            f"{max(epochs)}",
        )


def _settles(panels: Panels) -> Iterator[Verdict]:
    steps = []
    for panel, all_told in panels.items():
        for told in all_told:
            if told.policy == FUNCTIONAL and panel.startswith("6"):
                merges = sorted({change.at for change in told.changes if change.kind == "merged"})
                steps.append(round(merges[-1] / MERGE_S) if merges else 0)
    if steps:
        yield Verdict(
            "merge steps until groups are settled",
            "at most 2",
            f"{max(steps)} at most, of {len(steps)} runs",
            max(steps) <= 2,
        )


def _monitoring(runs: Iterable[Told]) -> Iterator[Verdict]:
    shares = [told.looked for told in runs if told.series]
    if shares:
        yield Verdict(
            "CPU time of looks against the time of epochs, with a look every 10 s",
            f"under {LOOKED:.0%}",
            f"{median(shares):.1%} (median), {max(shares):.1%} at most",
            max(shares) < LOOKED,
        )


def _delays(runs: Iterable[Told]) -> Iterator[Verdict]:
    runs = list(runs)
    delays = [delay for told in runs for delay in told.delays_s]
    gaps = [told.gap_s for told in runs if told.gap_s is not None]
    if delays:
        gap = f"; nothing new for {max(gaps):.1f} s at most" if gaps else ""
        yield Verdict(
            "seconds from a decision to the first epoch in the new shape (table I)",
            f"under {DELAY_S:g}",
            f"{median(delays):.2f} (median), {max(delays):.2f} at most, of {len(delays)}{gap}",
            max(delays) < DELAY_S,
        )


def _errors(runs: Iterable[Told]) -> Iterator[Verdict]:
    known = [told for told in runs if told.error is not None]
    errors = [told.error for told in known if told.error is not None]
    if errors:
        longer = [error for told in known if (error := error_over(told.pairs)) is not None]
        over = f"; over {TOGETHER} epochs {median(longer):.0%}, {max(longer):.0%} at most" if longer else ""
        costs = [told.cost_error for told in known if told.cost_error is not None]
        alone = f"; {median(costs):.0%} when it is known what its tuples match" if costs else ""
        yield Verdict(
            "error of the predicted work of an epoch",
            f"under {ERROR:.0%} (median)",
            f"{median(errors):.0%} (median of {len(errors)} runs' medians), {max(errors):.0%} at most{over}{alone}",
            median(errors) < ERROR,
        )


def error_over(pairs: Sequence[tuple[float, float]], epochs: int = TOGETHER) -> float | None:
    """The median error of predictions for so many epochs together; None if there are too few.

    >>> error_over([(1.0, 0.5), (1.0, 1.5)], epochs=2), error_over([(1.0, 0.5)], epochs=2)
    (0.0, None)
    """
    errors = []
    for first in range(0, len(pairs) - epochs + 1, epochs):
        predicted = sum(pair[0] for pair in pairs[first : first + epochs])
        measured = sum(pair[1] for pair in pairs[first : first + epochs])
        errors.append(abs(predicted - measured) / measured if measured else 0.0)
    return median(errors) if errors else None
