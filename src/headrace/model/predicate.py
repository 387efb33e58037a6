"""Predicates as data: trees of atoms `operand op constant`, never compiled expressions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from headrace.model.types import SqlType

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Operand:
    """Something a kernel reads per tuple: a column of the stream, or an expression Catalyst evaluates.

    `sql` is the bare column name when `plain`, else Spark SQL text over the stream's columns. A row of several values
    has these as its `parts`. Only the parts are read, and `sql` is no more than the row's name. A call of a registered
    `function` is made by tasks, with its `arguments`; these are all that is scanned for it.
    """

    sql: str
    type: SqlType
    plain: bool = True
    parts: tuple[Operand, ...] = ()
    function: str | None = None
    arguments: tuple[Operand, ...] = ()

    def __hash__(self) -> int:
        return hash(self.sql)  # nearly always tells operands apart, and a string knows its hash

    @staticmethod
    def row(parts: tuple[Operand, ...]) -> Operand:
        """Several values as one: rows are equal when their parts are, and ordered by the first part that differs.

        >>> Operand.row((Operand("a", SqlType("int")), Operand("b", SqlType("date")))).type.name
        'struct<p0:int,p1:date>'
        """
        fields = ",".join(f"p{i}:{part.type.name}" for i, part in enumerate(parts))
        name = ", ".join(f"{part.sql} {part.type.name}" for part in parts)
        plain = all(part.plain for part in parts)
        return Operand(f"row({name})", SqlType(f"struct<{fields}>"), plain, parts)

    @staticmethod
    def call(function: str, type: SqlType, arguments: tuple[Operand, ...]) -> Operand:
        """The value of a registered function.

        >>> Operand.call("similar", SqlType("double"), (Operand("a", SqlType("string")),)).sql
        'similar(a)'
        """
        text = f"{function}({', '.join(argument.sql for argument in arguments)})"
        return Operand(text, type, False, (), function, arguments)

    @property
    def read(self) -> tuple[Operand, ...]:
        """What a kernel reads for it: itself, or its parts."""
        return self.parts or (self,)

    @property
    def sources(self) -> tuple[Operand, ...]:
        """What has to be scanned for it: itself, or what its parts or arguments are made of."""
        if not self.parts and self.function is None:
            return (self,)
        inner = (source for part in (*self.parts, *self.arguments) for source in part.sources)
        return tuple(dict.fromkeys(inner))

    @property
    def calls(self) -> tuple[Operand, ...]:
        """The calls in it, inner ones first. Without arguments there is nothing to call."""
        inner = tuple(call for part in (*self.parts, *self.arguments) for call in part.calls)
        return tuple(dict.fromkeys((*inner, self))) if self.arguments else inner


class Op(Enum):
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ = "="


@dataclass(frozen=True, slots=True, eq=False)
class Compare:
    """`operand op value`, NULL when the operand is NULL.

    `value` is in the operand's physical domain: int for integers, booleans (0/1), dates (days), timestamps
    (microseconds) and decimals (unscaled, at the operand's own scale); float for FLOAT and DOUBLE; str for STRING.
    """

    operand: Operand
    op: Op
    value: Value

    def __post_init__(self) -> None:
        if self.value != self.value:  # one NaN object for all comparisons, so that they can be equal
            object.__setattr__(self, "value", math.nan)

    def __eq__(self, other: object) -> bool:
        """Two comparisons with NaN are the same predicate, although NaN equals nothing: tuples compare identity first.

        The `__eq__` that dataclasses generate compares field by field since Python 3.13, and would tell them apart.
        """
        if not isinstance(other, Compare):
            return NotImplemented
        return (self.operand, self.op, self.value) == (other.operand, other.op, other.value)

    def __hash__(self) -> int:
        return hash((self.operand.sql, self.value))  # what nearly always differs, and is quickly hashed


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Operand


@dataclass(frozen=True, slots=True)
class Const:
    """TRUE, FALSE or NULL (None)."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class And:
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    child: Predicate


Predicate = Compare | IsNull | Const | And | Or | Not

TRUE = Const(True)


def conjunction(*parts: Predicate) -> Predicate:
    """AND of `parts`, flattened and without TRUE.

    >>> conjunction(TRUE, Const(None))
    Const(value=None)
    """
    kept: list[Predicate] = []
    for part in parts:
        if isinstance(part, And):
            kept.extend(part.children)
        elif part != TRUE:
            kept.append(part)
    if not kept:
        return TRUE
    return kept[0] if len(kept) == 1 else And(tuple(kept))


def operands_of(predicate: Predicate) -> frozenset[Operand]:
    """The operands a predicate reads."""
    match predicate:
        case Compare(operand) | IsNull(operand):
            return frozenset((operand,))
        case Const():
            return frozenset()
        case And(children) | Or(children):
            return frozenset().union(*(operands_of(child) for child in children))
        case Not(child):
            return operands_of(child)
