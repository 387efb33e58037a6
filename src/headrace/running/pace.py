"""How large an epoch may become: so large that no sharing group is busy with it for long.

When all groups are behind, whatever has arrived meanwhile could become one epoch. Each would take longer than the one
before, and nobody can leave a group in the middle of one. All groups run the same epochs, so the slowest group counts:

    heavy group, 5,000 tuples/s     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ ▇▇▇▇    2 to 4 seconds each
    light group, 150,000 tuples/s   ▒  ▒  ▒  ▒  ▒  ▒  ▒  ▒  ▒  ▒  ▒  ▒        each as soon as it is sealed

Every epoch costs something by itself, too. So it has about a second of input at least, if so much waits. And it is the
longer the more that is, so that a group which is busy all of the time is busy with tuples.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from headrace.optimizer.place import CROWDED_TUPLES

LONGEST_S = 4.0
"""No group should be busy with an epoch in the background for longer than this."""

LONG_S = 2.0
"""And for no longer than this, where epochs cost little by themselves: nothing new comes of a group meanwhile."""

BY_ITSELF = 0.06
"""That is little if it is less than this part of an epoch."""

SHORTEST_S = 0.25
"""The fastest group may be busy with an epoch for so long, however slow others are."""

LEAST_ROWS = 1_000
"""Epochs are not cut into pieces that cost more to begin than to run."""

INPUT_S = 1.0
"""So much of the input is in an epoch at least, if it is there."""

GROWS = 2
"""An epoch is so many times as large as those before it at most: what a small one took tells little of a large one."""

BEHIND = 4
"""When a group has not run more sealed epochs than this, small ones are not sealed one right after the other."""

MARKS = 8
"""So many seconds of input are remembered. Their median counts, so that a burst is no rate."""


def epoch_bound(
    paces: Mapping[str, float | None],
    most: int,
    rate: float = 0.0,
    last: int | None = None,
    longest_s: float = LONGEST_S,
) -> int:
    """The tuples that the next epoch may have; `most` at most, and as many if no group has run an epoch yet.

    `paces` are the tuples of the log per second that sharing groups have run last, None for a group that has not run
    one yet. Input comes at a `rate`, and `last` is how large epochs have been. While a group is unknown, they do not
    grow. No group should be busy with an epoch for more than `longest_s`. A pace that comes of small epochs is too low,
    because they cost something by themselves. The next is faster then, and so the bound rises.

    >>> epoch_bound({"main": 10_000.0}, 1_000_000), epoch_bound({"main": 10.0}, 1_000_000)
    (40000, 1000)
    >>> epoch_bound({"main": 150_000.0, "heavy": 5_000.0}, 1_000_000, rate=25_000.0, last=20_000)
    37500
    >>> epoch_bound({"main": 150_000.0, "heavy": None}, 1_000_000, last=40_000)
    40000
    >>> epoch_bound({}, 1_000_000)
    1000000
    """
    known = [pace for pace in paces.values() if pace is not None]
    if not known:
        return most
    least = max(INPUT_S * rate, SHORTEST_S * max(known))
    wanted = max(longest_s * min(known), least)
    if last is not None:
        grown = last * (GROWS if len(known) == len(paces) else 1)
        wanted = min(wanted, max(grown, least))
    wanted = min(wanted, longest_s * max(known))
    if len(paces) > 1:  # the light ones run in the own worker while a heavy one keeps the cores busy
        wanted = min(wanted, CROWDED_TUPLES)
    return min(most, max(LEAST_ROWS, round(wanted)))


def longest_epoch(by_itself_s: Iterable[float]) -> float:
    """How long an epoch may take, when sharing groups were seen to spend so many seconds of one besides their tasks.

    >>> longest_epoch([0.1]), longest_epoch([0.15, 0.1]), longest_epoch([0.4]), longest_epoch([])
    (2.0, 2.5, 4.0, 4.0)
    """
    return min(LONGEST_S, max(LONG_S, max(by_itself_s, default=LONGEST_S) / BY_ITSELF))


@dataclass(frozen=True, slots=True)
class InputRate:
    """How fast input comes: the tuples that had come in, at some moments that are a second apart at least."""

    marks: tuple[tuple[float, int], ...] = ()

    def seen(self, now: float, tuples: int) -> InputRate:
        """After a look: so many tuples have come in since the beginning."""
        if self.marks and now - self.marks[-1][0] < 1.0:
            return self
        return InputRate((*self.marks, (now, tuples))[-MARKS:])

    @property
    def usual(self) -> float:
        """Tuples per second, usually.

        >>> InputRate(((0.0, 0), (1.0, 100), (2.0, 9_000), (3.0, 9_120))).usual
        120.0
        """
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return median(
            [max(0, after - before) / (end - since) for (since, before), (end, after) in pairs] or [0.0]
        )


class EpochSizes:
    """What is known of groups and input, for the bound of the next epoch. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paces: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._by_itself: dict[str, deque[float]] = {}
        self._input = InputRate()
        self._last: deque[int] = deque(maxlen=2)
        self._sealed_at = float("-inf")

    def ran(self, group: str, tuples: int, seconds: float, tasks_s: float | None = None) -> None:
        """A group has run an epoch, in which the log got so many tuples. Its tasks, side by side, took `tasks_s` of it.

        Sometimes tasks wait for those of other groups. So what an epoch costs by itself is the least that was seen.
        """
        if tuples and seconds > 0:
            with self._lock:
                self._paces[group], self._took[group] = tuples / seconds, seconds
                if tasks_s is not None:
                    mine = self._by_itself.setdefault(group, deque(maxlen=MARKS))
                    mine.append(max(0.0, seconds - tasks_s))

    def came(self, now: float, tuples: int) -> None:
        """So many tuples have come in since the beginning."""
        with self._lock:
            self._input = self._input.seen(now, tuples)

    def sealed(self, tuples: int, now: float) -> None:
        """An epoch has so many tuples. A chunk that did not fit into one may be all that the next one has."""
        with self._lock:
            self._sealed_at = now
            if tuples:
                self._last.append(tuples)

    def rests(self, behind: Mapping[str, int], now: float) -> bool:
        """Whether what has come in should wait for more, because a group is so many epochs behind.

        A light group could have ever more epochs sealed, each of which costs a heavy one more to begin than to run. So
        the heavy one gets twice the time that its last epoch took, but nobody waits for more than a second's input.
        """
        with self._lock:
            took = [self._took.get(group, 0.0) for group, epochs in behind.items() if epochs > BEHIND]
            return now < self._sealed_at + min(INPUT_S, 2 * max(took, default=0.0))

    def bound(self, groups: Collection[str], most: int) -> int:
        """The tuples that the next epoch of these sharing groups may have."""
        with self._lock:
            self._paces = {name: pace for name, pace in self._paces.items() if name in groups}
            self._took = {name: seconds for name, seconds in self._took.items() if name in groups}
            self._by_itself = {name: found for name, found in self._by_itself.items() if name in groups}
            paces = {name: self._paces.get(name) for name in groups}
            longest_s = longest_epoch(min(found) for found in self._by_itself.values())
            return epoch_bound(paces, most, self._input.usual, max(self._last, default=None), longest_s)
