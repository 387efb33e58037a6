"""Operators of many queries of one class: their windows, columns, families, lanes and outputs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, assert_never

from headrace.model import codec, plan
from headrace.model.lanes import keeps_values
from headrace.model.pieces import register_pieces
from headrace.model.plan import (
    AggregationOperator,
    Lane,
    LaneKind,
    Measure,
    Output,
    OutputAggregate,
    ScanPath,
    SelectionOperator,
    SessionOperator,
    StateColumn,
)
from headrace.model.plan.predicates import scan_path
from headrace.model.plan.reads import ENTRIES_PER_COLUMN
from headrace.model.predicate import And, Compare, Const, IsNull, Not, Operand, Or, operands_of
from headrace.model.query import (
    Aggregation,
    Fallback,
    Join,
    Projection,
    Query,
    QueryId,
    Stream,
    StreamName,
)
from headrace.model.tables import PlainTable, table_of, window_table
from headrace.model.types import SqlType
from headrace.model.window import AnyWindow, SessionWindow, Window
from headrace.planner.joins import (
    Joining,
)
from headrace.planner.parts import (
    AggregateShape,
    BodyPart,
    FilterPart,
    families_of,
    index_of,
    order_of,
)

codec.register(
    plan.OperandIndex,
    plan.StateColumn,
    plan.Family,
    plan.Measure,
    plan.Lane,
    plan.LaneKind,
    plan.OutputAggregate,
    plan.Output,
    plan.AggregationOperator,
    plan.GroupingOperator,
    plan.SessionOperator,
    plan.SelectionOperator,
    plan.JoinFilter,
    plan.JoinInput,
    plan.InputRole,
    plan.JoinLeaf,
    plan.JoinHub,
    plan.AcrossPositions,
    plan.JoinedQuery,
    plan.JoinChain,
    plan.JoinOperator,
    plan.Factor,
    plan.ProductOutput,
    plan.ProductOperator,
    plan.FallbackQuery,
    plan.SharedPlan,
    plan.ScanPath,
)
register_pieces(
    plan.StateColumn, plan.JoinFilter, plan.JoinedQuery, And, Compare, Const, IsNull, Not, Or
)  # what belongs to one query


def query_signature(query: Query) -> str:
    """The result table a query's rows land in, whatever else it shares the plan with."""
    match query.plan.body:
        case Aggregation() as body:
            return table_of(body).signature
        case Projection() as body:
            return operator_id("tuples", query.plan.stream, selection_path(body), ())
        case Join() as body if isinstance(body.then, Aggregation):
            return table_of(body.then).signature
        case Join() as body:
            return Joining(query.id, 0, body).signature
        case Fallback():
            return PlainTable(tuple(column.type for column in query.plan.columns)).signature
        case never:
            assert_never(never)


def selection_path(body: Projection) -> ScanPath:
    return scan_path((*body.outputs, *operands_of(body.where)))


def plan_aggregation(
    stream: Stream, keys: tuple[Operand, ...], path: ScanPath, parts: Sequence[BodyPart]
) -> AggregationOperator | SessionOperator:
    """One operator for all queries of a class: all of them have windows, or all have sessions."""
    made = aggregating_parts(stream, keys, path, parts)
    gaps = tuple(window for window in _windows(parts) if isinstance(window, SessionWindow))
    if gaps:
        kind = "session-values" if made["bags"] else "sessions"
        return SessionOperator(id=operator_id(kind, stream.name, path, keys), gaps=gaps, **made)
    return AggregationOperator(
        id=operator_id("values" if made["bags"] else "windows", stream.name, path, keys),
        windows=sliding_windows(parts),
        **made,
    )


def _windows(parts: Iterable[BodyPart]) -> tuple[AnyWindow, ...]:
    return tuple(sorted({part.body.window for part in parts}))


def sliding_windows(parts: Iterable[BodyPart]) -> tuple[Window, ...]:
    return tuple(window for window in _windows(parts) if isinstance(window, Window))


def aggregating_parts(
    stream: Stream, keys: tuple[Operand, ...], path: ScanPath, parts: Iterable[BodyPart]
) -> dict[str, Any]:
    """What every AggregatingOperator has, but for its id."""
    windows = _windows(parts)
    held = Held.of(parts, windows)
    inputs = tuple(sorted({input_ for part in parts for input_ in part.inputs}, key=order_of))
    event_time = stream.column(stream.event_time)
    measures, lanes, bags = plan_lanes(held, inputs)
    operands = index_of(held.filters)
    return {
        "stream": stream.name,
        "clock": (stream.name,),
        "path": path,
        "event_time": Operand(event_time.name, event_time.type),
        "keys": keys,
        "inputs": inputs,
        "operands": operands,
        "columns": held.columns,
        "families": families_of(held.filters, operands),
        "measures": measures,
        "lanes": lanes,
        "bags": bags,
        "outputs": _outputs(held, inputs, windows, keys, lanes, bags),
    }


def operator_id(kind: str, stream: StreamName, path: ScanPath, keys: Iterable[Operand]) -> str:
    named = "\n".join(f"{key.sql}\t{key.type.name}" for key in keys)
    digest = hashlib.sha256(f"{stream}\n{path.value}\n{named}".encode()).hexdigest()[:8]
    return f"{kind}-{path.value}-{digest}"


@dataclass(frozen=True, slots=True)
class Held:
    """The queries of an operator and its state columns: one per query and distinct filter, ordered by window and id.

    `parts` are in the order of queries. `placed` has them in the order of columns, each with its first column.
    """

    parts: Sequence[BodyPart]
    placed: Sequence[tuple[BodyPart, int]]
    columns: tuple[StateColumn, ...]
    first: Mapping[QueryId, int]

    @classmethod
    def of(cls, parts: Iterable[BodyPart], windows: Sequence[AnyWindow]) -> Held:
        place = {window: i for i, window in enumerate(windows)}
        ordered = sorted(
            ((place[part.body.window], part.query, part) for part in parts), key=itemgetter(0, 1)
        )
        placed: list[tuple[BodyPart, int]] = []
        columns: list[StateColumn] = []
        for window, _, part in ordered:
            placed.append((part, len(columns)))
            columns += part.columns(window)
        return cls(list(parts), placed, tuple(columns), {part.query: first for part, first in placed})

    @property
    def filters(self) -> list[FilterPart]:
        """The filter of each column."""
        return [filter_ for part, _ in self.placed for filter_ in part.filters]


def plan_lanes(
    held: Held, inputs: Sequence[Operand]
) -> tuple[tuple[Measure, ...], tuple[Lane, ...], tuple[Lane, ...]]:
    """(what tuples contribute, dense lanes, bags). ROWS for every column first, then what the aggregates need."""
    place = {operand: i for i, operand in enumerate(inputs)}
    wanted: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for part, first in held.placed:
        for lane in part.lanes:
            kept = (first + lane.filter, lane.entry, place[lane.input])
            wanted[lane.kind.value, lane.domain].append(kept)
    of_kind = sorted({(kind, input_) for (kind, _), found in wanted.items() for *_, input_ in found})
    measures = [Measure(LaneKind.ROWS, None), *(Measure(LaneKind(kind), input_) for kind, input_ in of_kind)]
    number = {pair: i for i, pair in enumerate(of_kind, 1)}
    columns = held.columns
    ids = tuple([column.id * ENTRIES_PER_COLUMN for column in columns])
    lanes = [Lane(LaneKind.ROWS, "int", tuple(range(len(columns))), (0,) * len(columns), ids)]
    for kind, domain in sorted(wanted):
        at, entries, of = zip(*sorted(wanted[kind, domain]), strict=True)
        lanes.append(
            Lane(LaneKind(kind), domain, at, tuple([number[kind, input_] for input_ in of]), entries)
        )
    dense = tuple(lane for lane in lanes if lane.kind is not LaneKind.BAG)
    return tuple(measures), dense, tuple(lane for lane in lanes if lane.kind is LaneKind.BAG)


def _outputs(
    held: Held,
    inputs: Sequence[Operand],
    windows: Sequence[AnyWindow],
    keys: Sequence[Operand],
    lanes: Sequence[Lane],
    bags: Sequence[Lane],
) -> tuple[Output, ...]:
    order = {window: i for i, window in enumerate(windows)}
    number = {(lane.kind, lane.domain): i for of_kind in (lanes, bags) for i, lane in enumerate(of_kind)}
    grouped: dict[tuple[int, int], list[BodyPart]] = defaultdict(list)
    for part in held.parts:
        grouped[order[part.body.window], id(part.shape)].append(part)
    merged: dict[tuple[int, tuple[OutputAggregate, ...]], list[BodyPart]] = defaultdict(list)
    for (window, _), found in grouped.items():  # equal shapes are nearly always one object
        aggregates = tuple(_output_aggregate(shape, number) for shape in found[0].shape)
        merged[window, aggregates] += found
    place: dict[Operand | None, int] = {operand: i for i, operand in enumerate(inputs)} | {None: -1}
    types = tuple(key.type for key in keys)
    return tuple(
        _output(held, place, window, windows[window], types, aggregates, sorted(found, key=_by_query))
        for (window, aggregates), found in merged.items()
    )


def _by_query(part: BodyPart) -> QueryId:
    return part.query


def _output(
    held: Held,
    place: Mapping[Operand | None, int],
    number: int,
    window: AnyWindow,
    keys: Sequence[SqlType],
    aggregates: tuple[OutputAggregate, ...],
    parts: Sequence[BodyPart],
) -> Output:
    every = range(len(aggregates))
    base = tuple([held.first[part.query] for part in parts])
    return Output(
        number,
        window_table(window, keys, (a.type for a in aggregates)).signature,
        aggregates,
        tuple([part.query for part in parts]),
        base,
        tuple(tuple([at + p.filter_of[j] for at, p in zip(base, parts, strict=True)]) for j in every),
        tuple(tuple([place[part.input_of[j]] for part in parts]) for j in every),
    )


def _output_aggregate(shape: AggregateShape, number: Mapping[tuple[LaneKind, str], int]) -> OutputAggregate:
    """Where an aggregate's partials are; `number` has the place of each lane and of each bag."""
    function, type_, lanes, fractions = shape
    places = [number[lane] for lane in lanes]
    if keeps_values(function):
        (bag,) = places
        return OutputAggregate(function, type_, (), bag, fractions)
    return OutputAggregate(function, type_, tuple(places))


def plan_selection(
    stream: StreamName, path: ScanPath, members: Sequence[tuple[Query, int]], filters: Sequence[FilterPart]
) -> SelectionOperator:
    """One operator for all stateless queries of a stream and path, each with its slot and its filter."""
    bodies = [body for query, _ in members if isinstance(body := query.plan.body, Projection)]
    operands = index_of(filters)
    id_ = operator_id("tuples", stream, path, ())
    return SelectionOperator(
        id=id_,
        stream=stream,
        path=path,
        signature=id_,
        outputs=tuple(sorted({o for body in bodies for o in body.outputs}, key=order_of)),
        operands=operands,
        queries=tuple(query.id for query, _ in members),
        slots=tuple(slot for _, slot in members),
        predicates=tuple(body.where for body in bodies),
        families=families_of(filters, operands),
    )
