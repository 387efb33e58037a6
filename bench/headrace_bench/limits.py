"""Where the limit is: how much of the CPU time of a trial goes into what.

Tasks have clocks for reading, for closing windows and for writing. What else they do is to find the queries of tuples
and to update partials. The meter of the trial has the time of all processes, so the rest is Spark's and the driver's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace_bench.pages import table
from headrace_bench.trial import PHASES, Outcome

COUNTS = (
    "queries",
    "conjuncts",
    "bytes read",
    "matches",
    "gone through",
    "result rows",
    "bytes written",
    "µs of CPU",
)
PARTS = ("reading", "matches", "rows", "writing", "the rest")
"""What the time of each of `PHASES` is called, and what is left."""

ABOUT = (
    "The counts and microseconds are per event. The shares are CPU time as tasks measure it: *reading* chunks; finding "
    "the *matches* of tuples and updating partials, with keys, messages and state; closing windows and making their "
    "result *rows*; and *writing* these with their checksums. *The rest* is what all processes took besides: Spark, "
    "the driver, and the way between them and the tasks. The largest share is the limit. Where tuples are kept in "
    "place of partials, their matches are found when windows close, and count as rows."
)
NO_CLOCKS = "This run was made before tasks had clocks for what they do, so it says no shares."


def limits(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A table of trials: what an event is in each respect, and how much of the CPU time goes into it."""
    known = [o for o in outcomes if is_known(o)]
    if not known:
        return
    clocks = any(o.tasks_s for o in known)
    yield "What an event of Headrace's trials is, and where the time goes:"
    yield ""
    heads = (*COUNTS, *PARTS) if clocks else COUNTS
    yield from table(heads, (_counts(o) + (_shares(o) if clocks else ()) for o in known))
    yield ABOUT if clocks else NO_CLOCKS
    yield ""


def is_known(outcome: Outcome) -> bool:
    counted = (outcome.matches, outcome.bytes_read, outcome.bytes_written)
    return bool(outcome.cpu_s) and None not in counted


def _counts(outcome: Outcome) -> tuple[str, ...]:
    """Counts are those of all files, and the time is that of the files after warming up."""
    trial = outcome.trial
    share = trial.files / (trial.files + trial.warm_up) / trial.fed
    return (
        f"{trial.queries:,}",
        f"{trial.columns}",
        f"{share * (outcome.bytes_read or 0):.0f}",
        f"{share * (outcome.matches or 0):.2f}",
        "" if outcome.visited is None else f"{outcome.visited:.2f}",
        f"{share * outcome.result_rows:.3f}",
        f"{share * (outcome.bytes_written or 0):.1f}",
        f"{outcome.cpu_s / trial.fed * 1e6:.2f}",
    )


def _shares(outcome: Outcome) -> tuple[str, ...]:
    """The share of each part, the largest one in bold.

    >>> from headrace_bench.trial import Trial
    >>> spent = {"reading": 1.0, "matching": 2.0, "closing": 4.0, "writing": 2.0}
    >>> _shares(Outcome(Trial("headrace", 1), cpu_s=10.0, tasks_s=spent))
    ('10 %', '20 %', '**40 %**', '20 %', '10 %')
    """
    if not outcome.tasks_s:
        return ("",) * len(PARTS)
    seconds = [outcome.tasks_s[phase] for phase in PHASES]
    seconds.append(max(0.0, outcome.cpu_s - sum(seconds)))
    shares = [f"{100 * one / sum(seconds):.0f} %" for one in seconds]
    largest = max(range(len(shares)), key=seconds.__getitem__)
    return tuple(f"**{share}**" if i == largest else share for i, share in enumerate(shares))
