"""Lists of queries: texts and pairs are read alike, and an error names the query that it is about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.asking.creating import read_many, written_needs
from headrace.looking.portrait import _asked
from headrace.model.errors import HeadraceError, SqlError
from headrace.model.query import Needs, QueryPlan
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
        (5, "a int was given for a list"),
    ],
)
def test_errors_say_which_query(given: Any, said: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        read_many(given, parse)
    assert said in str(caught.value) and caught.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_rat": "5"}, "a query has no option min_rat"),
        ({"min_rate": "many"}, "min_rate is 'many'"),
        ({"min_rate": "-1"}, "min_rate is -1.0"),
        ({"max_latency": "0 seconds"}, "max_latency is '0 seconds'"),
        ({"max_latency": "soon"}, "soon"),
        ({"priority": "1.5"}, "priority is '1.5'"),
    ],
)
def test_needs_that_make_no_sense_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        written_needs(options)
    assert said in str(caught.value) and caught.value.hint


def test_a_portrait_says_what_was_asked_for_a_query() -> None:
    def portrait(needs: Needs) -> str:
        entry = SimpleNamespace(query=SimpleNamespace(needs=needs))
        handle: Any = SimpleNamespace(_entry=lambda: entry)
        return _asked(handle)

    assert portrait(Needs()) == ""
    assert (
        portrait(Needs(1500.0, 2.0, -1)) == "asked for: min_rate 1500, max_latency 2 seconds, priority -1\n"
    )
