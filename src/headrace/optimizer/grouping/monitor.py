"""The execution monitor: from what a group's last epochs did to how it fares.

A micro-batch engine has no queues between operators that could fill up. Input that waits in the log is the queue. So
back-pressure is lag that grows. It comes from downstream when the shared part alone would keep up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.statistics import GroupEpoch
from headrace.optimizer.grouping.values import FunctionName, GroupName, OperatorId

GROWTH = 0.02
"""Lag that grows by less than this share of the input is noise."""


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """How a group fares. `share` is the part of the input that it processes, at most 1.

    `busy` is how many of its tasks are busy on average. `shared`, `finishing` and `functions` say what with, and
    `operators` divide `shared`. They are CPU seconds per second. `rate` and `throughput` are tuples per second, and so
    is `lag_growth`; `lag` is in tuples.
    """

    rate: float
    throughput: float
    lag: float
    lag_growth: float
    busy: float
    shared: float
    finishing: float = 0.0
    functions: Mapping[FunctionName, float] = field(default_factory=dict)
    operators: Mapping[OperatorId, float] = field(default_factory=dict)

    @property
    def lags(self) -> bool:
        """Whether the group falls behind."""
        return self.lag_growth > GROWTH * self.rate

    @property
    def share(self) -> float:
        if not self.lags or self.rate <= 0:
            return 1.0
        return min(1.0, self.throughput / self.rate)

    @property
    def load(self) -> float:
        """CPU seconds per second of input: what is busy with the input, not with what had waited before."""
        return self.busy * self.rate / self.throughput if self.throughput > 0 else self.busy

    @property
    def behind_s(self) -> float:
        """How many seconds of input wait."""
        return self.lag / self.rate if self.rate > 0 else 0.0

    def pressed(self, tasks: int, settings: Settings) -> bool:
        """Whether the shared part waits for what comes after it: alone it would keep up, with headroom to spare.

        Without the headroom, a group that merely lacks a task would be taken for one that its last step holds up.
        """
        if not self.lags or self.share <= 0:
            return False
        return self.shared / self.share <= settings.scaling.useful(tasks) * (1 - settings.headroom)


def watch_group(epochs: Sequence[GroupEpoch]) -> GroupHealth:
    """How a group fares by its last epochs, oldest first, all with the same members and tasks."""
    elapsed = sum(epoch.elapsed_s for epoch in epochs)
    if elapsed <= 0:
        raise ValueError("a group is watched for a while")
    arrived = sum(epoch.arrived for epoch in epochs)
    processed = sum(epoch.processed for epoch in epochs)
    functions: dict[FunctionName, float] = {}
    operators: dict[OperatorId, float] = {}
    for epoch in epochs:
        for shared in epoch.operators:
            operators[shared.operator] = operators.get(shared.operator, 0.0) + shared.seconds / elapsed
        for ran in epoch.functions:
            functions[ran.function] = functions.get(ran.function, 0.0) + ran.seconds / elapsed
    capacity = sum(epoch.tasks * epoch.elapsed_s for epoch in epochs)
    return GroupHealth(
        rate=arrived / elapsed,
        throughput=processed / elapsed,
        lag=epochs[-1].lag,
        lag_growth=(arrived - processed) / elapsed,
        busy=max(0.0, capacity - sum(epoch.idle_s for epoch in epochs)) / elapsed,
        shared=sum(epoch.shared_s for epoch in epochs) / elapsed,
        finishing=sum(epoch.finishing_s for epoch in epochs) / elapsed,
        functions=functions,
        operators=operators,
    )


def watch_groups(epochs: Mapping[GroupName, Sequence[GroupEpoch]]) -> dict[GroupName, GroupHealth]:
    return {group: watch_group(seen) for group, seen in epochs.items() if seen}
