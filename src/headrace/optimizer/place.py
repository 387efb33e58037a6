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
    one; `clock_seconds` is what its tasks took by the clock, all together. It is `crowded` if another group runs a job.
    """

    tuples: int
    state_bytes: int
    catalyst: bool
    before: tuple[float, int] | None = None
    clock_seconds: float = 0.0
    crowded: bool = False


TUPLES = 1 << 14
"""More tuples than this are worth a job."""

CROWDED_TUPLES = 1 << 18
"""While another group runs a job, so are only more than this. Its tasks may hold every core for seconds, once for each
stage of this group's job. The own worker is a process of its own, which gets its share of the cores at once.
"""

CROWDED_SECONDS = 0.25
"""Of these larger epochs, those that need more CPU seconds than this are worth a job, too. There is one own worker:
while it has half a second of a heavy group's work, light ones wait, or run a job that waits for the heavy ones' tasks.
"""

STATE_BYTES = 1 << 25
"""So is more state than this: whatever of it closes has to be read and delivered."""

SECONDS = 0.5
"""And so is work of more CPU seconds than this: two cores gain by then what a job costs by itself."""

CLOCK_SECONDS = 3.0
"""And so are tasks that take longer than this by the clock, far from the time that the own worker has for an epoch: a
function may wait for others, and need no CPU for it. It is not less, for on a busy machine all tasks wait a little.
"""


def decide_place(work: EpochWork) -> Place:
    """
    >>> decide_place(EpochWork(1_000, 1 << 20, catalyst=False, before=(0.08, 1_000))).value
    'own worker'
    >>> decide_place(EpochWork(1_000, 1 << 20, catalyst=False, before=(0.8, 1_000))).value
    'Spark'
    >>> waits = EpochWork(1_000, 1 << 20, catalyst=False, before=(0.08, 1_000), clock_seconds=12.0)
    >>> decide_place(waits).value
    'Spark'
    >>> from dataclasses import replace
    >>> light = EpochWork(50_000, 1 << 20, catalyst=False, before=(0.04, 25_000))
    >>> decide_place(light).value, decide_place(replace(light, crowded=True)).value
    ('Spark', 'own worker')
    >>> decide_place(replace(light, crowded=True, before=(0.4, 50_000))).value
    'Spark'
    """
    most = CROWDED_TUPLES if work.crowded and work.before is not None else TUPLES
    if work.catalyst or work.tuples > most or work.state_bytes > STATE_BYTES:
        return Place.SPARK
    seconds = SECONDS if work.tuples <= TUPLES else CROWDED_SECONDS
    by_clock = work.clock_seconds * _share(work)
    return (
        Place.OWN_WORKER if expected_seconds(work) <= seconds and by_clock <= CLOCK_SECONDS else Place.SPARK
    )


def expected_seconds(work: EpochWork) -> float:
    """The CPU seconds of the last epoch, or a share of them.

    >>> expected_seconds(EpochWork(1_000, 0, catalyst=False, before=(3.0, 1_000_000)))
    0.003
    """
    return 0.0 if work.before is None else work.before[0] * _share(work)


def _share(work: EpochWork) -> float:
    """How much of the last epoch this one is. Of a large one it is the share of tuples: small ones cost by queries."""
    tuples = 0 if work.before is None else work.before[1]
    return 1.0 if tuples <= TUPLES else work.tuples / tuples
