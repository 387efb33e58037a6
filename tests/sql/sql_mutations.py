# ruff: noqa: E501, SIM905 - lists of words and expressions stay compact
"""Statements as a tired person, a broken script or a hostile one would write them: seeded mutations of good texts."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from sql_cases import JOINS, THEMES

QUERIES = [query for theme in THEMES.values() for query in theme] + JOINS

STATEMENTS = [
    "CREATE STREAM s (k BIGINT, `a b` STRING, ts TIMESTAMP) EVENT TIME ts WATERMARK '5 seconds'",
    "CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (event_time = 'ts', path = '/tmp/x', format = 'json', a.b = '1')",
    "CREATE QUERY q AS SELECT country, SUM(price) FROM purchases GROUP BY country, window(ts, '1 minute')",
    "CREATE QUERY `a b` AS WITH d AS (SELECT * FROM purchases) SELECT userID FROM d",
    "DROP QUERY `spend per user`;",
    "CREATE OR REPLACE QUERY q AS SELECT price FROM purchases [RANGE 10 SECONDS]",
    "CREATE STREAM IF NOT EXISTS s (k INT, ts TIMESTAMP) EVENT TIME ts",
    "DROP STREAM IF EXISTS s",
    "CLOSE STREAM s",
    "DESCRIBE QUERY q",
    "INSERT INTO s (k, ts) VALUES (1, TIMESTAMP '2024-01-01'), (NULL, now())",
    "HELP CREATE STREAM",
    "EXPLAIN VERBOSE q",
    "SHOW STREAMS",
    "SHOW QUERIES",
    "EXPLAIN q",
    "EXPLAIN SELECT price FROM purchases WHERE price > 3",
    "SELECT * FROM q WHERE x > 3 ORDER BY y LIMIT 5",
]

_PARTS = re.compile(r"\s+|\w+|'(?:[^'])*'|.", re.DOTALL)

_WORDS = """
    SELECT FROM WHERE GROUP BY HAVING AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END CAST AS JOIN ON USING LEFT
    FULL NATURAL LATERAL VIEW EXISTS ANY ALL OVER PARTITION ORDER ROWS RANGE FILTER DISTINCT UNION EXCEPT VALUES WITH
    RECURSIVE ROLLUP CUBE GROUPING SETS INTERVAL DATE TIMESTAMP EXTRACT TRIM BOTH SUBSTRING OVERLAY POSITION window
    session_window window_time struct named_struct arrays_zip count sum explode transform aes_encrypt TABLESAMPLE PIVOT
    QUALIFY LIMIT CREATE DROP STREAM QUERY EVENT TIME WATERMARK SHOW EXPLAIN SESSION GAP SLIDE x -> purchases returns
    price country ts address level l r w * ( ) [ ] { } , . ; : :: ? @ # $ % ^ & | || ~ ! = <=> <> >>> << + - / ` " '
    /* */ -- \\ \\' 0 1 -1 1e5 3e 1e999 .5 5. 0x1F 1L 2S 3Y 4BD 5D 6F 007 9223372036854775808 -9223372036854775808L
    99999999999999999999999999999999999999999 X'1F' r'a' b'1' 'a''b' '10 seconds' '-1 day' '1e400 seconds' '1000 days'
    '1 microsecond' '\\u0041' 'é' ''
""".split()

_EXPRESSIONS = [
    *(
        "(price + 1)",
        "price / level",
        "-level",
        "NOT paid",
        "price IS NULL",
        "level BETWEEN 1 AND 5",
        "paid AND level > 3",
    ),
    *(
        "country || 'x'",
        "CASE WHEN paid THEN price ELSE 0 END",
        "CASE level WHEN 1 THEN 'a' END",
        "CAST(price AS INT)",
    ),
    *(
        "TRY_CAST(country AS DATE)",
        "address.city",
        "address",
        "struct(price, level)",
        "named_struct('a', 1)",
        "(price, level)",
    ),
    *(
        "array(level, 1)[0]",
        "map('a', price)['a']",
        "transform(array(level), x -> x + price)",
        "exists(array(1), x -> x > 0)",
    ),
    *(
        "substring(country FROM 1 FOR 2)",
        "EXTRACT(HOUR FROM ts)",
        "TRIM(BOTH ' ' FROM country)",
        "overlay('a' PLACING 'b' FROM 1)",
    ),
    *(
        "ts - INTERVAL 1 HOUR 30 MINUTES",
        "INTERVAL '1-2' YEAR TO MONTH",
        "DATE '2024-01-01'",
        "TIMESTAMP '2024-02-30'",
    ),
    *(
        "dateadd(HOUR, 1, ts)",
        "timestampdiff(MONTH, ts, ts)",
        "level >>> 1",
        "level << 2 & 1",
        "~level",
        "level <=> NULL",
    ),
    *(
        "country LIKE ANY ('a%', '_b')",
        "country RLIKE '('",
        "country IN ('a', NULL)",
        "country LIKE 'a#%' ESCAPE '#'",
    ),
    *(
        "COUNT(*) FILTER (WHERE paid)",
        "SUM(DISTINCT level)",
        "first(price) IGNORE NULLS",
        "ROW_NUMBER() OVER (ORDER BY ts)",
    ),
    *(
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY price)",
        "window(ts, '1 hour', '1 minute').end",
        "window_time(window)",
    ),
    *(
        "session_window(ts, '5 seconds')",
        "(SELECT 1)",
        "EXISTS (SELECT 1)",
        "*",
        "purchases.*",
        "address.*",
        "* EXCEPT (price)",
    ),
    *(
        "rand()",
        "current_timestamp",
        "uuid()",
        "explode(array(1))",
        "parse_json(country)",
        "aes_encrypt(raw, raw)",
        "ALL",
        "?",
    ),
    *(
        ":name",
        "ROLLUP (country)",
        "GROUPING SETS ((country), ())",
        "1L",
        "-128Y",
        "1e3BD",
        "X'1F'",
        "NULL",
        "true",
        "'\\''",
    ),
]

_NAMES = frozenset(
    "price country level paid userID gemPackID amount born weight seen ts w window l r address".split()
)

_ODD = [
    *("\x00", "\t", "\n", "\r", "\x0b", "\x85", "\xa0", "\u2028", "\u200b", "\ufeff", "\x1a", "\x7f"),
    *("é", "ß", "İ", "ı", "٣", "²", "½", "Ⅷ", "中", "😀", "\u0301", "\U0010ffff", "\ud800", "\udfff"),
]

Mutation = Callable[[random.Random, list[str]], list[str]]


def _at(rng: random.Random, parts: list[str]) -> int:
    return rng.randrange(len(parts) + 1)


def _slice(rng: random.Random, parts: list[str]) -> tuple[int, int]:
    start = _at(rng, parts)
    return start, min(len(parts), start + rng.choice((1, 1, 1, 2, 3, 8)))


def _delete(rng: random.Random, parts: list[str]) -> list[str]:
    start, stop = _slice(rng, parts)
    return parts[:start] + parts[stop:]


def _double(rng: random.Random, parts: list[str]) -> list[str]:
    start, stop = _slice(rng, parts)
    return parts[:stop] + parts[start:]


def _swap(rng: random.Random, parts: list[str]) -> list[str]:
    if len(parts) < 2:
        return parts
    out, (i, j) = list(parts), (rng.randrange(len(parts)), rng.randrange(len(parts)))
    out[i], out[j] = out[j], out[i]
    return out


def _move(rng: random.Random, parts: list[str]) -> list[str]:
    start, stop = _slice(rng, parts)
    rest = parts[:start] + parts[stop:]
    at = _at(rng, rest)
    return rest[:at] + parts[start:stop] + rest[at:]


def _word(rng: random.Random, parts: list[str]) -> list[str]:
    at = _at(rng, parts)
    return [*parts[:at], rng.choice(("", " ")), rng.choice(_WORDS), rng.choice(("", " ")), *parts[at:]]


def _replace(rng: random.Random, parts: list[str]) -> list[str]:
    at = _at(rng, parts)
    return [*parts[:at], rng.choice(_WORDS), *parts[at + 1 :]]


def _expression(rng: random.Random, parts: list[str]) -> list[str]:
    """Another expression, or two, in place of a word that may be one."""
    places = [
        i for i, part in enumerate(parts) if part[:1].isdigit() or part[:1] in ("'", "*") or part in _NAMES
    ] or [0]
    at, operator = rng.choice(places), rng.choice((" + ", " AND ", ", ", " = ", " OR "))
    found = [rng.choice(_EXPRESSIONS)] + ([operator, rng.choice(_EXPRESSIONS)] if rng.random() < 0.3 else [])
    return [*parts[:at], *found, *parts[at + 1 :]]


def _odd_character(rng: random.Random, parts: list[str]) -> list[str]:
    text = "".join(parts)
    at = rng.randrange(len(text) + 1)
    return [text[:at], rng.choice(_ODD), text[at:]]


def _odd_in_word(rng: random.Random, parts: list[str]) -> list[str]:
    at = _at(rng, parts[1:])
    return parts if not parts else [*parts[:at], parts[at] + rng.choice(_ODD), *parts[at + 1 :]]


def _bytes(rng: random.Random, parts: list[str]) -> list[str]:
    text = "".join(parts)
    at = rng.randrange(len(text) + 1)
    noise = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 5)))).decode("latin-1")
    return [text[:at], noise, text[at:]]


def _truncate(rng: random.Random, parts: list[str]) -> list[str]:
    text = "".join(parts)
    at = rng.randrange(len(text) + 1)
    return [text[:at]] if rng.random() < 0.7 else [text[at:]]


def _nest(rng: random.Random, parts: list[str]) -> list[str]:
    start, stop = _slice(rng, parts)
    depth = rng.choice((1, 2, 5, 30))
    opening, closing = rng.choice((("(", ")"), ("[", "]"), ("CASE WHEN ", " END"), ("NOT ", ""), ("-", "")))
    return [*parts[:start], opening * depth, *parts[start:stop], closing * depth, *parts[stop:]]


def _number(rng: random.Random, parts: list[str]) -> list[str]:
    places = [i for i, part in enumerate(parts) if part.isdigit()] or [_at(rng, parts)]
    digits = "".join(rng.choice("0123456789") for _ in range(rng.choice((1, 9, 20, 40, 400, 5000))))
    number = (
        rng.choice(("", "-", "0.", ".", "1e"))
        + digits
        + rng.choice(("", "L", "BD", "e9", "E-400", "e\t0", "Y"))
    )
    at = rng.choice(places)
    return [*parts[:at], number, *parts[at + 1 :]]


def _splice(rng: random.Random, parts: list[str]) -> list[str]:
    other = _PARTS.findall(rng.choice(QUERIES))
    start, stop = sorted((_at(rng, other), _at(rng, other)))
    at = _at(rng, parts)
    return parts[:at] + other[start:stop] + parts[at:]


MUTATIONS: tuple[Mutation, ...] = (
    _delete, _delete, _double, _swap, _move, _word, _word, _replace, _replace,
    _odd_character, _odd_in_word, _bytes, _truncate, _nest, _number, _splice,
)  # fmt: skip


def mutated(rng: random.Random, text: str) -> str:
    """`text` with one to four mutations; most of what comes out is still almost a statement."""
    parts = _PARTS.findall(text)
    mutations = MUTATIONS if rng.random() < 0.5 else (_expression,)
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 2, 3, 4))):
        parts = _PARTS.findall("".join(rng.choice(mutations)(rng, parts)))
    return "".join(parts)
