"""What response times of Linear Road are made of, from what a run says of itself.

The tuples of a second are handed over when the next second's have come. So an answer waits for these, for the epoch
that takes them in to be sealed, for the split to begin it, for its two steps, and for the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

PARTS = ("next second", "append", "seal", "begin", "split", "process", "commit")


@dataclass(frozen=True, slots=True)
class Answered:
    """The epoch that answered a second. Moments are those of the clock, walls are seconds."""

    sealed: float
    taken: float
    """How long the epoch took until its commit was written."""
    split: float
    process: float
    counted: float
    """When somebody who looks saw that it counts."""
    committing: float
    """When its commit was about to be written."""


@dataclass(frozen=True, slots=True)
class Fed:
    """When the tuples of a second were due, and when appending those of the next second began and ended."""

    due: float
    next_began: float
    next_appended: float


def parts_of(fed: Fed, answered: Answered) -> dict[str, float]:
    """The seconds of each part; they add up to the response time."""
    began = answered.committing - answered.taken
    moments = {
        "next second": fed.next_began,
        "append": fed.next_appended,
        "seal": answered.sealed,
        "begin": began,
        "split": began + answered.split,
        "process": began + answered.split + answered.process,
        "commit": answered.counted,
    }
    found, before = {}, fed.due
    for part, moment in moments.items():
        moment = max(moment, before)  # an epoch may begin to be sealed while something is appended
        found[part], before = moment - before, moment
    return found


def render_parts(found: Mapping[int, Mapping[str, float]], slowest: int = 5) -> str:
    """A page: each part at the median, at 99 % and at most, and the parts of the slowest seconds."""
    if not found:
        return "no second was answered"
    totals = {second: sum(parts.values()) for second, parts in found.items()}
    lines = ["response time  " + "  ".join(f"{name:>11}" for name in ("all", *PARTS))]
    columns = [list(totals.values()), *([parts[part] for parts in found.values()] for part in PARTS)]
    for name, share in (("p50", 50), ("p99", 99), ("max", 100)):
        lines.append(_line(name, [float(np.percentile(column, share)) for column in columns]))
    for second in sorted(totals, key=lambda second: -totals[second])[:slowest]:
        parts = [found[second][part] for part in PARTS]
        lines.append(_line(f"second {second}", [totals[second], *parts]))
    return "\n".join(lines)


def _line(name: str, values: Sequence[float]) -> str:
    return f"{name:<13}  " + "  ".join(f"{value:>11.3f}" for value in values)
