"""Shared joins: their inputs, hubs and chains, and products of aggregations that stand for a join."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.plan.reads import Family, OperandIndex, Read, ScanPath
from headrace.model.predicate import TRUE, Op, Operand, Predicate
from headrace.model.query import AggregateFunction, QueryId, StreamName
from headrace.model.types import SqlType
from headrace.model.window import Window


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
