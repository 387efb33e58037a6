"""Texts of a known pattern fall into the tokens that the tokenizer itself reads."""

import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sql_mutations import QUERIES, STATEMENTS, mutated
from sqlglot.errors import TokenError

import headrace.sql.text.patterns as kept
from headrace.sql.text.dialect import Headrace, Token, read_tokens
from headrace.sql.text.patterns import MAX_CHARACTERS, MAX_PATTERNS, Patterns
from thorough import THOROUGH


def described(tokens: list[Token]) -> list[tuple[object, ...]]:
    return [(t.token_type, t.text, t.line, t.col, t.start, t.end, t.comments) for t in tokens]


class Counting:
    """The tokenizer, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str) -> list[Token]:
        self.asked += 1
        return read_tokens(text)


ODD = (
    "SELECT a FROM s WHERE a = '-'.5",
    "SELECT a FROM s WHERE a = 'x'.5 OR b = '-' .5",
    "SELECT a FROM s WHERE a = @ 5",
    "SELECT a FROM s WHERE a = $ 5 AND b = $\n5.5",
    "SELECT a FROM s WHERE a = :  5",
)
"""Texts in which what a literal means depends on what stands beside it."""


def varied(rng: random.Random, text: str) -> str:
    """The text with other numbers and other strings of ours in place of some of its own."""
    words = (
        "",
        "x",
        "-",
        "10 seconds",
        "-- 7",
        "a/*b",
        "`5`",
        "\N{GREEK SMALL LETTER ALPHA}",
        '"',
        "0x1",
        ";",
    )

    def other(match: re.Match[str]) -> str:
        if rng.random() < 0.3:
            return match.group()
        if match.group().startswith("'"):
            return f"'{rng.choice(words)}'"
        return str(
            rng.choice((0, 7, 10 ** rng.randrange(25), "007", f"{rng.randrange(99)}.{rng.randrange(99)}"))
        )

    return re.sub(r"'[^'\\\n]*'|(?<!\d)\d+(?:\.\d+)?", other, text)


@pytest.mark.parametrize("seed", range(40 if THOROUGH else 8))
def test_texts_with_other_literals_have_the_tokens_that_the_tokenizer_reads(seed: int) -> None:
    rng, patterns = random.Random(seed), Patterns(read_tokens)
    for _ in range(150):
        text = rng.choice(ODD if rng.random() < 0.1 else (*QUERIES, *STATEMENTS))
        if rng.random() < 0.5:
            text = mutated(rng, text)
        if rng.random() < 0.3:
            text = text.replace(" ", "\n", rng.randrange(5))
        for one in (text, *(varied(rng, text) for _ in range(4))):
            try:
                expected = described(read_tokens(one))
            except TokenError:
                with pytest.raises(TokenError):
                    patterns.tokens(one)
                continue
            assert described(patterns.tokens(one)) == expected, one


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT a FROM s WHERE b > 1 AND c = 'x'", "SELECT a FROM s WHERE b > 22.5 AND c = 'it is'"),
        ("SELECT a\n-- why\nFROM s WHERE b IN (1,\n2)", "SELECT a\n-- why\nFROM s WHERE b IN (111,\n22)"),
        ("SELECT a /* so */, 5 FROM s", "SELECT a /* so */, 55 FROM s"),
        ("SELECT -1 - 2", "SELECT -100 - 200"),
    ],
)
def test_a_text_of_a_known_pattern_is_not_read_again(first: str, second: str) -> None:
    tokenize = Counting()
    patterns = Patterns(tokenize)
    patterns.tokens(first)
    assert described(patterns.tokens(second)) == described(read_tokens(second))
    assert tokenize.asked == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM s -- it was 5",
        "SELECT 'it''s', 5",
        "SELECT r'5 6', \"7 8\", `9 0`",
        "SELECT X '10', x '20'",
        "SELECT 5L, .5, 1e3, 0x1F, a.1",
        "SELECT '5",
    ],
)
def test_what_only_looks_like_a_literal_is_read_by_the_tokenizer(text: str) -> None:
    tokenize = Counting()
    patterns = Patterns(tokenize)
    for one in (text, text.replace("5", "66"), text.replace("10", "30")):
        try:
            expected = described(read_tokens(one))
        except TokenError:
            continue
        assert described(patterns.tokens(one)) == expected


def test_no_keyword_of_several_words_has_a_literal_in_it() -> None:
    """Else a number after a word could be a part of it."""
    words = [word for keyword in Headrace.Tokenizer.KEYWORDS for word in keyword.split()[1:]]
    assert not [word for word in words if word[0].isdigit() or "'" in word]


def test_patterns_take_a_bounded_amount_of_memory() -> None:
    tokenize = Counting()
    patterns = Patterns(tokenize)
    for number in range(MAX_PATTERNS + 1):
        patterns.tokens(f"SELECT a{number} FROM s WHERE b > 1")
    patterns.tokens("SELECT a0 FROM s WHERE b > 2")
    assert tokenize.asked == MAX_PATTERNS + 2
    long = f"SELECT {'a' * MAX_CHARACTERS} FROM s"
    patterns.tokens(long)
    patterns.tokens(long)
    assert tokenize.asked == MAX_PATTERNS + 4


def test_threads_share_patterns_while_these_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_PATTERNS", 4)
    patterns = Patterns(read_tokens)
    texts = [f"SELECT {'a + ' * i}{i} FROM s" for i in range(40)]
    expected = {text: described(read_tokens(text)) for text in texts}

    def ask(seed: int) -> int:
        rng = random.Random(seed)
        asked = [rng.choice(texts) for _ in range(300)]
        return sum(described(patterns.tokens(text)) == expected[text] for text in asked)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, range(4))) == [300] * 4
    finally:
        sys.setswitchinterval(before)
    assert patterns._held == sum(len(pieces or ()) for pieces in patterns._known.values())


def test_patterns_hold_a_bounded_number_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_PIECES", 1_000)
    patterns = Patterns(read_tokens)
    for size in range(1, 120):
        patterns.tokens(f"SELECT a FROM s WHERE a IN ({', '.join(['1'] * size)})")
    assert 500 < patterns._held <= 1_000
