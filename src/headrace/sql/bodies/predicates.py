"""Boolean expressions to predicates: trees of atoms `column op constant` that mean exactly what Spark means.

An atom is built only when Spark's comparison, with all its implicit casts, is a comparison in the column's
own physical domain. Whatever is not an atom stays Spark SQL text and is evaluated by Catalyst as a boolean
column: one part of the tree if that part cannot raise, the whole predicate otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from headrace.model.predicate import And, Compare, Const, IsNull, Not, Op, Operand, Or, Predicate
from headrace.model.query import Stream
from headrace.model.types import BOOLEAN, Kind, SqlType
from headrace.sql.bodies.registered import call_operand, registered_type
from headrace.sql.resolve.functions import function_name
from headrace.sql.resolve.safety import cannot_raise
from headrace.sql.text.literals import Literal, LiteralKind, read_date, read_literal, read_timestamp

_OPS = {exp.EQ: Op.EQ, exp.LT: Op.LT, exp.LTE: Op.LE, exp.GT: Op.GT, exp.GTE: Op.GE}
_FLIPPED = {Op.EQ: Op.EQ, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_NUMBERS = frozenset((LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.FLOAT, LiteralKind.DOUBLE))
_EXACT = frozenset((LiteralKind.INTEGER, LiteralKind.DECIMAL))
_NO_OPERAND = frozenset((Kind.NESTED, Kind.VOID))


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles resolved expressions over one stream, with the literals of one query.

    `text_of` renders a node with those literals; `timezone` is the session's, for timestamps written as text.
    """

    stream: Stream
    literals: tuple[str, ...]
    timezone: str
    text_of: Callable[[exp.Expr], str]

    def predicate(self, node: exp.Expr, ordered: exp.Expr | None = None) -> Predicate:
        """What `node` means as a predicate; never fails, because Catalyst can take all of it.

        `ordered` is what Catalyst takes when `node` may raise and only its truth matters.
        """
        leaves: list[exp.Expr] = []
        tree = self._tree(node, leaves)
        return (
            tree
            if self._harmless(leaves)
            else self._catalyst((node if ordered is None else ordered).unnest())
        )

    def only_atoms(self, node: exp.Expr) -> bool:
        """Whether Catalyst has no part in `node`."""
        leaves: list[exp.Expr] = []
        self._tree(node, leaves)
        return not leaves

    def may_raise(self, node: exp.Expr) -> bool:
        """Whether evaluating `node` may fail for some tuple."""
        leaves: list[exp.Expr] = []
        self._tree(node, leaves)
        return not self._harmless(leaves)

    def _harmless(self, leaves: list[exp.Expr]) -> bool:
        return all(cannot_raise(leaf, self.stream, self.literals) for leaf in leaves)

    def _tree(self, node: exp.Expr, leaves: list[exp.Expr]) -> Predicate:
        """`node` as a tree; the parts that are no atoms are added to `leaves`."""
        match node:
            case exp.Paren():
                return self._tree(node.this, leaves)
            case exp.And() | exp.Or():
                kind: type[And | Or] = And if isinstance(node, exp.And) else Or
                return kind(tuple(self._tree(part, leaves) for part in _operands(node)))
            case exp.Not():
                return Not(self._tree(node.this, leaves))
        atom = self._atom(node)
        if atom is not None:
            return atom
        leaves.append(node)
        return self._catalyst(node)

    def _catalyst(self, node: exp.Expr) -> Predicate:
        return Compare(Operand(self.text_of(node), BOOLEAN, plain=False), Op.EQ, 1)

    def _atom(self, node: exp.Expr) -> Predicate | None:
        match node:
            case exp.Boolean() | exp.Null():
                literal = read_literal(node, self.literals)
                return Const(None if literal is None or literal.value is None else bool(literal.value))
            case exp.Column():
                operand = self._operand(node)
                return Compare(operand, Op.EQ, 1) if operand and operand.type == BOOLEAN else None
            case exp.NEQ():
                equal = self._comparison(node.this, Op.EQ, node.expression)
                return None if equal is None else Not(equal)
            case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self._comparison(node.this, _OPS[type(node)], node.expression)
            case exp.NullSafeEQ():
                return self._null_safe(node.this, node.expression)
            case exp.NullSafeNEQ():
                same = self._null_safe(node.this, node.expression)
                return None if same is None else Not(same)
            case exp.Between():
                low = self._comparison(node.this, Op.GE, node.args["low"])
                high = self._comparison(node.this, Op.LE, node.args["high"])
                return And((low, high)) if low and high and not node.args.get("symmetric") else None
            case exp.In():
                return self._membership(node)
            case exp.Like():
                return self._like(node)
            case exp.Is():
                return self._is(node)
            case exp.Anonymous() if registered_type(node) is not None:
                operand = self._operand(node)
                return Compare(operand, Op.EQ, 1) if operand and operand.type == BOOLEAN else None
            case exp.Anonymous():
                return self._null_call(node)
        return None

    def _operand(self, node: exp.Expr) -> Operand | None:
        """The stream's column or the call that `node` is, if it is one that kernels read."""
        while isinstance(node, exp.Paren):
            node = node.this
        if registered_type(node) is not None:
            call = call_operand(node, self.stream, self.literals, self.text_of)
            return None if call is None or call.type.kind in _NO_OPERAND else call
        if not isinstance(node, exp.Column):
            return None
        column = next((column for column in self.stream.columns if column.name == node.name), None)
        if column is None or column.type.kind in _NO_OPERAND:
            return None
        return Operand(column.name, column.type)

    def _comparison(self, left: exp.Expr, op: Op, right: exp.Expr) -> Predicate | None:
        operand, literal = self._operand(left), read_literal(right, self.literals)
        if operand is None:
            operand, literal, op = self._operand(right), read_literal(left, self.literals), _FLIPPED[op]
        if operand is None or literal is None:
            return None
        return compare(operand, op, literal, self.timezone)

    def _null_safe(self, left: exp.Expr, right: exp.Expr) -> Predicate | None:
        operand, literal = self._operand(left), read_literal(right, self.literals)
        if operand is None:
            operand, literal = self._operand(right), read_literal(left, self.literals)
        if operand is None or literal is None:
            return None
        if literal.kind is LiteralKind.NULL:
            return IsNull(operand)
        equal = compare(operand, Op.EQ, literal, self.timezone)
        return None if equal is None else And((Not(IsNull(operand)), equal))

    def _membership(self, node: exp.In) -> Predicate | None:
        operand = self._operand(node.this)
        literals = [read_literal(item, self.literals) for item in node.expressions]
        if operand is None or not literals or not _one_domain(operand.type, literals):
            return None
        parts = [compare(operand, Op.EQ, literal, self.timezone) for literal in literals if literal]
        found = tuple(part for part in parts if part is not None)
        if len(found) < len(literals):
            return None
        return found[0] if len(found) == 1 else Or(found)

    def _like(self, node: exp.Like) -> Predicate | None:
        operand, literal = self._operand(node.this), read_literal(node.expression, self.literals)
        if operand is None or operand.type.name != "string" or literal is None:
            return None
        if literal.kind is LiteralKind.NULL:
            return Const(None)
        if literal.kind is not LiteralKind.STRING or not isinstance(literal.value, str):
            return None
        return like(operand, literal.value)

    def _is(self, node: exp.Is) -> Predicate | None:
        operand = self._operand(node.this)
        if operand is None:
            return None
        match node.expression:
            case exp.Null():
                return IsNull(operand)
            case exp.Boolean() as truth if operand.type == BOOLEAN:
                return And((Not(IsNull(operand)), Compare(operand, Op.EQ, int(truth.this))))
            case _:
                return None

    def _null_call(self, node: exp.Anonymous) -> Predicate | None:
        name = function_name(node)
        if name not in ("isnull", "isnotnull") or len(node.expressions) != 1:
            return None
        operand = self._operand(node.expressions[0])
        if operand is None:
            return None
        return IsNull(operand) if name == "isnull" else Not(IsNull(operand))


def compare(operand: Operand, op: Op, literal: Literal, timezone: str) -> Predicate | None:
    """`operand op literal` as Spark (ANSI mode) compares them, or None when that is not a comparison in the
    operand's own domain.

    >>> found = compare(Operand("n", SqlType("int")), Op.GE, Literal(LiteralKind.DOUBLE, 3.5), "UTC")
    >>> found.op, found.value
    (<Op.GT: '>'>, 3)
    """
    if literal.kind is LiteralKind.NULL:
        return Const(None)
    value = literal.value
    match operand.type.kind:
        case Kind.INTEGER if literal.kind in _NUMBERS:
            if operand.type.name == "bigint" and literal.kind not in _EXACT:
                return None
            bits = _INTEGER_BITS[operand.type.name]
            return _threshold(operand, op, literal.exact, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case Kind.DECIMAL if literal.kind in _EXACT and operand.type.fits_int64:
            bound = 10**operand.type.precision - 1
            return _threshold(operand, op, literal.exact * 10**operand.type.scale, -bound, bound)
        case Kind.FLOATING if literal.kind in _NUMBERS and not isinstance(value, str | None):
            return Compare(operand, op, float(value) + 0.0)
        case Kind.STRING if literal.kind is LiteralKind.STRING and operand.type.name == "string":
            assert isinstance(value, str)
            return Compare(operand, op, value)
        case Kind.BOOLEAN if literal.kind is LiteralKind.BOOLEAN:
            assert isinstance(value, int)
            return Compare(operand, op, value)
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            moment = _moment(operand.type.kind, literal, timezone)
            return None if moment is None else Compare(operand, op, moment)
        case _:
            return None


def like(operand: Operand, pattern: str) -> Predicate | None:
    """`operand LIKE pattern` where the pattern is a whole string or a prefix, which is a range of strings; else None.

    Strings are ordered by their bytes. So those with a prefix lie between it and the same prefix with a last byte that
    is one more, whatever bytes they have. A last byte that no character has one more than is left to Catalyst.

    >>> country = Operand("country", SqlType("string"))
    >>> [(part.op.value, part.value) for part in like(country, "De%").children]
    [('>=', 'De'), ('<', 'Df')]
    >>> like(country, "D_%"), like(country, "%e")
    (None, None)
    """
    prefix = pattern.rstrip("%")
    if any(special in prefix for special in "%_\\"):
        return None
    if prefix == pattern:
        return Compare(operand, Op.EQ, pattern)
    if not prefix:
        return Compare(operand, Op.GE, "")
    last = ord(prefix[-1])
    if last == 0x7F or (last > 0x7F and last & 0x3F == 0x3F):
        return None
    return And((Compare(operand, Op.GE, prefix), Compare(operand, Op.LT, prefix[:-1] + chr(last + 1))))


def _moment(kind: Kind, literal: Literal, timezone: str) -> int | None:
    """A literal as days (DATE) or microseconds, when it is of that very type or text that converts to it."""
    if kind is Kind.TIMESTAMP and timezone != "UTC":
        return None
    if literal.kind.value == kind.value and isinstance(literal.value, int):
        return literal.value
    if literal.kind is LiteralKind.STRING and isinstance(literal.value, str):
        return read_date(literal.value) if kind is Kind.DATE else read_timestamp(literal.value)
    return None


def _threshold(operand: Operand, op: Op, value: Fraction, low: int, high: int) -> Predicate:
    """`operand op value` over integers in [low, high]; NULL stays NULL where the answer never changes."""
    whole = value.numerator // value.denominator
    if value.denominator != 1:
        if op is Op.EQ:
            return _never(operand)
        op = Op.LE if op in (Op.LT, Op.LE) else Op.GT
    if low <= whole <= high:
        return Compare(operand, op, whole)
    below = whole < low
    always = op in ((Op.GT, Op.GE) if below else (Op.LT, Op.LE))
    return _always(operand) if always else _never(operand)


def _never(operand: Operand) -> Predicate:
    return And((Compare(operand, Op.LT, 0), Compare(operand, Op.GT, 0)))


def _always(operand: Operand) -> Predicate:
    return Or((Compare(operand, Op.LE, 0), Compare(operand, Op.GT, 0)))


def _one_domain(of: SqlType, literals: list[Literal | None]) -> bool:
    """Whether IN converts all of them as `=` converts each: it looks for one type for the whole list."""
    kinds = {literal.kind for literal in literals if literal is not None} - {LiteralKind.NULL}
    if None in literals:
        return False
    if len(kinds) <= 1:
        return True
    if of.kind is Kind.FLOATING or (of.kind is Kind.INTEGER and of.name != "bigint"):
        return kinds <= _NUMBERS
    return kinds <= _EXACT


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a chain of the same connective, left to right, without recursion over its length."""
    parts: list[exp.Expr] = []
    kind = type(node)
    while type(node) is kind:
        parts.append(node.args["expression"])
        node = node.args["this"]
    parts.append(node)
    return parts[::-1]
