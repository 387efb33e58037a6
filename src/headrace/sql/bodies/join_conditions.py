"""Which tuples a join brings together, and what its rows carry: its sides, its keys and its conditions.

Conjuncts over one side become its predicate. Equalities between sides make hubs: classes of equal values that connect
sides which no other hub has connected; often one hub has all sides. Comparisons of a value of one side with a value of
another are decided while rows are joined; what is left is a filter of the stored rows and waits for a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.model.blocks import EVERY_BLOCK, ONE_BLOCK
from headrace.model.predicate import Op, Operand
from headrace.model.query import Across, Stream
from headrace.model.tables import WINDOW_EDGES
from headrace.model.types import TIMESTAMP, Column, Kind, SqlType
from headrace.sql.binding import CarriedShape, HubShape, SideShape
from headrace.sql.bodies.aggregates import window_struct
from headrace.sql.bodies.calls import NotShared
from headrace.sql.bodies.conjuncts import conjuncts, in_order
from headrace.sql.bodies.join_calls import argument_of, is_similarity, mark_scores, with_columns
from headrace.sql.bodies.join_hubs import find_hubs
from headrace.sql.bodies.operands import OperandShape
from headrace.sql.bodies.predicates import Compiler
from headrace.sql.bodies.registered import call_shape, calls_registered, type_arguments
from headrace.sql.bodies.windows import is_window_column, window_edge
from headrace.sql.render.templates import Template
from headrace.sql.resolve.columns import Flat, column, enclosed
from headrace.sql.resolve.joins import JoinOrigin
from headrace.sql.resolve.safety import cannot_raise
from headrace.sql.text.dialect import render

_OPS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_COMPARED = frozenset(
    (Kind.INTEGER, Kind.FLOATING, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.BOOLEAN, Kind.STRING)
)
_KEYS = _COMPARED | {Kind.DECIMAL, Kind.TIME}

TypesOf = Callable[[list[str]], list[SqlType]]


@dataclass(slots=True)
class JoinConditions:
    """The conditions of one join, sorted step by step, and the values of its sides that its rows carry so far.

    The steps come in this order: `sort_conditions`, `find_hubs`, `sides`, `across`, `called`. What is asked of the rows
    comes last, and may let them carry more. Each step raises NotShared when shared operators cannot run the join.
    """

    flat: Flat
    origin: JoinOrigin
    types_of: TypesOf
    literals: tuple[str, ...]
    timezone: str
    own: dict[int, list[exp.Expr]] = field(default_factory=dict)
    equalities: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    compared: list[tuple[exp.Expr, Op, exp.Expr]] = field(default_factory=list)
    residual: list[exp.Expr] = field(default_factory=list)
    calling: list[exp.Expr] = field(default_factory=list)
    raising: exp.Expr | None = None
    in_blocks: bool = False
    carried: dict[tuple[int, str], CarriedShape] = field(default_factory=dict)

    # conditions

    def sort_conditions(self) -> None:
        """Every conjunct to the side it is about, to the equalities, to comparisons across sides, or to the rest."""
        type_arguments(self.flat.where, self.types_of)
        for whole in self.flat.where:
            for node in conjuncts(whole):
                sides = self.origin.sides_in(node)
                mark_scores(node, self.origin)
                if calls_registered(node) and len(sides) > 1:
                    self.calling.append(node)
                    continue
                if any(map(is_window_column, node.find_all(exp.Column))):
                    self._leave(node)
                elif len(sides) <= 1:
                    self.own.setdefault(min(sides, default=0), []).append(node)
                elif isinstance(node, exp.EQ) and self._two_sided(node):
                    self.equalities.append((node.this.unnest(), node.expression.unnest()))
                elif type(node) in _OPS and self._two_sided(node):
                    self._check_last()
                    self.compared.append((node.this.unnest(), _OPS[type(node)], node.expression.unnest()))
                else:
                    self._leave(node)

    def _leave(self, node: exp.Expr, *, may_raise: bool = True) -> None:
        """A condition for whoever reads the rows. One that may raise is asked of the rows that Spark asks it of only
        when it is over two streams, all that are joined, and there is no comparison beside it.
        """
        self._check_last()
        if node.find(exp.RegexpLike, exp.Div) or not cannot_raise(over_row(node), self.row, self.literals):
            self.raising = node
            whole = len(self.origin.sides) == len(self.origin.sides_in(node)) == 2
            if not whole or self.compared or not may_raise:
                self._check_last()
        self.residual.append(node)

    def _check_last(self) -> None:
        if self.raising is not None:
            raise NotShared(f"{self.text(self.raising)} may fail for rows that other conditions reject")

    @property
    def row(self) -> Stream:
        """Stored rows as expressions see them."""
        stream, edges = self.origin.stream, (Column(name, TIMESTAMP) for name in WINDOW_EDGES.values())
        return replace(stream, columns=(*stream.columns, *edges))

    def _two_sided(self, node: exp.Expr) -> bool:
        parts = [self.origin.sides_in(part) for part in (node.this, node.expression)]
        return all(len(part) == 1 for part in parts) and parts[0] != parts[1]

    def text(self, node: exp.Expr) -> str:
        """`node` as its reader would write it."""

        def step(found: exp.Expr) -> exp.Expr:
            if is_window_column(found):
                return column("window")
            side = self.origin.side_of(found.name) if isinstance(found, exp.Column) else None
            if side is None:
                return found
            name = found.name[len(side.name("")) :]
            return exp.Column(this=exp.to_identifier(name), table=exp.to_identifier(side.qualifier or "t"))

        return render(node.copy().transform(step, copy=False))

    def sides(self) -> tuple[SideShape, ...]:
        """The sides with their own conditions."""
        return tuple(SideShape(side.stream, *self._condition(side.number)) for side in self.origin.sides)

    def _condition(self, number: int) -> tuple[exp.Expr | None, exp.Expr | None]:
        side = self.origin.sides[number]
        nodes = [side.over_stream(node) for node in self.own.get(number, ())]
        if not nodes:
            return None, None
        whole = nodes[0]
        for node in nodes[1:]:
            whole = exp.And(this=enclosed(whole), expression=enclosed(node))
        compiler = Compiler(side.stream, self.literals, self.timezone, render)

        def harmless(node: exp.Expr) -> bool:
            if compiler.only_atoms(node):
                return True
            telling = node.find(exp.RegexpLike, exp.Div)
            return telling is None and cannot_raise(node, side.stream, self.literals)

        return whole, in_order(whole, harmless)

    # keys

    def find_hubs(self) -> tuple[HubShape, ...]:
        """The keys that connect all sides; equalities that no key stands for become comparisons.

        Where there is no equality, a score that has to be high enough connects two sides: tuples meet in blocks.
        """
        if (
            not self.equalities
            and len(self.origin.sides) == 2
            and any(is_similarity(node, self.origin) for node in self.calling)
        ):
            self.in_blocks = True
            return (HubShape((0, 1), ((_block(EVERY_BLOCK),), (_block(ONE_BLOCK),))),)
        found = find_hubs(self.origin, self.equalities, lambda nodes: self._key_type(nodes) is not None)
        self.compared += [(left, Op.EQ, right) for left, right in found.compared]
        for side, equal in found.own:
            self.own.setdefault(side, []).append(equal)
        return tuple(
            HubShape(
                hub.sides,
                tuple(tuple(self._key_operand(part[side]) for part in hub.parts) for side in hub.sides),
            )
            for hub in found.hubs
        )

    def _key_operand(self, node: exp.Expr) -> OperandShape:
        return self._operand(node, self._types([node])[0])

    def _side(self, node: exp.Expr) -> int:
        """The side that a value is of; a constant is the first one's."""
        return min(self.origin.sides_in(node), default=0)

    def _key_type(self, nodes: Sequence[exp.Expr]) -> SqlType | None:
        """The type that all of these have, or one of their integer types; None when Spark would convert them."""
        types = self._types(nodes)
        if all(type_.kind is Kind.INTEGER for type_ in types):
            return types[0]
        same = all(type_ == types[0] for type_ in types) and types[0].kind in _KEYS
        plain = types[0].kind is not Kind.STRING or types[0].name == "string"
        return types[0] if same and plain else None

    def _types(self, nodes: Sequence[exp.Expr]) -> list[SqlType]:
        return self.types_of([f"any_value({render(node)})" for node in nodes])

    def across(self) -> tuple[Across, ...]:
        """Comparisons across sides, over values that the rows carry."""
        found = []
        for left, op, right in self.compared:
            types = self._types([left, right])
            whole = all(type_.kind is Kind.INTEGER for type_ in types)
            if not whole and (types[0] != types[1] or types[0].kind not in _COMPARED):
                kind = next(kind for kind, known in _OPS.items() if known is op)
                self._leave(kind(this=enclosed(left), expression=enclosed(right)), may_raise=False)
                continue
            places = [self.carry(node, type_) for node, type_ in zip((left, right), types, strict=True)]
            found.append(Across(places[0], op, places[1]))
        return tuple(found)

    def called(self) -> tuple[exp.Expr, ...]:
        """Conditions on functions of joined rows, over what these carry. They come after all others, as in Spark; so
        where others are left to a reader, these are too.
        """
        found = [] if self.residual else list(map(self._with_columns, self.calling))
        if None in found or self.residual:
            if self.in_blocks:
                raise NotShared(
                    "every pair of tuples would be stored: the score is not decided as they are joined"
                )
            for node in self.calling:
                self._leave(node)
            return ()
        return tuple(node.transform(self._carried_call, copy=False) for node in found if node is not None)

    def _with_columns(self, node: exp.Expr) -> exp.Expr | None:
        return with_columns(
            node, self.origin, lambda inner: self._types([inner])[0], self.literals, self.timezone
        )

    def _carried_call(self, node: exp.Expr) -> exp.Expr:
        argument = argument_of(node)
        if argument is None:
            return node
        place = self.carry(*argument)
        return column(list(self.carried.values())[place].name)

    # what rows carry

    def _operand(self, node: exp.Expr, type_: SqlType) -> OperandShape:
        """An operand over its side's stream."""
        inner = self.origin.sides[self._side(node)].over_stream(node.unnest())
        if isinstance(inner, exp.Column):
            return OperandShape(Template.of(inner.name), type_, plain=True)
        side = self.origin.sides[self._side(node)]
        if (call := call_shape(inner, side.stream, self.literals)) is not None:
            return call
        if not cannot_raise(inner, side.stream, self.literals):
            raise NotShared(f"{self.text(node)} may fail for tuples that are never joined")
        return OperandShape(Template.of(render(inner)), type_, plain=False)

    def carry(self, node: exp.Expr, type_: SqlType) -> int:
        """The place among the carried values of one over a single side."""
        inner = node.unnest()
        side, text = self._side(inner), render(inner)
        if (side, text) not in self.carried:
            name = inner.name if isinstance(inner, exp.Column) else f"x{len(self.carried)}"
            self.carried[side, text] = CarriedShape(name, side, self._operand(inner, type_))
        return list(self.carried).index((side, text))

    def carry_columns(self, nodes: Iterable[exp.Expr]) -> None:
        """Let the rows carry every column of a side that these expressions name."""
        for node in nodes:
            for found in node.find_all(exp.Column):
                if self.origin.side_of(found.name) is not None:
                    self.carry(found, self.origin.stream.column(found.name).type)


def _block(key: Operand) -> OperandShape:
    return OperandShape(Template.of(""), key.type, False, (), key.function)


def over_row(node: exp.Expr) -> exp.Expr:
    """An expression over a stored row: the window by its edges."""

    def step(found: exp.Expr) -> exp.Expr:
        edge = window_edge(found)
        if edge is not None:
            return column(WINDOW_EDGES[edge])
        return window_struct() if is_window_column(found) else found

    return node.copy().transform(step, copy=False)
