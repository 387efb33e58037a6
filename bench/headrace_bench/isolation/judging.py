"""The aims for groups that merge and split themselves, against what the runs saw."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import ceil

import numpy as np

from headrace_bench.aims import Verdict
from headrace_bench.isolation.cases import POLICIES
from headrace_bench.isolation.comparing import Compared, Panels, pairs, runs_of, runs_of_ours
from headrace_bench.isolation.deciding import (
    judge_delays,
    judge_errors,
    judge_gaps,
    judge_monitoring,
    judge_settles,
    judge_splits,
)
from headrace_bench.isolation.figures import (
    CORES,
    SLOWER,
    Stretch,
    Told,
    at_once,
    isolated_course,
    isolated_seconds,
    slowed,
    unsure,
)
from headrace_bench.pages import UNSURE

FEWER = 10.7
"""CPU seconds of isolated groups against those of functional isolation, at least, for 128 queries of W1, 10 %."""

MANY = "W1, 128 queries, 10%"


def judge_isolation(panels: Panels) -> list[Verdict]:
    """A line for every aim that these runs can say something about."""
    ours = list(runs_of_ours(panels))
    return [
        *_fewer(ours),
        *_never_more(ours),
        *_as_fast(ours),
        *judge_splits(ours),
        *judge_settles(panels),
        *judge_monitoring(told for _, told, _ in ours),
        *judge_delays((panel, told) for panel, told, _ in ours),
        *judge_gaps((panel, told) for panel, told, _ in ours if not told.climbs),
        *judge_errors(told for _, told, _ in ours),
    ]


def _fewer(ours: list[Compared]) -> Iterator[Verdict]:
    for panel, told, stretch, alone in pairs(ours):
        if panel == "6a" and told.load == MANY:
            ratio = alone.cpu / stretch.cpu
            yield Verdict(
                f"CPU seconds of isolated groups against functional isolation, {MANY}",
                f"at least {FEWER:g} times",
                f"{ratio:.1f} times ({alone.cpu:.2f} against {stretch.cpu:.2f} cores)",
                ratio >= FEWER,
                f"{ratio:.1f} times",
            )


def _never_more(ours: list[Compared]) -> Iterator[Verdict]:
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
            for panel, told, stretch, alone in pairs(ours)
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


def _as_fast(ours: list[Compared]) -> Iterator[Verdict]:
    """Two lines: against all queries alone at once on the cores that there are, and against one after the other."""
    found = list(pairs(ours))
    yield from _slowest(
        [(stretch, at_once(alone), panel, told) for panel, told, stretch, alone in found],
        f"what it would have if all ran isolated at the same time and shared the {CORES} cores",
        binds=True,
    )
    yield from _slowest(
        [(stretch, alone.shares, panel, told) for panel, told, stretch, alone in found],
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
    for panel, told, stretch, alone in pairs(runs_of(panels, policy)):
        yield panel, told, stretch, alone, told.load
