"""Predicates of many queries together: what they read, the constants they meet, and which of them go together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from headrace.model.plan.reads import Family, OperandIndex, ScanPath
from headrace.model.predicate import (
    And,
    Compare,
    Const,
    IsNull,
    Not,
    Operand,
    Or,
    Predicate,
    Value,
    operands_of,
)


def scan_path(operands: Iterable[Operand]) -> ScanPath:
    """FAST when all that is scanned are plain columns, else Catalyst has to evaluate something first."""
    plain = all(source.plain for operand in operands for source in operand.sources)
    return ScanPath.FAST if plain else ScanPath.CATALYST


def index_operands(predicates: Iterable[Predicate]) -> tuple[OperandIndex, ...]:
    """Every operand of the predicates with all the constants it meets."""
    return index_constants(constants_of(*predicates))


def constants_of(*predicates: Predicate) -> dict[Operand, set[Value]]:
    """The constants that each operand of the predicates meets."""
    constants: dict[Operand, set[Value]] = {}
    stack = list(dict.fromkeys(predicates))
    while stack:
        match stack.pop():
            case Compare(operand, _, value):
                constants.setdefault(operand, set()).add(value)
            case IsNull(operand):
                constants.setdefault(operand, set())
            case And(children) | Or(children):
                stack.extend(children)
            case Not(child):
                stack.append(child)
            case Const():
                pass
            case never:
                assert_never(never)
    return constants


def index_constants(constants: Mapping[Operand, Iterable[Value]]) -> tuple[OperandIndex, ...]:
    """Operands with the constants they meet, both in order."""
    return tuple(
        OperandIndex(operand, tuple(sorted(values, key=_value_order)))
        for operand, values in sorted(constants.items(), key=lambda item: (item[0].sql, item[0].type.name))
    )


def _value_order(value: Value) -> tuple[bool, Value | bytes]:
    """Strings by UTF-8 bytes, NaN after every number."""
    return (value != value, value.encode() if isinstance(value, str) else value)


def group_families(predicates: Sequence[Predicate], operands: Sequence[OperandIndex]) -> tuple[Family, ...]:
    """Predicates over the same set of operands form a family."""
    place = {index.operand: i for i, index in enumerate(operands)}
    families: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for position, predicate in enumerate(predicates):
        families[tuple(sorted(place[o] for o in operands_of(predicate)))].append(position)
    return tuple(Family(members, tuple(columns)) for members, columns in sorted(families.items()))
