# ruff: noqa: E501 - tables of texts
"""Random expressions as text: all operators of Spark in any order, with and without parentheses, over all kinds of literals.

Texts are made without a thought about precedence or types, so that only a parser can say what they mean. Some are none
that Spark reads (two predicates in a row): callers skip those.
"""

from __future__ import annotations

import random
from collections.abc import Callable

BINARY = (
    "+", "-", "*", "/", "%", "DIV", "||", "&", "|", "^", "<<", ">>", ">>>",
    "=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "AND", "OR",
)  # fmt: skip
PREFIX = ("-", "+", "~", "NOT ", "! ", "- ", "~~")
LITERALS = (
    "1", "0", "2147483648", "9223372036854775807", "1.5", ".5", "5.", "1e3", "1.5E-3", "127Y", "-128Y", "-32768S",
    "-9223372036854775808L", "1.5D", "1.5F", "2BD", "1.50BD", "1E3BD", "'a%'", "'it''s'", "'a\\n'", '"b"', "'a' 'b'", r"r'\d+'",
    "X'1F'", "X '10'", "x'ab'", "NULL", "TRUE", "false", "DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'",
    "TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_LTZ '2024-01-01'", "TIME '10:00:00'",
    "INTERVAL 1 HOUR 30 MINUTES", "INTERVAL -1 YEAR 2 MONTHS", "INTERVAL '1 day 2 hours'", "INTERVAL '3' DAY", "INTERVAL '1-2' YEAR TO MONTH",
    "INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL 1 week", "INTERVAL '5' SECONDS", "INTERVAL 1.5 SECONDS",
)  # fmt: skip
COLUMNS = (
    "k",
    "t",
    "j",
    "s.v",
    "`a b`",
    "m['x']",
    "arr[0]",
    "s.arr[k].f",
    "x",
    "date",
    "interval",
    "window.start",
)


def random_expression(rng: random.Random, depth: int = 4) -> str:
    """Text of an expression; its length grows with `depth`."""
    if depth <= 0 or rng.random() < 0.1:
        return rng.choice(rng.choice((LITERALS, COLUMNS)))
    part = lambda: random_expression(rng, depth - rng.randint(1, 2))  # noqa: E731
    return rng.choices(_FORMS, weights=_WEIGHTS)[0](rng, part)


Part = Callable[[], str]


def _binary(rng: random.Random, part: Part) -> str:
    operands, text = rng.randint(1, 3), part()
    for _ in range(operands):
        text += f" {rng.choice(BINARY)} {part()}"
    return text


def _prefix(rng: random.Random, part: Part) -> str:
    return rng.choice(PREFIX) + part()


def _parentheses(rng: random.Random, part: Part) -> str:
    return f"({part()})"


def _predicate(rng: random.Random, part: Part) -> str:
    negated = rng.choice(("", " NOT"))
    return (
        part()
        + rng.choice(
            (
                lambda: f"{negated} BETWEEN {part()} AND {part()}",
                lambda: f"{negated} IN ({part()}, {part()})",
                lambda: f"{negated} {rng.choice(('LIKE', 'ILIKE', 'RLIKE'))} {part()}",
                lambda: f"{negated} LIKE 'a!%' ESCAPE '!'",
                lambda: (
                    f"{negated} {rng.choice(('LIKE', 'ILIKE'))} {rng.choice(('ANY', 'ALL', 'SOME'))} ('a%', 'b_')"
                ),
                lambda: f" IS{negated} {rng.choice(('NULL', 'TRUE', 'FALSE', 'UNKNOWN'))}",
                lambda: f" IS{negated} DISTINCT FROM {part()}",
            )
        )()
    )


def _call(rng: random.Random, part: Part) -> str:
    return rng.choice(
        (
            lambda: f"coalesce({part()}, {part()})",
            lambda: f"If({part()}, {part()}, {part()})",
            lambda: f"array({part()}, k)[{part()}]",
            lambda: f"array({part()})[0].f",
            lambda: f"map(1, {part()})[1]",
            lambda: f"struct({part()} AS f, k).f",
            lambda: f"CAST({part()} AS {rng.choice(_TYPES)})",
            lambda: f"try_cast({part()} AS {rng.choice(_TYPES)})",
            lambda: f"({part()})::{rng.choice(_TYPES)}",
            lambda: f"CASE WHEN {part()} THEN {part()} ELSE {part()} END",
            lambda: f"CASE {part()} WHEN {part()} THEN {part()} END",
            lambda: f"extract(year FROM {part()})",
            lambda: f"substring({part()} FROM 1 FOR 2)",
            lambda: f"substr({part()}, 1)",
            lambda: f"trim(BOTH 'x' FROM {part()})",
            lambda: f"trim({part()})",
            lambda: f"trim(LEADING FROM {part()})",
            lambda: "overlay(t PLACING 'x' FROM 2 FOR 1)",
            lambda: f"position('a' IN {part()})",
            lambda: f"transform(arr, (x, i) -> {part()})",
            lambda: f"exists(arr, x -> {part()})",
            lambda: f"(k, {part()}) IN ((1, 2), (3, {part()}))",
            lambda: f"t COLLATE UTF8_LCASE || {part()}",
            lambda: f"count(*) FILTER (WHERE {part()})",
            lambda: f"first({part()}) IGNORE NULLS",
            lambda: f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {part()} DESC)",
            lambda: f"count(DISTINCT {part()}, k)",
        )
    )()


_TYPES = (
    "INT", "string", "DECIMAL(10, 2)", "decimal", "TIMESTAMP", "timestamp_ntz", "DATE", "double", "tinyint", "BINARY",
    "ARRAY<INT>", "map<string, array<bigint>>", "STRUCT<a: INT, b: STRING>", "interval day to second", "INTERVAL YEAR", "boolean", "float", "TIME(3)",
)  # fmt: skip
_FORMS = (_binary, _prefix, _parentheses, _predicate, _call)
_WEIGHTS = (8, 2, 2, 3, 4)
