"""AStream's generators: keys in turn, fields in range, queries of the shape of its Figure 8."""

from datetime import UTC, datetime
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from headrace.workloads import astream

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


def test_queries_follow_the_figure_in_both_forms():
    rng = Random(4)
    texts = [astream.aggregation_query(rng, 10) for _ in range(200)]
    assert all("SUM(field1)" in text and "GROUP BY key" in text for text in texts)
    assert 50 < sum("[RANGE" in text for text in texts) < 150
    assert {op for op in astream.OPERATORS if any(f" {op} " in text for text in texts)} == set(
        astream.OPERATORS
    )


def test_mixed_queries_vary_the_aggregate():
    rng = Random(5)
    texts = [astream.mixed_aggregation_query(rng) for _ in range(200)]
    for name in astream.AGGREGATES:
        assert any(f"{name}(field" in text for text in texts)


def test_a_window_of_one_second_is_tumbling():
    rng = Random(6)
    for _ in range(20):
        text = astream.aggregation_query(rng, 1)
        assert "RANGE 1 SECONDS SLICE 1 SECONDS" in text or "'1 seconds', '1 seconds'" in text
