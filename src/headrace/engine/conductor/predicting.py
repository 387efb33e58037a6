"""Predictions: what the next epochs of groups cost, by the cost model, and how far off that was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.model.query import QueryId
from headrace.optimizer.grouping.calibration import Calibration, PredictionError
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import GroupEpoch
from headrace.optimizer.grouping.work import estimate_work


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a group with these members costs: CPU seconds per tuple of its streams, and per epoch, whatever comes.

    A load is known at a rate, and an epoch may have had another one. So it is asked what its tuples cost.
    """

    per_tuple_s: float
    per_epoch_s: float
    members: frozenset[QueryId]

    def of(self, tuples: int) -> float:
        """CPU seconds of an epoch with so many tuples.

        >>> Prediction(0.001, 0.5, frozenset()).of(1_000)
        1.5
        """
        return self.per_epoch_s + self.per_tuple_s * tuples


def predict(
    situation: Situation, rate_of: Callable[[set[str]], float], epoch_s: float
) -> dict[str, Prediction]:
    """A prediction for each group of whose queries something is known. `epoch_s` is how far epochs are apart."""
    whole = estimate_work(situation.queries, situation.statistics, situation.costs)
    moving = estimate_work(situation.queries, situation.statistics, situation.costs.without_fixed())
    found = {}
    for group in situation.grouping.groups:
        operators = {situation.queries[query].operator for query in group.members}
        if not whole.known[whole.columns(group.members)].all():
            continue
        rate = rate_of({stream for operator in operators if operator for stream in operator.split("+")})
        load = moving.load(group.members)
        if rate > 0 and load > 0:
            fixed = (whole.load(group.members) - load) * epoch_s
            found[str(group.name)] = Prediction(load / rate, fixed, frozenset(group.members))
    return found


def compare(
    predictions: Mapping[str, Prediction],
    epochs: Iterable[GroupEpoch],
    members: Mapping[str, frozenset[QueryId]],
    costs: Calibration,
) -> Iterator[PredictionError]:
    """How far predictions were from the epochs that followed. A group that has other members now says nothing.

    `costs` are those of the predictions: nothing has been learnt from these epochs yet.
    """
    for epoch in epochs:
        found = predictions.get(epoch.group)
        if found is not None and epoch.processed and found.members == members.get(epoch.group):
            predicted, told = found.of(epoch.processed), costs.seconds(epoch)
            yield PredictionError(epoch.group, epoch.epoch, predicted, epoch.cpu_s, told)
