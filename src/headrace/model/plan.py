"""Plan nodes: what one sharing group runs in an epoch. EXPLAIN and the engine read the same objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.model.predicate import TRUE, Op, Operand, Predicate, Value
from headrace.model.query import AggregateFunction, QueryId, StreamName
from headrace.model.types import SqlType
from headrace.model.window import SessionWindow, Window


class ScanPath(Enum):
    """How tuples reach the kernels: pyarrow reads the chunk, or Spark evaluates expressions first."""

    FAST = "fast"
    CATALYST = "catalyst"


@dataclass(frozen=True, slots=True)
class Read:
    """What an operator asks of one stream."""

    stream: StreamName
    path: ScanPath
    scanned: tuple[Operand, ...]

    @property
    def sources(self) -> tuple[Operand, ...]:
        """What has to be scanned for it; calls of functions are made of that."""
        return tuple(dict.fromkeys(source for operand in self.scanned for source in operand.sources))


@dataclass(frozen=True, slots=True)
class OperandIndex:
    """All constants that any predicate of the operator compares `operand` with, sorted, without repeats."""

    operand: Operand
    constants: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class StateColumn:
    """One filter of one query: the tuples it accepts are aggregated into this column of the state.

    `id` is unique for ever (query id and ordinal), so segments of older plans can be matched to newer ones.
    """

    id: int
    query: QueryId
    window: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Family:
    """State columns whose predicates read the same operands: one cell per tuple decides all of them."""

    operands: tuple[int, ...]
    columns: tuple[int, ...]


class LaneKind(Enum):
    """A partial aggregate that slices keep. COUNT = ROWS - NULLS; AVG = SUM / COUNT; MOMENTS hold mean and M2.

    A BAG holds every value with how often it came.
    """

    ROWS = "rows"
    NULLS = "nulls"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MOMENTS = "moments"
    BAG = "bag"


@dataclass(frozen=True, slots=True)
class Measure:
    """What a tuple contributes: one kind of partial of one input (None for ROWS)."""

    kind: LaneKind
    input: int | None

    @property
    def name(self) -> str:
        return self.kind.value if self.input is None else f"{self.kind.value}{self.input}"


@dataclass(frozen=True, slots=True)
class Lane:
    """All partials of one kind and domain, whatever their inputs: kernels work them off as one array.

    Entry i keeps measure `measures[i]` for state column `columns[i]` (ascending). `ids[i]` is that entry's name for
    ever (ascending inside a window), so that segments of older plans can be matched. `domain` is `int`, `float`, or
    `words` and the text of the one input whose strings or rows the partials rank. A BAG is of one input too, and says
    `values` and its text where no dictionary is needed.
    """

    kind: LaneKind
    domain: str
    columns: tuple[int, ...]
    measures: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.kind.value}:{self.domain}"


@dataclass(frozen=True, slots=True)
class OutputAggregate:
    """How a result column is lowered: which aggregate, in what type, from which lanes (by kind) or from which bag."""

    function: AggregateFunction
    type: SqlType
    lanes: tuple[int, ...]
    bag: int | None = None
    fractions: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """Queries of one window whose result rows have the same make-up.

    `base[i]` is the state column whose ROWS decide whether a group of query `queries[i]` has a row. For aggregate j,
    `columns[j][i]` is the query's state column and `inputs[j][i]` its input (-1: none).
    """

    window: int
    signature: str
    aggregates: tuple[OutputAggregate, ...]
    queries: tuple[QueryId, ...]
    base: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class AggregatingOperator:
    """What keeps partial aggregates of tuples from epoch to epoch: same stream, same grouping keys, same scan path.

    `columns` are ordered by window, so the columns of one window are contiguous. Windows close by the least watermark
    of the streams in `clock`. `bags` are the lanes of kind BAG; they are sparse and kept apart from the dense `lanes`.
    """

    id: str
    stream: StreamName
    clock: tuple[StreamName, ...]
    path: ScanPath
    event_time: Operand
    keys: tuple[Operand, ...]
    inputs: tuple[Operand, ...]
    operands: tuple[OperandIndex, ...]
    columns: tuple[StateColumn, ...]
    families: tuple[Family, ...]
    measures: tuple[Measure, ...]
    lanes: tuple[Lane, ...]
    outputs: tuple[Output, ...]
    bags: tuple[Lane, ...] = field(default=(), kw_only=True)

    @property
    def queries(self) -> tuple[QueryId, ...]:
        return tuple(dict.fromkeys(column.query for column in self.columns))

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(self.stream, self.path, self.scanned),)

    @property
    def scanned(self) -> tuple[Operand, ...]:
        """The distinct operands a map task must read for this operator."""
        inputs = (part for operand in self.inputs for part in operand.read)
        wanted = (self.event_time, *self.keys, *inputs, *(index.operand for index in self.operands))
        return tuple(dict.fromkeys(wanted))


@dataclass(frozen=True, slots=True)
class AggregationOperator(AggregatingOperator):
    """A shared windowed aggregation. The rows of one with a `product` are factors of that, and no results."""

    windows: tuple[Window, ...]
    product: str | None = None


@dataclass(frozen=True, slots=True)
class GroupingOperator(AggregationOperator):
    """A shared aggregation of joined rows: no stream is read for it, chains of the join operator `join` feed it.

    A tuple here is a joined row for one of its queries and windows. Its event time is the window's last moment, so
    windows are as long as their slide, and every column asks for its own query.
    """

    join: str = field(kw_only=True)

    @property
    def reads(self) -> tuple[Read, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class SessionOperator(AggregatingOperator):
    """A shared aggregation over sessions: `StateColumn.window` and `Output.window` index `gaps`, which ascend.

    A query's sessions are those of the tuples that its base column (its WHERE) accepts.
    """

    gaps: tuple[SessionWindow, ...]


@dataclass(frozen=True, slots=True)
class SelectionOperator:
    """Shared stateless filters: each accepted tuple is stored once with its query-set.

    `slots[i]` and `queries[i]` belong to `predicates[i]`; `families[j].columns` index these.
    """

    id: str
    stream: StreamName
    path: ScanPath
    signature: str
    outputs: tuple[Operand, ...]
    operands: tuple[OperandIndex, ...]
    queries: tuple[QueryId, ...]
    slots: tuple[int, ...]
    predicates: tuple[Predicate, ...]
    families: tuple[Family, ...]

    @property
    def clock(self) -> tuple[StreamName, ...]:
        return (self.stream,)

    @property
    def reads(self) -> tuple[Read, ...]:
        return (Read(self.stream, self.path, self.scanned),)

    @property
    def scanned(self) -> tuple[Operand, ...]:
        return tuple(dict.fromkeys((*self.outputs, *(index.operand for index in self.operands))))


@dataclass(frozen=True, slots=True)
class JoinFilter:
    """A query's predicate on an input that it joins for the `role`-th time, counted from 0."""

    query: QueryId
    slot: int
    role: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class JoinInput:
    """A stream as shared joins read it: each tuple is routed and kept once for all of its filters.

    `families[j].columns` index `filters`. `carried` is what a kept tuple holds besides its key and its event time.
    """

    id: str
    stream: StreamName
    path: ScanPath
    event_time: Operand
    keys: tuple[Operand, ...]
    carried: tuple[Operand, ...]
    operands: tuple[OperandIndex, ...]
    filters: tuple[JoinFilter, ...]
    families: tuple[Family, ...]

    @property
    def scanned(self) -> tuple[Operand, ...]:
        wanted = (self.event_time, *self.keys, *self.carried, *(index.operand for index in self.operands))
        return tuple(dict.fromkeys(wanted))


@dataclass(frozen=True, slots=True)
class InputRole:
    """An input in one of its roles: a self-join has the same input twice, in roles 0 and 1."""

    input: int
    role: int


@dataclass(frozen=True, slots=True)
class AcrossPositions:
    """`left op right` over operands that the tuples at two positions of a chain carry."""

    left_position: int
    left: Operand
    op: Op
    right_position: int
    right: Operand


@dataclass(frozen=True, slots=True)
class JoinedQuery:
    """A query that ends at a chain: its windows per position of the chain, and its conditions across positions.

    `called` is a condition on values of functions of joined tuples. What these are called with, an operand that the
    tuple at some position carries, is in `called_with`; `at_position` names it there.
    """

    query: QueryId
    slot: int
    windows: tuple[Window, ...]
    across: tuple[AcrossPositions, ...]
    called: Predicate = TRUE
    called_with: tuple[tuple[int, Operand], ...] = ()


def at_position(position: int, operand: Operand) -> Operand:
    """An operand of the tuple at one position of a chain, as one of joined rows."""
    return Operand(f"@{position} {operand.sql}", operand.type, operand.plain)


@dataclass(frozen=True, slots=True)
class JoinLeaf:
    """What stored rows name the tuples at one position of a chain by, whatever order they are joined in."""

    name: str
    role: int


@dataclass(frozen=True, slots=True)
class JoinHub:
    """Positions of a chain that meet on one key, ascending, each with the input that is spread by this key."""

    positions: tuple[int, ...]
    inputs: tuple[InputRole, ...]

    def input(self, position: int) -> InputRole:
        return self.inputs[self.positions.index(position)]


@dataclass(frozen=True, slots=True)
class JoinStep:
    """The next position that rows are joined with, by way of the input `met`.

    `hop` is None where its tuples have the key by which the rows are spread already. Else rows go to where the tuples
    of equal key are: `hop` is (a position that they have a tuple of, the input that has this key there).
    """

    position: int
    met: InputRole
    hop: tuple[int, InputRole] | None


@dataclass(frozen=True, slots=True)
class JoinChain:
    """Positions that are joined one after the other; chains that begin alike share that beginning.

    A position is in one hub or in several, which make a tree. The rows of `queries` are stored in the table
    `signature`, with `outputs` (position, operand) as its columns; or they are not stored, and `feeds` names the
    operator that aggregates them.
    """

    leaves: tuple[JoinLeaf, ...]
    hubs: tuple[JoinHub, ...]
    signature: str
    outputs: tuple[tuple[int, Operand], ...]
    queries: tuple[JoinedQuery, ...]
    feeds: str | None = None

    @property
    def positions(self) -> dict[InputRole, int]:
        """The position of each input by way of which one is met."""
        return {m: p for hub in self.hubs for p, m in zip(hub.positions, hub.inputs, strict=True)}

    def order(self, start: int) -> tuple[JoinStep, ...]:
        """How rows that begin with a tuple at `start` are joined: first what a hub has, in order, then on to the next.

        Of several hubs the one with the earliest position is next. Every hub but the first takes one hop.
        """
        left: set[int] = {*range(len(self.leaves))} - {start}

        def earliest(hub: JoinHub) -> int:
            return min(left & set(hub.positions))

        hub = min((hub for hub in self.hubs if start in hub.positions), key=earliest)
        steps = [JoinStep(start, hub.input(start), None)]
        hop: tuple[int, InputRole] | None = None
        while True:
            for position, met in zip(hub.positions, hub.inputs, strict=True):
                if position in left:
                    steps.append(JoinStep(position, met, hop))
                    left.remove(position)
                    hop = None
            if not left:
                return tuple(steps)
            hub = min(
                (h for h in self.hubs if 0 < len(left & set(h.positions)) < len(h.positions)), key=earliest
            )
            (source,) = set(hub.positions) - left
            hop = (source, hub.input(source))


@dataclass(frozen=True, slots=True)
class JoinOperator:
    """All shared joins of the same streams, whatever their keys: equal keys of all inputs are in one partition."""

    id: str
    inputs: tuple[JoinInput, ...]
    chains: tuple[JoinChain, ...]

    @property
    def joined(self) -> tuple[JoinedQuery, ...]:
        return tuple(query for chain in self.chains for query in chain.queries)

    @property
    def queries(self) -> tuple[QueryId, ...]:
        return tuple(query.query for query in self.joined)

    @property
    def clock(self) -> tuple[StreamName, ...]:
        return tuple(dict.fromkeys(input_.stream for input_ in self.inputs))

    @property
    def reads(self) -> tuple[Read, ...]:
        return tuple(Read(i.stream, i.path, i.scanned) for i in self.inputs)

    @property
    def levels(self) -> int:
        """How many stages one after the other it takes to join new tuples: one, and one more for each hop."""
        return max((len(chain.hubs) for chain in self.chains), default=1)


@dataclass(frozen=True, slots=True)
class Factor:
    """How an aggregate of joined rows follows from its side's rows.

    `column` is its value among the aggregates of side `side` (None: COUNT(*), which all sides make), `count` the COUNT
    of its input there for functions that need it. The first aggregate of every side is its COUNT(*).
    """

    function: AggregateFunction
    type: SqlType
    side: int | None
    column: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class ProductOutput:
    """Queries whose joined groups are made alike of rows of the sides' operators.

    Key i of a result row is key `keys[i][1]` of side `keys[i][0]`; rows of side j come for table `tables[j]`.
    """

    queries: tuple[QueryId, ...]
    sides: tuple[str, ...]
    tables: tuple[str, ...]
    keys: tuple[tuple[int, int], ...]
    factors: tuple[Factor, ...]
    signature: str


@dataclass(frozen=True, slots=True)
class ProductOperator:
    """Aggregations of joined rows by the join's key: products of aggregations of the sides, no row is ever joined.

    In a window and key, n tuples of one side and m of another make n * m rows: COUNT(*) is the product of the sides'
    counts, a SUM over one side is multiplied by the counts of the others, MIN, MAX and AVG stay.
    """

    id: str
    keys: int
    outputs: tuple[ProductOutput, ...]


@dataclass(frozen=True, slots=True)
class FallbackQuery:
    """A query that plain Spark runs over the log, and why."""

    query: QueryId
    streams: tuple[StreamName, ...]
    reason: str
    signature: str


Operator = AggregationOperator | SessionOperator | SelectionOperator | JoinOperator


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Everything a sharing group runs. `version` names the content: equal plans have equal versions."""

    version: str
    operators: tuple[Operator, ...]
    fallbacks: tuple[FallbackQuery, ...]
    products: tuple[ProductOperator, ...] = ()
