"""The gaming workload is seeded, keeps its rate, and asks every kind of question."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import numpy as np
import pytest
import sqlglot

from headrace.workloads import gaming

START_US = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1_000_000)


def event_us(table):
    return table["ts"].cast("int64").to_numpy()


def test_ddl_names_the_arrow_columns():
    assert [part.split()[0] for part in gaming.DDL.split(", ")] == gaming.ARROW_SCHEMA.names


def test_adjacent_intervals_keep_the_rate():
    generator = gaming.Purchases(rate=777, seed=3)
    cuts = [START_US + int(x) for x in np.linspace(0, 10_000_000, 38)]
    rows = sum(generator.between(a, b).num_rows for a, b in pairwise(cuts))
    assert rows == 7770


def test_empty_interval_has_the_schema():
    table = gaming.Purchases(rate=10).between(START_US, START_US)
    assert table.num_rows == 0
    assert table.schema == gaming.ARROW_SCHEMA


def test_same_seed_same_purchases_and_other_seed_others():
    one, same, other = (
        gaming.Purchases(rate=500, seed=s).between(START_US, START_US + 10**6) for s in (1, 1, 2)
    )
    assert one.equals(same)
    assert not one.equals(other)


def test_some_tuples_are_out_of_order_and_a_few_are_late():
    table = gaming.Purchases(rate=20_000, seed=5).between(START_US, START_US + 5_000_000)
    arrival = np.linspace(START_US, START_US + 5_000_000, table.num_rows, endpoint=False).astype(np.int64)
    delay = arrival - event_us(table)
    assert delay.min() == 0
    assert 0.03 < ((delay > 0) & (delay <= 1_000_000)).mean() < 0.07
    late = (delay >= 5_000_000).sum()
    assert 10 < late < 200
    assert not ((delay > 1_000_000) & (delay < 5_000_000)).any()


def test_values_are_plausible():
    table = gaming.Purchases(rate=20_000, seed=6).between(START_US, START_US + 1_000_000).to_pandas()
    assert table.price.between(0.99, 99.99).all()
    assert table.quantity.between(1, 10).all()
    assert table.level.between(1, gaming.LEVELS).all()
    assert 0 < table.country.isna().mean() < 0.02
    assert 0 < (table.price > 95).mean() < 0.05


def test_batches_follow_each_other():
    batches = gaming.purchases(datetime(2026, 3, 1, tzinfo=UTC), 1000, batch=timedelta(milliseconds=500))
    first, second = next(batches), next(batches)
    assert (first.num_rows, second.num_rows) == (500, 500)
    assert event_us(second).max() > event_us(first).max()


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(ValueError, match="rate"):
        gaming.Purchases(rate=0)


def test_queries_are_seeded_unique_and_of_every_team():
    rng, again = Random(11), Random(11)
    queries = [gaming.random_query(rng, i) for i in range(400)]
    assert queries == [gaming.random_query(again, i) for i in range(400)]
    assert len({query.name for query in queries}) == 400
    assert {query.team for query in queries} == set(gaming.TEAMS)
    assert all(query.name.startswith(query.team) for query in queries)


def test_queries_cover_both_forms_and_all_clauses():
    texts = [gaming.random_query(Random(i), i).sql for i in range(400)]
    for feature in (
        "window(ts",
        "[RANGE",
        "SLIDE",
        "HAVING",
        "FILTER",
        "LIKE",
        "STDDEV",
        "BETWEEN",
        "window.start",
    ):
        assert any(feature in text for text in texts), feature
    assert any("window(" not in text and "[RANGE" not in text for text in texts), "no stateless query"


def window_seconds(sql):
    """The numbers of seconds in a query's window, told by the tokens, in either form."""
    tokens = [token.text.upper() for token in sqlglot.tokenize(sql, read="spark")]
    cql = [int(a) for a, b in pairwise(tokens) if b == "SECONDS"]
    return cql or [int(token.split()[0]) for token in tokens if token.endswith(" SECONDS")]


def test_windows_are_whole_seconds_from_one_to_ten():
    for i in range(300):
        sql = gaming.random_query(Random(i), i).sql
        numbers = window_seconds(sql)
        assert bool(numbers) == ("window(" in sql or "[RANGE" in sql), sql
        assert numbers == sorted(numbers, reverse=True), f"slide over range in {sql}"
        assert all(1 <= n <= 10 for n in numbers), sql
