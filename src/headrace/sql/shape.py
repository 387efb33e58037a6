"""Shapes: what a thousand queries that differ only in their constants have in common.

The literals of WHERE, of HAVING, of `window(...)` and of `session_window(...)` are lifted out of the token stream; what
remains is the key under which everything that does not depend on them (parsing, resolving, Spark's analysis, rendering)
is kept. A lifted literal leaves its type behind, because the types of a query depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.sql.text.dialect import Token, TokenType
from headrace.sql.text.grammar import INTERVAL_UNITS, TYPED_LITERALS
from headrace.sql.text.lexer import Lexed
from headrace.sql.text.literals import (
    is_simple_string,
    is_strict_literal,
    names_a_moment,
    number_type,
    read_date,
    read_timestamp,
    split_suffix,
)

_CLAUSES = frozenset(
    (
        TokenType.SELECT,
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.QUALIFY,
    )
)
_LIFTING = frozenset((TokenType.WHERE, TokenType.HAVING))
_OPENING = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET))
_CLOSING = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET))
_BEFORE_GROUPING = frozenset(
    (
        TokenType.WHERE, TokenType.HAVING, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN,
        TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE,
        TokenType.NULLSAFE_EQ, TokenType.L_PAREN,
        TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DIV,
        TokenType.BETWEEN, TokenType.LIKE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.CASE,
    )
)  # fmt: skip
"""After one of these a parenthesis groups; after anything else it opens a call's arguments."""

_OF_INTERVAL = frozenset((TokenType.NUMBER, TokenType.STRING, TokenType.DASH, TokenType.PLUS))
"""What an interval's literal has between its units; Spark reads the values itself."""

_SHIFTS = frozenset((TokenType.LT, TokenType.GT))

_BEFORE_SUBQUERY = frozenset((TokenType.FROM, TokenType.JOIN, TokenType.ALIAS))

_TYPED = {
    TokenType.DATE: "date",
    TokenType.TIMESTAMP: "timestamp",
    TokenType.TIMESTAMPTZ: "timestamp",
    TokenType.TIMESTAMPNTZ: "timestamp",
}


_SUFFIX_BITS = {"": 0, "Y": 8, "S": 16, "L": 64}
"""The numbers that Spark takes with each suffix have fewer bits; of the other suffixes, Spark decides."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """A token stream apart from its constants.

    `literals` holds the text of every literal, `lifted` the indexes of those not in `key`, and `slots` maps
    the place where a literal begins in the source to its index.
    """

    key: tuple[str, ...]
    literals: tuple[str, ...]
    lifted: frozenset[int]
    slots: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a token stands: the clause, whether its literals may vary, and the kind of parenthesis."""

    clause: TokenType | None = None
    free: bool = True
    window: bool = False
    cast: bool = False

    def inside(self, opening: Token, previous: Token | None) -> _Place:
        """The place after an opening parenthesis or bracket that follows `previous`."""
        if previous is None or opening.token_type is TokenType.L_BRACKET:
            return _Place(self.clause, free=False)
        if previous.token_type in _BEFORE_SUBQUERY:
            return _Place()
        if previous.token_type in _BEFORE_GROUPING:
            return _Place(self.clause, self.free)
        word = previous.text.lower()
        return _Place(
            self.clause,
            free=False,
            window=word in ("window", "session_window"),
            cast=word == "cast" and self.free,
        )

    def lifts(self, previous: Token | None) -> bool:
        """Whether a literal that follows `previous` here is left out of the key."""
        if self.window:
            return True
        first_of_cast = self.cast and previous is not None and previous.token_type is TokenType.L_PAREN
        return self.clause in _LIFTING and (self.free or first_of_cast)


def lift(lexed: Lexed) -> Lifted:
    """The shape key and the literals of a token stream, in one pass."""
    words = [f"{'session' if bracket.session else 'cql'} {bracket.after}" for bracket in lexed.brackets]
    key = [" ".join(words) or "sql"]
    literals: list[str] = []
    lifted: list[int] = []
    slots: dict[int, int] = {}
    place, outer, previous, source = _Place(), list[_Place](), None, lexed.source
    interval = False
    for token in lexed.tokens:
        kind = token.token_type
        if kind is TokenType.STRING or kind is TokenType.NUMBER:
            raw = source[token.start : token.end + 1] if kind is TokenType.STRING else token.text
            lifts = place.lifts(previous) and not interval
            mark = _mark(kind, raw, previous, place.cast) if lifts else None
            if mark is not None:
                lifted.append(len(literals))
            slots[token.start] = len(literals)
            literals.append(raw)
            key.append(raw if mark is None else mark)
        else:
            key.append(_word(token, previous, source))
            if kind in _CLAUSES:
                place = _Place(kind, place.free)
            elif kind in _OPENING:
                outer.append(place)
                place = place.inside(token, previous)
            elif kind in _CLOSING and outer:
                place = outer.pop()
        if kind not in _OF_INTERVAL:
            interval = kind is TokenType.INTERVAL or (interval and token.text.lower() in INTERVAL_UNITS)
        previous = token
    return Lifted(tuple(key), tuple(literals), frozenset(lifted), slots)


def _word(token: Token, previous: Token | None, source: str) -> str:
    """What a token that is no literal leaves in the key: its text, unless that hides how it is written.

    `X'10'` is not the number 10, `` `a b` `` is one word, `r'k'` is no column, and `> >` is no shift.
    """
    written = source[token.start : token.end + 1]
    if token.token_type in _SHIFTS and previous is not None and previous.token_type is token.token_type:
        return written if previous.end + 1 == token.start else f" {written}"
    return (
        token.text if len(written) == len(token.text) and written.upper() == token.text.upper() else written
    )


def _mark(kind: TokenType, raw: str, previous: Token | None, cast: bool) -> str | None:
    """What a lifted literal leaves in the key: its type, and what decides whether an expression with it may raise.

    None when its value decides whether Spark takes the text.
    """
    before = None if previous is None else previous.token_type
    if kind is TokenType.NUMBER:
        digits, suffix = split_suffix(raw)
        if suffix not in _SUFFIX_BITS or (suffix and int(digits).bit_length() >= _SUFFIX_BITS[suffix]):
            return None
        if math.isinf(float(digits)):
            return None
        zero = " zero" if float(digits) == 0 else ""
        fits = f" {int(raw).bit_length() // 8} bytes" if cast and raw.isdigit() else ""
        return f"?{number_type(raw)}{zero}{fits}"
    if not is_simple_string(raw) or names_a_moment(raw) or before is TokenType.ESCAPE:
        return None
    if previous is not None and previous.text.upper() in TYPED_LITERALS:
        strict = before in _TYPED and is_strict_literal(_TYPED[before], raw[1:-1])
        return f"?{_TYPED[before]}" if strict and before is not None else None
    if cast:
        return f"?string{read_date(raw[1:-1]) is not None:d}{read_timestamp(raw[1:-1]) is not None:d}"
    return "?string"
