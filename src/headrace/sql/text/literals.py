"""Constants: what a literal in the text is worth, as Spark types it."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction

from sqlglot import exp

from headrace.sql.text.nodes import Plus

MAX_EXACT_DIGITS = 18
"""Decimal literals with more digits are left to Spark, whose wider types may round."""

_MOMENTS = frozenset(("now", "today", "tomorrow", "yesterday"))

_EPOCH_DAY = date(1970, 1, 1).toordinal()


class LiteralKind(Enum):
    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `value` is int for BOOLEAN (0/1), DATE (days) and timestamps (microseconds, in UTC)."""

    kind: LiteralKind
    value: int | float | str | Decimal | None

    @property
    def exact(self) -> Fraction:
        """The number it is, without rounding."""
        assert isinstance(self.value, int | float | Decimal)
        return Fraction(self.value)


_NULL = Literal(LiteralKind.NULL, None)


def mark_literals(tree: exp.Expr, slots: dict[int, int], texts: dict[int, str]) -> frozenset[int]:
    """Tie each literal of a fresh tree to its slot, and let it render as `texts[slot]`; returns the slots."""
    found: list[int] = []
    for node in tree.find_all(exp.Literal):
        slot = slots.get(node.meta.get("start", -1))
        if slot is not None:
            node.meta["slot"] = slot
            node.meta["string"] = bool(node.args["is_string"])
            node.set("this", texts[slot])
            node.set("is_string", False)
            found.append(slot)
    return frozenset(found)


def read_literal(node: exp.Expr, literals: tuple[str, ...]) -> Literal | None:
    """The constant that `node` is, or None when it is no constant or one that only Spark should interpret."""
    match node:
        case exp.Paren():
            return read_literal(node.this, literals)
        case exp.Null():
            return _NULL
        case exp.Boolean():
            return Literal(LiteralKind.BOOLEAN, int(node.this))
        case exp.Literal():
            text = read_string(node, literals)
            if text is not None:
                return Literal(LiteralKind.STRING, text)
            number = read_number(node, literals)
            if number is None or not _is_float(node, literals):
                return None if number is None else _number(number)
            return _cast_floating(number, exp.DType.FLOAT)
        case exp.Neg():
            return _negated(read_literal(node.this, literals))
        case Plus():
            return _negated(_negated(read_literal(node.this, literals)))
        case exp.Cast():
            return _cast(read_literal(node.this, literals), node.to)
        case _:
            return None


def read_string(node: exp.Expr, literals: tuple[str, ...]) -> str | None:
    """The characters of a string literal without escapes, else None."""
    if not isinstance(node, exp.Literal) or not node.meta.get("string"):
        return None
    raw = literals[node.meta["slot"]]
    return raw[1:-1].replace(raw[0] * 2, raw[0]) if is_simple_string(raw) else None


def read_number(node: exp.Expr, literals: tuple[str, ...]) -> int | float | Decimal | None:
    """The value of a number literal (int, Decimal with a point, float with an exponent), else None."""
    if isinstance(node, exp.Neg):
        value = read_number(node.this, literals)
        return None if value is None else -value
    if not isinstance(node, exp.Literal) or "slot" not in node.meta or node.meta["string"]:
        return None
    text, suffix = split_suffix(literals[node.meta["slot"]])
    kind = number_type(literals[node.meta["slot"]])
    if kind in ("double", "float"):
        return float(text)
    if suffix == "BD":
        return Decimal(text)
    return Decimal(text) if kind.startswith("decimal") and "." in text else int(text)


_SUFFIXES = {"Y": "tinyint", "S": "smallint", "L": "bigint", "F": "float", "D": "double"}


def split_suffix(text: str) -> tuple[str, str]:
    """A number's digits and the letters that give it a type.

    >>> split_suffix("128Y"), split_suffix("1.5bd"), split_suffix("1e3")
    (('128', 'Y'), ('1.5', 'BD'), ('1e3', ''))
    """
    digits = text.rstrip("BDFLSYbdflsy")
    return digits, text[len(digits) :].upper()


def number_type(text: str) -> str:
    """The type Spark gives a number.

    >>> number_type("3"), number_type("3000000000"), number_type("3.50"), number_type("1e3"), number_type("1Y")
    ('int', 'bigint', 'decimal(3,2)', 'double', 'tinyint')
    """
    text, suffix = split_suffix(text)
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix == "BD":
        return f"decimal of {text}"
    if "e" in text or "E" in text:
        return "double"
    whole, point, fraction = text.partition(".")
    if point:
        return f"decimal({len(whole) + len(fraction)},{len(fraction)})"
    if len(text) < 10 or int(text) < 2**31:
        return "int"
    return "bigint" if int(text) < 2**63 else f"decimal({len(text)},0)"


def is_simple_string(raw: str) -> bool:
    """Whether a quoted string needs no more than undoubling its quotes.

    >>> is_simple_string("'abc'"), is_simple_string("'it''s'"), is_simple_string("'a\\\\n'")
    (True, True, False)
    """
    return len(raw) >= 2 and "\\" not in raw


def names_a_moment(raw: str) -> bool:
    """Whether a quoted string may mean the moment at which Spark reads it, if it is made a date or a timestamp.

    >>> names_a_moment("' Now'"), names_a_moment("'today UTC'"), names_a_moment("'nowhere'"), names_a_moment("'epoch'")
    (True, True, False, False)
    """
    word = raw[1:-1].split(maxsplit=1)[:1]
    return bool(word) and word[0].lower() in _MOMENTS


def is_strict_literal(type_name: str, text: str) -> bool:
    """Whether DATE '...' or TIMESTAMP '...' with this text is surely valid."""
    return (read_date(text) if type_name == "date" else read_timestamp(text)) is not None


def read_date(text: str) -> int | None:
    """Days since 1970 of a strict 'YYYY-MM-DD', else None.

    >>> read_date("1970-01-02"), read_date("1970-1-2"), read_date("2020-13-01")
    (1, None, None)
    """
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        return None
    parts = text[:4], text[5:7], text[8:]
    if not all(part.isascii() and part.isdigit() for part in parts):
        return None
    try:
        return date(*map(int, parts)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def read_timestamp(text: str) -> int | None:
    """Microseconds since 1970 of a strict 'YYYY-MM-DD[ HH:MM:SS[.ffffff]]' in UTC, else None.

    >>> read_timestamp("1970-01-01 00:00:01.5"), read_timestamp("1970-01-02")
    (1500000, 86400000000)
    >>> read_timestamp("1970-01-01T00:00:00Z")
    """
    day = read_date(text[:10])
    if day is None or len(text) == 10:
        return None if day is None else day * 86_400_000_000
    clock, point, fraction = text[11:].partition(".")
    shape = [part.isascii() and part.isdigit() and len(part) == 2 for part in clock.split(":")]
    if text[10] != " " or shape != [True] * 3 or (point and not (fraction.isascii() and fraction.isdigit())):
        return None
    hour, minute, second = map(int, clock.split(":"))
    if hour > 23 or minute > 59 or second > 59 or len(fraction) > 6:
        return None
    return (day * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000 + int(fraction.ljust(6, "0"))


def _is_float(node: exp.Expr, literals: tuple[str, ...]) -> bool:
    return split_suffix(literals[node.meta["slot"]])[1] == "F"


def _number(value: int | float | Decimal) -> Literal | None:
    match value:
        case float():
            return Literal(LiteralKind.DOUBLE, value) if math.isfinite(value) else None
        case int():
            return Literal(LiteralKind.INTEGER, value) if abs(value) <= 2**63 else None
        case Decimal():
            digits = len(value.as_tuple().digits)
            return Literal(LiteralKind.DECIMAL, value) if digits <= MAX_EXACT_DIGITS else None


def _negated(literal: Literal | None) -> Literal | None:
    if literal is None or not isinstance(literal.value, int | float | Decimal):
        return literal if literal == _NULL else None
    numeric = (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.FLOAT, LiteralKind.DOUBLE)
    return Literal(literal.kind, -literal.value) if literal.kind in numeric else None


_INTEGER_BITS = {
    exp.DType.TINYINT: 8,
    exp.DType.SMALLINT: 16,
    exp.DType.INT: 32,
    exp.DType.BIGINT: 64,
}


def _cast(literal: Literal | None, to: exp.DataType) -> Literal | None:
    """A constant under CAST, for the casts whose result is beyond doubt."""
    if literal is None:
        return None
    target = to.this
    match literal.kind, literal.value:
        case LiteralKind.INTEGER, int(value) if target in _INTEGER_BITS:
            return (
                literal
                if -(2 ** (_INTEGER_BITS[target] - 1)) <= value < 2 ** (_INTEGER_BITS[target] - 1)
                else None
            )
        case (
            (LiteralKind.INTEGER | LiteralKind.DECIMAL | LiteralKind.DOUBLE),
            (int() | Decimal() | float()) as value,
        ):
            return _cast_floating(value, target)
        case LiteralKind.STRING, str(text):
            return _cast_string(text, target)
        case _:
            return None


def _cast_floating(value: int | Decimal | float, target: exp.DType) -> Literal | None:
    if target is exp.DType.DOUBLE:
        return _number(float(value))
    if target is exp.DType.FLOAT and abs(float(value)) < 1e30 and len(repr(value)) < MAX_EXACT_DIGITS:
        return Literal(LiteralKind.FLOAT, struct.unpack("f", struct.pack("f", float(value)))[0])
    return None


def _cast_string(text: str, target: exp.DType) -> Literal | None:
    if target is exp.DType.DATE:
        days = read_date(text)
        return None if days is None else Literal(LiteralKind.DATE, days)
    stamps = {
        exp.DType.TIMESTAMPTZ: LiteralKind.TIMESTAMP,
        exp.DType.TIMESTAMPLTZ: LiteralKind.TIMESTAMP,
        exp.DType.TIMESTAMPNTZ: LiteralKind.TIMESTAMP_NTZ,
    }
    micros = read_timestamp(text) if target in stamps else None
    return None if micros is None else Literal(stamps[target], micros)
