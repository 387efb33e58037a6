"""Constants that make a value too big for any machine, refused when the query is created.

One `repeat('x', 1000000000)` is a gigabyte per tuple, or once while Spark folds the constant. A failing epoch would
find the query that did it; it is kinder to say so at once. Only constants are looked at: what a column makes big is
found when it happens.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.sql import errors
from headrace.sql.text.cql import span_of
from headrace.sql.text.dialect import Token, TokenType

MAX_MADE = 10_000_000
"""Characters or elements that one call may make out of constants."""

_COUNTED = {"repeat": 1, "array_repeat": 1, "lpad": 1, "rpad": 1, "space": 0}
"""Which argument says how many there will be."""


def refuse_huge(tokens: Sequence[Token]) -> None:
    """Raise SqlError for the first call whose constants ask for a huge value. Linear in the text."""
    for at, token in enumerate(tokens[:-1]):
        name = token.text.lower()
        if (name in _COUNTED or name == "sequence") and tokens[at + 1].token_type is TokenType.L_PAREN:
            arguments = _arguments(tokens, at + 2)
            made = _made(name, arguments)
            if made > MAX_MADE:
                raise errors.too_big(name, made, MAX_MADE, span_of(token))


def _made(name: str, arguments: Sequence[Sequence[Token]]) -> float:
    """How many characters or elements a call makes, as far as constants tell; 0 when they do not."""
    numbers = [_number(argument) for argument in arguments]
    if name == "sequence":
        if len(numbers) not in (2, 3) or any(number is None for number in numbers):
            return 0
        first, last, step = [*numbers, 1.0][:3]
        return abs((last or 0) - (first or 0)) / (abs(step or 1) or 1)
    place = _COUNTED[name]
    count = numbers[place] if len(numbers) > place else None
    width = 1
    if name == "repeat" and len(arguments[0]) == 1 and arguments[0][0].token_type is TokenType.STRING:
        width = max(len(arguments[0][0].text), 1)
    return 0 if count is None else count * width


def _arguments(tokens: Sequence[Token], at: int) -> list[Sequence[Token]]:
    """The tokens of each argument of a call, from the one after its parenthesis on."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[at:]:
        match token.token_type:
            case TokenType.R_PAREN if depth == 0:
                break
            case TokenType.COMMA if depth == 0:
                found.append([])
                continue
            case TokenType.L_PAREN | TokenType.L_BRACKET:
                depth += 1
            case TokenType.R_PAREN | TokenType.R_BRACKET:
                depth -= 1
        found[-1].append(token)
    return list(found)


def _number(tokens: Sequence[Token]) -> float | None:
    """The number that an argument is, when it is one: 12, -3, 10000000000L."""
    sign = 1.0
    if tokens and tokens[0].token_type is TokenType.DASH:
        sign, tokens = -1.0, tokens[1:]
    if len(tokens) != 1 or tokens[0].token_type is not TokenType.NUMBER:
        return None
    try:
        return sign * float(tokens[0].text.upper().rstrip("LSYFDB"))
    except ValueError:
        return None
