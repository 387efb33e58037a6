"""Constants that ask for a value too big for any machine are refused, also in texts of a known shape."""

from __future__ import annotations

import pytest

from headrace.model.errors import SqlError
from headrace.sql import ShapeCache, parse_query
from headrace.sql.resolve.sizes import refuse_huge
from headrace.sql.text.dialect import tokenize
from sql_fakes import STREAMS, FakeAnalyzer

HUGE = [
    "repeat('x', 1000000000)",
    "repeat('ten letters', 1000000)",
    "REPEAT(country, 10000000000L)",
    "space(2147483647)",
    "rpad(country, 2000000000, '-')",
    "lpad(concat(country, 'a,b'), 2000000000)",
    "size(array_repeat(array(1, 2), 100000000))",
    "size(sequence(1, 100000000))",
    "size(sequence(100000000, 1, -1))",
    "size(sequence(-100000000, 0))",
]
FINE = [
    "repeat('x', 1000)",
    "repeat('x', level)",
    "space(10)",
    "lpad(country, 20, '0')",
    "size(sequence(1, 1000000000, 1000))",
    "size(sequence(1, level))",
    "size(array_repeat(1000000000, 3))",
    "'repeat(x, 1000000000)'",
    "repeat",
    "repeat()",
    "space(",
]


@pytest.mark.parametrize("call", HUGE)
def test_is_refused(call: str) -> None:
    with pytest.raises(SqlError) as caught:
        refuse_huge(tokenize(f"SELECT level FROM purchases WHERE {call} > 11"))
    assert caught.value.code == "VALUE_TOO_BIG" and caught.value.hint and caught.value.span is not None


@pytest.mark.parametrize("call", FINE)
def test_is_not(call: str) -> None:
    refuse_huge(tokenize(f"SELECT level FROM purchases WHERE {call} > 11"))


def test_a_known_shape_does_not_let_it_in() -> None:
    shapes = ShapeCache(FakeAnalyzer())
    text = "SELECT price FROM purchases WHERE length(repeat(country, {})) > 11"
    parse_query(text.format(10), STREAMS, shapes)
    with pytest.raises(SqlError) as caught:
        parse_query(text.format(1_000_000_000), STREAMS, shapes)
    assert "repeat() would make a value of 1,000,000,000 parts" in caught.value.message
