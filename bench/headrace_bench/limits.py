"""Where the limit is: how much of the CPU time of trials goes into what.

Trials differ in how much is read, how many tuples queries match, and how many rows and bytes are written. The times
that explain best what all trials took, none of them negative, are found by least squares. Parts that grow together
over all trials cannot be told apart, so they are one. How sure a share is, is said by leaving each trial out in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace_bench.pages import table
from headrace_bench.trial import Outcome

PARTS = ("events", "bytes read", "matches", "result rows", "bytes written")

TOGETHER = 0.98
"""Parts grow together when the cosine of the angle between their amounts is at least this."""

TELLING = 0.1
"""A part is named when it may take so much of the time."""

HEAD = (
    "queries",
    "conjuncts",
    "bytes read",
    "matches",
    "gone through",
    "result rows",
    "bytes written",
    "µs of CPU",
    "limit",
)


@dataclass(frozen=True, slots=True)
class Fit:
    """What time goes into. A part stands for one or several of `PARTS`.

    `shares` are [trial, part] of what the fit explains; `low` and `high` are the least and the most that they become
    when one trial is left out. `explained` is what the fit gives for each trial's time, as a ratio to the time itself.
    """

    names: tuple[str, ...]
    shares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    explained: np.ndarray


def limits(outcomes: Sequence[Outcome], others: Sequence[Outcome] = ()) -> Iterator[str]:
    """A table of trials: what an event is in each respect, and how much of the CPU time goes into it.

    `others` are trials of the same system that help to tell parts apart.
    """
    known = [o for o in outcomes if is_known(o)]
    if not known:
        return
    yield "What an event of Headrace's trials is, and where the time goes:"
    yield ""
    helping = [o for o in others if is_known(o) and o not in known]
    amounts = np.array([_amounts(o) for o in (*known, *helping)])
    fit = fit_parts(amounts, np.array([o.cpu_s for o in (*known, *helping)]))
    yield from table(HEAD, (_row(o, amounts[i], fit, i) for i, o in enumerate(known)))
    yield from _how_sure(fit, len(known) + len(helping))


def is_known(outcome: Outcome) -> bool:
    counted = (outcome.matches, outcome.bytes_read, outcome.bytes_written)
    return bool(outcome.cpu_s) and None not in counted


def _how_sure(fit: Fit | None, trials: int) -> Iterator[str]:
    if fit is None:
        yield (
            f"From {trials} trials nothing can be said about where the time goes: there have to be two more "
            "than parts."
        )
    else:
        error = np.median(np.abs(fit.explained - 1.0))
        text = (
            f"These shares are a fit to {trials} trials, of which the middle one is explained within {error:.0%}. "
            "A range is what a share becomes when one trial is left out. Events stand for all that an epoch takes "
            "anyway. "
            "Where tuples find their queries by cells, a match takes no time of its own and is not counted."
        )
        joint = [name for name in fit.names if " or " in name]
        if joint:
            text += f" Not told apart, because they grow together: {'; '.join(joint)}."
        yield text.replace("%", " %")
    yield ""


def _amounts(outcome: Outcome) -> tuple[float, ...]:
    """Of what is measured: counts are those of all files, the clock runs for those after warming up.

    Matches are those that tuples were gone through for, where that is known.
    """
    trial = outcome.trial
    share = trial.files / (trial.files + trial.warm_up)
    read, matches, rows, written = (
        share * (count or 0)
        for count in (outcome.bytes_read, outcome.matches, outcome.result_rows, outcome.bytes_written)
    )
    if outcome.visited is not None:
        matches = outcome.visited * trial.fed
    return float(trial.fed), read, matches, rows, written


def _row(outcome: Outcome, amounts: np.ndarray, fit: Fit | None, number: int) -> tuple[str, ...]:
    trial = outcome.trial
    events, read, matches, rows, written = (float(amount) for amount in amounts)
    share = trial.files / (trial.files + trial.warm_up)
    return (
        f"{trial.queries:,}",
        f"{trial.columns}",
        f"{read / events:.0f}",
        f"{share * (outcome.matches or 0) / events:.2f}",
        "" if outcome.visited is None else f"{matches / events:.2f}",
        f"{rows / events:.3f}",
        f"{written / events:.1f}",
        f"{outcome.cpu_s / events * 1e6:.2f}",
        "" if fit is None else _limit(fit, number),
    )


def _limit(fit: Fit, number: int) -> str:
    """The parts that may take a tenth of the time or more, largest first.

    >>> lows, highs = np.array([[0.5, 0.2, 0.0]]), np.array([[0.7, 0.4, 0.05]])
    >>> fit = Fit(("matches", "events", "result rows"), (lows + highs) / 2, lows, highs, np.ones(1))
    >>> _limit(fit, 0)
    'matches 50 to 70 %, events 20 to 40 %'
    """
    shares, low, high = fit.shares[number], fit.low[number], fit.high[number]
    order = [int(i) for i in np.argsort(-shares) if high[i] >= TELLING]
    return ", ".join(f"{fit.names[i]} {100 * low[i]:.0f} to {100 * high[i]:.0f} %" for i in order)


def fit_parts(amounts: np.ndarray, seconds: np.ndarray) -> Fit | None:
    """What the seconds of trials go into, given their amounts [trial, part]; None with too few trials."""
    joint = _together(amounts / seconds[:, None])
    if len(seconds) < len(joint) + 2:
        return None
    scale = np.linalg.norm(amounts / seconds[:, None], axis=0)
    merged = np.stack([(amounts[:, some] / scale[some]).mean(axis=1) for some in joint], axis=1)
    spent = merged * fit_costs(merged, seconds)
    shares = spent / np.maximum(spent.sum(axis=1, keepdims=True), 1e-12)
    again = [shares]
    for left_out in range(len(seconds)):
        some = np.arange(len(seconds)) != left_out
        part = merged * fit_costs(merged[some], seconds[some])
        again.append(part / np.maximum(part.sum(axis=1, keepdims=True), 1e-12))
    names = tuple(" or ".join(PARTS[i] for i in some) for some in joint)
    return Fit(names, shares, np.min(again, axis=0), np.max(again, axis=0), spent.sum(axis=1) / seconds)


def _together(scaled: np.ndarray) -> list[list[int]]:
    """Parts that occur, those that grow together in one list.

    >>> _together(np.array([[1.0, 2.0, 0.0, 5.0], [1.0, 2.1, 0.0, 1.0], [1.0, 1.9, 0.0, 9.0]]))
    [[0, 1], [3]]
    """
    lengths = np.linalg.norm(scaled, axis=0)
    found: list[list[int]] = []
    for part in np.flatnonzero(lengths).tolist():
        near = (
            some
            for some in found
            if scaled[:, some[0]] @ scaled[:, part] >= TOGETHER * lengths[some[0]] * lengths[part]
        )
        same = next(near, None)
        if same is None:
            found.append([part])
        else:
            same.append(part)
    return found


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
