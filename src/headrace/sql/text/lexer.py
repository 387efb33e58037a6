"""Text to tokens: one statement, adjacent quotes joined as Spark joins them, CQL brackets cut out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot.errors import TokenError

from headrace.sql import errors
from headrace.sql.text.cql import CqlWindow, read_bracket, span_of, starts_bracket
from headrace.sql.text.dialect import Token, TokenType, tokenize

MAX_TEXT_BYTES = 100_000

MAX_NUMBER = 400
"""Characters of a number. Spark's longest exact number has 38 digits, the longest double that is not 0 about 330."""

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)

_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_NUMBER = re.compile(
    rf"[0-9]+[LSY]|{_DIGITS}(?:E[+-]?[0-9]+)?[DF]?|{_DIGITS}(?:E[+-]?[0-9]{{1,2}})?BD", re.IGNORECASE
)
"""Numbers as Spark writes them, with the letters that give them a type. A decimal has no larger exponent."""


@dataclass(frozen=True, slots=True)
class Lexed:
    """The tokens of one statement without its brackets; `text` runs from the first token to the last."""

    source: str
    text: str
    tokens: list[Token]
    brackets: tuple[CqlWindow, ...] = ()

    @property
    def unbracketed(self) -> str:
        """The text without its brackets, as Spark's parser can read it."""
        text, place = "", self.tokens[0].start
        for bracket in self.brackets:
            text += self.source[place : bracket.place[0]]
            place = bracket.place[1]
        return text + self.source[place : max(self.tokens[-1].end + 1, place)]

    @property
    def cql(self) -> CqlWindow | None:
        """The bracket of a query over one stream."""
        return self.brackets[0] if self.brackets else None


def lex(source: str) -> Lexed:
    """Tokens of the one statement in `source`; raises SqlError for anything else. Linear in the text."""
    tokens = statement_tokens(source)
    text = source[tokens[0].start : tokens[-1].end + 1]
    out: list[Token] = []
    brackets: list[CqlWindow] = []
    index, count = 0, len(tokens)
    while index < count:
        token = tokens[index]
        kind = token.token_type
        following = tokens[index + 1] if index + 1 < count else None
        if kind is TokenType.STRING and out and _touches(out[-1], token, source):
            out[-1] = _joined(out[-1], token)
        elif kind is TokenType.WINDOW and (following is None or following.token_type not in _NAMES):
            out.append(_as_name(token))
        elif kind is TokenType.L_BRACKET and starts_bracket(token, following):
            bracket, index = read_bracket(tokens, index)
            place = (token.start, tokens[index - 1].end + 1)
            brackets.append(replace(bracket, after=len(out), place=place))
            continue
        else:
            if kind is TokenType.NUMBER:
                _check_number(token)
            out.append(token)
        index += 1
    return Lexed(source, text, out, tuple(brackets))


_AFTER_WHERE = (TokenType.GROUP_BY, TokenType.HAVING)


def where_tokens(lexed: Lexed) -> slice | None:
    """The tokens of the WHERE clause of an unnested SELECT; None when it has none or is not that simple."""
    depth, start, stop = 0, None, len(lexed.tokens)
    for i, token in enumerate(lexed.tokens):
        kind = token.token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if kind is TokenType.SELECT and i > 0:
            return None
        if depth == 0 and kind is TokenType.WHERE:
            start = i
        elif depth == 0 and start is not None and kind in _AFTER_WHERE:
            stop = min(stop, i)
    return None if start is None else slice(start, stop)


def edited(lexed: Lexed, edits: Mapping[int, tuple[int, str]], cut: slice | None) -> str:
    """The text without some of its tokens, and with other text in place of (length, text) at places of the source.

    >>> lexed = lex("SELECT a FROM s WHERE b > 1 GROUP BY a")
    >>> edited(lexed, {7: (1, "xyz"), 26: (1, "2")}, where_tokens(lexed))
    'SELECT xyz FROM s GROUP BY a'
    """
    tokens, source = lexed.tokens, lexed.source
    end = tokens[-1].end + 1
    places = dict(edits)
    if cut is not None:
        low, high = tokens[cut.start].start, tokens[cut.stop].start if cut.stop < len(tokens) else end
        places = {at: edit for at, edit in edits.items() if not low <= at < high}
        places[low] = (high - low, "")
    pieces, at = [], tokens[0].start
    for place, (length, text) in sorted(places.items()):
        pieces += [source[at:place], text]
        at = place + length
    return "".join([*pieces, source[at:end]]).strip()


def statement_tokens(source: str) -> list[Token]:
    """The tokens of the one statement in `source`, as sqlglot reads them; raises SqlError."""
    return _one_statement(_tokens(source))


def check_text(source: str) -> int:
    """How many bytes `source` has as UTF-8; raises SqlError when it is no text, or holds half a character."""
    if not isinstance(source, str):
        raise errors.not_text(source)
    try:
        return len(source) if source.isascii() else len(source.encode())
    except UnicodeEncodeError as error:
        raise errors.half_character(source, error.start) from None


def _tokens(source: str) -> list[Token]:
    size = check_text(source)
    if size > MAX_TEXT_BYTES:
        raise errors.text_too_long(size, MAX_TEXT_BYTES)
    if "\x00" in source:
        line = source.count("\n", 0, source.index("\x00")) + 1
        raise errors.syntax("the text contains a NUL character", (line, 1))
    try:
        return tokenize(source)
    except TokenError:
        lines = source.split("\n")
        raise errors.syntax("a quote or comment is not closed", (len(lines), len(lines[-1]) + 1)) from None


def _check_number(token: Token) -> None:
    """Refuse what sqlglot takes for a number and Spark does not, such as `3e` and digits of other scripts."""
    if len(token.text) > MAX_NUMBER:
        raise errors.syntax(f"a number has more than {MAX_NUMBER} characters", span_of(token))
    if not _NUMBER.fullmatch(token.text):
        raise errors.syntax(f"'{token.text}' is not a number", span_of(token))


def _one_statement(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        raise errors.empty_text()
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            raise errors.two_statements(span_of(token))
    return tokens


def _touches(left: Token, right: Token, source: str) -> bool:
    """Whether two strings are one with a doubled quote inside, such as 'it''s'."""
    return (
        left.token_type is TokenType.STRING
        and left.end + 1 == right.start
        and source[left.end] == source[right.start]
    )


def _joined(left: Token, right: Token) -> Token:
    return Token(TokenType.STRING, left.text + right.text, left.line, left.col, left.start, right.end)


def _as_name(token: Token) -> Token:
    """`window` is a keyword to sqlglot (the WINDOW clause); here it is the function or its column."""
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
