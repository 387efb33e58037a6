"""The front of the simulator: run a scenario with a policy, and get a table with a row per step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headrace.model.grouping import MAIN
from headrace.model.query import QueryId
from headrace.optimizer.grouping.calibration import Calibration, PredictionError, observe
from headrace.optimizer.grouping.monitor import watch_groups
from headrace.optimizer.grouping.policies import Policy, grouper_of
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import GroupEpoch, Statistics
from headrace.optimizer.grouping.timetable import Timetable, decide
from headrace.optimizer.grouping.values import Change, Decision, Grouping, GroupName, SharingGroup
from headrace.optimizer.grouping.work import estimate_work
from headrace.simulate.isolation.scenario import Phase, Scenario, facts_of
from headrace.simulate.isolation.world import World


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a simulation: what ran, what it cost, and how the queries fared.

    `cpu` is CPU seconds per second, with the scheduling of each group. `worst` is the least throughput of any query
    relative to what it would have alone, and `mean` the average. `behind_s` is the largest lag, in seconds of input.
    The changes were decided at the end of the step.
    """

    time_s: float
    groups: int
    tasks: int
    cpu: float
    worst: float
    mean: float
    behind_s: float
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """What came of a simulation. `isolated_tasks` and `isolated_groups` are what isolated execution has."""

    scenario: str
    policy: Policy
    steps: tuple[Step, ...]
    grouping: Grouping
    groupings: tuple[Grouping, ...]
    isolated_tasks: int
    errors: tuple[PredictionError, ...]

    @property
    def median_error(self) -> float:
        return float(np.median([error.relative for error in self.errors]))

    def lines(self) -> list[str]:
        """The table as text."""
        head = f"{'time':>6} {'groups':>6} {'tasks':>6} {'cpu':>8} {'worst':>6} {'mean':>6} {'behind':>7}"
        return [head] + [
            f"{step.time_s:6.0f} {step.groups:6d} {step.tasks:6d} {step.cpu:8.2f} {step.worst:6.2f} "
            f"{step.mean:6.2f} {step.behind_s:7.1f}"
            for step in self.steps
        ]


class _Run:
    """A simulation under way."""

    def __init__(self, scenario: Scenario, policy: Policy, provisioned_for: Scenario | None) -> None:
        self.scenario, self.grouper = scenario, grouper_of(policy)
        self.facts = facts_of(scenario, provisioned_for)
        self.world = World(scenario, self.facts)
        self.calibration = Calibration()
        self.timetable = Timetable.start(0.0, scenario.settings)
        self.predicted: dict[GroupName, float] = {}
        self.groupings: list[Grouping] = []

    def start(self) -> None:
        """All queries arrive at once, when nothing is known yet.

        Where cores are counted, they start in the main group, as in the engine.
        """
        cores = self.scenario.settings.cores
        if cores is not None:
            self._adopt(
                Decision(Grouping((SharingGroup(GroupName(MAIN), tuple(sorted(self.facts)), cores),)))
            )
            return
        situation = self._situation({}, Statistics({}, {}, {}))
        self._adopt(self.grouper.place(situation, self.facts))

    def step(self, time_s: float) -> Step:
        phase = self.scenario.phase(time_s)
        before = self.world.grouping
        epochs = self.world.step(phase)
        self.calibration = observe(self.calibration, epochs.values(), self.predicted)
        statistics = self.world.sample(phase, self._tuples(phase))
        situation = self._situation(epochs, statistics)
        end = time_s + self.scenario.step_s
        self.timetable, decision = decide(self.grouper, self.timetable, end, situation)
        self._adopt(decision)
        self._predict(statistics)
        return self._row(time_s, phase, before, epochs, decision)

    def _tuples(self, phase: Phase) -> int:
        return int(max(1_000, self.scenario.sampled * phase.rate * self.scenario.step_s))

    def _situation(self, epochs: dict[GroupName, GroupEpoch], statistics: Statistics) -> Situation:
        return Situation(
            self.world.grouping,
            self.facts,
            statistics,
            watch_groups({name: [epoch] for name, epoch in epochs.items()}),
            self.calibration.coefficients(self.scenario.step_s),
            self.scenario.settings,
        )

    def _adopt(self, decision: Decision) -> None:
        self.world.adopt(decision.grouping)
        self.groupings.append(self.world.grouping)

    def _predict(self, statistics: Statistics) -> None:
        """What each group will cost in the next step, to be compared with what it does cost."""
        work = estimate_work(self.facts, statistics, self.calibration.coefficients(self.scenario.step_s))
        groups = self.world.grouping.groups
        columns = work.of_groups([group.members for group in groups])
        loads = columns.weights @ columns.needs + columns.own
        self.predicted = {group.name: float(load) for group, load in zip(groups, loads, strict=True)}

    def _row(
        self,
        time_s: float,
        phase: Phase,
        before: Grouping,
        epochs: dict[GroupName, GroupEpoch],
        decision: Decision,
    ) -> Step:
        relative = self._relative(phase, before, epochs)
        overhead = self.scenario.scaling.overhead_s / self.scenario.scaling.interval_s
        cpu = sum(epoch.cpu_s for epoch in epochs.values()) / self.scenario.step_s
        return Step(
            time_s,
            len(before.groups),
            before.tasks,
            cpu + overhead * len(before.groups),
            float(relative.min()),
            float(relative.mean()),
            max(epoch.lag for epoch in epochs.values()) / phase.rate,
            decision.changes,
        )

    def _relative(
        self, phase: Phase, grouping: Grouping, epochs: dict[GroupName, GroupEpoch]
    ) -> np.typing.NDArray[np.float64]:
        """Each query's throughput relative to what it would be alone, and at most the input rate."""
        found = []
        for group in grouping.groups:
            epoch = epochs[group.name]
            share = min(1.0, epoch.processed / epoch.arrived)
            found += [share / self.world.isolated_capacity(query, phase) for query in group.members]
        return np.array(found)


def simulate(
    scenario: Scenario,
    policy: Policy = Policy.FUNCTIONAL,
    provisioned_for: Scenario | None = None,
) -> Table:
    """Run a scenario to its end. The same scenario and policy give the same table.

    Queries have the tasks that keep up with the first phase of `provisioned_for` (the scenario itself by default).
    """
    run = _Run(scenario, policy, provisioned_for)
    run.start()
    times = np.arange(0.0, scenario.duration_s, scenario.step_s).tolist()
    steps = tuple(run.step(time_s) for time_s in times)
    return Table(
        scenario.name,
        policy,
        steps,
        run.world.grouping,
        tuple(run.groupings),
        sum(facts.tasks for facts in run.facts.values()),
        run.calibration.errors,
    )


def compare(scenario: Scenario, policies: Iterable[Policy] = Policy) -> dict[Policy, Table]:
    """The same scenario with each policy."""
    return {policy: simulate(scenario, policy) for policy in policies}


def members_of(grouping: Grouping) -> frozenset[tuple[QueryId, ...]]:
    """Who shares with whom, whatever tasks and names the groups have."""
    return frozenset(group.members for group in grouping.groups)
