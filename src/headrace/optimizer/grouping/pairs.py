"""The cost of merging any two groups, for all pairs at once, kept up to date while groups are merged.

Comparing 1,000 groups with each other is half a million pairs, and each merge changes the costs of the merged group.
So the overlaps of all pairs are one matrix product at first. After a merge only one row is computed anew, and only from
the items that the smaller of the two groups adds. A group whose best partner is gone keeps its old cost as a lower
bound, and looks for a new partner only when that bound is the least of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.optimizer.grouping.provisioning import (
    TINY,
    MergedGroup,
    highest_cost,
    merge_threshold,
    provision,
    usable_tasks,
)
from headrace.optimizer.grouping.settings import Settings
from headrace.optimizer.grouping.statistics import Bits, Floats
from headrace.optimizer.grouping.work import Bottleneck, Work

FORCED = 1e6
"""The cost of a pair that nothing is known about, when groups have to be merged because there are too many.

Twice that if something is known of one of the two, and once more if they have no operator in common.
"""

HARM = 1e3
"""What is added to the cost of a known pair that has to be merged although somebody would be slowed."""

BLOCK = 64
"""Rows of the cost matrix that are computed together, so that they stay in the cache."""

PER_GROUP = (
    *("position", "tasks", "busy", "share", "pressed", "behind"),
    *("isolated", "resident", "known", "load", "rate", "gone", "settled", "parted", "error"),
)

Singles = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The groups that may be merged, as arrays. `work` has them as columns; `share` is the input they process.

    `pressed` groups have a shared part that waits for what comes after it. `behind` says by how many seconds of input
    a group's cursor is behind. Two `resident` groups are not merged with
    each other: a new query may join a group at any time, but groups are merged only in a merge step. Two `settled`
    groups were not merged in the last step, and are merged now only if that is better by more than chance. `parted`
    groups were split off and still have to catch up. `estranged` pairs have just been parted because one of them slowed
    the other (None: there are none).
    """

    work: Work
    load: Floats
    tasks: Floats
    busy: Floats
    share: Floats
    pressed: Bits
    behind: Floats
    isolated: Floats
    resident: Bits
    settled: Bits
    parted: Bits
    estranged: Bits | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """The cheapest merge there is: the positions of both groups, and the larger cost of the two directions."""

    left: int
    right: int
    cost: float


@dataclass(frozen=True, slots=True)
class United:
    """What became of a pair: the tasks that it was given, and the threshold that its cost was below."""

    tasks: int
    threshold: float


class PairCosts:
    """The costs of all pairs of groups that are left. Positions are those of the candidates, and stay the same."""

    def __init__(self, candidates: Candidates, settings: Settings) -> None:
        work = candidates.work
        self.settings = settings
        self.position = np.arange(len(candidates.tasks))
        self.tasks = candidates.tasks.astype(np.float32)
        self.busy = candidates.busy.astype(np.float32)
        self.share = candidates.share.copy()
        self.pressed = candidates.pressed.copy()
        self.isolated = candidates.isolated.copy()
        self.behind = candidates.behind.copy()
        self.resident = candidates.resident.copy()
        self.settled = candidates.settled.copy()
        self.parted = candidates.parted.copy()
        self.estranged = None if candidates.estranged is None else candidates.estranged.copy()
        self.known = work.known.copy()
        self.operators = work.operators.astype(np.float32)
        self.weights = work.weights
        self.needs = work.needs.astype(np.float32)
        self.needed_by = np.ascontiguousarray(work.needs.T)
        self.load = np.maximum(candidates.load, TINY).astype(np.float32)
        spread = 1 + settings.scaling.serial * np.maximum(self.tasks - 1, 0)
        self.rate = (self.busy / spread / self.load).astype(np.float32)
        self.overlap = _overlaps(self.needs, work.weights)
        self.error = _standard_error(work.sampled, self.needs)
        self.limits = [_Limit(b, self.needs, work.weights) for b in work.bottlenecks]
        self.gone = np.zeros(len(self.tasks), dtype=np.float32)
        self.groups = len(self.tasks)
        self.residents = bool(self.resident.any())
        self.some_settled = bool(self.settled.any())
        self.some_parted = bool(self.parted.any())
        self.unknown = not self.known.all()
        self.some_lag = bool(self.behind.any())
        self.under_pressure = bool(self.pressed.any())
        self.forced = False
        self._compare_all()

    def force(self) -> None:
        """From now on every pair may be merged, at whatever cost: there are more groups than the driver can run."""
        self.forced = True
        self._compare_all()

    def cheapest(self) -> Pair | None:
        """The pair of least cost that may be merged; None when there is none."""
        while len(self.best):
            row = int(self.best.argmin())
            if not np.isfinite(self.best[row]):
                return None
            if not self.stale[row]:
                pair = (int(self.position[row]), int(self.position[self.partner[row]]))
                cost = float(self.best[row])
                return Pair(min(pair), max(pair), cost - HARM if HARM <= cost < FORCED else cost)
            self._look_again(row)
        return None

    def refuse(self, pair: Pair) -> None:
        """This pair is not merged by its cost: somebody would be slowed, by what the caller knows."""
        a, b = np.searchsorted(self.position, [pair.left, pair.right]).tolist()
        if self.estranged is None:
            self.estranged = np.zeros((len(self.tasks), len(self.tasks)), dtype=bool)
        self.estranged[a, b] = self.estranged[b, a] = True
        self.costs[a, b] = self.costs[b, a] = np.inf
        self._look_again(a)
        self._look_again(b)

    def merge(self, pair: Pair) -> United:
        """Make one group of the pair, at the left position.

        If nothing is known of them, the pair starts with the tasks of the larger one, and gets more when it lags.
        """
        a, b = np.searchsorted(self.position, [pair.left, pair.right]).tolist()
        loads = [float(self.load[i]) for i in (a, b)]
        union = max(*loads, sum(loads) - float(self.overlap[a, b]))
        both = int(self.tasks[a] + self.tasks[b])
        groups = [
            MergedGroup(load, float(self.busy[i]), float(self.rate[i]) * load)
            for i, load in zip((a, b), loads, strict=True)
        ]
        at_most = int(min(both, self.isolated[a] + self.isolated[b]))
        if self.known[a] and self.known[b]:
            tasks = provision(union, groups, at_most, self.settings) or at_most
        else:
            tasks = int(max(self.tasks[a], self.tasks[b]))
        threshold = min(merge_threshold(both, group.busy, group.demand, self.settings) for group in groups)
        self._unite(a, b, union, tasks)
        self._compare_row(a, b)
        if 2 * self.groups < len(self.gone):
            self._compact()
        return United(tasks, threshold)

    def _unite(self, a: int, b: int, union: float, tasks: int) -> None:
        self._unite_overlaps(a, b)
        self.rate[a] = rate = max(float(self.rate[a]), float(self.rate[b]))
        self.load[a], self.tasks[a] = union, tasks
        self.busy[a] = min(tasks, rate * union * (1 + self.settings.scaling.serial * (tasks - 1)))
        self.share[a] = max(self.share[a], self.share[b])
        self.pressed[a] |= self.pressed[b]
        self.behind[a] = max(self.behind[a], self.behind[b])
        self.resident[a] |= self.resident[b]
        self.settled[a] = False
        self.parted[a] |= self.parted[b]
        self.known[a] &= self.known[b]
        self.isolated[a] += self.isolated[b]
        self.operators[:, a] = np.maximum(self.operators[:, a], self.operators[:, b])
        if self.estranged is not None:
            self.estranged[a] = self.estranged[:, a] = self.estranged[a] | self.estranged[b]
        self.gone[b] = np.inf
        self.groups -= 1

    def _unite_overlaps(self, a: int, b: int) -> None:
        """The overlap of a union is the one of its larger item, and what the items add that only the other needs."""
        mine, theirs = self.needed_by[a], self.needed_by[b]
        new, base = theirs & ~mine, a
        other_new = mine & ~theirs
        if other_new.sum() < new.sum():
            new, base = other_new, b
        items = np.flatnonzero(new)
        row = self.overlap[base] + self.weights[items].astype(np.float32) @ self.needs[items]
        self.overlap[a] = row
        self.overlap[:, a] = row
        for limit in self.limits:
            limit.unite(a, base, items, self.needs, self.weights)
        self.needed_by[a] = both = mine | theirs
        self.needs[:, a] = both

    def _compare_all(self) -> None:
        n = len(self.tasks)
        self.costs: Singles = np.empty((n, n), dtype=np.float32)
        for first in range(0, n, BLOCK):
            rows = np.arange(first, min(first + BLOCK, n))
            self.costs[rows] = self._costs(rows)
        self._find_partners()

    def _find_partners(self) -> None:
        n = len(self.tasks)
        self.partner = self.costs.argmin(axis=1) if n else np.zeros(0, dtype=np.intp)
        self.best = self.costs[np.arange(n), self.partner] if n else np.zeros(0, dtype=np.float32)
        self.stale = np.zeros(n, dtype=bool)

    def _compare_row(self, a: int, gone: int) -> None:
        """New costs of the group at `a`; everybody else learns whether it is now a better partner."""
        row = self._costs(np.array([a]))[0]
        self.costs[a] = row
        self.costs[:, a] = row
        self.costs[:, gone] = self.costs[gone] = np.inf
        self.best[gone] = np.inf
        self.stale |= (self.partner == a) | (self.partner == gone)
        better = row < self.best
        self.best[better], self.partner[better], self.stale[better] = row[better], a, False
        self._look_again(a)

    def _look_again(self, row: int) -> None:
        self.partner[row] = partner = int(self.costs[row].argmin())
        self.best[row] = self.costs[row, partner]
        self.stale[row] = False

    def _compact(self) -> None:
        """Forget the groups that are gone, so that what is left costs less."""
        keep = np.flatnonzero(self.gone == 0)
        for name in PER_GROUP:
            setattr(self, name, getattr(self, name)[keep])
        self.operators, self.needs = self.operators[:, keep], self.needs[:, keep]
        self.needed_by = self.needed_by[keep]
        square = np.ix_(keep, keep)
        self.overlap, self.costs = self.overlap[square], self.costs[square]
        if self.estranged is not None:
            self.estranged = self.estranged[square]
        for limit in self.limits:
            limit.keep(keep)
        self._find_partners()

    def _costs(self, rows: npt.NDArray[np.intp]) -> Singles:
        """The costs of some groups with all others: the larger of both directions, infinite where not allowed.

        Equation 1 is below the threshold in both directions exactly if the tasks of both do the union at the rate of
        the faster one. That is quicker to compute than the threshold.
        """
        own = rows[:, None]
        union = self.load[own] + self.load - self.overlap[rows]
        tasks = self.tasks[own] + self.tasks
        cost: Singles = highest_cost(union, tasks, (self.load[own], self.busy[own]), (self.load, self.busy))
        if self.forced:
            cost = self._forced_costs(own, cost)
        else:
            needed = union * np.maximum(self.rate[own], self.rate)
            allowed = needed <= self._by_more_than_chance(own, usable_tasks(tasks, self.settings), self.error)
            self._forbid(own, allowed)
            cost[~allowed | (cost > self.settings.threshold)] = np.inf
        cost += self.gone + self.gone[own]
        if self.residents:
            cost[self.resident[own] & self.resident] = np.inf
        cost[np.arange(len(rows)), rows] = np.inf
        return cost

    def _forced_costs(self, own: npt.NDArray[np.intp], cost: Singles) -> Singles:
        common = self._common_operator(own)
        known = self.known[own] & self.known & common
        unknown = FORCED * (1.0 + (self.known[own] != self.known) + ~common)
        smaller_first = self.isolated[own] + self.isolated
        fine = np.ones(cost.shape, dtype=bool)
        self._forbid(own, fine)
        costs = np.minimum(cost, HARM) + np.where(fine, 0.0, HARM)
        return np.where(known, costs, unknown + smaller_first).astype(np.float32)

    def _forbid(self, own: npt.NDArray[np.intp], allowed: Bits) -> None:
        """Take out pairs that may not be merged whatever they cost."""
        if self.unknown:
            allowed &= self.known[own] & self.known
        if len(self.operators) > 1:
            allowed &= self._common_operator(own)
        if self.some_lag:
            allowed &= np.abs(self.behind[own] - self.behind) <= self.settings.meet_within_s
        if self.some_parted:
            allowed &= ~(self.parted[own] | self.parted)
        if self.under_pressure:
            allowed &= ~self._throttled(own)
        if self.limits:
            allowed &= self._wide_enough(own[:, 0])
        if self.estranged is not None:
            allowed &= ~self.estranged[own[:, 0]]

    def _by_more_than_chance(self, own: npt.NDArray[np.intp], most: Any, error: Singles) -> Any:
        """What a union may need at most, if a pair that was refused in the last step has to pay by more than chance.

        Of a group that selects n tuples of the sample, the sample tells the load with a relative error of 1/√n. The one
        who selects more tells that of the union. There are many pairs, and each is looked at again in every step, so
        that a margin of two or three standard errors would be crossed by some pair in nearly every step.
        """
        if not self.some_settled:
            return most
        margin = self.settings.chance * np.minimum(error[own], error)
        sure = np.minimum(1 - self.settings.hysteresis, 1 / (1 + margin))
        return most * np.where(self.settled[own] & self.settled, sure, 1.0)

    def _common_operator(self, own: npt.NDArray[np.intp]) -> Bits:
        return np.asarray(self.operators[:, own[:, 0]].T @ self.operators > 0)

    def _throttled(self, own: npt.NDArray[np.intp]) -> Bits:
        """Whether the slower of the two is pressed from downstream: it would slow the other (algorithm 1, line 6)."""
        mine = self.pressed[own] & (self.share[own] <= self.share)
        theirs = self.pressed & (self.share <= self.share[own])
        return mine | theirs

    def _wide_enough(self, rows: npt.NDArray[np.intp]) -> Bits:
        """Whether functions that cannot use more tasks keep up with the union, so that no back-pressure is expected."""
        share = np.maximum(self.share[rows][:, None], self.share)
        free = 1 - self.settings.headroom
        fine = np.ones(share.shape, dtype=bool)
        for limit in self.limits:
            union = limit.load[rows][:, None] + limit.load - limit.overlap[rows]
            added = union > np.maximum(limit.load[rows][:, None], limit.load) * (1 + 1e-6)
            most = limit.width * np.where(added, free, 1.0)
            fine &= union * share <= self._by_more_than_chance(rows[:, None], most, limit.error)
        return fine


class _Limit:
    """The load of one bottleneck in every group, and in every pair of groups."""

    def __init__(self, bottleneck: Bottleneck, needs: Singles, weights: Floats) -> None:
        self.width, self.items = bottleneck.width, bottleneck.items
        items = bottleneck.items
        self.load = weights[items] @ needs[items]
        self.overlap = _overlaps(needs[items], weights[items])
        self.error = _standard_error(bottleneck.sampled, needs[items])

    def unite(self, a: int, base: int, new: npt.NDArray[np.intp], needs: Singles, weights: Floats) -> None:
        mine = new[(new >= self.items.start) & (new < self.items.stop)]
        row = self.overlap[base] + weights[mine].astype(np.float32) @ needs[mine]
        self.load[a] = self.load[base] + weights[mine].sum()
        self.overlap[a] = row
        self.overlap[:, a] = row

    def keep(self, places: npt.NDArray[np.intp]) -> None:
        self.load = self.load[places]
        self.error = self.error[places]
        self.overlap = self.overlap[np.ix_(places, places)]


def _standard_error(sampled: Floats, needs: Singles) -> Singles:
    """The relative standard error of what a sample tells of each group, by how many of its tuples the group selects.

    Of a group that unites others, it is that of one of them. Nobody asks for it, since such a group was not refused.
    """
    return np.asarray(1 / np.sqrt(np.maximum(sampled.astype(np.float32) @ needs, 1.0)), dtype=np.float32)


def _overlaps(needs: Singles, weights: Floats) -> Singles:
    """The weight of the items that both of two groups need, for all pairs."""
    scaled = needs * np.sqrt(weights).astype(np.float32)[:, None]
    return np.asarray(scaled.T @ scaled, dtype=np.float32)
