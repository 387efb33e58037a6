"""WHERE's conjuncts in the order Spark's filter takes them."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from headrace.sql.bodies.conjuncts import conjuncts, in_order


def condition(text: str) -> exp.Expr:
    return parse_one(text, dialect="spark")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a AND b AND c", ["a", "b", "c"]),
        ("a AND (b AND (c OR d)) AND e", ["a", "b", "c OR d", "e"]),
        ("NOT (a OR b)", ["NOT a", "NOT b"]),
        ("NOT (a OR (b OR NOT c)) AND d", ["NOT a", "NOT b", "c", "d"]),
        ("NOT (a AND b)", ["NOT (a AND b)"]),
        ("NOT NOT a", ["a"]),
        ("a OR b", ["a OR b"]),
    ],
)
def test_conjuncts(text: str, parts: list[str]) -> None:
    assert [part.sql("spark") for part in conjuncts(condition(text))] == parts


def test_a_thousand_conjuncts_do_not_recurse() -> None:
    node = condition(" AND ".join(f"c{i} > {i}" for i in range(3000)))
    assert len(conjuncts(node)) == 3000
    assert in_order(node, lambda _: True) is node


def test_what_may_raise_waits_for_what_comes_before() -> None:
    node = condition("a > 1 AND b > 2 AND 1 / c > 3 AND d > 4")
    ordered = in_order(node, lambda part: part.find(exp.Div) is None)
    assert ordered.sql("spark") == "CASE WHEN (a > 1) AND (b > 2) THEN (1 / c > 3) AND (d > 4) END"


def test_nothing_changes_when_only_the_first_may_raise() -> None:
    node = condition("1 / c > 3 AND a > 1")
    assert in_order(node, lambda part: part.find(exp.Div) is None) is node
