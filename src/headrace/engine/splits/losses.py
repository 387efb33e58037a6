"""Workers that are lost in a call of a split's code: is it the code, and with which tuple? Pure.

A worker may end for any reason. So the epoch is run again, by one worker alone, with the batch it was at cut into
smaller ones. When the worker is lost in the same call again, the code is to blame. With each loss the batch becomes
smaller, until it is one tuple.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.engine.splits.calls import Noted
from headrace.engine.splits.faults import ended
from headrace.engine.splits.instances import finer_cuts, usual_cuts

MOST = 8
"""After so many losses in an epoch it is enough, also when each was in another call."""


class LostIn(Exception):
    """A worker was lost in a call."""

    def __init__(self, call: Noted) -> None:
        super().__init__(call.what)
        self.call = call


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses in one epoch so far. A value: `after` gives the next one."""

    split: str
    calls: tuple[Noted, ...] = ()
    cuts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Where the first batches of sub-streams end from now on."""

    @property
    def alone(self) -> bool:
        """Whether one worker is to run the epoch alone, so that it is certain in which call it is lost."""
        return bool(self.calls)

    def after(self, call: Noted) -> Losses:
        """With one more loss. EngineError when it is certain that the call is to blame, and nothing is left to cut."""
        calls = (*self.calls, call)
        whole = call.rows is None or call.rows[1] - call.rows[0] <= 1
        if (whole and call in self.calls) or len(calls) >= MOST:
            raise ended(self.split, call.what)
        if whole or call.rows is None or not self.calls:  # the first time others were at work too
            return Losses(self.split, calls, self.cuts)
        before = usual_cuts(call.rows[1], self.cuts.get(str(call.sub_stream), ()))
        return Losses(
            self.split, calls, self.cuts | {str(call.sub_stream): tuple(finer_cuts(call.rows, before))}
        )
