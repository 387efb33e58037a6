"""Predicates as people write them: every kind of condition comes, and each lets some tuples through."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from random import Random

import pytest
from sqlglot import exp, parse_one

from headrace_bench import predicates

START = datetime(2026, 3, 1, tzinfo=UTC)
KINDS = (exp.EQ, exp.In, exp.Like, exp.GT, exp.LTE, exp.GTE, exp.Between, exp.Paren)


def test_columns_are_those_of_the_ddl_and_a_part_of_a_stream_is_the_same_stream() -> None:
    table = predicates.tuples(100, START, 50, keys=3)
    assert table.column_names == [part.split()[0] for part in predicates.DDL.split(", ")]
    rest = predicates.tuples(40, START, 50, keys=3, first=60)
    assert rest["ts"].equals(table["ts"].slice(60)) and rest["key"].equals(table["key"].slice(60))


@pytest.mark.parametrize("conjuncts", range(1, predicates.MOST_CONJUNCTS + 1))
def test_a_query_has_as_many_conjuncts_as_asked_for_each_on_a_column_of_its_own(conjuncts: int) -> None:
    rng = Random(conjuncts)
    for _ in range(50):
        query = predicates.predicate_query(rng, conjuncts=conjuncts)
        where = parse_one(query.spark_sql(), dialect="spark").args["where"].this
        parts = list(where.flatten()) if isinstance(where, exp.And) else [where]
        assert len(parts) == conjuncts
        columns = [{column.name for column in part.find_all(exp.Column)} for part in parts]
        assert [set(names) for names, _ in query.conditions] == columns
        assert query.reads == {"amount"}.union(*columns)
        assert query.where in query.cql()


def test_every_kind_of_condition_comes() -> None:
    rng = Random(3)
    queries = [predicates.predicate_query(rng, conjuncts=3) for _ in range(300)]
    parts = (parse_one(text, dialect="spark") for query in queries for _, text in query.conditions)
    seen = Counter(type(part) for part in parts)
    assert set(seen) == set(KINDS)
    either = [names for query in queries for names, _ in query.conditions if len(names) == 2]
    assert len(either) > 50, "OR over two columns"
    assert min(seen.values()) > 20
