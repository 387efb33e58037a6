"""Counting rows without Spark: what HAVING leaves, and how many windows hold a joined row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.predicate import TRUE, Operand
from headrace.model.query import Aggregation
from headrace.model.types import BIGINT, DOUBLE
from headrace.model.window import Window
from headrace.results.counting import _comparisons, _count
from headrace.results.joined_counts import window_ends


def having(text: str | None) -> Aggregation:
    keys = (Operand("k", BIGINT), Operand("v", DOUBLE))
    return Aggregation(Window(10, 10), TRUE, keys, (), (), text)


@pytest.mark.parametrize(
    "text",
    ["(k0 > 1.5)", "(k1 > 1)", "(k0 > 1 OR k0 < 0)", "NOT (k0 > 1)", "(k0 + 1 > 3)", "(k0 > k1)", "(k9 > 1)"],
)
def test_what_is_more_than_comparing_whole_numbers_is_left_to_spark(text: str) -> None:
    assert _comparisons(having(text)) is None


def test_rows_that_pass_are_counted_by_query(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    keys = pa.array([1, 5, None, 7, 2, 9], pa.int64())
    pq.write_table(pa.table({"query": [3, 1, 1, 3, 3, 1], "k0": keys}), path)
    for text, counts in (
        (None, {1: 3, 3: 3, 8: 0}),
        ("(k0 > 1)", {1: 2, 3: 2, 8: 0}),
        ("(k0 >= 2 AND k0 < 9)", {1: 1, 3: 2, 8: 0}),
        ("(k0 <> 5) AND (k0 <= 9)", {1: 1, 3: 3, 8: 0}),
    ):
        comparisons = _comparisons(having(text))
        assert comparisons is not None, text
        assert _count(path, [(query, comparisons) for query in counts]) == counts, text


@given(
    st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 20), st.integers(1, 20), st.integers(-30, 30)
)
def test_window_ends_are_those_between_the_bounds(
    low: int, high: int, range_us: int, slide_us: int, offset_us: int
) -> None:
    """Windows end at offset + range + n * slide; those after `low` up to and with `high` count."""
    range_us = max(range_us, slide_us)
    ends = [offset_us + range_us + n * slide_us for n in range(-200, 200)]
    expected = sum(low < end <= high for end in ends)
    found = window_ends(Window(range_us, slide_us, offset_us % slide_us), np.array([low]), np.array([high]))
    assert found.tolist() == [expected]
