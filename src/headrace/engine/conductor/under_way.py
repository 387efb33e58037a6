"""Moves that were decided on and are not in force yet: what is known of them meanwhile, and how long they took.

Queries move when the cursors of two groups meet, so a decision takes effect some epochs after it was made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.catalog.events import EventBook
from headrace.engine.conductor.measured import Measured
from headrace.engine.conductor.telling import only_telling
from headrace.model.query import QueryId

TRUSTED_S = 60.0
"""So long a decision counts although the catalog does not know of it yet: it does with the next sealed epoch."""

FORGOTTEN_S = 3600.0
"""Moves that did not come about for so long are no longer waited for: a person may have wanted something else."""

DELAYS_KEPT = 200
"""So many delays of reconfigurations are remembered."""


@dataclass(slots=True)
class Reconfiguration:
    """The moves of one decision that are not in force yet; `events` are the numbers of the events that tell of it."""

    decided_at: float
    moves: dict[QueryId, str]
    events: Sequence[int] = ()


class UnderWay:
    """The reconfigurations that are waited for, and the delays of those that came about. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: list[Reconfiguration] = []
        self._delays: deque[float] = deque(maxlen=DELAYS_KEPT)

    @property
    def delays_s(self) -> tuple[float, ...]:
        """How long the last reconfigurations took, oldest first."""
        return tuple(self._delays)

    def decided(self, now: float, moves: Mapping[QueryId, str]) -> Reconfiguration:
        """These queries are to live in other groups. What is waited for then; no event tells of it yet."""
        self._waiting.append(Reconfiguration(now, dict(moves)))
        return self._waiting[-1]

    def targets(self, now: float) -> dict[QueryId, str]:
        """The groups that queries are on their way to by decisions of a moment ago."""
        recent = [one for one in self._waiting if now - one.decided_at < TRUSTED_S]
        return {query: target for one in recent for query, target in one.moves.items()}

    def arrive(self, measured: Measured, events: EventBook) -> None:
        """A group has run an epoch: the moves that are in force by that are done, since that epoch began.

        When no move of a decision is left, its events say how long it took.
        """
        began = measured.at - measured.metrics.seconds
        for one in self._waiting:
            here = {query for query, target in one.moves.items() if target == measured.group}
            for query in here & measured.members:
                del one.moves[query]
            if not one.moves:
                self._delays.append(max(0.0, began - one.decided_at))
                with only_telling():
                    events.delayed(one.events, self._delays[-1])
        self._waiting = [
            one for one in self._waiting if one.moves and measured.at - one.decided_at < FORGOTTEN_S
        ]
