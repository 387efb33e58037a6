"""Operands as the shape of a query has them: their texts may have holes for lifted literals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.predicate import Operand
from headrace.model.types import SqlType
from headrace.sql.render.templates import Template


@dataclass(frozen=True, slots=True)
class OperandShape:
    """An operand whose text may have holes."""

    text: Template
    type: SqlType
    plain: bool
    parts: tuple[OperandShape, ...] = ()
    function: str | None = None
    arguments: tuple[OperandShape, ...] = ()

    @staticmethod
    def row(parts: tuple[OperandShape, ...]) -> OperandShape:
        """Several operands as one; see `Operand.row`."""
        return OperandShape(Template.of(""), SqlType("void"), False, parts)

    def bind(self, fill: Callable[[Template], str]) -> Operand:
        if self.parts:
            return Operand.row(tuple(part.bind(fill) for part in self.parts))
        if self.function is not None:
            arguments = tuple(argument.bind(fill) for argument in self.arguments)
            return Operand.call(self.function, self.type, arguments)
        return Operand(fill(self.text), self.type, self.plain)
