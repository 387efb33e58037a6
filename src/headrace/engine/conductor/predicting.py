"""Predictions: what the next epochs of groups cost, by the cost model, and how far off that was.

The cost model has one set of coefficients for each operator, whoever runs it. Groups differ in ways that it does not
know: one runs Spark jobs and another one the driver's own worker, one has long epochs and another one short ones. So a
prediction is corrected by what the last epochs of the same group took, beside what the model alone said of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from headrace.engine.conductor.watching import are_others
from headrace.model.query import QueryId
from headrace.optimizer.grouping.calibration import Calibration, PredictionError
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import GroupEpoch
from headrace.optimizer.grouping.throughput import isolated_load
from headrace.optimizer.grouping.work import estimate_work

FOLLOWS = 0.1
"""The weight of the newest epoch in the correction of a group. This leaves the least errors for the pairs of three
reports of `headrace bench`. Where matches come and go by chance, a larger weight follows the chance.
"""

LARGEST = log(4.0)
"""No epoch says more than this: one may have waited for somebody else's."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The logarithm of what the epochs of a group take, as a multiple of what the model says, and who lived in it."""

    members: frozenset[QueryId]
    log_ratio: float = 0.0

    def after(self, predicted_s: float, measured_s: float) -> Correction:
        """After an epoch that took so long, where the model alone predicted so much.

        >>> found = Correction(frozenset())
        >>> for _ in range(30):
        ...     found = found.after(0.01, 0.02)
        >>> round(exp(found.log_ratio), 1)
        1.9
        """
        if predicted_s <= 0 or measured_s <= 0:
            return self
        seen = max(-LARGEST, min(LARGEST, log(measured_s / predicted_s)))
        return Correction(self.members, self.log_ratio + FOLLOWS * (seen - self.log_ratio))


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a group with these members costs: CPU seconds per tuple of its streams, and per epoch, whatever comes.

    A load is known at a rate, and an epoch may have had another one. So it is asked what its tuples cost. `factor`
    corrects what the model says by what is known of the group.
    """

    per_tuple_s: float
    per_epoch_s: float
    members: frozenset[QueryId]
    factor: float = 1.0
    saves: float | None = None
    """CPU seconds per second that its members would need more if each of them ran alone; None if nobody can tell."""

    def of(self, tuples: int) -> float:
        """CPU seconds of an epoch with so many tuples.

        >>> Prediction(0.001, 0.5, frozenset(), 2.0).of(1_000)
        3.0
        """
        return self.factor * self.by_model(tuples)

    def by_model(self, tuples: int) -> float:
        """The same by the cost model alone.

        >>> Prediction(0.001, 0.5, frozenset(), 2.0).by_model(1_000)
        1.5
        """
        return self.per_epoch_s + self.per_tuple_s * tuples


def predict(
    situation: Situation,
    rate_of: Callable[[set[str]], float],
    epoch_s: float,
    corrections: Mapping[str, Correction] | None = None,
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
            fixed, members = (whole.load(group.members) - load) * epoch_s, frozenset(group.members)
            known = (corrections or {}).get(group.name)
            factor = 1.0 if known is None or are_others(known.members, members) else exp(known.log_ratio)
            saves = saved(situation, group.members, whole.load(group.members))
            found[str(group.name)] = Prediction(load / rate, fixed, members, factor, saves)
    return found


def saved(situation: Situation, members: Sequence[QueryId], together: float) -> float | None:
    """What queries save by sharing: the load of each of them alone, added up, less their load as one group."""
    alone = [isolated_load(situation, query) for query in members]
    known = [load.total for load in alone if load is not None]
    return sum(known) - together if 1 < len(known) == len(alone) else None


def compare(
    predictions: Mapping[str, Prediction],
    epochs: Iterable[GroupEpoch],
    members: Mapping[str, frozenset[QueryId]],
    costs: Calibration,
) -> Iterator[PredictionError]:
    """How far predictions were from the epochs that followed. A group that has other members now says nothing.

    `costs` are those of the predictions: nothing has been learnt from these epochs yet.
    """
    for found, epoch in _followed(predictions, epochs, members):
        predicted, told = found.of(epoch.processed), costs.seconds(epoch)
        yield PredictionError(epoch.group, epoch.epoch, predicted, epoch.cpu_s, told)


def corrected(
    corrections: Mapping[str, Correction],
    predictions: Mapping[str, Prediction],
    epochs: Iterable[GroupEpoch],
    members: Mapping[str, frozenset[QueryId]],
) -> dict[str, Correction]:
    """What is known of groups after these epochs: nothing any more of a group that has quite other members."""
    kept = {
        name: Correction(living, known.log_ratio)
        for name, living in members.items()
        if (known := corrections.get(name)) is not None and not are_others(known.members, living)
    }
    for found, epoch in _followed(predictions, epochs, members):
        known = kept.get(epoch.group, Correction(found.members))
        kept[epoch.group] = known.after(found.by_model(epoch.processed), epoch.cpu_s)
    return kept


def _followed(
    predictions: Mapping[str, Prediction],
    epochs: Iterable[GroupEpoch],
    members: Mapping[str, frozenset[QueryId]],
) -> Iterator[tuple[Prediction, GroupEpoch]]:
    """Predictions with the epochs that they were about."""
    for epoch in epochs:
        found = predictions.get(epoch.group)
        if found is not None and epoch.processed and found.members == members.get(epoch.group):
            yield found, epoch
