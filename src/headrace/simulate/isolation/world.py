"""The simulated engine: groups with cursors and tasks, that process what they can and report what they measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headrace.model.query import QueryId
from headrace.optimizer.grouping.regions import query_samples, summarise_counts
from headrace.optimizer.grouping.statistics import (
    FunctionEpoch,
    GroupEpoch,
    OperatorEpoch,
    RegionTable,
    Statistics,
)
from headrace.optimizer.grouping.throughput import fair_part
from headrace.optimizer.grouping.values import FunctionName, Grouping, GroupName, QueryFacts, SharingGroup
from headrace.simulate.isolation.scenario import (
    DOMAIN,
    JOIN,
    Floats,
    Phase,
    Scenario,
    function_cost,
)


@dataclass(frozen=True, slots=True)
class TrueLoad:
    """What a group really costs, in CPU seconds per second of input, and the share of the input it can process."""

    scan: float
    shared: float
    selected: float
    matches: float
    rows: float
    finishing: float
    functions: Mapping[FunctionName, float]
    capacity: float

    @property
    def total(self) -> float:
        return self.shared + self.finishing + sum(self.functions.values())


class World:
    """The state of the simulation. `lag` is what each group has not processed yet, in tuples."""

    def __init__(self, scenario: Scenario, facts: Mapping[QueryId, QueryFacts]) -> None:
        self.scenario, self.facts = scenario, facts
        self.rng = np.random.default_rng([scenario.seed, 1])
        self.selects = np.zeros((len(scenario.queries), DOMAIN), dtype=bool)
        for i, query in enumerate(scenario.queries):
            self.selects[i, query.low : query.high] = True
        self.grouping = Grouping()
        self.lag: dict[GroupName, float] = {}
        self.epoch = 0
        self.isolated: dict[QueryId, float] = {}
        self.isolated_phase: Phase | None = None
        self.fair = float("inf")

    def sample(self, phase: Phase, tuples: int) -> Statistics:
        """A sample of the stream, as the regions of all queries and as each query's own figures."""
        queries = sorted(query for group in self.grouping.groups for query in group.members)
        counts = self.rng.multinomial(tuples, phase.spread).astype(np.float64)
        matches = self.rng.poisson(counts * phase.matches).astype(np.float64)
        wanted = self.selects[np.array(queries, dtype=np.intp)].T
        table: RegionTable = summarise_counts(JOIN, tuple(queries), wanted, counts, matches, tuples)
        return Statistics({JOIN: phase.rate}, {JOIN: table}, query_samples(table))

    def adopt(self, grouping: Grouping) -> None:
        """Make a grouping true. A group starts where the slowest of the groups was that its members come from."""
        old = self.grouping.by_query()
        self.lag = {
            group.name: max((self.lag[old[q].name] for q in group.members if q in old), default=0.0)
            for group in grouping.groups
        }
        self.grouping = grouping

    def step(self, phase: Phase) -> dict[GroupName, GroupEpoch]:
        """Let every group run for one step, and give what it measured.

        Where cores are counted, a group may use those that the others leave, and nobody gets more than a fair part of
        them while somebody else wants it.
        """
        self.epoch += 1
        cores = self.scenario.settings.cores
        if cores is None:
            return {group.name: self._run(group, phase) for group in self.grouping.groups}
        wide = [replace(group, tasks=cores) for group in self.grouping.groups]
        loads = {group.name: self.true_load(group, phase) for group in wide}
        arrived = phase.rate * self.scenario.step_s
        wanted = {
            name: load.total * min(load.capacity, 1 + self.lag[name] / arrived)
            for name, load in loads.items()
        }
        fair = fair_part(wanted.values(), self.scenario.scaling.useful(cores))
        return {
            group.name: self._run(group, phase, min(fair, wanted[group.name]) / loads[group.name].total)
            for group in wide
        }

    def true_load(self, group: SharingGroup, phase: Phase) -> TrueLoad:
        return self._load(np.array(group.members, dtype=np.intp), group.tasks, phase)

    def isolated_capacity(self, query: QueryId, phase: Phase) -> float:
        """The share of the input that a query would really process alone, at most 1."""
        if phase is not self.isolated_phase:
            self.isolated_phase, self.isolated, self.fair = phase, {}, self._fair_part(phase)
        if query not in self.isolated:
            load = self._load(np.array([query], dtype=np.intp), self.facts[query].tasks, phase)
            self.isolated[query] = min(1.0, load.capacity, self.fair / load.total)
        return self.isolated[query]

    def _fair_part(self, phase: Phase) -> float:
        """The useful work per second that each query could have at most if all ran alone at once."""
        cores = self.scenario.settings.cores
        if cores is None:
            return float("inf")
        alone = (self._load(np.array([query], dtype=np.intp), cores, phase).total for query in self.facts)
        return fair_part(alone, self.scenario.scaling.useful(cores))

    def _load(self, members: npt.NDArray[np.intp], tasks: int, phase: Phase) -> TrueLoad:
        cost, costs = self.scenario.costs.operator(JOIN), self.scenario.costs
        row_rate: Floats = phase.rate * phase.spread * phase.matches
        covered = self.selects[members].any(axis=0)
        selected = phase.rate * float(phase.spread @ covered)
        matches = float(row_rate @ covered)
        rows = float((self.selects[members] @ row_rate).sum())
        functions, narrow = self._function_loads(members, row_rate, phase)
        scan = phase.rate * cost.alpha
        shared = scan + selected * cost.beta + matches * cost.gamma
        total = shared + rows * costs.finish + sum(functions.values())
        capacity = min(self.scenario.scaling.useful(tasks) / total, narrow)
        return TrueLoad(
            phase.rate * cost.alpha, shared, selected, matches, rows, rows * costs.finish, functions, capacity
        )

    def _function_loads(
        self, members: npt.NDArray[np.intp], row_rate: Floats, phase: Phase
    ) -> tuple[dict[FunctionName, float], float]:
        users: dict[FunctionName, list[int]] = {}
        for i in members.tolist():
            function = self.scenario.queries[i].function
            if function is not None:
                users.setdefault(function, []).append(i)
        loads: dict[FunctionName, float] = {}
        narrow = float("inf")
        for function, using in users.items():
            rows = float(row_rate @ self.selects[using].any(axis=0))
            loads[function] = rows * function_cost(self.scenario, phase, function)
            widths = [w for i in using if (w := self.scenario.queries[i].width) is not None]
            if widths and loads[function] > 0:
                narrow = min(narrow, min(widths) / loads[function])
        return loads, narrow

    def _run(self, group: SharingGroup, phase: Phase, at_most: float = float("inf")) -> GroupEpoch:
        seconds = self.scenario.step_s
        load = self.true_load(group, phase)
        arrived = phase.rate * seconds
        processed = min(arrived + self.lag[group.name], min(load.capacity, at_most) * arrived)
        self.lag[group.name] += arrived - processed
        share = processed / arrived
        spread = 1 + self.scenario.scaling.serial * (group.tasks - 1)
        used = seconds * share * spread

        def measured(part: float) -> float:
            return float(part * used * np.exp(self.scenario.noise * self.rng.standard_normal()))

        join = OperatorEpoch(
            JOIN,
            round(processed),
            round(load.selected * seconds * share),
            round(load.matches * seconds * share),
            measured(load.scan),
            measured(load.shared - load.scan),
        )
        functions = tuple(
            FunctionEpoch(
                name,
                round(seconds * share * part / function_cost(self.scenario, phase, name)),
                measured(part),
            )
            for name, part in load.functions.items()
        )
        finishing = measured(load.finishing)
        busy = join.seconds + finishing + sum(part.seconds for part in functions)
        return GroupEpoch(
            group.name,
            self.epoch,
            group.tasks,
            seconds,
            round(arrived),
            round(processed),
            round(self.lag[group.name]),
            max(0.0, group.tasks * seconds - busy),
            (join,),
            round(load.rows * seconds * share),
            finishing,
            functions,
        )
