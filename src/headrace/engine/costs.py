"""What each query costs: the work of shared operators, divided among the queries that share it.

What a shared operator does cannot be told apart by query. Its seconds and bytes are divided in proportion to the tuples
that each query accepted and, in a join, the rows that were joined for it, plus one for being there at all. A product's
are divided by the rows that it made. So the costs of all queries add up to what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model import codec
from headrace.model.metrics import OperatorMetrics
from headrace.model.plan import SharedPlan


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What a query has cost so far. `state_bytes` is what it holds now, its share of files.

    `cpu_seconds` is the time of kernels, or of the driver while plain Spark ran the query. `tuples` were read for it,
    `matched` of them it accepted.
    """

    cpu_seconds: float = 0.0
    tuples: int = 0
    matched: int = 0
    rows: int = 0
    shuffled_bytes: float = 0.0
    state_bytes: float = 0.0

    def then(self, later: QueryCost) -> QueryCost:
        """Both together; state is that of the later one."""
        return QueryCost(
            self.cpu_seconds + later.cpu_seconds,
            self.tuples + later.tuples,
            self.matched + later.matched,
            self.rows + later.rows,
            self.shuffled_bytes + later.shuffled_bytes,
            later.state_bytes,
        )


codec.register(QueryCost)


def divide_costs(operators: Mapping[str, OperatorMetrics], plan: SharedPlan) -> dict[int, QueryCost]:
    """What each query of a plan cost in an epoch, by its id."""
    found: dict[int, QueryCost] = {}
    for operator in plan.operators:
        spent = operators.get(operator.id)
        if spent is None:
            continue
        queries = [int(query) for query in operator.queries]
        for query, cost in _divide(spent, _weights(spent, queries)):
            before = found.get(query, QueryCost())
            after = before.then(cost)
            found[query] = _add_state(after, before.state_bytes)
    for product in plan.products:
        spent = operators.get(product.id)
        if spent is not None:
            weights = {
                int(q): 1 + spent.rows.get(str(q), 0) for output in product.outputs for q in output.queries
            }
            for query, cost in _divide(spent, weights):
                before = found.get(query, QueryCost())
                found[query] = _add_state(before.then(cost), before.state_bytes)
    return found


def _weights(spent: OperatorMetrics, queries: Iterable[int]) -> dict[int, int]:
    """How much of an operator's work was for each query."""
    return {
        query: 1 + spent.matched.get(str(query), 0) + spent.joined.get(str(query), 0) for query in queries
    }


def _add_state(cost: QueryCost, more: float) -> QueryCost:
    """A query in several operators has state in each of them."""
    return QueryCost(
        cost.cpu_seconds, cost.tuples, cost.matched, cost.rows, cost.shuffled_bytes, cost.state_bytes + more
    )


def _divide(spent: OperatorMetrics, weights: Mapping[int, int]) -> Iterable[tuple[int, QueryCost]]:
    total = sum(weights.values())
    for query, weight in weights.items():
        share = weight / total
        yield (
            query,
            QueryCost(
                (spent.map_seconds + spent.reduce_seconds) * share,
                spent.tuples,
                spent.matched.get(str(query), 0),
                spent.rows.get(str(query), 0),
                spent.shuffled_bytes * share,
                spent.state_bytes * share,
            ),
        )
