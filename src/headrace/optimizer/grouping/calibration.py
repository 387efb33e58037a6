"""Calibration: the coefficients of the cost model by least squares over what epochs measured, forgetting slowly.

Only sums of products are kept, so calibration costs the same however long it runs. Each epoch counts with its relative
error, so that large epochs do not drown small ones. What the epochs cannot tell (one group alone always has one
selectivity) stays near the guess. Every prediction is compared with the epoch that it was about.

The coefficients forget slowly, because only epochs that differ tell them apart. Their common level follows the last
epochs: windows fill, machines get busy, and a least relative error is too low where seconds scatter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log

import numpy as np

from headrace.optimizer.grouping.costs import (
    FINISH_GUESS,
    FIXED_GUESS,
    FUNCTION_GUESS,
    GUESS,
    Coefficients,
    OperatorCost,
)
from headrace.optimizer.grouping.statistics import Floats, GroupEpoch
from headrace.optimizer.grouping.values import FunctionName, GroupName, OperatorId

FORGET = 0.98
"""What an older epoch's weight is multiplied with when a newer one comes."""

LATEST = 0.2
"""The weight of the newest epoch in the level, by which all coefficients of an operator are multiplied."""

OUTLIER = 4.0
"""An epoch that took so many times what was expected, or a part like that, tells no more than this."""

PRIOR = 1e-4
"""The weight of the guess beside what was measured."""

ERRORS_KEPT, GROUP_ERRORS_KEPT = 2_048, 256
"""So many predictions are remembered with what came of them, in all and of one group."""

SCAN_COLUMNS = (FIXED_GUESS, GUESS.alpha)
JOIN_COLUMNS = (FIXED_GUESS, GUESS.beta, GUESS.gamma)
FINISH_COLUMNS = (FIXED_GUESS, FINISH_GUESS)
"""What is looked for in each part of an epoch, as guesses: seconds per epoch, then per tuple, match or row."""


@dataclass(frozen=True, slots=True)
class KeptSums:
    """Sums as plain numbers, for a file."""

    guess: tuple[float, ...]
    square: tuple[tuple[float, ...], ...]
    product: tuple[float, ...]
    level: float = 0.0


@dataclass(frozen=True, slots=True)
class KeptCalibration:
    """What epochs have taught, as plain numbers by operator and by function. Errors of predictions are not kept."""

    scans: Mapping[str, KeptSums]
    joins: Mapping[str, KeptSums]
    finish: KeptSums
    functions: Mapping[str, KeptSums]


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Normal equations of seconds = columns · coefficients: A'A and A'y, in units of the guess.

    `level` is the logarithm of what the last epochs took, as a multiple of what these equations say.
    """

    guess: tuple[float, ...]
    square: Floats
    product: Floats
    level: float = 0.0

    @staticmethod
    def start(guess: tuple[float, ...]) -> _Sums:
        n = len(guess)
        return _Sums(guess, np.zeros((n, n)), np.zeros(n))

    @staticmethod
    def of(kept: KeptSums, guess: tuple[float, ...]) -> _Sums:
        """What was kept; nothing of it, if it is of a version that looked for other coefficients."""
        n = len(guess)
        lengths = {len(kept.square), len(kept.product), *(len(row) for row in kept.square)}
        if tuple(kept.guess) != guess or lengths != {n}:
            return _Sums.start(guess)
        found = _Sums(guess, np.array(kept.square), np.array(kept.product), kept.level)
        finite = np.isfinite([*found.square.flat, *found.product, found.level]).all()
        return found if finite else _Sums.start(guess)

    def kept(self) -> KeptSums:
        square = tuple(tuple(row) for row in self.square.tolist())
        return KeptSums(self.guess, square, tuple(self.product.tolist()), self.level)

    def add(self, columns: tuple[float, ...], seconds: float) -> _Sums:
        if seconds <= 0 or not any(columns):
            return self
        row = np.array(columns) * self.guess / seconds
        square, product = self.square * FORGET + np.outer(row, row), self.product * FORGET + row
        after = _Sums(self.guess, square, product)
        expected = after.expect(columns)
        if expected <= 0:  # such an epoch says nothing about the level
            return replace(after, level=self.level)
        seen = min(max(seconds / expected, 1 / OUTLIER), OUTLIER)
        return replace(after, level=self.level + LATEST * (log(seen) - self.level))

    def expect(self, columns: tuple[float, ...]) -> float:
        """The seconds that these columns cost."""
        return float(np.dot(columns, self.solve()))

    def solve(self) -> tuple[float, ...]:
        """Coefficients of zero or more, at the level of the last epochs."""
        level = exp(self.level)
        return tuple(level * found for found in self._solve())

    def measured(self) -> tuple[float, ...]:
        """The same, and nothing where no epoch spent anything."""
        return self.solve() if self.square.any() else (0.0,) * len(self.guess)

    def _solve(self) -> tuple[float, ...]:
        """Coefficients of zero or more. What comes out negative is set to zero, and the rest solved again.

        The guess is first made to fit in size, because machines differ in speed more than in what is dear on them.
        """
        n = len(self.guess)
        if not self.square.any():
            return self.guess
        pull = PRIOR * np.trace(self.square) / n
        square = self.square + pull * np.eye(n)
        product = self.product + pull * self.product.sum() / self.square.sum()
        used = list(range(n))
        found = np.zeros(n)
        while used:
            found[:] = 0
            found[used] = np.linalg.solve(square[np.ix_(used, used)], product[used])
            if not (found < 0).any():
                break
            used = [i for i in used if found[i] > 0]
        return tuple((found * self.guess).tolist())


@dataclass(frozen=True, slots=True)
class PredictionError:
    """CPU seconds that were predicted for an epoch and that it took. The error is relative to what it took.

    `told_s` is what the costs of that time say of the epoch once it is known what its tuples matched, as no prediction
    knows it. So it has the error of the costs alone.
    """

    group: GroupName
    epoch: int
    predicted_s: float
    measured_s: float
    told_s: float | None = None

    @property
    def relative(self) -> float:
        return abs(self.predicted_s - self.measured_s) / self.measured_s if self.measured_s else 0.0

    @property
    def of_costs(self) -> float | None:
        """The relative error of the costs alone; None if they were not asked."""
        if self.told_s is None:
            return None
        return abs(self.told_s - self.measured_s) / self.measured_s if self.measured_s else 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What epochs have taught so far. It is a value: `observe` gives the next one."""

    scans: Mapping[OperatorId, _Sums] = field(default_factory=dict)
    joins: Mapping[OperatorId, _Sums] = field(default_factory=dict)
    finish: _Sums = field(default_factory=lambda: _Sums.start(FINISH_COLUMNS))
    functions: Mapping[FunctionName, _Sums] = field(default_factory=dict)
    errors: tuple[PredictionError, ...] = ()

    def coefficients(self, epoch_s: float = 1.0) -> Coefficients:
        """The costs, when a group runs an epoch every so many seconds."""
        operators: dict[OperatorId, OperatorCost] = {}
        for operator, sums in self.scans.items():
            scan, alpha = sums.measured()
            join, beta, gamma = self.joins[operator].measured()
            operators[operator] = OperatorCost(alpha, beta, gamma, (scan + join) / epoch_s)
        fixed, finish = self.finish.solve()
        functions = {
            function: sums.solve()[0] for function, sums in self.functions.items() if sums.square.any()
        }
        return Coefficients(operators, finish, functions, fixed / epoch_s)

    def seconds(self, epoch: GroupEpoch) -> float:
        """What an epoch with these tuples, matches, rows and calls costs."""
        found = 0.0
        for ran in epoch.operators:
            scans, joins = self.scans.get(ran.operator), self.joins.get(ran.operator)
            if scans is not None and joins is not None:
                found += float(np.dot((1, ran.tuples), scans.measured()))
                found += float(np.dot((1, ran.selected, ran.matches), joins.measured()))
        found += self.finish.expect((1, epoch.rows))
        for called in epoch.functions:
            if called.function in self.functions:
                found += self.functions[called.function].expect((called.rows,))
        return found

    def kept(self) -> KeptCalibration:
        """The same for a file; `recall_calibration` reads it."""
        return KeptCalibration(
            {str(operator): sums.kept() for operator, sums in self.scans.items()},
            {str(operator): sums.kept() for operator, sums in self.joins.items()},
            self.finish.kept(),
            {str(function): sums.kept() for function, sums in self.functions.items()},
        )

    def with_errors(self, errors: Iterable[PredictionError]) -> Calibration:
        """The same, with more predictions remembered."""
        return replace(self, errors=_newest((*self.errors, *errors)))

    def median_error(self) -> float | None:
        """The median of the relative errors of the predictions that are remembered; None before the first."""
        return float(np.median([error.relative for error in self.errors])) if self.errors else None

    def median_cost_error(self) -> float | None:
        """The same for the costs alone, when it is known what an epoch's tuples matched."""
        found = [error.of_costs for error in self.errors if error.of_costs is not None]
        return float(np.median(found)) if found else None


def recall_calibration(kept: KeptCalibration) -> Calibration:
    """What was taught before, to go on from."""
    one = (FUNCTION_GUESS,)
    return Calibration(
        {OperatorId(operator): _Sums.of(sums, SCAN_COLUMNS) for operator, sums in kept.scans.items()},
        {OperatorId(operator): _Sums.of(sums, JOIN_COLUMNS) for operator, sums in kept.joins.items()},
        _Sums.of(kept.finish, FINISH_COLUMNS),
        {FunctionName(function): _Sums.of(sums, one) for function, sums in kept.functions.items()},
    )


def observe(
    calibration: Calibration,
    epochs: Iterable[GroupEpoch],
    predicted: Mapping[GroupName, float] | None = None,
) -> Calibration:
    """What is known after these epochs. `predicted` are loads of groups, made before the epochs ran."""
    epochs = tuple(epochs)
    scans, joins, functions = (
        dict(calibration.scans),
        dict(calibration.joins),
        dict(calibration.functions),
    )
    finish = calibration.finish
    for epoch in epochs:
        for ran in epoch.operators:
            scan = scans.get(ran.operator, _Sums.start(SCAN_COLUMNS))
            scans[ran.operator] = scan.add((1, ran.tuples), ran.scan_s)
            join = joins.get(ran.operator, _Sums.start(JOIN_COLUMNS))
            joins[ran.operator] = join.add((1, ran.selected, ran.matches), ran.join_s)
        finish = finish.add((1, epoch.rows), epoch.finishing_s)
        for called in epoch.functions:
            sums = functions.get(called.function, _Sums.start((FUNCTION_GUESS,)))
            functions[called.function] = sums.add((called.rows,), called.seconds)
    errors = (*calibration.errors, *_errors(epochs, predicted or {}))
    return Calibration(scans, joins, finish, functions, _newest(errors))


def _newest(errors: Sequence[PredictionError]) -> tuple[PredictionError, ...]:
    """The last ones of each group, in the order that they came."""
    left: Counter[GroupName] = Counter()
    kept: list[PredictionError] = []
    for error in reversed(errors[-ERRORS_KEPT:]):
        left[error.group] += 1
        if left[error.group] <= GROUP_ERRORS_KEPT:
            kept.append(error)
    return tuple(reversed(kept))


def _errors(epochs: Iterable[GroupEpoch], predicted: Mapping[GroupName, float]) -> Iterable[PredictionError]:
    """A load is per second of input, so the prediction for an epoch is the load times the seconds of input it ran."""
    for epoch in epochs:
        if epoch.group in predicted and epoch.arrived and epoch.processed:
            input_s = epoch.elapsed_s * epoch.processed / epoch.arrived
            yield PredictionError(epoch.group, epoch.epoch, predicted[epoch.group] * input_s, epoch.cpu_s)
