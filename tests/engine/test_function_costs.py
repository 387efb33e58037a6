"""What functions cost: divided among the queries that needed them, and added up for the grouping controller."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.costs import divide_costs, function_epochs
from headrace.model.metrics import FunctionMetrics, OperatorMetrics, QueryCounts

SPENT = OperatorMetrics(
    map_seconds=2.0,
    tuples=100,
    functions={
        "similar": FunctionMetrics(rows=40, inputs=10, seconds=1.5, wanted=QueryCounts.of((1, 2), (30, 10)))
    },
)


def test_a_query_pays_for_the_rows_that_it_needed() -> None:
    plan: Any = SimpleNamespace(operators=[SimpleNamespace(id="o", queries=(1, 2, 3))], products=())
    costs = divide_costs({"o": SPENT}, plan)
    assert costs[1].functions["similar"].rows == 30 and costs[1].functions["similar"].seconds == 1.125
    assert costs[2].functions["similar"].seconds == 0.375 and not costs[3].functions
    both = costs[1].then(costs[1])
    assert both.functions["similar"].rows == 60 and both.functions["similar"].seconds == 2.25


def test_the_controller_gets_rows_and_seconds_by_function() -> None:
    (found,) = function_epochs({"o": SPENT, "p": SPENT, "q": OperatorMetrics()})
    assert (found.function, found.rows, found.seconds) == ("similar", 80, 3.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_costs_of_all_queries_add_up_to_what_was_spent(seed: int) -> None:
    print(f"seed {seed}")
    rng = Random(seed)
    operators, spent = [], {}
    for number in range(rng.randint(1, 4)):
        queries = tuple(rng.sample(range(8), rng.randint(1, 8)))
        operators.append(SimpleNamespace(id=f"o{number}", queries=queries))
        matched = QueryCounts.of_mapping({q: rng.randint(0, 50) for q in queries if rng.random() < 0.5})
        spent[f"o{number}"] = OperatorMetrics(
            rng.random(), rng.random(), 10, rng.randint(0, 9), rng.randint(0, 9), matched, rows=matched
        )
    plan: Any = SimpleNamespace(operators=operators, products=())
    costs = divide_costs(spent, plan).values()
    every = spent.values()
    assert sum(c.cpu_seconds for c in costs) == pytest.approx(
        sum(s.map_seconds + s.reduce_seconds for s in every)
    )
    assert sum(c.shuffled_bytes for c in costs) == pytest.approx(sum(s.shuffled_bytes for s in every))
    assert sum(c.state_bytes for c in costs) == pytest.approx(sum(s.state_bytes for s in every))
    assert sum(c.matched for c in costs) == sum(s.matched.total for s in every)
    assert sum(c.rows for c in costs) == sum(s.rows.total for s in every)


def test_counts_are_not_searched_for_one_query_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in an array takes over a microsecond, and each of 10,000 queries would need five in every epoch."""
    counts = QueryCounts.of(range(20), range(1, 21))
    spent = OperatorMetrics(1.0, 1.0, 9, matched=counts, rows=counts, joined=counts)
    spent = spent + OperatorMetrics(functions={"f": FunctionMetrics(9, 9, 1.0, counts)})
    plan: Any = SimpleNamespace(operators=[SimpleNamespace(id="o", queries=tuple(range(20)))], products=())
    with monkeypatch.context() as patched:
        patched.setattr(QueryCounts, "get", lambda *_: pytest.fail("one query was looked up"))
        costs = divide_costs({"o": spent}, plan)
    assert (costs[19].matched, costs[19].rows, costs[19].functions["f"].rows) == (20, 20, 20)
