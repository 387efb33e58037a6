"""Whatever a statement's text is, it is taken or refused with an error of ours: no other exception comes out."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
from sql_mutations import QUERIES, STATEMENTS, mutated

from headrace.model import codec
from headrace.model.errors import HeadraceError, SqlError
from headrace.model.query import Stream
from headrace.model.types import Column
from headrace.sql import CreateQuery, CreateStream, ShapeCache, parse_duration, parse_query, parse_statement
from sql_fakes import STREAMS, FakeAnalyzer
from thorough import THOROUGH

SLOWEST = 5.0
"""Seconds that no text may take; the usual ones take a millisecond."""


class _Refusing(FakeAnalyzer):
    """Refuses, as Spark would, what the fake cannot analyse."""

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        try:
            return super().schema(sql, *streams)
        except Exception:
            raise SqlError("ANALYSIS", "Spark does not take this") from None


def _try_queries(seed: int, count: int) -> Counter[str]:
    """How often each outcome came; fails for an exception that is not ours, with the text."""
    rng, cache, outcomes = random.Random(seed), ShapeCache(_Refusing()), Counter[str]()
    print(f"seed {seed}")
    for _ in range(count):
        text, start = mutated(rng, rng.choice(QUERIES)), time.monotonic()
        try:
            codec.dumps(parse_query(text, STREAMS, cache))
            outcomes["taken"] += 1
        except HeadraceError as error:
            str(error).encode()
            outcomes[error.code] += 1
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error} for {text!r}")
        assert time.monotonic() - start < SLOWEST, text
    return outcomes


def _try_statements(seed: int, count: int) -> Counter[str]:
    rng, outcomes = random.Random(seed), Counter[str]()
    print(f"seed {seed}")
    for _ in range(count):
        text = mutated(rng, rng.choice(STATEMENTS))
        try:
            statement = parse_statement(text)
            if isinstance(statement, CreateStream) and statement.watermark is not None:
                parse_duration(statement.watermark)
            outcomes[type(statement).__name__] += 1
        except HeadraceError as error:
            outcomes[error.code] += 1
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error} for {text!r}")
    return outcomes


def test_mutated_queries_are_taken_or_refused_by_us() -> None:
    outcomes = _try_queries(11, 500)
    assert outcomes["taken"] > 25
    assert len(outcomes) > 10


def test_mutated_statements_are_taken_or_refused_by_us() -> None:
    outcomes = _try_statements(11, 1000)
    assert outcomes[CreateStream.__name__] > 25
    assert outcomes[CreateQuery.__name__] > 25
    assert outcomes["SYNTAX"] > 100


@THOROUGH
@pytest.mark.parametrize("seed", range(100, 105))
def test_tens_of_thousands_of_mutations_are_taken_or_refused_by_us(seed: int) -> None:
    assert _try_queries(seed, 10_000)["taken"] > 500
    assert _try_statements(seed, 4_000)["SYNTAX"] > 100


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("SELECT country, SUM(price) AS n JOIN purchases AS a ON a.level = 1", "SYNTAX", "without FROM"),
        ("SELECT price FROM purchases WHERE level > 3e\t0", "SYNTAX", "'3e' is not a number"),
        ("SELECT price FROM purchases WHERE level > " + "9" * 5000, "SYNTAX", "a number has more than"),
        ("SELECT price FROM purchases WHERE price > 1e48125685969859007070BD", "SYNTAX", "is not a number"),
        ("SELECT price FROM purchases\nWHERE country = '\ud800'", "NOT_TEXT", "U+D800"),
        ("SELECT COUNT(*) FROM purchases [RANGE 1e459474906 MINUTE]", "BAD_DURATION", "too long"),
        ("SELECT " + "- " * 20_000 + "1 FROM purchases", "SYNTAX", "nested"),
        ("SELECT COUNT(*) FROM purchases GROUP BY ALL, window(ts, '1 hour')", "SYNTAX", "no other keys"),
        ("SELECT TRIM(BOTH ' ' FROM address.*) AS x FROM purchases", "UNSUPPORTED", "takes no *"),
        (None, "NOT_TEXT", "NoneType"),
        (5, "NOT_TEXT", "int"),
        (b"SELECT price FROM purchases", "NOT_TEXT", "bytes"),
    ],
)
def test_what_raised_other_exceptions_once_is_refused(text: str, code: str, word: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, FakeAnalyzer())
    assert caught.value.code == code
    assert word in caught.value.message


def test_half_a_character_is_refused_with_its_place() -> None:
    with pytest.raises(SqlError) as caught:
        parse_statement("CREATE QUERY q AS\nSELECT '\udfff' FROM s")
    assert caught.value.span == (2, 9)
