"""What the project set out to reach, against what a run saw; a miss says by how much and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from headrace_bench.campaign import ALIKE_RARE, RARE_KEYS
from headrace_bench.run import Finished
from headrace_bench.trial import Outcome
from headrace_bench.workload import Workload

MANY, MANY_JOINS = 1_000, 100
MANY_RARE = 10_000
EPOCH_ROWS = 500_000
"""Tuples of an epoch of which an aim says how long it may take."""
LEAST_EPOCHS = 3
"""So many epochs of that size are enough to judge by."""
MOST_MB = 2_048
"""What a worker may take."""
JUDGED_CURVES = ("keys", "columns", "density")
"""Without these curves nothing can be said of the memory at any setting: they have the largest state."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`seen` against `wanted`, both as text; `why` explains a miss from the run's own figures.

    One that does not bind is told, whatever was seen: the run says too little of it, or nothing that we could do would
    reach it on this machine.
    """

    aim: str
    wanted: str
    seen: str
    met: bool
    why: str = ""
    binds: bool = True


def judge(finished: Sequence[Finished]) -> list[Verdict]:
    """The aims that this run can say something about."""
    sections = {one.section.name: [o for o in one.outcomes if not o.failure] for one in finished}
    compared = sections.get("comparison", [])
    slow = [o for one in finished for o in one.outcomes if one.section.name == "comparison" and o.too_slow]
    return [
        *_throughput(compared, slow),
        *_epochs(compared),
        *_alone(compared),
        *_live([*compared, *sections.get("sustainable", [])]),
        *_joins(finished),
        *_predicates(finished),
        *_rare(sections.get(Workload.RARE, [])),
        *_growth("queries", sections.get("queries", [])),
        *_growth("keys", sections.get("keys", [])),
        *_memory(finished),
    ]


def _throughput(outcomes: Sequence[Outcome], slow: Sequence[Outcome]) -> Iterator[Verdict]:
    ours = next((o for o in outcomes if o.trial.system == "headrace" and o.trial.queries == MANY), None)
    if ours is not None:
        yield from _against(
            ours,
            (*outcomes, *slow),
            ("spark", "a streaming query each, at its best", (1, 4, 16), 600),
            ("fused", "hand-fused Spark", (100,), 20),
            ("flink", "Flink SQL", (100,), 20),
        )


def _epochs(outcomes: Sequence[Outcome]) -> Iterator[Verdict]:
    """How long an epoch of many queries takes, against one of one query.

    It is judged where both had `LEAST_EPOCHS` of the size that the aim has. Elsewhere the times of an event are told.
    """
    ours = {o.trial.queries: o for o in outcomes if o.trial.system == "headrace"}
    if not {1, MANY} <= ours.keys():
        return
    one, many = ours[1], ours[MANY]
    few_s, many_s = ([s for rows, s in o.epochs if rows == EPOCH_ROWS] for o in (one, many))
    if min(len(few_s), len(many_s)) >= LEAST_EPOCHS:
        ratio = median(many_s) / median(few_s)
        aim, wanted = f"epoch time at {MANY:,} queries against one query, {EPOCH_ROWS:,} events per epoch", ""
    else:
        ratio = one.throughput / many.throughput
        sizes = dict.fromkeys(_sizes(o) for o in (many, one))
        aim = f"time per event at {MANY:,} queries against one query, in {' against '.join(sizes)}"
        wanted = f" with {EPOCH_ROWS:,} events per epoch"
    yield Verdict(
        aim,
        f"at most 2.0 times{wanted}",
        f"{ratio:.2f} times",
        ratio <= 2.0,
        f"{ratio / 2.0:.2f} times too long. {_rows_bound(many)}",
        binds=not wanted,
    )


def _sizes(outcome: Outcome) -> str:
    """
    >>> from headrace_bench.trial import Trial
    >>> _sizes(Outcome(Trial("headrace", 1), epochs=[(500, 0.1), (1_000, 0.2), (500, 0.1)]))
    'epochs of 500 to 1,000 events'
    """
    sizes = [rows for rows, _ in outcome.epochs]
    if not sizes:
        return "epochs of unknown size"
    least, most = min(sizes), max(sizes)
    return f"epochs of {least:,} events" if least == most else f"epochs of {least:,} to {most:,} events"


def _memory(finished: Sequence[Finished]) -> Iterator[Verdict]:
    """What a worker takes at most at any setting of the curves, those over predicates included. A run that lacks some
    of `JUDGED_CURVES` has not seen that, so what it has seen is told.
    """
    curves = [
        one
        for one in finished
        if one.section.curve or one.section.name in (Workload.PREDICATES, Workload.RARE)
    ]
    every = [o for one in curves for o in one.outcomes if o.trial.system == "headrace"]
    known = [o for o in every if not o.failure and "worker" in o.peak_mb]
    broken = [o for o in every if o.failure and not o.failure.startswith("left out")]
    if not known:
        return
    most = max(known, key=lambda o: o.peak_mb["worker"])
    mb, trial = most.peak_mb["worker"], most.trial
    at = f"{trial.queries:,} queries, {trial.keys:,} keys, {trial.rows:,} tuples per file"
    unknown = (
        f"; {len(broken)} of {len(every)} settings did not end, so nothing is known of them" if broken else ""
    )
    lacking = [name for name in JUDGED_CURVES if not any(_went_through(one, name) for one in curves)]
    unseen = f"not seen: this run lacks curves over {', '.join(lacking)}. " if lacking else ""
    yield Verdict(
        "memory of a worker at any setting of the curves",
        f"under {MOST_MB:,} MB",
        f"{unseen}{mb:,.0f} MB at most ({at}){unknown}",
        mb < MOST_MB and not broken and not lacking,
        f"{max(0.0, mb - MOST_MB):,.0f} MB too much{unknown}.",
        binds=not lacking or mb >= MOST_MB or bool(broken),  # what a run has seen to be too much counts
    )


def _went_through(one: Finished, curve: str) -> bool:
    """Whether a section is this curve, and no time was over before all of its trials were tried."""
    return one.section.name == curve and not any(
        (o.failure or "").startswith("left out") for o in one.outcomes
    )


def _against(
    ours: Outcome, others: Sequence[Outcome], *wants: tuple[str, str, tuple[int, ...], int]
) -> Iterator[Verdict]:
    """Overall throughput against the best of each (system, what it is called, numbers of queries, times wanted)."""
    kind = "" if ours.trial.workload is Workload.AGGREGATION else f"{ours.trial.workload} "
    for system, name, counts, wanted in wants:
        theirs = [o for o in others if o.trial.system == system and o.trial.queries in counts]
        if theirs:
            measured = " and ".join(f"{o.trial.queries}" for o in theirs)
            best = max(theirs, key=_at_most)
            ratio = ours.overall / _at_most(best)
            yield Verdict(
                f"overall throughput at {ours.trial.queries:,} {kind}queries against {name} ({measured} queries)",
                f"{wanted} times",
                f"more than {ratio:,.0f} times: it did not finish"
                if best.too_slow
                else f"{ratio:,.0f} times",
                ratio >= wanted,
                f"{wanted / ratio:.1f} times short. {_rows_bound(ours)}",
            )


def _joins(finished: Sequence[Finished]) -> Iterator[Verdict]:
    """Of the join template: throughput at `MANY_JOINS` queries, and what these cost against one."""
    outcomes = [o for one in finished if one.section.name == Workload.JOIN for o in one.outcomes]
    good = [o for o in outcomes if not o.failure]
    ours = {o.trial.queries: o for o in good if o.trial.system == "headrace"}
    if MANY_JOINS not in ours:
        return
    yield from _against(
        ours[MANY_JOINS],
        [*good, *(o for o in outcomes if o.too_slow)],
        ("spark", "a streaming query each, at its best", (1, 4, 16), 50),
        ("fused", "hand-fused Spark", (100,), 10),
    )
    if 1 in ours:
        few, many = ours[1], ours[MANY_JOINS]
        cost, rows = many.cpu_s / max(few.cpu_s, 0.01), many.result_rows / max(few.result_rows, 1)
        yield Verdict(
            f"CPU from 1 to {MANY_JOINS} join queries",
            "grows less than 4 times",
            f"{cost:,.1f} times",
            cost < 4,
            f"{cost / 4:.1f} times too much, while the result rows grow {rows:,.0f} times.",
        )


def _predicates(finished: Sequence[Finished]) -> Iterator[Verdict]:
    """Of predicates as people write them: three conjuncts against one, and against what is written by hand."""
    outcomes = [o for one in finished if one.section.name == Workload.PREDICATES for o in one.outcomes]
    good = [o for o in outcomes if not o.failure]
    ours = {o.trial.columns: o for o in good if (o.trial.system, o.trial.queries) == ("headrace", MANY)}
    if {1, 3} <= ours.keys():
        ratio = ours[3].throughput / ours[1].throughput
        yield Verdict(
            f"rate at {MANY:,} queries of three conjuncts against one conjunct",
            "at least 0.25 times",
            f"{ratio:.2f} times",
            ratio >= 0.25,
            f"{0.25 / ratio:.1f} times short.",
        )
    if 3 in ours:
        hand = [o for o in outcomes if o.trial.system == "fused" and (not o.failure or o.too_slow)]
        yield from _against(ours[3], hand, ("fused", "hand-fused Spark", (100,), 50))
    if 1 in ours:
        each = [o for o in outcomes if o.trial.system == "spark" and o.trial.columns == 1]
        each = [o for o in each if not o.failure or o.too_slow]
        yield from _against(ours[1], each, ("spark", "a streaming query each, at its best", (1, 4, 16), 600))


def _rare(outcomes: Sequence[Outcome]) -> Iterator[Verdict]:
    """Of rare predicates: what a tuple costs with many of them against few, with as many result rows, and with as many
    keys. There many queries have many times the rows, which nobody can share.
    """
    seen = {(o.trial.queries, o.trial.keys): o for o in outcomes}
    few, keys = ALIKE_RARE
    many = seen.get((MANY_RARE, RARE_KEYS))
    for other, what, binds in (
        (
            seen.get((few, keys)),
            f"the same number of matches and of result rows ({few:,} with {keys:,} keys)",
            True,
        ),
        (seen.get((few, RARE_KEYS)), "the same number of matches", True),
    ):
        if many is None or other is None:
            continue
        ratio = many.cpu_s / many.trial.fed / (other.cpu_s / other.trial.fed)
        rows = many.result_rows / max(other.result_rows, 1)
        yield Verdict(
            f"CPU per event at {MANY_RARE:,} queries of a rare equality against {few:,}, with {what}",
            "at most 1.5 times",
            f"{ratio:.2f} times, with {rows:.1f} times the result rows",
            ratio <= 1.5,
            f"{ratio / 1.5:.1f} times too much.",
            binds,
        )


def _at_most(outcome: Outcome) -> float:
    """Overall throughput, or what it would have been had it finished when its time was over."""
    trial = outcome.trial
    return trial.fed / trial.limit_s * trial.queries if outcome.too_slow else outcome.overall


def _rows_bound(ours: Outcome) -> str:
    """How many result rows there are, which nobody can share, and their part of the time, where it is known."""
    rows = max(ours.result_rows, 1) * ours.trial.files / (ours.trial.files + ours.trial.warm_up)
    events = ours.trial.fed
    part = ""
    if ours.tasks_s and ours.cpu_s:
        share = (ours.tasks_s["closing"] + ours.tasks_s["writing"]) / ours.cpu_s
        part = f" Closing windows, making rows and writing them is {share:.0%} of it.".replace("%", " %")
    return (
        f"At {ours.trial.queries:,} queries every event makes {rows / events:.1f} result rows, and {rows:,.0f} rows "
        f"took {ours.cpu_s:.1f} s of CPU ({ours.cpu_s / rows * 1e6:.2f} µs each, all else included).{part}"
    )


def _alone(outcomes: Sequence[Outcome]) -> Iterator[Verdict]:
    one = {o.trial.system: o for o in outcomes if o.trial.queries == 1}
    if "headrace" in one and "spark" in one:
        ratio = one["headrace"].throughput / one["spark"].throughput
        why = f"{1 / ratio:.2f} times slower: an epoch has a fixed cost of two Spark stages and a commit."
        yield Verdict("one query against plain Spark", "not slower", f"{ratio:.2f} times", ratio >= 1, why)


def _live(outcomes: Sequence[Outcome]) -> Iterator[Verdict]:
    for outcome in outcomes:
        if outcome.burst is not None and outcome.burst.deployments:
            seen = outcome.burst.deployments["max"]
            why = (
                f"{seen - 2:.1f} s late: parsing and planning {outcome.burst.requests:,} texts shares two cores with "
                "the epochs under way."
            )
            yield Verdict("1,000 creations acknowledged", "within 2 s", f"{seen:.1f} s", seen <= 2, why)
        if outcome.half is not None and outcome.half.latencies:
            seen = outcome.half.latencies["p50"]
            why = f"{seen - 1.5:.1f} s late: a window waits for the epoch under way and for its own."
            aim = f"event-time latency p50 at half the sustainable rate ({outcome.half.rate:,} events/s)"
            yield Verdict(aim, "under 1.5 s", f"{seen:.2f} s", seen < 1.5, why)


def _growth(what: str, outcomes: Sequence[Outcome]) -> Iterator[Verdict]:
    if len(outcomes) < 2:
        return
    few, many = (
        (min if least else max)(outcomes, key=lambda o: getattr(o.trial, what)) for least in (True, False)
    )
    cost, rows = many.cpu_s / max(few.cpu_s, 0.01), many.result_rows / max(few.result_rows, 1)
    low, high = getattr(few.trial, what), getattr(many.trial, what)
    yield Verdict(
        f"CPU from {low:,} to {high:,} {what}",
        f"grows no faster than the result rows ({rows:,.1f} times)",
        f"{cost:,.1f} times",
        cost <= rows,
        f"{cost / rows:.1f} times faster than the rows.",
    )
