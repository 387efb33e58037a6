"""Predictions of the load beside the epochs that followed: a part of `hr.sharing()`, and SHOW PREDICTIONS."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.engine.conductor.conductor import ConductorInfo
from headrace.looking.showing import show_seconds
from headrace.optimizer.grouping.calibration import PredictionError

SHOWN = 3
"""So many of a group's last predictions are in its line."""


@dataclass(frozen=True, slots=True)
class PredictionInfo:
    """The CPU seconds that were predicted for an epoch of a group, and those that it took.

    `error` is how far the prediction was off, as a part of what the epoch took. `cost_error` is that of the
    costs alone, when it is known what the tuples of the epoch matched; None if nothing is known of them.
    """

    group: str
    epoch: int
    predicted_seconds: float
    measured_seconds: float
    error: float
    cost_error: float | None = None


@dataclass(frozen=True, slots=True)
class GroupPredictions:
    """The last predictions about one group, oldest first, and the median of their errors."""

    group: str
    error: float
    predictions: tuple[PredictionInfo, ...]

    HEADERS: ClassVar = ("group", "predictions", "error", "last epochs: predicted and took")

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS."""
        last = (
            f"{show_seconds(one.predicted_seconds)} and {show_seconds(one.measured_seconds)}"
            for one in self.predictions[-SHOWN:]
        )
        return self.group, len(self.predictions), f"{self.error:.0%}", ", ".join(last)


def group_predictions(errors: Iterable[PredictionError]) -> tuple[GroupPredictions, ...]:
    """What is remembered of predictions, by group."""
    found: dict[str, list[PredictionInfo]] = {}
    for one in errors:
        found.setdefault(one.group, []).append(
            PredictionInfo(one.group, one.epoch, one.predicted_s, one.measured_s, one.relative, one.of_costs)
        )
    return tuple(
        GroupPredictions(group, statistics.median(one.error for one in known), tuple(known))
        for group, known in sorted(found.items())
    )


def errors_of_groups(info: ConductorInfo) -> dict[str, float]:
    """The median error of the predictions about each group of which there were some."""
    found: dict[str, list[float]] = {}
    for error in info.errors:
        found.setdefault(error.group, []).append(error.relative)
    return {group: statistics.median(known) for group, known in found.items()}
