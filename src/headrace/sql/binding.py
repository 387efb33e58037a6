"""From a shape and the literals of one text to that query's plan; no parsing, no analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.model.predicate import TRUE, Predicate, conjunction
from headrace.model.query import (
    MAX_AGGREGATES,
    Across,
    Aggregate,
    AggregateFunction,
    Aggregation,
    Body,
    Carried,
    Fallback,
    Hub,
    Join,
    JoinedRows,
    JoinSide,
    Projection,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.types import Column, SqlType
from headrace.model.window import AnyWindow, Window
from headrace.sql import errors
from headrace.sql.bodies.operands import OperandShape
from headrace.sql.bodies.predicates import Compiler
from headrace.sql.bodies.windows import (
    MAX_COPIES_PER_TUPLE,
    MAX_EXPANDED,
    WindowCall,
    check_density,
    render_window_arguments,
    window_copies,
)
from headrace.sql.render.templates import Template
from headrace.sql.text.cql import joined_windows
from headrace.sql.text.dialect import render
from headrace.sql.text.lexer import Lexed


@dataclass(frozen=True, slots=True)
class AggregateShape:
    function: AggregateFunction
    input: OperandShape | None
    filter: exp.Expr | None
    type: SqlType
    fractions: tuple[float, ...] = ()

    def bind(
        self, fill: Callable[[Template], str], predicate: Callable[[exp.Expr | None], Predicate]
    ) -> Aggregate:
        input_ = None if self.input is None else self.input.bind(fill)
        return Aggregate(self.function, input_, predicate(self.filter), self.type, self.fractions)


@dataclass(frozen=True, slots=True)
class AggregationShape:
    keys: tuple[OperandShape, ...]
    aggregates: tuple[AggregateShape, ...]
    finish: tuple[Template, ...]
    having: Template | None
    fragile: bool


@dataclass(frozen=True, slots=True)
class ProjectionShape:
    outputs: tuple[OperandShape, ...]


@dataclass(frozen=True, slots=True)
class FallbackShape:
    reason: str


@dataclass(frozen=True, slots=True)
class SideShape:
    """One side of a shared join: WHERE on it alone, as the shape of a query has it."""

    stream: Stream
    where: exp.Expr | None
    ordered: exp.Expr | None


@dataclass(frozen=True, slots=True)
class HubShape:
    sides: tuple[int, ...]
    keys: tuple[tuple[OperandShape, ...], ...]


@dataclass(frozen=True, slots=True)
class CarriedShape:
    name: str
    side: int
    operand: OperandShape


@dataclass(frozen=True, slots=True)
class JoinedRowsShape:
    finish: tuple[Template, ...]
    where: Template | None
    groups: tuple[Template, ...] | None
    having: Template | None
    fragile: bool
    unshared: str | None = None


@dataclass(frozen=True, slots=True)
class JoinShape:
    sides: tuple[SideShape, ...]
    hubs: tuple[HubShape, ...]
    carried: tuple[CarriedShape, ...]
    across: tuple[Across, ...]
    then: JoinedRowsShape | AggregationShape
    called: tuple[exp.Expr, ...] = ()

    @property
    def row(self) -> Stream:
        """Joined rows as a stream of what they carry."""
        columns = tuple(Column(one.name, one.operand.type) for one in self.carried)
        return Stream(StreamName(""), columns, "", 0)


BodyShape = AggregationShape | ProjectionShape | JoinShape | FallbackShape


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything about a query that does not depend on its lifted literals.

    `calls` are its `window(...)` calls, `slides` says that their window may slide, `windowed` that results come per
    window, `ordered` is WHERE with its conjuncts in order (see `conjuncts`), `plain` is None when the text itself is
    plain Spark SQL. `stream` is what expressions are over and `streams` what the query reads: the same but for joins,
    of which `brackets` holds the number of each side's CQL window (None: the window of the calls) and `timed` each
    side's stream. `log` may be the query's own text (`verbatim`); then `rendered` is our rendering of it, which runs
    when windows are too dense for Spark's own (None: there is none, because we misread the text). `functions` are the
    registered functions that it calls.
    """

    stream: Stream
    calls: tuple[WindowCall, ...]
    slides: bool
    windowed: bool
    where: exp.Expr | None
    ordered: exp.Expr | None
    body: BodyShape
    columns: tuple[Column, ...]
    plain: Template | None
    log: Template
    streams: tuple[Stream, ...] = ()
    brackets: tuple[int | None, ...] = ()
    verbatim: bool = False
    timed: tuple[Stream, ...] = ()
    rendered: Template | None = None
    functions: tuple[str, ...] = ()
    texts: dict[int, Template] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.streams:
            object.__setattr__(self, "streams", (self.stream,))
            object.__setattr__(self, "timed", (self.stream,))

    def text_of(self, node: exp.Expr) -> Template:
        """`node` rendered, once per shape."""
        template = self.texts.get(id(node))
        if template is None:
            template = self.texts[id(node)] = Template.of(render(node))
        return template


def bind(shape: Shape, lexed: Lexed, literals: tuple[str, ...], timezone: str) -> QueryPlan:
    """The plan of the query that `shape` and `literals` make; raises SqlError for an impossible window."""
    sides = side_windows(shape.brackets, shape.calls, lexed, literals) if shape.brackets else ()
    window = max(sides, key=lambda w: w.range_us) if sides else _window(shape, lexed, literals)
    arguments = "" if window is None else render_window_arguments(window)
    holes = side_holes(sides) | _copies(shape, sides or (window,))

    def fill(template: Template) -> str:
        return template.fill(literals, arguments, holes)

    def compiler(stream: Stream) -> Compiler:
        return Compiler(stream, literals, timezone, lambda node: fill(shape.text_of(node)))

    log, verbatim = _log(shape, sides or (window,))
    return QueryPlan(
        text=lexed.source,
        streams=tuple(stream.name for stream in shape.streams),
        body=_body(shape, window if shape.windowed else None, sides, compiler, fill),
        columns=shape.columns,
        plain_sql=lexed.text if shape.plain is None else fill(shape.plain),
        log_sql=fill(log),
        verbatim=verbatim,
        functions=shape.functions,
    )


def _log(shape: Shape, windows: Sequence[AnyWindow | None]) -> tuple[Template, bool]:
    """The text over the log, and whether it is the query's own."""
    if not shape.verbatim:
        return shape.log, False
    for window in windows:
        if isinstance(window, Window) and window.per_tuple > MAX_EXPANDED:
            if shape.rendered is None:
                check_density(window, MAX_EXPANDED, "a query that runs as it was written")
            assert shape.rendered is not None
            return shape.rendered, False
    return shape.log, True


def _copies(shape: Shape, windows: Sequence[AnyWindow | None]) -> dict[str, str]:
    """What gives each tuple of the log its windows, by side; raises SqlError where these would be too many."""
    holes = {}
    for side, (stream, window) in enumerate(zip(shape.timed, windows, strict=True)):
        if isinstance(window, Window):
            if shape.brackets or not shape.windowed:
                what = "a join" if shape.brackets else "a query that shows tuples with their windows"
                check_density(window, MAX_COPIES_PER_TUPLE, what)
            holes[f"live{side}"] = window_copies(window, stream, live=True)
            holes[f"all{side}"] = window_copies(window, stream, live=False)
    return holes


def _window(shape: Shape, lexed: Lexed, literals: tuple[str, ...]) -> AnyWindow | None:
    """The one window that all of the query's calls, or its bracket, mean."""
    found = [call.window(literals) for call in shape.calls]
    if lexed.cql is not None:
        found.append(lexed.cql.window())
    if not found:
        return None
    if any(window != found[0] for window in found):
        raise errors.two_windows()
    if not shape.slides and isinstance(found[0], Window) and not found[0].tumbles:
        raise errors.two_sliding_windows()
    return found[0]


def side_windows(
    brackets: Sequence[int | None], calls: Sequence[WindowCall], lexed: Lexed, literals: tuple[str, ...]
) -> tuple[Window, ...]:
    """The window of each side of a join; raises SqlError when they do not go together."""
    if lexed.brackets:
        return joined_windows([lexed.brackets[bracket or 0] for bracket in brackets])
    found = [call.window(literals) for call in calls]
    windows = [window for window in found if isinstance(window, Window)]
    if len(windows) < len(found):
        raise errors.join_of_sessions()
    if any(window != windows[0] for window in windows):
        raise errors.join_of_windows()
    return (windows[0],) * len(brackets)


def side_holes(windows: Sequence[Window]) -> dict[str, str]:
    """What fills the holes of a join's texts."""
    if not windows:
        return {}
    seconds, micros = divmod(max(window.range_us for window in windows), 1_000_000)
    holes = {f"w{side}": render_window_arguments(window) for side, window in enumerate(windows)}
    return {**holes, "longest": f"INTERVAL '{seconds}.{micros:06d}' SECOND"}


def _body(
    shape: Shape,
    window: AnyWindow | None,
    sides: Sequence[Window],
    compile_over: Callable[[Stream], Compiler],
    fill: Callable[[Template], str],
) -> Body:
    compiler = compile_over(shape.stream)

    def predicate(node: exp.Expr | None) -> Predicate:
        return TRUE if node is None else compiler.predicate(node)

    def condition() -> Predicate:
        if shape.where is None or shape.ordered is None:
            return TRUE
        return compiler.predicate(shape.where, shape.ordered)

    def side_of(side: SideShape, side_window: Window) -> JoinSide:
        where: Predicate = TRUE
        if side.where is not None and side.ordered is not None:
            where = compile_over(side.stream).predicate(side.where, side.ordered)
        return JoinSide(side.stream.name, side_window, where)

    def hub_of(hub: HubShape) -> Hub:
        return Hub(hub.sides, tuple(tuple(key.bind(fill) for key in keys) for keys in hub.keys))

    def aggregation(found: AggregationShape, where: Predicate) -> Aggregation:
        assert window is not None
        aggregates = tuple(one.bind(fill, predicate) for one in found.aggregates)
        if len(aggregates) > MAX_AGGREGATES:
            raise errors.too_many_aggregates(len(aggregates), MAX_AGGREGATES)
        return Aggregation(
            window=window,
            where=where,
            keys=tuple(key.bind(fill) for key in found.keys),
            aggregates=aggregates,
            finish=tuple(fill(text) for text in found.finish),
            having=None if found.having is None else fill(found.having),
            fragile=found.fragile,
        )

    def joined_rows(found: JoinedRowsShape) -> JoinedRows:
        return JoinedRows(
            finish=tuple(map(fill, found.finish)),
            where=None if found.where is None else fill(found.where),
            groups=None if found.groups is None else tuple(map(fill, found.groups)),
            having=None if found.having is None else fill(found.having),
            fragile=found.fragile,
            unshared=None if found.unshared is None else fill(Template.of(found.unshared)),
        )

    match shape.body:
        case FallbackShape(reason):
            return Fallback(fill(Template.of(reason)), window)
        case ProjectionShape(outputs):
            return Projection(condition(), tuple(output.bind(fill) for output in outputs))
        case AggregationShape() as found:
            return aggregation(found, condition())
        case JoinShape(joined, hubs, carried, across, then, called):
            over_rows = compile_over(shape.body.row)
            return Join(
                tuple(map(side_of, joined, sides)),
                tuple(map(hub_of, hubs)),
                tuple(Carried(item.name, item.side, item.operand.bind(fill)) for item in carried),
                across,
                joined_rows(then) if isinstance(then, JoinedRowsShape) else aggregation(then, TRUE),
                conjunction(*map(over_rows.predicate, called)),
            )
