"""CQL's windows are cut out of the tokens before parsing.

These are `stream [RANGE 10 SECONDS SLIDE 5 SECONDS]` and `stream [SESSION GAP 5 SECONDS]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.window import AnyWindow, Window
from headrace.sql import errors
from headrace.sql.bodies.windows import checked_session, checked_window
from headrace.sql.text.dialect import Token, TokenType
from headrace.sql.text.durations import parse_duration

_SLIDE_WORDS = ("SLIDE", "SLICE")
_OTHER_WINDOWS = frozenset(("ROWS", "NOW", "UNBOUNDED", "PARTITION"))


@dataclass(frozen=True, slots=True)
class CqlWindow:
    """The words of one bracket, and how many tokens come before it; the last of them is the stream's name.

    The gap of a `session` is its `range_text`. `place` is where the bracket begins and ends in the text.
    """

    range_text: str
    slide_text: str | None
    after: int
    session: bool = False
    place: tuple[int, int] = (0, 0)

    def window(self) -> AnyWindow:
        """The window it means; raises SqlError for a bad duration, range, slide or gap."""
        if self.session:
            return checked_session(parse_duration(self.range_text))
        range_us = parse_duration(self.range_text)
        slide_us = range_us if self.slide_text is None else parse_duration(self.slide_text)
        return checked_window(range_us, slide_us, 0)


def joined_windows(brackets: Sequence[CqlWindow]) -> tuple[Window, ...]:
    """The windows of a join's streams: ranges may differ, the slide is one, and all end together.

    The longest is aligned as it would be alone.

    >>> joined_windows([CqlWindow("4 seconds", "3 seconds", 0), CqlWindow("8 seconds", None, 0)])[0].offset_us
    1000000
    """
    if any(bracket.session for bracket in brackets):
        raise errors.join_of_sessions()
    ranges = [parse_duration(bracket.range_text) for bracket in brackets]
    slides = {parse_duration(b.slide_text) for b in brackets if b.slide_text is not None}
    slides = slides or set(ranges)
    if len(slides) > 1:
        raise errors.slides_differ()
    slide_us, longest = slides.pop(), max(ranges)
    for range_us in ranges:
        checked_window(range_us, slide_us, 0)
    return tuple(Window(range_us, slide_us, longest - range_us) for range_us in ranges)


def starts_bracket(token: Token, following: Token | None) -> bool:
    """Whether an opening bracket begins a window and not a subscript."""
    if token.token_type is not TokenType.L_BRACKET or following is None:
        return False
    word = following.text.upper()
    if word in _OTHER_WINDOWS and following.token_type is not TokenType.STRING:
        raise errors.unsupported(
            f"the window [{word} ...] is not available",
            hint="write [RANGE n UNIT SLIDE n UNIT] or [SESSION GAP n UNIT]",
            span=span_of(following),
        )
    return word in ("RANGE", "SESSION") and following.token_type is not TokenType.STRING


def read_bracket(tokens: list[Token], opening: int) -> tuple[CqlWindow, int]:
    """The first bracket's window, which opens at index `opening`, and the index after its closing bracket."""
    words: list[str] = []
    index = opening + 2
    while index < len(tokens) and tokens[index].token_type is not TokenType.R_BRACKET:
        words.append(tokens[index].text)
        index += 1
    if index == len(tokens):
        raise errors.syntax("the window bracket is not closed", span_of(tokens[opening]))
    if opening == 0:
        raise errors.syntax("a window bracket follows a stream's name", span_of(tokens[opening]))
    if tokens[opening + 1].text.upper() == "SESSION":
        if len(words) < 2 or words[0].upper() != "GAP":
            raise errors.syntax("the window bracket needs SESSION GAP n UNIT", span_of(tokens[opening]))
        return CqlWindow(" ".join(words[1:]), None, opening, session=True), index + 1
    range_words, slide_words = _split(words)
    if not range_words or slide_words == []:
        raise errors.syntax("the window bracket needs RANGE n UNIT [SLIDE n UNIT]", span_of(tokens[opening]))
    slide_text = None if slide_words is None else " ".join(slide_words)
    return CqlWindow(" ".join(range_words), slide_text, opening), index + 1


def _split(words: list[str]) -> tuple[list[str], list[str] | None]:
    at = next((index for index, word in enumerate(words) if word.upper() in _SLIDE_WORDS), None)
    return (words, None) if at is None else (words[:at], words[at + 1 :])


def span_of(token: Token) -> tuple[int, int]:
    """(line, column) of a token's first character, 1-based."""
    return token.line, max(token.col - (token.end - token.start), 1)
