"""How long an epoch may take in which registered functions are called.

A function that never returns holds up all who share with it, so such epochs have a time limit of their own. A function
that is only dear must not reach it. So the limit grows with all tuples that the group reads, with what functions are
said to cost, and with what the last epochs took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.model.epoch import Epoch
from headrace.model.functions import FunctionSpec
from headrace.model.query import Fallback, QueryPlan

FUNCTION_ROWS = 100_000
"""The time limit of functions holds for so many tuples. Epochs in the background are seldom larger."""

SLACK = 10.0
"""An epoch may take so many times what is expected: cores are shared, and rows of joins are more than tuples."""

FADE = 0.95
"""With each epoch that ran well, what the epochs before took counts as much less."""

FEW_ROWS = 10_000
"""Smaller epochs count as if they had so many tuples: most of their time is not for tuples."""


class Patience:
    """What the last epochs of a group took, and what follows for the next one. `seconds` None: no limit."""

    def __init__(self, seconds: float | None, specs: Callable[[], Iterable[FunctionSpec]]) -> None:
        self._seconds, self._specs = seconds, specs
        self._took = self._per_tuple = 0.0

    def ran(self, epoch: Epoch, plans: Iterable[QueryPlan], seconds: float) -> None:
        """An epoch ended well after so long."""
        rate = seconds / max(_tuples(epoch, _sharing(plans)), FEW_ROWS)
        self._took = max(seconds, FADE * self._took)
        self._per_tuple = max(rate, FADE * self._per_tuple)

    def limit(self, epoch: Epoch, plans: Iterable[QueryPlan], tasks: int) -> float | None:
        """How long an epoch of these queries may take, with so many tasks at a time. None if they call no function."""
        sharing = _sharing(plans)
        called = {name for plan in sharing for name in plan.functions}
        if self._seconds is None or not called:
            return None
        tuples = _tuples(epoch, sharing)
        said = sum(spec.cost or 0.0 for spec in self._specs() if spec.name in called)
        base = self._seconds * max(1.0, tuples / FUNCTION_ROWS)
        usual = max(self._took, self._per_tuple * tuples)
        return max(base + SLACK * said * tuples / max(1, tasks), SLACK * usual)


def _sharing(plans: Iterable[QueryPlan]) -> list[QueryPlan]:
    """Without those that plain Spark runs: they run after the others, each with a limit of its own."""
    return [plan for plan in plans if not isinstance(plan.body, Fallback)]


def _tuples(epoch: Epoch, plans: Sequence[QueryPlan]) -> int:
    """The tuples of an epoch that any of these queries reads: all of them take time, whoever calls functions."""
    streams = {stream for plan in plans for stream in plan.streams}
    return sum(inflow.rows for inflow in epoch.streams if inflow.stream in streams)
