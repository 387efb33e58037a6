"""Predictions of what epochs of groups cost, corrected by what is known of each group."""

from __future__ import annotations

import numpy as np

from headrace.engine.conductor.predicting import Correction, Prediction, compare, corrected
from headrace.model.query import QueryId
from headrace.optimizer.grouping.calibration import Calibration
from headrace.optimizer.grouping.statistics import GroupEpoch, OperatorEpoch
from headrace.optimizer.grouping.values import GroupName, OperatorId

MEMBERS = {"main": frozenset({QueryId(1)}), "auto-0": frozenset({QueryId(2)})}
MODEL = Prediction(1e-6, 0.0, MEMBERS["main"]), Prediction(1e-6, 0.0, MEMBERS["auto-0"])


def epoch_of(group: str, epoch: int, seconds: float) -> GroupEpoch:
    ran = OperatorEpoch(OperatorId("s"), 10_000, 10_000, 10_000, seconds, 0.0)
    return GroupEpoch(GroupName(group), epoch, 2, 1.0, 10_000, 10_000, 0, 1.0, (ran,))


def played(
    seconds: dict[str, list[float]], *, correcting: bool
) -> tuple[dict[str, list[float]], dict[str, Correction]]:
    """The errors of predictions by group, when a look follows each epoch."""
    corrections: dict[str, Correction] = {}
    errors: dict[str, list[float]] = {name: [] for name in seconds}
    for number in range(len(seconds["main"])):
        predictions = {
            name: Prediction(
                one.per_tuple_s,
                one.per_epoch_s,
                one.members,
                float(np.exp(corrections[name].log_ratio)) if correcting and name in corrections else 1.0,
            )
            for name, one in zip(MEMBERS, MODEL, strict=True)
        }
        epochs = [epoch_of(name, number, found[number]) for name, found in seconds.items()]
        for error in compare(predictions, epochs, MEMBERS, Calibration()):
            errors[error.group].append(error.relative)
        corrections = corrected(corrections, predictions, epochs, MEMBERS)
    return errors, corrections


def test_groups_that_one_set_of_costs_cannot_fit_are_each_predicted_well() -> None:
    # the model says 10 ms of both. A light group runs in the driver's own worker, and takes more than that
    rng = np.random.default_rng(1)
    seconds = {
        "main": (0.008 * np.exp(rng.normal(0, 0.1, 60))).tolist(),
        "auto-0": (0.025 * np.exp(rng.normal(0, 0.2, 60))).tolist(),
    }
    before, _ = played(seconds, correcting=False)
    after, found = played(seconds, correcting=True)
    assert np.median(before["auto-0"]) > 0.5
    assert np.median(after["auto-0"]) < 0.2
    assert np.median(after["main"]) < 0.1 < np.median(before["main"])
    assert found["main"].log_ratio < 0 < found["auto-0"].log_ratio, "neither pulls the other"


def test_what_was_known_of_a_group_does_not_hold_for_other_members() -> None:
    known = {"main": Correction(MEMBERS["main"], 0.7), "auto-9": Correction(MEMBERS["main"], 0.7)}
    others = {"main": frozenset({QueryId(7)})}
    assert corrected(known, {}, [], others) == {}
    crowd = frozenset(QueryId(i) for i in range(20))
    kept = corrected({"main": Correction(crowd, 0.7)}, {}, [], {"main": crowd | {QueryId(20)}})
    assert kept == {"main": Correction(crowd | {QueryId(20)}, 0.7)}, "queries come and go all the time"


def test_an_epoch_that_waited_for_somebody_else_is_not_believed() -> None:
    once = Correction(frozenset()).after(0.01, 100.0)
    assert once == Correction(frozenset()).after(0.01, 0.04)
    assert once.after(0.0, 1.0) == once
