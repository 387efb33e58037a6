"""The aims for groups that merge and split themselves, against what the runs saw."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import ceil
from statistics import median

import numpy as np

from headrace_bench.aims import Verdict
from headrace_bench.isolation.cases import FUNCTIONAL, POLICIES
from headrace_bench.isolation.figures import (
    CORES,
    SLOWER,
    Change,
    Stretch,
    Told,
    at_once,
    isolated_course,
    isolated_seconds,
    same_alone,
    slowed,
    unsure,
)
from headrace_bench.pages import UNSURE

FEWER = 10.7
"""CPU seconds of isolated groups against those of functional isolation, at least, for 128 queries of W1, 10 %."""

MANY = "W1, 128 queries, 10%"
LOOKED = 0.02
SPLIT_EPOCHS = 2
MERGE_STEPS = 2
DELAY_S = 1.0
GAP_S = 1.0
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
        *_as_fast(ours),
        *_splits(ours),
        *_settles(panels),
        *_monitoring(told for _, told, _ in ours),
        *_delays((panel, told) for panel, told, _ in ours),
        *_gaps((panel, told) for panel, told, _ in ours if not told.climbs),
        *_errors(told for _, told, _ in ours),
    ]


def _ours(panels: Panels) -> Iterator[tuple[str, Told, Told | None]]:
    """Every run of functional isolation with that of the same queries and the same input alone, where there is one.

    A run that several panels have counts once, for the first of them.
    """
    yield from _runs_of(panels, FUNCTIONAL)


def _runs_of(panels: Panels, policy: str) -> Iterator[tuple[str, Told, Told | None]]:
    known: set[str] = set()
    for panel, all_told in panels.items():
        for told in all_told:
            if told.policy == policy and told.case not in known:
                known.update([told.case] if told.case else [])
                yield panel, told, same_alone(told, all_told)


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
    """Two lines that bind and two that are told: the report says what is compared."""
    courses = [
        (panel, told, isolated)
        for panel, told, isolated in ours
        if isolated is not None and not told.climbs and isolated.ends and isolated.last.cpus
    ]
    yield from _at_most_one(
        "CPU seconds of functional isolation since the start, "
        f"against isolated groups on the same {CORES} cores, at every second from the tenth on",
        [
            (ratio, f"{panel}: {told.load}, after {at:.0f} s")
            for panel, told, isolated in courses
            for at, ratio in sums_so_far(told, isolated)
            if at >= WINDOW_S
        ],
    )
    windows = [
        (ratio, f"{panel}: {told.load}, after {at:.0f} s", at in quiet)
        for panel, told, isolated in courses
        for quiet in [quiet_ends(told, isolated)]
        for at, ratio in window_ratios(told, list(isolated_course(isolated)))
    ]
    what = f"CPU seconds of functional isolation in any {WINDOW_S} s"
    yield from _at_most_one(
        f"{what} in which nobody works off what waits, against isolated groups on the same {CORES} cores",
        [(ratio, where) for ratio, where, quiet in windows if quiet],
    )
    yield from _at_most_one(
        f"{what}, work that waited included, against isolated groups on the same {CORES} cores",
        [(ratio, where) for ratio, where, _ in windows],
        told="one of both may work off what the other has done already",
    )
    yield from _at_most_one(
        "CPU seconds of functional isolation in the last half of a phase, against isolated groups one after the other",
        [
            (stretch.cpu / alone.cpu, f"{panel}: {told.load}, {stretch.phase}")
            for panel, told, stretch, alone in _pairs(ours)
        ],
        told="isolated groups had all cores each, and nothing that waited",
    )


def _at_most_one(aim: str, found: Sequence[tuple[float, str]], told: str = "") -> Iterator[Verdict]:
    if found:
        ratio, where = max(found)
        above = sum(one[0] > 1 for one in found)
        yield Verdict(
            aim,
            f"told: {told}" if told else "never more",
            f"{ratio:.2f} times at most ({where}); {above} of {len(found)} above",
            ratio <= 1,
            "more",
            not told,
        )


WINDOW_S = 10
"""So many seconds are compared at a time: epochs of groups that are behind take some of them."""

BACKLOG_S = 2.0
"""Whoever is so many seconds of input behind works off what waits. Input comes every second, and an epoch takes one."""


def sums_so_far(told: Told, isolated: Told) -> Iterator[tuple[float, float]]:
    """For every second of a run: the CPU seconds since its start as a multiple of those of isolated groups.

    >>> from headrace_bench.isolation.figures import Point
    >>> alone = Told("isolated", "", 1, [Stretch("p", 1.0, 1, 2.0, {}, {}, {}, cpus={"a": 2.0})], ends=[3.0])
    >>> run = Told("functional", "", 1, [], series=[Point(float(at), 1, at / 2, {}, {}) for at in (1, 2, 3)])
    >>> list(sums_so_far(run, alone))
    [(1.0, 0.25), (2.0, 0.375), (3.0, 0.5)]
    """
    times, sums = _summed(told)
    whole = accumulate(isolated_course(isolated))
    for end, theirs in enumerate(whole, 1):
        if end <= times[-1]:
            yield float(end), float(np.interp(end, times, sums)) / max(1e-9, theirs)


def quiet_ends(told: Told, isolated: Told) -> set[float]:
    """The seconds at which a window ends in which nobody had work that waited: neither this run nor isolated groups."""
    seconds = list(isolated_seconds(isolated))
    behind = {at for at, (_, waits) in enumerate(seconds, 1) if waits > 0}
    for point in told.series:
        at = bisect_left(isolated.ends, point.at)
        rate = isolated.stretches[min(at, len(isolated.stretches) - 1)].rate
        if max(point.waiting.values(), default=0.0) > BACKLOG_S * rate:
            behind.add(ceil(point.at))
    ends = range(WINDOW_S, len(seconds) + 1)
    return {float(end) for end in ends if not behind & set(range(end - WINDOW_S + 1, end + 1))}


def _summed(told: Told) -> tuple[list[float], list[float]]:
    """The CPU seconds so far, at every point of a run."""
    times, sums = [0.0], [0.0]
    for point in told.series:
        sums.append(sums[-1] + point.cpu * (point.at - times[-1]))
        times.append(point.at)
    return times, sums


def window_ratios(told: Told, isolated: Sequence[float]) -> Iterator[tuple[float, float]]:
    """For every second at which a window ends: the CPU seconds in it as a multiple of those of isolated groups.

    >>> from headrace_bench.isolation.figures import Point
    >>> run = Told("functional", "", 1, [], series=[Point(float(at), 1, 1.0, {}, {}) for at in range(1, 13)])
    >>> list(window_ratios(run, [2.0] * 11 + [4.0]))
    [(10.0, 0.5), (11.0, 0.5), (12.0, 0.45454545454545453)]
    """
    times, sums = _summed(told)
    whole = [0.0, *accumulate(isolated)]
    for end in range(WINDOW_S, min(len(isolated), int(times[-1])) + 1):
        ours = float(np.interp(end, times, sums) - np.interp(end - WINDOW_S, times, sums))
        yield float(end), ours / max(1e-9, whole[end] - whole[end - WINDOW_S])


def _as_fast(ours: list[tuple[str, Told, Told | None]]) -> Iterator[Verdict]:
    """Two lines: against all queries alone at once on the cores that there are, and against one after the other."""
    pairs = list(_pairs(ours))
    yield from _slowest(
        [(stretch, at_once(alone), panel, told) for panel, told, stretch, alone in pairs],
        f"what it would have if all ran isolated at the same time and shared the {CORES} cores",
        binds=True,
    )
    yield from _slowest(
        [(stretch, alone.shares, panel, told) for panel, told, stretch, alone in pairs],
        f"what it had when it ran alone, with {CORES} cores for itself",
        binds=False,
    )


def _slowest(
    pairs: Iterable[tuple[Stretch, dict[str, float], str, Told]], what: str, *, binds: bool
) -> Iterator[Verdict]:
    found = [
        (
            stretch.shares[query] / shares[query],
            stretch.least.get(query, stretch.shares[query]) / shares[query],
            f"{query} of {panel}: {told.load}, {stretch.phase}",
        )
        for stretch, shares, panel, told in pairs
        for query in stretch.shares
    ]
    if found:
        share, _, where = min(found)
        below = sum(one[0] < SLOWER for one in found)
        open_ = [(least, place) for one, least, place in found if least < SLOWER <= one]
        least, doubted = min(open_, default=(1.0, ""))
        short = f"{UNSURE} for {len(open_)}: {doubted} had between {least:.0%} and all" if open_ else ""
        yield Verdict(
            f"throughput of every query in steady states, against {what}",
            f"at least {SLOWER:.0%}" if binds else "told, for there are no such cores",
            f"{share:.0%} at least ({where}); {below} of {len(found)} below{'; ' if short else ''}{short}",
            below == 0 and not open_,
            f"{below} below" if below else short,
            binds,
        )


def _splits(ours: list[tuple[str, Told, Told | None]]) -> Iterator[Verdict]:
    """How soon splits came, and runs in which somebody was slowed and none came."""
    epochs = [count for _, told, _ in ours for count in told.split_epochs]
    never = list(_never_split(ours))
    if not epochs and not never:
        return
    most = max(epochs, default=0)
    seen = f"{median(epochs):g} (median), {most} at most, of {len(epochs)} splits" if epochs else "no split"
    if never:
        seen += f"; runs that slowed somebody and split nobody off: {len(never)} ({never[0]})"
    why = [f"{most}"] * (most > SPLIT_EPOCHS) + [f"never in {len(never)} runs"] * bool(never)
    yield Verdict(
        "epochs from back-pressure to the first split that answers it",
        f"at most {SPLIT_EPOCHS}, whenever somebody is slowed in a settled phase",
        seen,
        not why,
        ", ".join(why),
    )


def _never_split(ours: list[tuple[str, Told, Told | None]]) -> Iterator[str]:
    """The runs that never split anybody off though queries were slowed in a settled phase, each with the first such."""
    for one in ours:
        panel, told, _ = one
        if told.split_epochs or any(change.kind == "split" for change in told.changes):
            continue
        slow = [
            (stretch.phase, names)
            for _, _, stretch, alone in _pairs([one])
            if (names := slowed(stretch, alone))
        ]
        if slow:
            phase, names = slow[0]
            yield f"{panel}: {told.load}, {phase}: {', '.join(names[:4])}{' ...' * (len(names) > 4)}"


def _settles(panels: Panels) -> Iterator[Verdict]:
    """Runs that began with isolated groups: in others there is nothing to merge."""
    runs = {told.case: (panel, told) for panel, found in panels.items() for told in found if told.apart}
    steps = [(merge_steps(told), f"{panel}: {told.load}", told) for panel, told in runs.values()]
    merged = [(step, where) for step, where, _ in steps if step]
    # one group cannot be merged with any other
    apart = [where for step, where, told in steps if not step and told.stretches and told.last.groups > 1]
    if not merged and not apart:
        return
    most, where = max(merged, default=(0, ""))
    seen = f"{most} at most ({where}), {median(step for step, _ in merged):g} (median); " if merged else ""
    seen += f"{len(merged)} of {len(steps)} such runs merged"
    if apart:
        seen += f", and {len(apart)} had several groups to the end and merged none ({apart[0]})"
    yield Verdict(
        "merge steps until groups are settled, when queries begin isolated",
        f"at most {MERGE_STEPS}",
        seen,
        bool(merged) and most <= MERGE_STEPS,
        f"{most}" if merged else "nothing was merged",
    )


def merge_steps(told: Told) -> int:
    """The number of the merge step that last merged anything, counted from the beginning of the run; 0 if none did.

    It is looked every half second whether a step is due, so steps are a little farther apart.

    >>> from headrace_bench.isolation.figures import Change
    >>> late = [Change(6.4, "merged", "", 0.5), Change(12.9, "merged", "", 0.5)]
    >>> merge_steps(Told("functional", "", 1, [], changes=late, merge_every_s=6.0))
    2
    """
    merges = [change.at for change in told.changes if change.kind == "merged"]
    return max(1, round(max(merges) / (told.merge_every_s + 0.25))) if merges and told.merge_every_s else 0


def _monitoring(runs: Iterable[Told]) -> Iterator[Verdict]:
    shares = [told.looked for told in runs if told.series]
    if shares:
        yield Verdict(
            "CPU time of looks against the time of epochs, with a look every 10 s",
            f"under {LOOKED:.0%}",
            f"{median(shares):.1%} (median), {max(shares):.1%} at most",
            max(shares) < LOOKED,
        )


def _delays(runs: Iterable[tuple[str, Told]]) -> Iterator[Verdict]:
    """Decisions that came into force, and those that had not when their run was over, though there was time for it."""
    known = list(runs)
    delays = [delay for _, told in known for delay in told.delays_s]
    late = [
        (ended_at(told) - change.at, f"{panel}: {told.load}")
        for panel, told in known
        for change in overdue(told)
    ]
    if delays or late:
        seen = (
            f"{median(delays):.2f} (median), {max(delays):.2f} at most, of {len(delays)}"
            if delays
            else "none known"
        )
        if late:
            longest, where = max(late)
            seen += (
                f"; {len(late)} were not in force when the run ended, up to {longest:.0f} s later ({where})"
            )
        most = max(delays, default=0.0)
        slow = most >= DELAY_S
        yield Verdict(
            "seconds from a decision to the first epoch in the new shape (table I)",
            f"under {DELAY_S:g}",
            seen,
            not slow and not late,
            ", ".join([f"{most:.2f}"] * slow + [f"{len(late)} never in force"] * bool(late)),
        )


REGROUPS = ("merged", "split")
"""Changes that move queries: these have a delay as soon as they are in force."""


def overdue(told: Told) -> list[Change]:
    """The decisions that were not in force at the end of a run, and were taken long enough before it.

    >>> from headrace_bench.isolation.figures import Point
    >>> split = [Change(at, "split", "", delay) for at, delay in ((2.0, 0.5), (4.0, None), (9.5, None))]
    >>> run = Told("functional", "", 1, [], series=[Point(10.0, 1, 1.0, {}, {})], changes=split)
    >>> [change.at for change in overdue(run)]
    [4.0]
    """
    end = ended_at(told) - DELAY_S
    return [one for one in told.changes if one.kind in REGROUPS and one.delay_s is None and one.at < end]


def ended_at(told: Told) -> float:
    """When a run was over. One that climbs ends before its course does."""
    last = max((point.at for point in told.series), default=0.0)
    return last if told.climbs else max(last, max(told.ends, default=0.0))


def _gaps(runs: Iterable[tuple[str, Told]]) -> Iterator[Verdict]:
    found = [
        (told.gap_more_s, told.gap_s or 0.0, f"{panel}: {told.load}")
        for panel, told in runs
        if told.gap_more_s is not None
    ]
    if found:
        more, _, where = max(found)
        yield Verdict(
            "seconds without anything new for a query that moves, beyond its longest in the same phase",
            f"under {GAP_S:g}",
            f"{more:.2f} at most ({where}), of {len(found)} runs; {max(raw for _, raw, _ in found):.1f} in all at most",
            more < GAP_S,
            f"{more:.2f}",
        )


def _errors(runs: Iterable[Told]) -> Iterator[Verdict]:
    """A line per workload: what is predicted well for one may not be for another, and most runs are of W1."""
    by_workload: dict[str, list[Told]] = {}
    for told in runs:
        if told.error is not None:
            by_workload.setdefault(told.load.partition(",")[0], []).append(told)
    for workload, known in sorted(by_workload.items()):
        errors = [told.error for told in known if told.error is not None]
        longer = [error for told in known if (error := error_over(told.pairs)) is not None]
        over = f"; over {TOGETHER} epochs {median(longer):.0%}, {max(longer):.0%} at most" if longer else ""
        costs = [told.cost_error for told in known if told.cost_error is not None]
        alone = f"; {median(costs):.0%} when it is known what its tuples match" if costs else ""
        yield Verdict(
            f"error of the predicted work of an epoch, {workload}",
            f"under {ERROR:.0%} (median)",
            f"{median(errors):.0%} (median of {len(errors)} runs' medians), {max(errors):.0%} at most{over}{alone}",
            median(errors) < ERROR,
            f"{median(errors):.0%}",
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


Violated = tuple[int, int, float, int]
"""How many queries are slowed, of how many, the worst ratio to what a query would have isolated, and of how many it
cannot be told.
"""


def violations(panels: Panels) -> Iterator[tuple[str, str, str, dict[str, Violated]]]:
    """For every panel, load and phase, what each policy that ran does to queries. Climbs are meant to slow somebody."""
    rows: dict[tuple[str, str, str], dict[str, Violated]] = {}
    for policy in POLICIES[1:]:
        for panel, _, stretch, alone, load in _settled(panels, policy):
            shares = at_once(alone)
            worst = min(share / shares[query] for query, share in stretch.shares.items())
            found = len(slowed(stretch, alone)), len(stretch.shares), worst, len(unsure(stretch, alone))
            rows.setdefault((panel, load, stretch.phase), {})[policy] = found
    for (panel, load, phase), by_policy in rows.items():
        yield panel, load, phase, by_policy


def _settled(panels: Panels, policy: str) -> Iterator[tuple[str, Told, Stretch, Stretch, str]]:
    for panel, told, stretch, alone in _pairs(_runs_of(panels, policy)):
        yield panel, told, stretch, alone, told.load
