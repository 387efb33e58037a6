"""Streams and queries as the rest of the system sees them once their text has been understood."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NewType

from headrace.model.predicate import TRUE, Op, Operand, Predicate
from headrace.model.types import Column, SqlType
from headrace.model.window import AnyWindow, Window

QueryId = NewType("QueryId", int)
EpochId = NewType("EpochId", int)
StreamName = NewType("StreamName", str)

LOG_RELATION = "__headrace_log"
"""Name of the relation `log_sql` reads: the stream's columns plus CLOSED_COLUMN."""


def log_relation(stream: int) -> str:
    """The name of the relation for the query's stream of this number.

    >>> log_relation(0), log_relation(1)
    ('__headrace_log', '__headrace_log1')
    """
    return f"{LOG_RELATION}{stream or ''}"


CLOSED_COLUMN = "__headrace_closed"
"""BIGINT microseconds: the watermark before the tuple's epoch; windows that ended by then no longer count it."""

WINDOW_COLUMN = "__headrace_window"
"""The struct column that `log_sql` adds: the tuple's window or session."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A named input. `watermark_us` is the delay that event time may lag behind its maximum.

    A tuple dated more than `max_ahead_us` ahead of the clock does not move the watermark; with None, all move it.
    """

    name: StreamName
    columns: tuple[Column, ...]
    event_time: str
    watermark_us: int
    max_ahead_us: int | None = None

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


class AggregateFunction(Enum):
    COUNT_ALL = "count_all"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"
    MIN_BY = "min_by"
    MAX_BY = "max_by"
    COUNT_DISTINCT = "count_distinct"
    SUM_DISTINCT = "sum_distinct"
    AVG_DISTINCT = "avg_distinct"
    PERCENTILE = "percentile"
    COLLECT_SET = "collect_set"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate call; `filter` is its FILTER clause (not including the query's WHERE).

    MIN_BY and MAX_BY have a row (ordering, value) as their input. PERCENTILE has `fractions`, one for each percentile.
    """

    function: AggregateFunction
    input: Operand | None
    filter: Predicate
    type: SqlType
    fractions: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if (self.input is None) != (self.function is AggregateFunction.COUNT_ALL):
            raise ValueError(f"{self.function.value} with input {self.input}")


MAX_AGGREGATES = 500
"""A query may have so many aggregates, and so many FILTERs at most: ids of state columns have room for no more."""


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A windowed aggregation that the shared operator runs.

    A result row is `(window_start, window_end, k0.., a0..)`: keys and aggregates in the order given here. All of it is
    stored, but for the start of a window that is no session. `finish` holds one Spark SQL expression per output column
    over those names (a `window` struct is named through `named_struct('start', window_start, 'end', window_end)`), and
    `having` one boolean or None. `fragile` says that one of these may raise for some row: the engine tries them on new
    rows before an epoch counts.
    """

    window: AnyWindow
    where: Predicate
    keys: tuple[Operand, ...]
    aggregates: tuple[Aggregate, ...]
    finish: tuple[str, ...]
    having: str | None = None
    fragile: bool = False


@dataclass(frozen=True, slots=True)
class Projection:
    """A stateless filter and projection: every tuple that `where` accepts, once, late or not."""

    where: Predicate
    outputs: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One stream of a join: the windows of its tuples, and the predicate on it alone."""

    stream: StreamName
    window: Window
    where: Predicate


@dataclass(frozen=True, slots=True)
class Hub:
    """Sides that meet on one key, ascending: `keys[i]` is what side `sides[i]` has of it."""

    sides: tuple[int, ...]
    keys: tuple[tuple[Operand, ...], ...]

    def __post_init__(self) -> None:
        if len(self.sides) < 2 or len(self.sides) != len(self.keys) or len(set(map(len, self.keys))) != 1:
            raise ValueError("a hub has two sides or more, with equally many parts of its key")


@dataclass(frozen=True, slots=True)
class Carried:
    """What a joined row holds of one side, under the name that later expressions know it by."""

    name: str
    side: int
    operand: Operand


@dataclass(frozen=True, slots=True)
class Across:
    """`left op right` over two values that a joined row carries, of one type and of different sides."""

    left: int
    op: Op
    right: int


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """A join's rows, and what is made of them when they are read: `finish` has an expression per output column.

    All of it is Spark SQL over `window_start`, `window_end` and the carried names: `where` is a condition that the
    stored rows have not been asked yet, `groups` what they are grouped by (None: not at all), and `having` is about
    groups. `fragile` is as in Aggregation. `unshared` is set with `groups`: why no kernel can make these groups.
    """

    finish: tuple[str, ...]
    where: str | None = None
    groups: tuple[str, ...] | None = None
    having: str | None = None
    fragile: bool = False
    unshared: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """An inner equi-join of the tuples that are in one window together, and what is asked of its rows.

    The sides' windows have one slide and end together; their ranges may differ. The hubs make a tree of the sides: from
    each side there is one way to each other, from hub to hub by way of a side that is in both. An aggregation of the
    rows has keys, inputs and filters over carried names, as plain operands, and the window of the side with the longest
    range. `called` is a condition on values of functions of joined rows, over carried names. This is what the query
    means. Whether rows are joined for it is for `planner/strategies` to say.
    """

    sides: tuple[JoinSide, ...]
    hubs: tuple[Hub, ...]
    carried: tuple[Carried, ...]
    across: tuple[Across, ...]
    then: JoinedRows | Aggregation
    called: Predicate = TRUE

    def __post_init__(self) -> None:
        ends = {(w.slide_us, (w.offset_us + w.range_us) % w.slide_us) for w in (s.window for s in self.sides)}
        if len(self.sides) < 2 or len(ends) != 1:
            raise ValueError("a join has two sides or more, of one slide, that end together")
        if not _is_tree(len(self.sides), self.hubs):
            raise ValueError("the hubs of a join connect each two of its sides in one way")

    def keys_of(self, side: int) -> tuple[tuple[Operand, ...], ...]:
        """The keys that a side is joined on, one for each hub it is in."""
        return tuple(hub.keys[hub.sides.index(side)] for hub in self.hubs if side in hub.sides)

    @property
    def window(self) -> Window:
        """The longest of the sides' windows: what `window_start` and `window_end` are the edges of."""
        return max((side.window for side in self.sides), key=lambda window: window.range_us)


def _is_tree(sides: int, hubs: tuple[Hub, ...]) -> bool:
    component = list(range(sides))
    for hub in hubs:
        found = {component[side] for side in hub.sides}
        if len(found) < len(hub.sides):
            return False
        component = [min(found) if known in found else known for known in component]
    return len(set(component)) == 1


@dataclass(frozen=True, slots=True)
class Fallback:
    """No shared operator covers it: plain Spark over the log, per closed window or (window None) per epoch."""

    reason: str
    window: AnyWindow | None


Body = Aggregation | Projection | Join | Fallback


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What a query's text means, before it has a name or a lifetime.

    `streams` are the streams it reads, each once. `plain_sql` is ordinary Spark SQL over the streams by their names.
    `log_sql` is the same over `log_relation(i)` for stream i; when the query has a window it drops late tuples by
    CLOSED_COLUMN and takes only windows that end in (:after, :until], both BIGINT microsecond parameters. Of sessions
    it takes only those that start after :began. `verbatim` says that `log_sql` is the query's own text in all but its
    relations and windows, and not a rendering of what we read in it. `functions` are the registered functions that it
    calls.
    """

    text: str
    streams: tuple[StreamName, ...]
    body: Body
    columns: tuple[Column, ...]
    plain_sql: str
    log_sql: str
    verbatim: bool = False
    functions: tuple[str, ...] = ()

    @property
    def stream(self) -> StreamName:
        """The first of its streams; the only one of a query without joins."""
        return self.streams[0]

    @property
    def window(self) -> AnyWindow | None:
        return None if isinstance(self.body, Projection) else self.body.window


@dataclass(frozen=True, slots=True)
class Needs:
    """What a person asked for a query: tuples per second that it gets at least, and how far it may be behind its input.

    None means: as good as alone. Groups with a query of higher `priority` are run first when the driver is short of
    threads.
    """

    min_rate: float | None = None
    max_latency_s: float | None = None
    priority: int = 0

    @property
    def asks(self) -> bool:
        """Whether there is something that a query may not get."""
        return self.min_rate is not None or self.max_latency_s is not None


NO_NEEDS = Needs()


@dataclass(frozen=True, slots=True)
class Query:
    """A query with its identity. `id` is never reused; slots are (see catalog)."""

    id: QueryId
    name: str
    plan: QueryPlan
    needs: Needs = NO_NEEDS
