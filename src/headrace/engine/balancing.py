"""How the work of a group is spread over key groups: what its last jobs measured, for `optimizer/balance.py`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from headrace.model.partitioning import KEY_GROUPS, Partitioning
from headrace.optimizer.balance import Balanced, decide_balance, work_of

EPOCHS = 4
"""So many epochs are looked at together. What is busy in one alone may be chance."""

MOST_EPOCHS = 256
"""After changes that did not keep what they promised, the next waits ever longer, but for so many epochs at most."""


class Balance:
    """The CPU seconds of key groups in a group's last Spark jobs. What the own worker runs is one task in any case.

    What an operator took is measured, but how that is divided among its keys is estimated. So what a change promised is
    compared with what the busiest task has to do afterwards. Nothing of it is durable: a restart begins anew.
    """

    def __init__(self) -> None:
        self._epochs: deque[Mapping[int, float]] = deque(maxlen=EPOCHS)
        self._table: Partitioning | None = None
        self._wait, self._since = EPOCHS, 0
        self._promised: Balanced | None = None

    def ran(self, key_seconds: Mapping[int, float], table: Partitioning) -> None:
        """An epoch was run with a table; nothing is known of one without seconds."""
        if not key_seconds:
            return
        if table != self._table:
            self._epochs.clear()
            self._table = table
        self._epochs.append(key_seconds)
        self._since += 1

    def decide(self, now: Partitioning) -> Balanced | None:
        """How keys should be spread instead, if that is worth a change. Costs little as long as it is not."""
        if len(self._epochs) < EPOCHS or now != self._table:
            return None
        seconds = [0.0] * KEY_GROUPS
        for measured in self._epochs:
            for key_group, some in measured.items():
                seconds[key_group] += some / EPOCHS
        self._judge(seconds, now)
        if self._since < self._wait:
            return None
        found = decide_balance(seconds, now)
        if found is not None:
            self._promised, self._since = found, 0
            self._epochs.clear()
        return found

    def _judge(self, seconds: list[float], now: Partitioning) -> None:
        """Wait longer before the next change if the last one spared the busiest task less than half of what it said."""
        promised, self._promised = self._promised, None
        if promised is None:
            return
        if now == promised.partitioning:
            share = max(work_of(seconds, now)) / sum(seconds)
            wanted = (promised.before_s + promised.after_s) / 2 / promised.total_s
            self._wait = EPOCHS if share <= wanted else min(2 * self._wait, MOST_EPOCHS)
