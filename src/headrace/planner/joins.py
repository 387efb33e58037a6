"""Join queries to shared operators: inputs routed once, chains with common beginnings, products of aggregations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

from headrace.model.plan import (
    AcrossPositions,
    AggregationOperator,
    Factor,
    InputRole,
    JoinChain,
    JoinedQuery,
    JoinFilter,
    JoinHub,
    JoinInput,
    JoinLeaf,
    JoinOperator,
    ProductOperator,
    ProductOutput,
    at_position,
)
from headrace.model.plan.names import digest, input_id, key_text
from headrace.model.plan.predicates import group_families, index_operands, scan_path
from headrace.model.predicate import (
    TRUE,
    And,
    Compare,
    Const,
    IsNull,
    Not,
    Operand,
    Or,
    Predicate,
    operands_of,
)
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Join,
    QueryId,
    Stream,
    StreamName,
)
from headrace.model.tables import WindowTable, table_of
from headrace.model.types import BIGINT, DOUBLE, Kind


@dataclass(frozen=True)
class Joining:
    """A join query with its slot. What plans ask of it again and again is worked out once."""

    id: QueryId
    slot: int
    body: Join

    @property
    def clock(self) -> tuple[StreamName, ...]:
        return tuple(sorted({side.stream for side in self.body.sides}))

    @property
    def space(self) -> tuple[str, ...]:
        """The types of the key, for a join on one key: products over equal ones spread their tuples alike."""
        return tuple(
            "integer" if k.type.kind is Kind.INTEGER else k.type.name for k in self.body.hubs[0].keys[0]
        )

    @cached_property
    def leaves(self) -> tuple[tuple[str, int], ...]:
        """(name, role) by which stored rows know each side, in the query's order: stream and all of its keys."""
        names = [_leaf_name(side.stream, self.body.keys_of(i)) for i, side in enumerate(self.body.sides)]
        return tuple((name, names[:i].count(name)) for i, name in enumerate(names))

    @cached_property
    def inputs(self) -> dict[tuple[int, int], tuple[str, int]]:
        """(input, role) of each side in each hub it is in, by (side, hub)."""
        found: dict[tuple[int, int], tuple[str, int]] = {}
        seen: dict[str, int] = defaultdict(int)
        for number, side in enumerate(self.body.sides):
            for at, hub in enumerate(self.body.hubs):
                if number in hub.sides:
                    name = input_id(side.stream, hub.keys[hub.sides.index(number)])
                    found[number, at] = (name, seen[name])
                    seen[name] += 1
        return found

    @cached_property
    def signature(self) -> str:
        """The table of its rows: one for each set of inputs and hubs, whatever order they are joined in."""
        hubs = self.body.hubs
        met: list[list[str]] = [[] for _ in hubs]
        for (side, hub), met_as in self.inputs.items():
            met[hub].append(" ".join(map(str, (*self.leaves[side], *met_as))))
        also = sorted("\t".join(sorted(hub)) for hub in met) if len(hubs) > 1 else []
        return f"joined-{digest(*(f'{name} {role}' for name, role in sorted(self.leaves)), *also)}"


def _leaf_name(stream: StreamName, keys: Sequence[Sequence[Operand]]) -> str:
    """That of its input for a side with one key; for one with several, whatever order its hubs come in."""
    if len(keys) == 1:
        return input_id(stream, keys[0])
    return digest(stream, "several keys", *sorted("\t".join(map(key_text, key)) for key in keys))


def is_joined(signature: str) -> bool:
    """Whether a result table holds joined rows, which are stored before their windows close."""
    return signature.startswith("joined-")


def plan_joins(
    joinings: Sequence[Joining],
    streams: Mapping[StreamName, Stream],
    rates: Mapping[StreamName, int],
    feeds: Mapping[QueryId, str],
) -> tuple[JoinOperator, ...]:
    """One operator per set of streams, for queries whose rows are joined.

    `rates` say how many tuples a stream has brought so far: rarer inputs come first in every chain. `feeds` says which
    operator groups the rows of a query, if one does.
    """
    grouped: dict[tuple[StreamName, ...], list[Joining]] = defaultdict(list)
    for joining in joinings:
        grouped[joining.clock].append(joining)
    return tuple(
        _plan_operator(join_id(clock), some, streams, rates, feeds) for clock, some in grouped.items()
    )


def join_id(clock: Iterable[StreamName]) -> str:
    """The operator of all joins that are over these streams."""
    return f"joins-{digest(*clock)}"


def _plan_operator(
    id_: str,
    joinings: Sequence[Joining],
    streams: Mapping[StreamName, Stream],
    rates: Mapping[StreamName, int],
    feeds: Mapping[QueryId, str],
) -> JoinOperator:
    sides: dict[str, tuple[StreamName, tuple[Operand, ...]]] = {}
    for joining in joinings:
        body = joining.body
        for (side, hub), (name, _) in joining.inputs.items():
            met = body.hubs[hub]
            sides[name] = (body.sides[side].stream, met.keys[met.sides.index(side)])
    names = sorted(sides, key=lambda name: (rates.get(sides[name][0], 0).bit_length(), sides[name][0], name))
    place = {name: i for i, name in enumerate(names)}
    inputs = tuple(_plan_input(name, sides[name], joinings, streams) for name in names)
    chains: dict[tuple[tuple[JoinHub, ...], str, str | None], list[Joining]] = defaultdict(list)
    for joining in joinings:
        chains[_order(joining, place)[0], joining.signature, feeds.get(joining.id)].append(joining)
    return JoinOperator(
        id_, inputs, tuple(_plan_chain(found, place, fed) for (*_, fed), found in chains.items())
    )


def _order(joining: Joining, place: Mapping[str, int]) -> tuple[tuple[JoinHub, ...], dict[int, int]]:
    """(the hubs of a query's chain, the position of each of its sides there)."""
    met = {of: InputRole(place[name], role) for of, (name, role) in joining.inputs.items()}

    def rank(side: int) -> list[tuple[int, int]]:
        return sorted((one.input, one.role) for (mine, _), one in met.items() if mine == side)

    at = {side: position for position, side in enumerate(sorted(range(len(joining.body.sides)), key=rank))}
    hubs = []
    for number, hub in enumerate(joining.body.hubs):
        sides = sorted(hub.sides, key=at.__getitem__)
        hubs.append(JoinHub(tuple(at[s] for s in sides), tuple(met[s, number] for s in sides)))
    return tuple(sorted(hubs, key=lambda hub: hub.positions)), at


def _plan_input(
    name: str,
    of: tuple[StreamName, tuple[Operand, ...]],
    joinings: Sequence[Joining],
    streams: Mapping[StreamName, Stream],
) -> JoinInput:
    stream, keys = of
    filters: list[JoinFilter] = []
    carried: set[Operand] = set()
    for joining in joinings:
        body = joining.body
        for (number, _), (found, role) in joining.inputs.items():
            if found == name:
                filters.append(JoinFilter(joining.id, joining.slot, role, body.sides[number].where))
                carried |= {c.operand for c in body.carried if c.side == number}
                carried |= {part for other in body.keys_of(number) for part in other}
    predicates = [one.predicate for one in filters]
    operands = index_operands(predicates)
    column = streams[stream].column(streams[stream].event_time)
    event_time = Operand(column.name, column.type)
    kept = tuple(sorted(carried - {event_time, *keys}, key=lambda o: (o.sql, o.type.name, o.plain)))
    path = scan_path((*keys, *carried, *(index.operand for index in operands)))
    families = group_families(predicates, operands)
    return JoinInput(name, stream, path, event_time, keys, kept, operands, tuple(filters), families)


def _plan_chain(joinings: Sequence[Joining], place: Mapping[str, int], feeds: str | None) -> JoinChain:
    hubs, order = _order(joinings[0], place)
    leaves = {order[side]: leaf for side, leaf in enumerate(joinings[0].leaves)}
    queries, outputs = [], set()
    for joining in joinings:
        _, at = _order(joining, place)
        body, carried = joining.body, joining.body.carried
        windows = [side.window for side in body.sides]
        across = tuple(
            AcrossPositions(
                at[carried[one.left].side],
                carried[one.left].operand,
                one.op,
                at[carried[one.right].side],
                carried[one.right].operand,
            )
            for one in body.across
        )
        sides = sorted(at, key=lambda side: at[side])
        called, called_with = _called(body, at)
        queries.append(
            JoinedQuery(
                joining.id,
                joining.slot,
                tuple(windows[side] for side in sides),
                across,
                called,
                called_with,
            )
        )
        outputs |= {(at[one.side], one.operand) for one in carried}
    ordered = sorted(
        outputs, key=lambda output: (output[0], output[1].sql, output[1].type.name, output[1].plain)
    )
    named = tuple(JoinLeaf(*leaves[position]) for position in range(len(leaves)))
    return JoinChain(named, hubs, joinings[0].signature, tuple(ordered), tuple(queries), feeds)


def _called(body: Join, at: Mapping[int, int]) -> tuple[Predicate, tuple[tuple[int, Operand], ...]]:
    """(a query's condition on functions of joined rows, over positions; what these are called with)."""
    named = {carried.name: (at[carried.side], carried.operand) for carried in body.carried}
    found: dict[tuple[int, Operand], None] = {}

    def own(operand: Operand) -> Operand:
        if operand.function is not None:
            return Operand.call(operand.function, operand.type, tuple(map(own, operand.arguments)))
        found[named[operand.sql]] = None
        return at_position(*named[operand.sql])

    renaming = {operand: own(operand) for operand in sorted(operands_of(body.called), key=lambda o: o.sql)}
    return renamed(body.called, renaming), tuple(sorted(found, key=lambda one: (one[0], one[1].sql)))


# products


@dataclass(frozen=True, slots=True)
class SideQuery:
    """One side of a product as the aggregation it is, for the operator `name` of its clock and role."""

    query: QueryId
    body: Aggregation
    side: int
    stream: StreamName
    role: int


def product_id(joining: Joining) -> str:
    return f"product-{digest(*joining.clock, '', *joining.space)}"


def side_queries(joining: Joining) -> tuple[SideQuery, ...]:
    """The aggregations that the sides of a product contribute."""
    assert isinstance(joining.body.then, Aggregation)
    found = []
    factors = side_factors(joining)
    for number, (side, (_, role)) in enumerate(zip(joining.body.sides, joining.leaves, strict=True)):
        keys = joining.body.hubs[0].keys[number]
        body = Aggregation(side.window, side.where, keys, factors[number], ())
        found.append(SideQuery(joining.id, body, number, side.stream, role))
    return tuple(found)


_COUNT_ALL = Aggregate(AggregateFunction.COUNT_ALL, None, TRUE, BIGINT)
_SAMPLES = {
    AggregateFunction.VAR_SAMP: AggregateFunction.VAR_POP,
    AggregateFunction.STDDEV_SAMP: AggregateFunction.VAR_POP,
}


def side_factors(joining: Joining) -> list[tuple[Aggregate, ...]]:
    """What each side aggregates: its COUNT(*), then what the factors need."""
    sides: list[dict[Aggregate, None]] = [{_COUNT_ALL: None} for _ in joining.body.sides]
    then = joining.body.then
    assert isinstance(then, Aggregation)
    for aggregate in then.aggregates:
        where, own = _on_side(joining.body, aggregate)
        if where is not None:
            for part in _parts(own):
                sides[where][part] = None
    return [tuple(side) for side in sides]


def _parts(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    if aggregate.function in _SAMPLES:
        counted = replace(aggregate, function=AggregateFunction.COUNT, type=BIGINT)
        return replace(aggregate, function=_SAMPLES[aggregate.function], type=DOUBLE), counted
    return (aggregate,)


def _on_side(body: Join, aggregate: Aggregate) -> tuple[int | None, Aggregate]:
    """(the side that an aggregate is over, the aggregate over the side's own operands)."""
    named = {carried.name: carried for carried in body.carried}
    operands = {*operands_of(aggregate.filter), *((aggregate.input,) if aggregate.input else ())}
    sides = {named[operand.sql].side for operand in operands}
    if not sides:  # a FILTER that is constant counts as one of the first side's
        return None if aggregate.filter == TRUE else 0, aggregate
    (side,) = sides
    own = {operand: named[operand.sql].operand for operand in operands}
    input_ = None if aggregate.input is None else own[aggregate.input]
    return side, replace(aggregate, input=input_, filter=renamed(aggregate.filter, own))


def renamed(predicate: Predicate, own: Mapping[Operand, Operand]) -> Predicate:
    """The predicate over other names of its operands."""
    match predicate:
        case Compare(operand, op, value):
            return Compare(own[operand], op, value)
        case IsNull(operand):
            return IsNull(own[operand])
        case And(children):
            return And(tuple(renamed(child, own) for child in children))
        case Or(children):
            return Or(tuple(renamed(child, own) for child in children))
        case Not(child):
            return Not(renamed(child, own))
        case Const():
            return predicate
        case never:
            assert_never(never)


def plan_product(
    id_: str, joinings: Sequence[Joining], operators: Mapping[tuple[QueryId, int], AggregationOperator]
) -> ProductOperator:
    """The product of these queries' sides; `operators` has the operator of each query's side."""
    grouped: dict[ProductOutput, list[QueryId]] = defaultdict(list)
    for joining in joinings:
        grouped[_output(joining, operators)].append(joining.id)
    outputs = tuple(replace(output, queries=tuple(found)) for output, found in grouped.items())
    return ProductOperator(id_, len(joinings[0].space), outputs)


def _output(joining: Joining, operators: Mapping[tuple[QueryId, int], AggregationOperator]) -> ProductOutput:
    body, then, sides = joining.body, joining.body.then, side_factors(joining)
    assert isinstance(then, Aggregation)
    factors = []
    for aggregate in then.aggregates:
        where, own = _on_side(body, aggregate)
        if where is None:
            factors.append(Factor(aggregate.function, aggregate.type, None))
            continue
        at = [list(sides[where]).index(part) for part in _parts(own)]
        factors.append(Factor(aggregate.function, aggregate.type, where, at[0], at[-1]))
    named = {carried.name: carried for carried in body.carried}
    keys = []
    for key in then.keys:
        found = named[key.sql]
        keys.append((found.side, body.hubs[0].keys[found.side].index(found.operand)))
    tables = tuple(
        WindowTable(tuple(k.type for k in keys_of_side), tuple(a.type for a in sides[i])).signature
        for i, keys_of_side in enumerate(body.hubs[0].keys)
    )
    return ProductOutput(
        (),
        tuple(operators[joining.id, i].id for i in range(len(body.sides))),
        tables,
        tuple(keys),
        tuple(factors),
        table_of(then).signature,
    )
