"""Which expressions can never raise, whatever the tuple: only those may run on tuples that the query rejects.

In ANSI mode `1 / x` or `CAST(s AS INT)` fails on some rows, and Spark evaluates them only where WHERE and the
order of AND and OR let it. The list below is short and explicit: what is not on it is taken to raise.
"""

from __future__ import annotations

import re

from sqlglot import exp

from headrace.model.query import Stream
from headrace.model.types import Kind
from headrace.sql.resolve.functions import function_name
from headrace.sql.text.literals import LiteralKind, read_literal, read_string

_NUMERIC = frozenset((Kind.INTEGER, Kind.FLOATING, Kind.DECIMAL))
_TEMPORAL = frozenset((Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ))
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)

_PRINTABLE = _NUMERIC | _TEMPORAL | {Kind.BOOLEAN, Kind.STRING}

_STRING_TO_STRING = frozenset(
    ("lower", "upper", "lcase", "ucase", "trim", "ltrim", "rtrim", "reverse", "concat")
)
_STRING_TO_INTEGER = frozenset(("length", "len", "char_length", "character_length", "ascii"))
_SLICES = frozenset(("substring", "substr", "left", "right"))
_FLOATING = frozenset(("abs", "sqrt", "exp"))
_FIELDS = frozenset(("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear"))
_TIME_FIELDS = frozenset(("hour", "minute", "second"))

_LITERAL_KINDS = {
    LiteralKind.BOOLEAN: Kind.BOOLEAN,
    LiteralKind.INTEGER: Kind.INTEGER,
    LiteralKind.DECIMAL: Kind.DECIMAL,
    LiteralKind.FLOAT: Kind.FLOATING,
    LiteralKind.DOUBLE: Kind.FLOATING,
    LiteralKind.STRING: Kind.STRING,
    LiteralKind.DATE: Kind.DATE,
    LiteralKind.TIMESTAMP: Kind.TIMESTAMP,
    LiteralKind.TIMESTAMP_NTZ: Kind.TIMESTAMP_NTZ,
}

_HARMLESS_PATTERN = re.compile(r"\^?(?:[A-Za-z0-9 _@:,-]|\.\*?)*\$?")
"""Regular expressions that are valid in Java beyond doubt."""


def cannot_raise(node: exp.Expr, stream: Stream, literals: tuple[str, ...]) -> bool:
    """Whether evaluating `node` (resolved against `stream`) succeeds for every possible tuple."""
    return safe_kind(node, stream, literals) is not None


def safe_kind(node: exp.Expr, stream: Stream, literals: tuple[str, ...]) -> Kind | None:
    """The kind of value a harmless expression has; None when it may raise or is not on the list.

    `node.meta` may vouch for a part: "harmless" for its kind, "nonzero" for a number that is never 0.
    """

    def kind(inner: exp.Expr) -> Kind | None:
        return safe_kind(inner, stream, literals)

    if "harmless" in node.meta:
        return node.meta["harmless"]  # type: ignore[no-any-return]
    literal = read_literal(node, literals)
    if literal is not None:
        return _LITERAL_KINDS.get(literal.kind)
    match node:
        case exp.Paren():
            return kind(node.this)
        case exp.Literal() if node.meta.get("string"):
            return Kind.STRING
        case exp.Column():
            return _column_kind(node, stream)
        case exp.And() | exp.Or() if _all(Kind.BOOLEAN, kind(node.this), kind(node.expression)):
            return Kind.BOOLEAN
        case exp.Not() if kind(node.this) is Kind.BOOLEAN:
            return Kind.BOOLEAN
        case exp.Is() if kind(node.this) is not None:
            return Kind.BOOLEAN
        case exp.Between() if _comparable(kind(node.this), kind(node.args["low"]), kind(node.args["high"])):
            return Kind.BOOLEAN
        case exp.In() if node.expressions and _comparable(kind(node.this), *map(kind, node.expressions)):
            return Kind.BOOLEAN
        case exp.Like() | exp.ILike() | exp.RegexpLike():
            return _pattern_kind(node, kind(node.this), read_string(node.expression, literals))
        case exp.DPipe() if _all(Kind.STRING, kind(node.this), kind(node.expression)):
            return Kind.STRING
        case exp.Neg() if kind(node.this) is Kind.FLOATING:
            return Kind.FLOATING
        case exp.Div() if _nonzero(node.expression, literals):
            return _quotient_kind(kind(node.this), kind(node.expression))
        case exp.Mod() if _nonzero(node.expression, literals) and _all(
            Kind.INTEGER, kind(node.this), kind(node.expression)
        ):
            return Kind.INTEGER
        case exp.Case() if node.this is None and _all(
            Kind.BOOLEAN, *(kind(i.this) for i in node.args["ifs"])
        ):
            default = node.args.get("default")
            return _one_of(
                *(kind(i.args["true"]) for i in node.args["ifs"]), *([kind(default)] if default else [])
            )
        case exp.Cast() if node.to.is_type("string") and kind(node.this) in _PRINTABLE:
            return Kind.STRING
        case exp.Anonymous():
            return _call_kind(function_name(node) or "", [kind(argument) for argument in node.expressions])
    if isinstance(node, _COMPARISONS) and _comparable(kind(node.this), kind(node.expression)):
        return Kind.BOOLEAN
    if isinstance(node, _ARITHMETIC):
        return _arithmetic_kind(kind(node.this), kind(node.expression))
    return None


def _column_kind(node: exp.Column, stream: Stream) -> Kind | None:
    column = next((column for column in stream.columns if column.name == node.name), None)
    return None if column is None else column.type.kind


def _all(kind: Kind, *found: Kind | None) -> bool:
    return all(other is kind for other in found)


def _comparable(*kinds: Kind | None) -> bool:
    """Whether comparing these converts nothing that could fail: all numbers, or all of one atomic kind."""
    if any(kind is None or kind in (Kind.NESTED, Kind.VOID, Kind.INTERVAL, Kind.MONTHS) for kind in kinds):
        return False
    return all(kind in _NUMERIC for kind in kinds) or len(set(kinds)) == 1


def _arithmetic_kind(left: Kind | None, right: Kind | None) -> Kind | None:
    """Floating point arithmetic overflows to infinity; integers and decimals raise."""
    if left in _NUMERIC and right in _NUMERIC and Kind.FLOATING in (left, right):
        return Kind.FLOATING
    return None


def _nonzero(node: exp.Expr, literals: tuple[str, ...]) -> bool:
    literal = read_literal(node, literals)
    return bool(node.meta.get("nonzero")) or (literal is not None and bool(literal.value))


def _quotient_kind(left: Kind | None, right: Kind | None) -> Kind | None:
    """Integers and floats divide as doubles, which only 0 makes raise; decimals may not fit their result."""
    return Kind.FLOATING if {left, right} <= {Kind.INTEGER, Kind.FLOATING} else None


def _one_of(*kinds: Kind | None) -> Kind | None:
    """The kind of a value that is one of several; None for decimals, which may not fit their common type."""
    return kinds[0] if kinds[0] in _PRINTABLE - {Kind.DECIMAL} and len(set(kinds)) == 1 else None


def _pattern_kind(node: exp.Expr, kind: Kind | None, pattern: str | None) -> Kind | None:
    if kind is not Kind.STRING or pattern is None:
        return None
    if isinstance(node, exp.RegexpLike) and not _HARMLESS_PATTERN.fullmatch(pattern):
        return None
    return Kind.BOOLEAN


def _call_kind(name: str, kinds: list[Kind | None]) -> Kind | None:
    strings = bool(kinds) and all(kind is Kind.STRING for kind in kinds)
    if name in _STRING_TO_STRING and strings:
        return Kind.STRING
    if name in _STRING_TO_INTEGER and strings and len(kinds) == 1:
        return Kind.INTEGER
    if name in _SLICES and kinds[:1] == [Kind.STRING] and all(kind is Kind.INTEGER for kind in kinds[1:]):
        return Kind.STRING
    if name in _FLOATING and kinds == [Kind.FLOATING]:
        return Kind.FLOATING
    if name in ("coalesce", "ifnull", "nvl") and kinds:
        return _one_of(*kinds)
    if name in ("struct", "named_struct") and None not in kinds:
        return Kind.NESTED
    if name in _FIELDS and len(kinds) == 1 and kinds[0] in _TEMPORAL:
        return Kind.INTEGER
    if name in _TIME_FIELDS and len(kinds) == 1 and kinds[0] in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return Kind.INTEGER
    return None
