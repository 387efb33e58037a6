"""The aims for decisions: how soon they come, how long they take, what they cost and how well they were predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from headrace_bench.aims import Verdict
from headrace_bench.isolation.comparing import Compared, Panels, pairs
from headrace_bench.isolation.figures import Change, Told, slowed

LOOKED = 0.02
SPLIT_EPOCHS = 2
MERGE_STEPS = 2
DELAY_S = 1.0
GAP_S = 1.0
ERROR = 0.2
TOGETHER = 10
"""Groups are looked at every so many epochs by default. What a second of input holds is partly chance."""


def judge_splits(ours: list[Compared]) -> Iterator[Verdict]:
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


def _never_split(ours: list[Compared]) -> Iterator[str]:
    """The runs that never split anybody off though queries were slowed in a settled phase, each with the first such."""
    for one in ours:
        panel, told, _ = one
        if told.split_epochs or any(change.kind == "split" for change in told.changes):
            continue
        slow = [
            (stretch.phase, names)
            for _, _, stretch, alone in pairs([one])
            if (names := slowed(stretch, alone))
        ]
        if slow:
            phase, names = slow[0]
            yield f"{panel}: {told.load}, {phase}: {', '.join(names[:4])}{' ...' * (len(names) > 4)}"


def judge_settles(panels: Panels) -> Iterator[Verdict]:
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


def judge_monitoring(runs: Iterable[Told]) -> Iterator[Verdict]:
    shares = [told.looked for told in runs if told.series]
    if shares:
        yield Verdict(
            "CPU time of looks against the time of epochs, with a look every 10 s",
            f"under {LOOKED:.0%}",
            f"{median(shares):.1%} (median), {max(shares):.1%} at most",
            max(shares) < LOOKED,
        )


def judge_delays(runs: Iterable[tuple[str, Told]]) -> Iterator[Verdict]:
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


def judge_gaps(runs: Iterable[tuple[str, Told]]) -> Iterator[Verdict]:
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


def judge_errors(runs: Iterable[Told]) -> Iterator[Verdict]:
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
