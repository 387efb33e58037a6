"""Lists of queries: texts and pairs are read alike, and an error names the query that it is about."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.asking.creating import read_many
from headrace.model.errors import HeadraceError, SqlError
from headrace.model.query import QueryPlan
from log_samples import PLAN


def parse(text: str) -> QueryPlan:
    if text == "bad":
        raise SqlError("SYNTAX", "expected SELECT", hint="write one", span=(1, 1))
    return PLAN


def test_texts_and_pairs() -> None:
    assert read_many(["good", ("a", "good")], parse) == [(None, PLAN), ("a", PLAN)]
    assert read_many((), parse) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["good", "bad"], "query 2 of the list: expected SELECT (line 1, column 1)"),
        ([("a", "good"), ("b", "bad")], "query 2 (`b`) of the list: expected SELECT"),
        ([("", "good")], "query 1 (``) of the list"),
        (["good", 7], "query 2 of the list is a int"),
        ([("a", "b", "c")], "query 1 of the list is a tuple"),
        ("good", "one text was given for a list"),
    ],
)
def test_errors_say_which_query(given: Any, said: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        read_many(given, parse)
    assert said in str(caught.value) and caught.value.hint
