"""The cost model: CPU seconds per input tuple, α + selectivity · (β + γ · matches), and a term for what comes after.

Each operator has its own α, β and γ, and a fixed part that an epoch costs however little comes. Every row that a query
gets costs `finish` seconds of its own. A function costs seconds per row, once per row of a group, however many of its
members use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.optimizer.grouping.statistics import QuerySample
from headrace.optimizer.grouping.values import FunctionName, OperatorId, QueryFacts


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Seconds per tuple read and filtered (α), per selected tuple (β), and per match (γ).

    `fixed` are CPU seconds per second, whatever comes in: the part of an epoch that does not depend on its size.
    """

    alpha: float
    beta: float
    gamma: float
    fixed: float = 0.0

    def per_tuple(self, selectivity: float, matches: float) -> float:
        """The paper's cost model of the shared part.

        >>> OperatorCost(1.0, 2.0, 3.0).per_tuple(0.5, 4.0)
        8.0
        """
        return self.alpha + selectivity * (self.beta + self.gamma * matches)


GUESS = OperatorCost(alpha=5e-7, beta=1e-6, gamma=5e-7)
"""Seconds before anything was measured; an order of magnitude from the reports of `headrace bench`."""

FIXED_GUESS = 1e-4
"""CPU seconds of an epoch's tasks that do not depend on its tuples. Little: what epochs of one size cannot tell apart
counts as the cost of tuples, so that a query that selects few of them is not taken for a dear one."""

FINISH_GUESS = 2e-7
FUNCTION_GUESS = 1e-5


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The seconds that calibration has found so far; guesses where it has found none.

    `finish` is per row, and `finish_fixed` per second for a whole group.
    """

    operators: Mapping[OperatorId, OperatorCost] = field(default_factory=dict)
    finish: float = FINISH_GUESS
    functions: Mapping[FunctionName, float] = field(default_factory=dict)
    finish_fixed: float = 0.0

    def without_fixed(self) -> Coefficients:
        """The same for input alone: without what an epoch costs by itself."""
        operators = {name: replace(cost, fixed=0.0) for name, cost in self.operators.items()}
        return replace(self, operators=operators, finish_fixed=0.0)

    def with_estimates(self, functions: Mapping[FunctionName, float]) -> Coefficients:
        """The same with what people said that functions cost, for those of which nothing has been measured."""
        return replace(self, functions={**functions, **self.functions})

    def dearest(self, functions: Iterable[FunctionName]) -> FunctionName | None:
        """The function whose calls cost most; None of none.

        >>> measured = Coefficients(functions={FunctionName("f"): 1e-6}).with_estimates(
        ...     {FunctionName("f"): 1.0, FunctionName("g"): 1e-3})
        >>> measured.dearest([FunctionName("f"), FunctionName("g"), FunctionName("h")])
        'g'
        """
        return max(sorted(functions), key=self.function, default=None)

    def operator(self, operator: OperatorId) -> OperatorCost:
        return self.operators.get(operator, GUESS)

    def function(self, function: FunctionName | None) -> float:
        return 0.0 if function is None else self.functions.get(function, FUNCTION_GUESS)


@dataclass(frozen=True, slots=True)
class QueryLoad:
    """CPU seconds per second of input that a query would take alone: in the shared part, and after it.

    What does not depend on tuples and rows is in the shared part.
    """

    shared: float
    finishing: float
    function: float

    @property
    def total(self) -> float:
        return self.shared + self.finishing + self.function


def estimate_query_load(
    query: QueryFacts, sample: QuerySample, rate: float, costs: Coefficients
) -> QueryLoad:
    """The load of a query that runs alone, at an input of `rate` tuples per second."""
    assert query.operator is not None
    rows = rate * sample.selectivity * sample.matches
    measured = (costs.operators[part] for part in query.parts if part in costs.operators)
    shared = costs.finish_fixed
    for cost in (costs.operator(query.operator), *measured):
        shared += rate * cost.per_tuple(sample.selectivity, sample.matches) + cost.fixed
    return QueryLoad(shared, rows * costs.finish, rows * costs.function(query.function))
