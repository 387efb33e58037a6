"""A query's text with some of its tokens replaced, and where in the text its clauses are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.sql.render.templates import Template, literal_hole
from headrace.sql.shape import Lifted
from headrace.sql.text.dialect import Token, TokenType
from headrace.sql.text.lexer import Lexed

_OPENING = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET))
_CLOSING = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET))


class NoOriginal(Exception):
    """The text cannot be run over the log as it is written."""


@dataclass(slots=True)
class EditedText:
    """Tokens are known by their index, places by how many characters of the source come before them."""

    lexed: Lexed
    lifted: Lifted
    edits: dict[tuple[int, int], str] = field(default_factory=dict)

    def replace(self, start: int, end: int, text: str) -> None:
        self.edits[start, end] = text

    def insert(self, place: int, text: str) -> None:
        self.edits[place, place] = self.edits.get((place, place), "") + text

    @property
    def tokens(self) -> list[Token]:
        return self.lexed.tokens

    def index(self, start: int | None) -> int:
        """The token that begins at a place."""
        for index, token in enumerate(self.tokens):
            if token.start == start:
                return index
        raise NoOriginal

    def closing(self, opening: int) -> int:
        """The parenthesis that closes the one at `opening`."""
        depth = 0
        for index in range(opening, len(self.tokens)):
            kind = self.tokens[index].token_type
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if depth == 0:
                return index
        raise NoOriginal

    def clauses(self, select: exp.Select) -> Iterator[tuple[int, TokenType]]:
        """The tokens of a SELECT that are in no parentheses within it, after its first, with their kinds."""
        depth, first = 0, self.index(start_of(select))
        for index in range(first + 1, len(self.tokens)):
            kind = self.tokens[index].token_type
            if kind in _CLOSING and depth == 0:
                return
            if depth == 0:
                yield index, kind
            depth += (kind in _OPENING) - (kind in _CLOSING)

    def clause(self, select: exp.Select, *kinds: TokenType) -> int | None:
        return next((index for index, kind in self.clauses(select) if kind in kinds), None)

    def last(self, select: exp.Select) -> int:
        """The last token of a SELECT."""
        depth, first = 0, self.index(start_of(select))
        last = first
        for index in range(first, len(self.tokens)):
            kind = self.tokens[index].token_type
            if kind in _CLOSING and depth == 0:
                break
            depth += (kind in _OPENING) - (kind in _CLOSING)
            last = index
        return last

    def after(self, index: int) -> int:
        """The place after a token, and after the bracket that follows it."""
        place = self.tokens[index].end + 1
        return next((b.place[1] for b in self.lexed.brackets if b.after == index + 1), place)

    def written(self, first: int, stop: int) -> str:
        """The tokens [first, stop) as they are written, with holes for lifted literals and without edits."""
        if first >= stop:
            raise NoOriginal
        return self._text(self.tokens[first].start, self.tokens[stop - 1].end + 1, {})

    def template(self) -> Template:
        """The text with its edits, and holes for the literals that are lifted out of its shape."""
        return Template.of(self._text(self.tokens[0].start, self.after(len(self.tokens) - 1), self.edits))

    def _text(self, place: int, stop: int, edits: dict[tuple[int, int], str]) -> str:
        replaced = [span for span in edits if span[0] < span[1]]
        edits = dict(edits)
        for token in self.tokens:
            slot = self.lifted.slots.get(token.start)
            inside = place <= token.start < stop and not any(a <= token.start < b for a, b in replaced)
            if slot is not None and slot in self.lifted.lifted and inside:
                edits[token.start, token.start + len(self.lifted.literals[slot])] = literal_hole(slot)
        out = []
        for start, end in sorted(edits):
            out += [self.lexed.source[place:start], edits[start, end]]
            place = end
        return "".join([*out, self.lexed.source[place : max(place, stop)]])


def start_of(select: exp.Select) -> int:
    """Where its word SELECT is in the text."""
    start = select.meta.get("select")
    if not isinstance(start, int):
        raise NoOriginal
    return start
