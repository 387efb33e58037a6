"""How the work of a group is spread over key groups: what its last jobs measured, for `optimizer/balance.py`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from headrace.model.partitioning import KEY_GROUPS, Partitioning
from headrace.optimizer.balance import Balanced, decide_balance

EPOCHS = 4
"""So many epochs are looked at together. What is busy in one alone may be chance."""


class Loads:
    """The CPU seconds of key groups in a group's last Spark jobs. What the own worker runs is one task in any case.

    Nothing of it is durable: after a restart, the next epochs tell.
    """

    def __init__(self) -> None:
        self._epochs: deque[Mapping[int, float]] = deque(maxlen=EPOCHS)

    def ran(self, loads: Mapping[int, float]) -> None:
        """An epoch was run; nothing is known of one without loads."""
        if loads:
            self._epochs.append(loads)

    def decide(self, now: Partitioning) -> Balanced | None:
        """How keys should be spread instead, if that is worth a change. Costs little as long as it is not."""
        if len(self._epochs) < EPOCHS:
            return None
        mean = [0.0] * KEY_GROUPS
        for loads in self._epochs:
            for key_group, seconds in loads.items():
                mean[key_group] += seconds / EPOCHS
        found = decide_balance(mean, now)
        if found is not None:
            self._epochs.clear()  # what comes is judged by epochs of its own
        return found
