"""AStream's generators: keys in turn, fields in range, queries of the shape of its Figure 8."""

from datetime import UTC, datetime
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace_bench import astream

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_columns_are_those_of_the_ddl():
    table = astream.tuples(10, START, 100, keys=4)
    assert table.column_names == [part.split()[0] for part in astream.DDL.split(", ")]
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")


def test_keys_come_in_turn_and_fields_stay_in_range():
    table = astream.tuples(1000, START, 100, keys=7, fields_max=50, seed=1)
    assert table["key"].to_pylist() == [i % 7 for i in range(1000)]
    for i in range(1, astream.FIELDS + 1):
        bounds = pc.min_max(table[f"field{i}"]).as_py()
        assert bounds == {"min": 0, "max": 49}


def test_event_time_runs_at_the_rate_and_goes_on_from_first():
    table = astream.tuples(100, START, 50, keys=3)
    assert pc.min_max(table["ts"]).as_py()["min"] == START
    assert (table["ts"][99].as_py() - START).total_seconds() == 1.98
    rest = astream.tuples(40, START, 50, keys=3, first=60)
    assert rest["ts"].equals(table["ts"].slice(60))
    assert rest["key"].equals(table["key"].slice(60))


def test_skewed_keys_follow_zipf():
    keys = astream.tuples(20_000, START, 100, keys=50, skew=1.0)["key"].to_numpy()
    counts = np.bincount(keys, minlength=50)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.3)
    assert len(counts) == 50


def test_queries_follow_the_figure_in_both_forms():
    rng = Random(4)
    queries = [astream.aggregation(rng, 10) for _ in range(200)]
    texts = [astream.aggregation_text(query, rng) for query in queries]
    assert all("SUM(field1)" in text and "GROUP BY key" in text for text in texts)
    assert 50 < sum("[RANGE" in text for text in texts) < 150
    assert {op for q in queries for _, op, _ in q.predicates} == set(astream.OPERATORS)
    assert all(1 <= query.slide_s <= query.range_s <= 10 for query in queries)


def test_mixed_queries_vary_the_aggregate():
    rng = Random(5)
    queries = [astream.aggregation(rng, mixed=True) for _ in range(200)]
    assert {query.aggregate for query in queries} == set(astream.AGGREGATES)
    assert {query.field for query in queries} == {1, 2, 3, 4, 5}


def test_predicates_may_be_on_several_columns():
    query = astream.aggregation(Random(6), columns=3)
    assert len({field for field, _, _ in query.predicates}) == 3
    assert query.where.count(" AND ") == 2


def test_a_window_of_one_second_is_tumbling():
    query = astream.aggregation(Random(6), 1)
    assert "RANGE 1 SECONDS SLICE 1 SECONDS" in query.cql()
    assert "'1 seconds', '1 seconds'" in query.spark_sql()


def test_scenarios_add_up():
    assert sum(request.create for request in astream.sc1(7, 100)) == 100
    requests = list(astream.sc2(3, 2, 10))
    assert [request.at for request in requests] == [0, 2, 4, 6, 8]
    assert sum(request.create - request.drop for request in requests) == 3
