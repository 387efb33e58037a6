"""Operators of many queries of one class: their windows, columns, families, lanes and outputs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from headrace.model import codec, plan
from headrace.model.lanes import keeps_values, lane_domain, lanes_needed
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
from headrace.model.predicate import (
    Operand,
    Predicate,
    conjunction,
    operands_of,
)
from headrace.model.query import (
    Aggregate,
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
from headrace.model.window import AnyWindow, SessionWindow, Window
from headrace.planner.joins import (
    Joining,
)
from headrace.planner.predicates import group_families, index_operands, scan_path

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

QueryBody = tuple[QueryId, Aggregation]
QueryBodies = Sequence[QueryBody]

COLUMNS_PER_QUERY = 1024
"""State column ids are query id times this plus an ordinal."""

ENTRIES_PER_COLUMN = 1024
"""Lane entry ids are column id times this plus the ordinal of the input in its query."""


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


def aggregation_operands(body: Aggregation) -> set[Operand]:
    found = set(body.keys) | operands_of(body.where)
    for aggregate in body.aggregates:
        found |= operands_of(aggregate.filter)
        if aggregate.input is not None:
            found.add(aggregate.input)
    return found


def plan_aggregation(
    stream: Stream, keys: tuple[Operand, ...], path: ScanPath, bodies: QueryBodies
) -> AggregationOperator | SessionOperator:
    """One operator for all queries of a class: all of them have windows, or all have sessions."""
    parts = aggregating_parts(stream, keys, path, bodies)
    gaps = tuple(window for window in _windows(bodies) if isinstance(window, SessionWindow))
    if gaps:
        kind = "session-values" if parts["bags"] else "sessions"
        return SessionOperator(id=operator_id(kind, stream.name, path, keys), gaps=gaps, **parts)
    return AggregationOperator(
        id=operator_id("values" if parts["bags"] else "windows", stream.name, path, keys),
        windows=sliding_windows(bodies),
        **parts,
    )


def asks_for_values(body: Aggregation) -> bool:
    """Whether a query needs every value of a group."""
    return any(keeps_values(aggregate.function) for aggregate in body.aggregates)


def _windows(bodies: QueryBodies) -> tuple[AnyWindow, ...]:
    return tuple(sorted({body.window for _, body in bodies}))


def sliding_windows(bodies: QueryBodies) -> tuple[Window, ...]:
    return tuple(window for window in _windows(bodies) if isinstance(window, Window))


def aggregating_parts(
    stream: Stream, keys: tuple[Operand, ...], path: ScanPath, bodies: QueryBodies
) -> dict[str, Any]:
    """What every AggregatingOperator has, but for its id."""
    windows = _windows(bodies)
    columns, positions = _state_columns(bodies, windows)
    inputs = tuple(
        sorted(
            {a.input for _, b in bodies for a in b.aggregates if a.input}, key=lambda o: (o.sql, o.type.name)
        )
    )
    operands = index_operands(column.predicate for column in columns)
    event_time = stream.column(stream.event_time)
    measures, lanes, bags = plan_lanes(bodies, columns, positions, inputs)
    return {
        "stream": stream.name,
        "clock": (stream.name,),
        "path": path,
        "event_time": Operand(event_time.name, event_time.type),
        "keys": keys,
        "inputs": inputs,
        "operands": operands,
        "columns": columns,
        "families": group_families([column.predicate for column in columns], operands),
        "measures": measures,
        "lanes": lanes,
        "bags": bags,
        "outputs": _outputs(bodies, positions, inputs, windows, keys, lanes, bags),
    }


def operator_id(kind: str, stream: StreamName, path: ScanPath, keys: Iterable[Operand]) -> str:
    named = "\n".join(f"{key.sql}\t{key.type.name}" for key in keys)
    digest = hashlib.sha256(f"{stream}\n{path.value}\n{named}".encode()).hexdigest()[:8]
    return f"{kind}-{path.value}-{digest}"


Positions = Mapping[tuple[QueryId, Predicate], int]


def _state_columns(
    bodies: QueryBodies, windows: Sequence[AnyWindow]
) -> tuple[tuple[StateColumn, ...], Positions]:
    """One column per query and distinct filter, ordered by window, query and ordinal (so by window and id)."""
    place = {window: i for i, window in enumerate(windows)}
    columns: list[tuple[StateColumn, Predicate]] = []
    for id_, body in bodies:
        filters = dict.fromkeys((conjunction(), *(a.filter for a in body.aggregates)))
        if len(filters) > COLUMNS_PER_QUERY or len(body.aggregates) > ENTRIES_PER_COLUMN:
            raise ValueError(f"query {id_} has more filters or aggregates than its state columns can number")
        for ordinal, filter_ in enumerate(filters):
            column_id = id_ * COLUMNS_PER_QUERY + ordinal
            predicate = conjunction(body.where, filter_)
            columns.append((StateColumn(column_id, id_, place[body.window], predicate), filter_))
    columns.sort(key=lambda item: (item[0].window, item[0].id))
    positions = {(column.query, filter_): i for i, (column, filter_) in enumerate(columns)}
    return tuple(column for column, _ in columns), positions


def plan_lanes(
    bodies: QueryBodies, columns: Sequence[StateColumn], positions: Positions, inputs: Sequence[Operand]
) -> tuple[tuple[Measure, ...], tuple[Lane, ...], tuple[Lane, ...]]:
    """(what tuples contribute, dense lanes, bags). ROWS for every column first, then what the aggregates need."""
    place = {operand: i for i, operand in enumerate(inputs)}
    wanted: set[tuple[str, str, int, int, int]] = set()
    for id_, body in bodies:
        ordinals = {a.input: i for i, a in enumerate(body.aggregates) if a.input is not None}
        for aggregate in body.aggregates:
            for kind in lanes_needed(aggregate.function):
                assert aggregate.input is not None
                column = positions[id_, aggregate.filter]
                entry = columns[column].id * ENTRIES_PER_COLUMN + ordinals[aggregate.input]
                domain = lane_domain(kind, aggregate.input)
                wanted.add((kind.value, domain, column, place[aggregate.input], entry))
    measures = [Measure(LaneKind.ROWS, None)]
    measures += [Measure(LaneKind(k), i) for k, i in sorted({(item[0], item[3]) for item in wanted})]
    number = {measure: i for i, measure in enumerate(measures)}
    ids = tuple(column.id * ENTRIES_PER_COLUMN for column in columns)
    lanes = [Lane(LaneKind.ROWS, "int", tuple(range(len(columns))), (0,) * len(columns), ids)]
    for name, domain in sorted({item[:2] for item in wanted}):
        found = sorted(
            (column, entry, number[Measure(LaneKind(name), input_)])
            for k, d, column, input_, entry in wanted
            if (k, d) == (name, domain)
        )
        at, entries, of = zip(*found, strict=True)
        lanes.append(Lane(LaneKind(name), domain, at, of, entries))
    dense = tuple(lane for lane in lanes if lane.kind is not LaneKind.BAG)
    return tuple(measures), dense, tuple(lane for lane in lanes if lane.kind is LaneKind.BAG)


def _outputs(
    bodies: QueryBodies,
    positions: Positions,
    inputs: Sequence[Operand],
    windows: Sequence[AnyWindow],
    keys: Sequence[Operand],
    lanes: Sequence[Lane],
    bags: Sequence[Lane],
) -> tuple[Output, ...]:
    place = {operand: i for i, operand in enumerate(inputs)}
    order = {window: i for i, window in enumerate(windows)}
    number = {(lane.kind, lane.domain): i for of_kind in (lanes, bags) for i, lane in enumerate(of_kind)}
    grouped: dict[tuple[int, tuple[OutputAggregate, ...]], list[tuple[QueryId, Aggregation]]] = defaultdict(
        list
    )
    for id_, body in bodies:
        aggregates = tuple(_output_aggregate(a, number) for a in body.aggregates)
        grouped[order[body.window], aggregates].append((id_, body))
    return tuple(
        Output(
            window,
            window_table(windows[window], (k.type for k in keys), (a.type for a in aggregates)).signature,
            aggregates,
            tuple(id_ for id_, _ in found),
            tuple(positions[id_, conjunction()] for id_, _ in found),
            tuple(
                tuple(positions[id_, b.aggregates[j].filter] for id_, b in found)
                for j in range(len(aggregates))
            ),
            tuple(
                tuple(-1 if (x := b.aggregates[j].input) is None else place[x] for _, b in found)
                for j in range(len(aggregates))
            ),
        )
        for (window, aggregates), found in grouped.items()
    )


def _output_aggregate(aggregate: Aggregate, number: Mapping[tuple[LaneKind, str], int]) -> OutputAggregate:
    """Where an aggregate's partials are; `number` has the place of each lane and of each bag."""
    places = [number[kind, lane_domain(kind, aggregate.input)] for kind in lanes_needed(aggregate.function)]
    if keeps_values(aggregate.function):
        (bag,) = places
        return OutputAggregate(aggregate.function, aggregate.type, (), bag, aggregate.fractions)
    return OutputAggregate(aggregate.function, aggregate.type, tuple(places))


def plan_selection(
    stream: StreamName, path: ScanPath, members: Sequence[tuple[Query, int]]
) -> SelectionOperator:
    """One operator for all stateless queries of a stream and path, each with its slot."""
    bodies = [body for query, _ in members if isinstance(body := query.plan.body, Projection)]
    predicates = tuple(body.where for body in bodies)
    operands = index_operands(predicates)
    outputs = sorted({o for body in bodies for o in body.outputs}, key=lambda o: (o.sql, o.type.name))
    id_ = operator_id("tuples", stream, path, ())
    return SelectionOperator(
        id=id_,
        stream=stream,
        path=path,
        signature=id_,
        outputs=tuple(outputs),
        operands=operands,
        queries=tuple(query.id for query, _ in members),
        slots=tuple(slot for _, slot in members),
        predicates=predicates,
        families=group_families(predicates, operands),
    )
