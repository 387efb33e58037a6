"""The aims for groups, against what a run saw."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from headrace_bench.aims import Verdict
from headrace_bench.groups.figures import Against, Backfill, Beside, Event, Seen

WORSE = 1.05
"""Epochs may take so much longer than those of the older checkout."""

ADDED_S = 1.0
"""A move, or another number of partitions, may add so many seconds to the next epoch."""

BACKFILL = 0.8
"""A backfill's rate against the live one, at least."""

BESIDE = 2.0
"""Shared epochs beside unshared queries against those alone: two pools share two cores fairly."""


def judge_groups(seen: Seen) -> list[Verdict]:
    """A line for everything that was measured."""
    return [
        *(judge_against(found) for found in seen.against),
        *(judge_event(event) for event in (seen.move, seen.repartition) if event is not None),
        *(judge_backfill(found) for found in (seen.backfill,) if found is not None),
        *(judge_beside(found) for found in (seen.beside,) if found is not None),
    ]


def judge_against(found: Against) -> Verdict:
    """
    >>> verdict = judge_against(Against(1, (0.21, 0.22, 0.25), (0.2, 0.2, 0.3)))
    >>> verdict.seen, verdict.met
    ('1.10 times (0.220 s against 0.200 s)', False)
    """
    return Verdict(
        f"epoch time at {found.queries:,} queries against the older checkout",
        f"at most {WORSE:g} times",
        f"{found.ratio:.2f} times ({median(found.ours):.3f} s against {median(found.theirs):.3f} s)",
        found.ratio <= WORSE,
        f"{(found.ratio - 1) * 100:.0f} % slower",
    )


def judge_event(event: Event) -> Verdict:
    """It must take effect with the next epoch, add little to it, and leave rows exact."""
    wrong = list(faults_of(event))
    told = {None: "", 0: "never, ", 1: "with the next epoch, "}
    when = told.get(event.effect, f"with epoch {event.effect} after it, ")
    return Verdict(
        event.what,
        f"{'' if event.effect is None else 'with the next epoch, '}less than {ADDED_S:g} s added to it",
        f"{when}{event.added_s:.2f} s added ({median(event.before):.2f} s before, {event.next:.2f} s then, "
        f"{median(event.after):.2f} s after; {event.asked_s:.2f} s to ask)",
        not wrong,
        "; ".join(wrong),
    )


def faults_of(event: Event) -> Iterator[str]:
    """What is wrong with an event, in words."""
    if event.effect not in (None, 1):
        yield "it took effect late" if event.effect else "it never took effect"
    if event.added_s >= ADDED_S:
        yield f"{event.added_s - ADDED_S:.2f} s too much"
    if not event.exact:
        yield "rows differ from plain Spark's"


def judge_backfill(found: Backfill) -> Verdict:
    """
    >>> verdict = judge_backfill(Backfill(100, 1.0, 7, 120, 2.0, 7))
    >>> verdict.seen, verdict.met
    ('60% (60 against 100 events/s)', False)
    """
    ratio, same = found.rate / found.live_rate, found.results == found.live_results
    slow = f"{BACKFILL / ratio:.1f} times too slow"
    return Verdict(
        f"rate of a backfill of {found.rows:,} tuples against the same query live",
        f"at least {BACKFILL:.0%}",
        f"{ratio:.0%} ({found.rate:,.0f} against {found.live_rate:,.0f} events/s)",
        same and ratio >= BACKFILL,
        slow if same else f"it has {found.results:,} rows in place of {found.live_results:,}",
    )


def judge_beside(found: Beside) -> Verdict:
    """Shared queries must not be slowed much, and the others must run nevertheless."""
    wrong = [f"{found.ratio / BESIDE:.1f} times too slow"] if found.ratio > BESIDE else []
    wrong += [] if found.progress else ["the others never ran"]
    return Verdict(
        f"epoch time of {found.shared} shared queries beside {found.unshared} unshared ones against alone",
        f"at most {BESIDE:g} times",
        f"{found.ratio:.2f} times ({median(found.beside):.2f} s against {median(found.alone):.2f} s, at most "
        f"{max(found.beside):.2f} s; the others ran {found.progress} epochs of {len(found.beside) * found.unshared} "
        f"and were {found.lag_epochs} behind at most)",
        not wrong,
        "; ".join(wrong),
    )
