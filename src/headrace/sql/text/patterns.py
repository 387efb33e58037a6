"""Tokens of texts that differ in their literals only: what was read once is not read again, character by character.

A pattern is a text with its plain numbers and plain strings cut out. The first text of a pattern is read by the
tokenizer. The pattern is kept if each cut was a token of its own there. The tokenizer goes from left to right, and the
characters beside a cut are no part of a literal, so every text of the pattern falls into the same tokens. After a
parameter (`@ 5`, `$ 5`) it reads numbers in another way, so texts with one have no pattern.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

MAX_PATTERNS = 1024
MAX_CHARACTERS = 4096
"""Longer texts have no patterns."""

MAX_PIECES = 200_000
"""All patterns together have so many tokens at most: these take some tens of megabytes."""

_LITERAL = re.compile(r"""(?<![\w.'"`\\$@:])([0-9]+(?:\.[0-9]+)?(?![\w.'"`])|'[^'\\\n\r]*'(?![\w.'"`]))""")
"""A literal between characters that cannot be part of it: `5`, `2.5` and `'5 s'`, but not `5L`, `.5` or `'it''s'`."""

_CUTS = {"'": "\0s"}
_OTHER_CUT = "\0n"

Tokenize = Callable[[str], list[Token]]


class _Piece(NamedTuple):
    """A token of a pattern: which of the cuts it is, or its text and where it begins and ends behind the cut before."""

    kind: TokenType
    text: str
    line: int
    start: int
    end: int
    comments: tuple[str, ...]
    cut: int | None


class Patterns:
    """The patterns that `tokenize` has read, of which it forgets those first that were not used for longest. Several
    threads may use it.
    """

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Piece, ...] | None] = {}
        self._held = 0

    def tokens(self, text: str) -> list[Token]:
        """What `tokenize` makes of a text; raises what it raises."""
        if len(text) > MAX_CHARACTERS or "\0" in text:
            return self._tokenize(text)
        parts = _LITERAL.split(text)
        for i in range(1, len(parts), 2):
            parts[i] = _CUTS.get(parts[i][0], _OTHER_CUT)
        pattern = "".join(parts)
        with self._lock:
            there = pattern in self._known
            known = self._known.pop(pattern, None)
            if there:
                self._known[pattern] = known  # it is the newest now
        if known is not None:
            return _filled(known, text)
        tokens = self._tokenize(text)
        if not there:
            self._keep(pattern, _pieces(tokens, text))
        return tokens

    def _keep(self, pattern: str, pieces: tuple[_Piece, ...] | None) -> None:
        with self._lock:
            if pattern in self._known:
                return
            self._known[pattern] = pieces
            self._held += len(pieces or ())
            while len(self._known) > MAX_PATTERNS or self._held > MAX_PIECES:
                self._held -= len(self._known.pop(next(iter(self._known))) or ())


def _cuts(text: str) -> list[tuple[int, int]]:
    return [match.span(1) for match in _LITERAL.finditer(text)]


def _pieces(tokens: Sequence[Token], text: str) -> tuple[_Piece, ...] | None:
    """The pattern of a text; None when one of its cuts is no token of its own."""
    cuts = _cuts(text)
    found: list[_Piece] = []
    cut, origin = 0, 0
    for token in tokens:
        if token.token_type is TokenType.PARAMETER or token.col != token.end - text.rfind(
            "\n", 0, token.end + 1
        ):
            return None
        if cut < len(cuts) and token.start >= cuts[cut][0]:
            if not _is_cut(token, text, cuts[cut]):
                return None
            found.append(_Piece(token.token_type, "", token.line, 0, 0, tuple(token.comments), cut))
            cut, origin = cut + 1, cuts[cut][1]
        else:
            place = token.start - origin, token.end - origin
            comments = tuple(token.comments)
            found.append(_Piece(token.token_type, token.text, token.line, *place, comments, None))
    return tuple(found) if cut == len(cuts) else None


def _is_cut(token: Token, text: str, cut: tuple[int, int]) -> bool:
    raw = text[cut[0] : cut[1]]
    string = raw[0] == "'"
    return (
        (token.start, token.end + 1) == cut
        and token.token_type is (TokenType.STRING if string else TokenType.NUMBER)
        and token.text == (raw[1:-1] if string else raw)
    )


def _filled(pieces: Sequence[_Piece], text: str) -> list[Token]:
    """The tokens of a text whose pattern is known."""
    cuts = _cuts(text)
    found: list[Token] = []
    origin = 0
    newlines = "\n" in text
    for kind, word, line, low, high, comments, cut in pieces:
        if cut is None:
            start, end = origin + low, origin + high
        else:
            start, origin = cuts[cut]
            end = origin - 1
            word = text[start + 1 : end] if kind is TokenType.STRING else text[start:origin]
        col = end - text.rfind("\n", 0, end + 1) if newlines else end + 1
        found.append(Token(kind, word, line, col, start, end, list(comments)))
    return found
