"""What is simulated: queries over one filter attribute, and a stream whose rate, values and costs shift in phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from headrace.model.query import QueryId
from headrace.optimizer.grouping.costs import Coefficients, OperatorCost
from headrace.optimizer.grouping.provisioning import tasks_for
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.values import FunctionName, OperatorId, QueryFacts

Floats = npt.NDArray[np.float64]

JOIN = OperatorId("join")

DOMAIN = 500
"""Values of the filter attribute."""


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """A query that selects the values from `low` to, excluding, `high` of the filter attribute."""

    low: int
    high: int
    function: FunctionName | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= DOMAIN:
            raise ValueError("a range has a value, and is inside the domain")


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """The stream from `starts_s` on: tuples per second, how its values are spread, and matches per tuple of a value.

    `functions` are seconds per row of the functions after the join, where they differ from the scenario's.
    """

    starts_s: float
    rate: float
    spread: Floats
    matches: Floats
    functions: Mapping[FunctionName, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.spread) != DOMAIN or len(self.matches) != DOMAIN or self.rate <= 0:
            raise ValueError("a phase says for every value how often it comes and what it matches")


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """A simulation from a seed. `costs` and `scaling` are how the simulated engine really is.

    The controller does not see them: it has `settings`, measures the rest with an error of `noise`, and samples a share
    of the tuples. A query gets the tasks that keep up with the first phase when it runs alone.

    With `settings.cores` it is the engine's mode: so many cores are all there is, alone a query would have all of them
    beside the others, and everybody starts in the main group.
    """

    name: str
    queries: tuple[RangeQuery, ...]
    phases: tuple[Phase, ...]
    costs: Coefficients
    settings: Settings
    scaling: Scaling
    duration_s: float = 600.0
    step_s: float = 10.0
    noise: float = 0.02
    sampled: float = 0.01
    seed: int = 0

    def phase(self, time_s: float) -> Phase:
        return [phase for phase in self.phases if phase.starts_s <= time_s][-1]

    def faster(self, factor: float) -> Scenario:
        """The same queries with the same tasks, on streams that are so many times as fast."""
        return replace(self, phases=tuple(replace(p, rate=p.rate * factor) for p in self.phases))


def facts_of(scenario: Scenario, base: Scenario | None = None) -> dict[QueryId, QueryFacts]:
    """The queries as the controller sees them, with tasks for the first phase of `base` (this one by default)."""
    first = (base or scenario).phases[0]
    found: dict[QueryId, QueryFacts] = {}
    for i, query in enumerate(scenario.queries):
        load = isolated_load(scenario, first, query)
        tasks = scenario.settings.cores
        if tasks is None:
            tasks = tasks_for(load, 1_000, Settings(headroom=0.05, scaling=scenario.scaling))
        found[QueryId(i)] = QueryFacts(QueryId(i), JOIN, tasks, query.function, query.width)
    return found


def isolated_load(scenario: Scenario, phase: Phase, query: RangeQuery) -> float:
    """What a query really costs alone, in CPU seconds per second of input."""
    cost, inside = scenario.costs.operator(JOIN), slice(query.low, query.high)
    selected = float(phase.spread[inside].sum())
    rows = float((phase.spread * phase.matches)[inside].sum())
    downstream = scenario.costs.finish + function_cost(scenario, phase, query.function)
    return phase.rate * (cost.alpha + selected * cost.beta + rows * (cost.gamma + downstream))


def function_cost(scenario: Scenario, phase: Phase, function: FunctionName | None) -> float:
    """Seconds per row of a function in a phase."""
    if function is None:
        return 0.0
    return phase.functions.get(function, scenario.costs.function(function))


def uniform() -> Floats:
    return np.full(DOMAIN, 1 / DOMAIN)


def zipfian(peak: int, exponent: float = 1.2) -> Floats:
    """Values whose frequency falls with their distance from the most frequent one, in either direction.

    >>> spread = zipfian(0)
    >>> bool(spread[0] > spread[1] > spread[100]), round(float(spread.sum()), 6)
    (True, 1.0)
    """
    found = 1.0 / (1 + np.abs(np.arange(DOMAIN) - peak)) ** exponent
    return np.asarray(found / found.sum())


DEFAULT_COSTS = Coefficients(
    {JOIN: OperatorCost(alpha=5e-6, beta=1e-5, gamma=2e-5)}, finish=5e-8, functions={}
)
