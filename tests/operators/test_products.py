"""Products of aggregations against the joined rows they stand for, aggregated one by one."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from headrace.model.plan import Factor, ProductOutput
from headrace.model.query import AggregateFunction, QueryId
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, SqlType
from headrace.operators.join import products
from headrace.operators.join.products import OVERFLOW, Factors, multiply

F = AggregateFunction
DECIMAL = SqlType("decimal(20,2)")
END = pa.array([0], TIMESTAMP.arrow)


def side(groups: dict[tuple[int, int | None], list[Any]]) -> pa.Table:
    """Rows `(query, window_end, k0, COUNT(*), COUNT(x), SUM(x), MIN(x), AVG(x), VAR_POP(x))` of one side."""
    rows = list(groups.items())
    known = [[x for x in values if x is not None] for _, values in rows]
    return pa.table(
        {
            "query": pa.array([query for (query, _), _ in rows], pa.int64()),
            "window_end": pa.concat_arrays([END] * len(rows)) if rows else END[:0],
            "k0": pa.array([key for (_, key), _ in rows], pa.int64()),
            "a0": pa.array([len(values) for _, values in rows], pa.int64()),
            "a1": pa.array([len(found) for found in known], pa.int64()),
            "a2": pa.array([sum(found) if found else None for found in known], pa.int64()),
            "a3": pa.array([min(found) if found else None for found in known], pa.int64()),
            "a4": pa.array([sum(found) / len(found) if found else None for found in known], pa.float64()),
            "a5": pa.array([statistics.pvariance(found) if found else None for found in known], pa.float64()),
        }
    )


def output(sides: int, factors: list[Factor], queries: tuple[int, ...] = (1, 2)) -> ProductOutput:
    names = tuple(f"s{i}" for i in range(sides))
    found = tuple(map(QueryId, queries))
    return ProductOutput(found, names, names, ((sides - 1, 0),), tuple(factors), "table")


def over(side_: int) -> list[Factor]:
    return [
        Factor(F.COUNT, BIGINT, side_, 1),
        Factor(F.SUM, BIGINT, side_, 2),
        Factor(F.MIN, BIGINT, side_, 3),
        Factor(F.AVG, DOUBLE, side_, 4),
        Factor(F.VAR_SAMP, DOUBLE, side_, 5, 1),
    ]


@pytest.mark.parametrize("seed", range(30))
def test_products_equal_joined_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    monkeypatch.setattr(products, "BATCH_ROWS", rng.choice([1, 1 << 17]))
    count = rng.randint(2, 4)
    sides: list[dict[tuple[int, int | None], list[Any]]] = [defaultdict(list) for _ in range(count)]
    for groups in sides:
        for _ in range(rng.randint(0, 25)):
            key = (rng.choice([1, 2, 3]), rng.choice([0, 1, 2, None]))
            groups[key].append(rng.choice([None, rng.randint(-5, 9)]))
    asked = rng.randrange(count)
    factors, wanted = Factors(), output(count, [Factor(F.COUNT_ALL, BIGINT, None), *over(asked)])
    names: dict[Any, Any] = rng.choice(
        [{0: 0, 1: 1, 2: 2}, {0: -(2**63), 1: 0, 2: 2**63 - 1}, {0: "", 1: "a", 2: "b"}]
    )
    for i, groups in enumerate(sides):
        table = side(groups)
        keys = [names.get(key) for key in table.column("k0").to_pylist()]
        kind = pa.string() if names[0] == "" else pa.int64()
        table = table.set_column(2, "k0", pa.array(keys, kind))
        factors.taking(f"s{i}")(f"s{i}", table, (), 0)
    made = [multiply(wanted, 1, tables) for tables in factors.of(wanted)]
    expected = {}
    for key in set(sides[0]).intersection(*sides[1:]):
        if key[0] == 3 or key[1] is None:
            continue
        joined = list(product(*(groups[key] for groups in sides)))
        values = [row[asked] for row in joined if row[asked] is not None]
        expected[key[0], names[key[1]]] = (
            len(joined),
            len(values),
            sum(values) if values else None,
            min(values) if values else None,
            pytest.approx(sum(values) / len(values)) if values else None,
            pytest.approx(statistics.variance(values)) if len(values) > 1 else None,
        )
    rows = [row for found in made if found for row in found.table.to_pylist()]
    assert {(r["query"], r["k0"]): tuple(r[f"a{i}"] for i in range(6)) for r in rows} == expected
    assert sum(count for found in made if found for count in found.rows.values()) == len(expected)


def test_a_sum_that_does_not_fit_fails_its_query_alone() -> None:
    huge = side({(1, 0): [2**62], (2, 0): [2**62 - 1]})
    few = side({(1, 0): [1, 1], (2, 0): [1, 1]})
    found = multiply(output(2, [Factor(F.SUM, BIGINT, 0, 2)]), 1, [huge, few])
    assert found is not None
    assert found.failures == {1: OVERFLOW}
    assert found.table.column("a0").to_pylist() == [2**63 - 2] and found.rows == {2: 1}


def test_decimals_are_multiplied_exactly() -> None:
    value = Decimal("123456789012345678.25")
    prices = side({(1, 0): [1], (2, 0): [1]}).append_column(
        "a6", pa.array([value, Decimal("-999999999999999999.99")], DECIMAL.arrow)
    )
    others = side({(1, 0): [1] * 8, (2, 0): [1] * 8})
    found = multiply(output(2, [Factor(F.SUM, DECIMAL, 0, 6)]), 1, [prices, others])
    assert found is not None
    assert found.table.column("a0").to_pylist() == [value * 8]
    assert found.failures == {2: OVERFLOW}


def test_a_side_without_rows_gives_nothing() -> None:
    some = side({(1, 0): [1]})
    assert multiply(output(2, [Factor(F.COUNT_ALL, BIGINT, None)]), 1, [some, some.slice(0, 0)]) is None
    assert list(Factors().of(output(2, [Factor(F.COUNT_ALL, BIGINT, None)]))) == []


def test_counts_that_do_not_fit_fail() -> None:
    many = side({(1, 0): [1] * 1600, (2, 0): [1] * 3})
    found = multiply(output(6, [Factor(F.COUNT_ALL, BIGINT, None)]), 1, [many] * 6)
    assert found is not None
    assert found.failures == {1: OVERFLOW} and found.table.column("a0").to_pylist() == [3**6]
