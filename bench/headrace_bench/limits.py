"""Where the limit is: how much of the CPU time of a section's trials goes into what.

The trials of a section differ in how much is read, how many tuples queries match, and how many rows and bytes are
written. The times that explain best what all trials took together, none of them negative, are found by least squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headrace_bench.pages import table
from headrace_bench.trial import Outcome

PARTS = ("events", "matches", "result rows", "bytes written")
LEAST_TRIALS = len(PARTS) + 1


def limits(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A table per trial: what an event is in each respect, and how much of the CPU time goes into it."""
    known = [o for o in outcomes if o.matches is not None and o.bytes_written is not None and o.cpu_s]
    if not known:
        return
    yield "What an event of Headrace's trials is, and where the time goes:"
    yield ""
    amounts = np.array([_amounts(o) for o in known])
    unit = fit_costs(amounts, np.array([o.cpu_s for o in known])) if len(known) >= LEAST_TRIALS else None
    head = (
        "queries",
        "conjuncts",
        "bytes read",
        "matches",
        "result rows",
        "bytes written",
        "µs of CPU",
        "limit",
    )
    yield from table(head, (_row(o, a, unit) for o, a in zip(known, amounts, strict=True)))
    if unit is None:
        yield f"With fewer than {LEAST_TRIALS} trials nothing can be said about where the time goes."
        yield ""


def _amounts(outcome: Outcome) -> tuple[float, ...]:
    """Of what is measured: counts are those of all files, the clock runs for those after warming up."""
    trial = outcome.trial
    share = trial.files / (trial.files + trial.warm_up)
    assert outcome.matches is not None and outcome.bytes_written is not None
    counted = (outcome.matches, outcome.result_rows, outcome.bytes_written)
    return (float(trial.fed), *(share * count for count in counted))


def _row(outcome: Outcome, amounts: np.ndarray, unit: np.ndarray | None) -> tuple[str, ...]:
    trial = outcome.trial
    events, matches, rows, written = (float(amount) for amount in amounts)
    every = trial.rows * (trial.files + trial.warm_up)
    read = "" if outcome.bytes_read is None else f"{outcome.bytes_read / every:.0f}"
    return (
        f"{trial.queries:,}",
        f"{trial.columns}",
        read,
        f"{matches / events:.2f}",
        f"{rows / events:.3f}",
        f"{written / events:.1f}",
        f"{outcome.cpu_s / events * 1e6:.2f}",
        "" if unit is None else _limit(amounts * unit),
    )


def _limit(seconds: np.ndarray) -> str:
    """The parts that take a tenth of the time or more, largest first.

    >>> _limit(np.array([3.0, 6.0, 0.5, 0.5]))
    'matches 60 %, events 30 %'
    """
    shares = seconds / max(float(seconds.sum()), 1e-12)
    order = [int(i) for i in np.argsort(-shares) if shares[i] >= 0.1]
    return ", ".join(f"{PARTS[i]} {shares[i]:.0%}".replace("%", " %") for i in order)


def fit_costs(amounts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """The time of one unit of each amount that explains the seconds of all trials best; none is negative.

    Every trial counts alike, whatever its length. Parts that would be negative are left out one by one.

    >>> fit_costs(np.array([[10, 0], [10, 5], [20, 5]]), np.array([10.0, 20.0, 30.0])).round(6).tolist()
    [1.0, 2.0]
    """
    scaled = amounts / seconds[:, None]
    found, used = np.zeros(amounts.shape[1]), [i for i in range(amounts.shape[1]) if amounts[:, i].any()]
    while used:
        part = np.linalg.lstsq(scaled[:, used], np.ones(len(seconds)), rcond=None)[0]
        if (part >= 0).all():
            found[used] = part
            break
        used.pop(int(np.argmin(part * scaled[:, used].mean(axis=0))))
    return found
