"""Estimates: regions of samples, loads of unions nobody runs, coefficients from epochs, and how groups fare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouping_cases import JOIN, random_case
from headrace.model.query import QueryId
from headrace.optimizer.grouping.calibration import (
    JOIN_COLUMNS,
    Calibration,
    PredictionError,
    _Sums,
    observe,
    recall_calibration,
)
from headrace.optimizer.grouping.costs import Coefficients, OperatorCost
from headrace.optimizer.grouping.monitor import watch_group
from headrace.optimizer.grouping.regions import query_samples, summarise_counts
from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.statistics import (
    FunctionEpoch,
    GroupEpoch,
    OperatorEpoch,
    Statistics,
)
from headrace.optimizer.grouping.values import FunctionName, GroupName
from headrace.optimizer.grouping.work import estimate_work

SLOW = FunctionName("slow")
TRUE = Coefficients({JOIN: OperatorCost(3e-6, 4e-5, 7e-6)}, finish=2e-6, functions={SLOW: 3e-4})


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 60))
def test_regions_lose_nothing_about_any_union(seed: int, queries: int, tuples: int) -> None:
    """The load of a random set of queries is what counting the sample's tuples one by one gives."""
    rng = np.random.default_rng(seed)
    wanted = rng.random((tuples, queries)) < 0.3
    matches = rng.integers(0, 5, tuples).astype(float)
    ids = [QueryId(i) for i in range(queries)]
    table = summarise_counts(JOIN, tuple(ids), wanted, np.ones(tuples), matches, tuples)
    assert len({row.tobytes() for row in table.wanted}) == len(table.wanted)
    case = random_case(0, queries)
    facts = {q: replace(f, function=SLOW if q % 2 else None) for q, f in case.situation.queries.items()}
    statistics = Statistics({JOIN: 100.0}, {JOIN: table}, query_samples(table))
    work = estimate_work(facts, statistics, TRUE)
    members = [q for q in ids if rng.random() < 0.5] or ids[:1]
    some = wanted[:, members].any(axis=1)
    called = wanted[:, [q for q in members if q % 2]].any(axis=1)
    seconds = 3e-6 * tuples + 4e-5 * some.sum() + 7e-6 * matches[some].sum()
    seconds += 2e-6 * (matches @ wanted[:, members]).sum() + 3e-4 * matches[called].sum()
    assert work.load(members) == pytest.approx(100.0 * seconds / tuples)
    others = [q for q in ids if q not in members]
    if others:
        columns = work.of_groups([members, others])
        loads = columns.weights @ columns.needs + columns.own
        assert loads.tolist() == pytest.approx([work.load(members), work.load(others)])


def epoch_of(rng: np.random.Generator, true: Coefficients, noise: float = 0.0, number: int = 0) -> GroupEpoch:
    tuples = int(rng.integers(1_000, 100_000))
    selected = int(tuples * rng.uniform(0.01, 0.5))
    matches = int(selected * rng.uniform(0.5, 20))
    cost = true.operator(JOIN)

    def measured(seconds: float) -> float:
        return float(seconds * np.exp(noise * rng.standard_normal()))

    join = OperatorEpoch(
        JOIN,
        tuples,
        selected,
        matches,
        measured(tuples * cost.alpha),
        measured(selected * cost.beta + matches * cost.gamma),
    )
    called = FunctionEpoch(SLOW, matches // 3, measured(matches // 3 * true.function(SLOW)))
    finishing = measured(matches * true.finish)
    return GroupEpoch(
        GroupName("g"), number, 2, 1.0, tuples, tuples, 0, 0.5, (join,), matches, finishing, (called,)
    )


@given(st.integers(0, 2**32))
def test_coefficients_are_found_by_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calibration = observe(Calibration(), [epoch_of(rng, TRUE, noise=0.01) for _ in range(60)])
    found = calibration.coefficients()
    cost = found.operator(JOIN)
    assert (cost.alpha, cost.beta, cost.gamma) == pytest.approx((3e-6, 4e-5, 7e-6), rel=0.15)
    assert found.finish == pytest.approx(2e-6, rel=0.05)
    assert found.function(SLOW) == pytest.approx(3e-4, rel=0.05)


def test_coefficients_follow_when_the_machine_changes() -> None:
    rng = np.random.default_rng(1)
    slower = Coefficients({JOIN: OperatorCost(6e-6, 4e-5, 2e-5)}, finish=2e-6, functions={SLOW: 1e-3})
    calibration = observe(Calibration(), [epoch_of(rng, TRUE) for _ in range(100)])
    calibration = observe(calibration, [epoch_of(rng, slower) for _ in range(300)])
    found = calibration.coefficients()
    assert found.operator(JOIN).alpha == pytest.approx(6e-6, rel=0.05)
    assert found.operator(JOIN).gamma == pytest.approx(2e-5, rel=0.05)
    assert found.function(SLOW) == pytest.approx(1e-3, rel=0.05)


def test_a_machine_that_gets_slower_is_known_within_some_epochs() -> None:
    """All costs rise alike. The coefficients alone would have learnt a fifth of it by then."""
    rng = np.random.default_rng(4)
    cost = TRUE.operator(JOIN)
    slower = replace(
        TRUE, operators={JOIN: OperatorCost(2 * cost.alpha, 2 * cost.beta, 2 * cost.gamma)}, finish=4e-6
    )
    calibration = observe(Calibration(), [epoch_of(rng, TRUE, noise=0.05) for _ in range(100)])
    calibration = observe(calibration, [epoch_of(rng, slower, noise=0.05) for _ in range(10)])
    found = calibration.coefficients()
    assert found.operator(JOIN).alpha == pytest.approx(6e-6, rel=0.15)
    assert found.finish == pytest.approx(4e-6, rel=0.15)
    assert recall_calibration(calibration.kept()).coefficients() == found
    one_odd = replace(slower, operators={JOIN: OperatorCost(6e-3, 8e-2, 1e-2)})
    after = observe(calibration, [epoch_of(rng, one_odd)]).coefficients()
    assert after.operator(JOIN).alpha < 2 * found.operator(JOIN).alpha, "one epoch is no new level"


def test_an_epoch_without_tuples_leaves_the_level_of_the_others() -> None:
    """Its only cost is the one that epochs have by themselves. Here that is not known to be more than nothing."""
    sums = _Sums.start(JOIN_COLUMNS)
    for tuples in (1_000.0, 2_000.0, 3_000.0, 4_000.0) * 5:
        sums = sums.add((1, tuples, 2 * tuples), 3e-9 * tuples**2)
    sums = replace(sums, level=0.7)
    assert sums.solve()[0] == 0
    assert sums.add((1, 0, 0), 5.0).level == 0.7


def test_what_epochs_cannot_tell_stays_at_the_guess_made_to_fit() -> None:
    """One group has one selectivity and one fan-out, so β and γ cannot be told apart. Their sum is right."""
    rng = np.random.default_rng(2)
    one = epoch_of(rng, TRUE)
    calibration = observe(Calibration(), [one] * 50)
    cost = calibration.coefficients().operator(JOIN)
    part = one.operators[0]
    known = part.tuples * cost.alpha + part.selected * cost.beta + part.matches * cost.gamma + cost.fixed
    assert known == pytest.approx(part.seconds, rel=0.01)
    assert cost.fixed < 0.05 * part.seconds, "what cannot be told apart is the cost of tuples"
    assert min(cost.beta, cost.gamma) > 0


def test_what_an_epoch_costs_by_itself_is_told_from_the_cost_of_tuples() -> None:
    """A pulse of the rate must not make tuples look cheaper than they are."""
    rng = np.random.default_rng(5)
    epochs = []
    for tuples in (1_000, 1_200, 6_000, 900, 5_000) * 8:
        noise = np.exp(0.05 * rng.standard_normal(3))
        join = OperatorEpoch(
            JOIN, tuples, tuples // 10, tuples // 5, 0.02 * noise[0] + 3e-6 * tuples, 0.03 * noise[1]
        )
        epochs.append(
            GroupEpoch(
                GroupName("g"), 0, 2, 1.0, tuples, tuples, 0, 0.5, (join,), tuples // 5, 0.01 * noise[2]
            )
        )
    found = observe(Calibration(), epochs).coefficients(epoch_s=0.5)
    assert found.operator(JOIN).fixed == pytest.approx(0.1, rel=0.1)
    assert found.finish_fixed == pytest.approx(0.02, rel=0.1)
    assert found.operator(JOIN).alpha == pytest.approx(3e-6, rel=0.3)


def test_every_prediction_is_compared_with_the_epoch_that_followed() -> None:
    rng = np.random.default_rng(3)
    epoch = epoch_of(rng, TRUE, number=7)
    calibration = observe(Calibration(), [epoch], {GroupName("g"): epoch.cpu_s * 1.25})
    assert [(e.epoch, round(e.relative, 6)) for e in calibration.errors] == [(7, 0.25)]
    assert calibration.median_error() == pytest.approx(0.25)
    assert Calibration().median_error() is None
    half = replace(epoch, processed=epoch.arrived // 2)
    (error,) = observe(Calibration(), [half], {GroupName("g"): 4.0}).errors
    assert error.predicted_s == pytest.approx(2.0, rel=1e-3), "a group that lags runs half of the input"
    told = PredictionError(epoch.group, 7, 2 * epoch.cpu_s, epoch.cpu_s, calibration.seconds(epoch))
    assert told.relative == pytest.approx(1.0)
    assert calibration.with_errors([told]).median_cost_error() == pytest.approx(0.0, abs=0.02), (
        "it is this epoch's"
    )


def test_so_many_predictions_of_each_group_are_remembered() -> None:
    busy = [PredictionError(GroupName("main"), i, 1.0, 1.0) for i in range(1_000)]
    quiet = [PredictionError(GroupName("auto-0"), i, 1.0, 1.0) for i in range(3)]
    errors = Calibration().with_errors(quiet).with_errors(busy).errors
    assert [error.epoch for error in errors if error.group == "auto-0"] == [0, 1, 2], (
        "main does not drive them out"
    )
    assert [error.epoch for error in errors if error.group == "main"] == list(range(744, 1_000))


def test_lag_that_grows_is_back_pressure_from_downstream_if_the_shared_part_would_keep_up() -> None:
    settings = Settings()
    part = OperatorEpoch(JOIN, 600, 60, 60, 1.0, 4.0)
    slow = FunctionEpoch(SLOW, 60, 13.0)
    epoch = GroupEpoch(GroupName("g"), 1, 2, 10.0, 1_000, 600, 400, 2.0, (part,), 60, 0.0, (slow,))
    health = watch_group([epoch])
    assert (health.rate, health.throughput, health.lag_growth) == (100.0, 60.0, 40.0)
    assert health.share == pytest.approx(0.6)
    assert health.busy == pytest.approx(1.8)
    assert health.behind_s == pytest.approx(4.0)
    assert health.pressed(2, settings)
    heavy = replace(epoch, operators=(replace(part, join_s=17.0),), functions=())
    assert not watch_group([heavy]).pressed(2, settings)
    fine = replace(epoch, processed=1_000, lag=0)
    assert not watch_group([fine]).pressed(2, settings)
