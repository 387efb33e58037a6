"""Where an epoch's tasks run: as a Spark job, or one after the other in the driver's own worker.

A job of two stages costs Spark some tenths of a second before and after the work itself. So an epoch that is far below
that is not worth a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Place(Enum):
    """Who runs the tasks of an epoch."""

    SPARK = "Spark"
    OWN_WORKER = "own worker"


@dataclass(frozen=True, slots=True)
class EpochWork:
    """What is known of an epoch before it runs: its tuples, the bytes of state that it meets, and whether Spark has to
    evaluate expressions for it. `before` is (CPU seconds, tuples) of the last epoch with tuples, None before there was
    one.
    """

    tuples: int
    state_bytes: int
    catalyst: bool
    before: tuple[float, int] | None = None


TUPLES = 1 << 14
"""More tuples than this are worth a job."""

STATE_BYTES = 1 << 25
"""So is more state than this: whatever of it closes has to be read and delivered."""

SECONDS = 0.5
"""And so is work of more CPU seconds than this: two cores gain by then what a job costs by itself."""


def decide_place(work: EpochWork) -> Place:
    """
    >>> decide_place(EpochWork(1_000, 1 << 20, catalyst=False, before=(0.08, 1_000))).value
    'own worker'
    >>> decide_place(EpochWork(1_000, 1 << 20, catalyst=False, before=(0.8, 1_000))).value
    'Spark'
    """
    if work.catalyst or work.tuples > TUPLES or work.state_bytes > STATE_BYTES:
        return Place.SPARK
    return Place.OWN_WORKER if expected_seconds(work) <= SECONDS else Place.SPARK


def expected_seconds(work: EpochWork) -> float:
    """What the last epoch took. Of a large one only the share of this one's tuples: small ones cost by queries.

    >>> expected_seconds(EpochWork(1_000, 0, catalyst=False, before=(3.0, 1_000_000)))
    0.003
    """
    if work.before is None:
        return 0.0
    seconds, tuples = work.before
    return seconds if tuples <= TUPLES else seconds * work.tuples / tuples
