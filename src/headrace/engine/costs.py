"""What each query costs: the work of shared operators, divided among the queries that share it.

What a shared operator does cannot be told apart by query. Its seconds and bytes are divided in proportion to the tuples
that each query accepted and, in a join, the rows that were joined for it, plus one for being there at all. A product's
are divided by the rows that it made. So the costs of all queries add up to what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.model import codec
from headrace.model.metrics import FunctionMetrics, OperatorMetrics, add_functions
from headrace.model.plan import SharedPlan
from headrace.optimizer.grouping.statistics import FunctionEpoch
from headrace.optimizer.grouping.values import FunctionName


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What a query has cost so far. `state_bytes` is what it holds now, its share of files.

    `cpu_seconds` is the time of kernels, or of the driver while plain Spark ran the query. `tuples` were read for it,
    `matched` of them it accepted. `functions` says what registered functions cost that tasks called for it; these
    seconds are among the others.
    """

    cpu_seconds: float = 0.0
    tuples: int = 0
    matched: int = 0
    rows: int = 0
    shuffled_bytes: float = 0.0
    state_bytes: float = 0.0
    functions: Mapping[str, FunctionCost] = field(default_factory=dict)

    def then(self, later: QueryCost) -> QueryCost:
        """Both together; state is that of the later one."""
        return QueryCost(
            self.cpu_seconds + later.cpu_seconds,
            self.tuples + later.tuples,
            self.matched + later.matched,
            self.rows + later.rows,
            self.shuffled_bytes + later.shuffled_bytes,
            later.state_bytes,
            _add_functions(self.functions, later.functions),
        )


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """Rows for which a query needed a function, and its part of the CPU seconds of the calls for all queries."""

    rows: int = 0
    seconds: float = 0.0

    def __add__(self, other: FunctionCost) -> FunctionCost:
        return FunctionCost(self.rows + other.rows, self.seconds + other.seconds)


def _add_functions(
    left: Mapping[str, FunctionCost], right: Mapping[str, FunctionCost]
) -> Mapping[str, FunctionCost]:
    if not left or not right:
        return left or right
    return {
        name: left.get(name, FunctionCost()) + right.get(name, FunctionCost()) for name in {**left, **right}
    }


def _called_by(spent: OperatorMetrics) -> dict[int, dict[str, FunctionCost]]:
    """Each query's part of what functions cost: in proportion to the rows for which it needed them."""
    found: dict[int, dict[str, FunctionCost]] = {}
    for name, calls in spent.functions.items():
        every = calls.wanted.total
        for query, rows in calls.wanted.items():
            found.setdefault(query, {})[name] = FunctionCost(rows, calls.seconds * rows / every)
    return found


codec.register(QueryCost, FunctionCost)


def divide_costs(operators: Mapping[str, OperatorMetrics], plan: SharedPlan) -> dict[int, QueryCost]:
    """What each query of a plan cost in an epoch, by its id."""
    found: dict[int, QueryCost] = {}
    for operator in plan.operators:
        spent = operators.get(operator.id)
        if spent is None:
            continue
        _add(found, _divide(spent, _weights(spent, [int(query) for query in operator.queries])))
    for product in plan.products:
        spent = operators.get(product.id)
        if spent is not None:
            rows = dict(spent.rows.items())
            weights = {int(q): 1 + rows.get(q, 0) for output in product.outputs for q in output.queries}
            _add(found, _divide(spent, weights))
    return found


def _add(found: dict[int, QueryCost], costs: Iterable[tuple[int, QueryCost]]) -> None:
    """Add the costs of one operator; a query in several operators has state in each of them."""
    for query, cost in costs:
        before = found.get(query)
        if before is None:  # most queries have one operator
            found[query] = cost
        else:
            found[query] = replace(before.then(cost), state_bytes=before.state_bytes + cost.state_bytes)


def _weights(spent: OperatorMetrics, queries: Iterable[int]) -> dict[int, int]:
    """How much of an operator's work was for each query."""
    matched, joined = dict(spent.matched.items()), dict(spent.joined.items())
    return {query: 1 + matched.get(query, 0) + joined.get(query, 0) for query in queries}


def _divide(spent: OperatorMetrics, weights: Mapping[int, int]) -> Iterable[tuple[int, QueryCost]]:
    total, seconds = sum(weights.values()), spent.map_seconds + spent.reduce_seconds
    matched, rows, called = dict(spent.matched.items()), dict(spent.rows.items()), _called_by(spent)
    for query, weight in weights.items():
        share = weight / total
        yield (
            query,
            QueryCost(
                seconds * share,
                spent.tuples,
                matched.get(query, 0),
                rows.get(query, 0),
                spent.shuffled_bytes * share,
                spent.state_bytes * share,
                called.get(query, {}),
            ),
        )


def function_epochs(operators: Mapping[str, OperatorMetrics]) -> tuple[FunctionEpoch, ...]:
    """What registered functions did in an epoch of a group, as the grouping controller asks for it."""
    found: dict[str, FunctionMetrics] = {}
    for spent in operators.values():
        found = add_functions(found, spent.functions)
    return tuple(
        FunctionEpoch(FunctionName(name), calls.rows, calls.seconds) for name, calls in sorted(found.items())
    )
