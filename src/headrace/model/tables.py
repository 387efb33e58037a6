"""Result tables: the columns of stored rows, their types, how files hold them, and which rows are a query's.

There is one class for each kind of table. Whoever writes result rows or reads them asks here for names and types.

    WindowTable    (query, window_end, k0.., a0..)                a group of a window
    SessionTable   (query, window_start, window_end, k0.., a0..)  a group of a session
    TupleTable     (o_.., epoch, qs0..)                           a tuple that some query selects
    JoinedTable    (j_.., epoch, late_us, qs0..)                  a joined row that some query wants
    PlainTable     (c0.., query, epoch)                           a row that plain Spark made for a fallback

Rows of the first two kinds and of the last one name their query. The others are stored once for all queries that want
them, with the query-set in the words `qs0..`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, assert_never
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.model.predicate import Operand
from headrace.model.query import Aggregation
from headrace.model.types import BIGINT, TIMESTAMP, Column, SqlType
from headrace.model.window import AnyWindow, SessionWindow, Window

QUERY = "query"
"""The id of the query that a row is of."""

WINDOW_START = "window_start"
"""When the row's session began. Of other windows it is not stored, because it follows from the end."""

WINDOW_END = "window_end"
"""When the row's window or session ended."""

WINDOW_EDGES = {"start": WINDOW_START, "end": WINDOW_END}
"""Both edges, by the names of the fields of Spark's `window` struct."""

EPOCH = "epoch"
"""The epoch that stored the row."""

LATE_US = "late_us"
"""Only windows that end later than this hold the joined row, in microseconds."""

WORD = 64
"""Bits of one word of a query-set."""


def key_column(index: int) -> str:
    """The name of a grouping key, by its place in the query."""
    return f"k{index}"


def aggregate_column(index: int) -> str:
    """The name of an aggregate, by its place in the query."""
    return f"a{index}"


def set_column(word: int) -> str:
    """The name of one word of the query-set: it has the bits of the slots from `word * WORD` on."""
    return f"qs{word}"


def numbered_column(index: int) -> str:
    """The name of a finished column of a query, while it cannot have its own: that may be any text, also twice."""
    return f"c{index}"


def numbered_columns(count: int) -> list[str]:
    """The names of all finished columns of a query.

    >>> numbered_columns(3)
    ['c0', 'c1', 'c2']
    """
    return [numbered_column(i) for i in range(count)]


def output_column(operand: Operand) -> str:
    """The name of a selected value. Equal values have equal names in all plans."""
    return f"o_{crc32(f'{operand.plain}:{operand.type.name}:{operand.sql}'.encode()):08x}"


def joined_column(input_id: str, role: int, operand: Operand) -> str:
    """The name of what a joined row holds of one input. It does not depend on the order of the join."""
    return f"j_{crc32(f'{input_id}:{role}:{operand.plain}:{operand.type.name}:{operand.sql}'.encode()):08x}"


# tables


class ResultTable(ABC):
    """A result table as one reader or writer knows it: files may have more columns than `columns`."""

    __slots__ = ()

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The stored columns, each once."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def ddl(self) -> str:
        """The columns as Spark reads them.

        >>> WindowTable((SqlType("string"),), (BIGINT,)).ddl
        'query bigint, window_end timestamp, k0 string, a0 bigint'
        """
        return ", ".join(f"{column.name} {column.type.ddl}" for column in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow writes them."""
        return with_required(pa.schema([(column.name, column.type.arrow) for column in self.columns]))

    def rows(self, arrays: Sequence[pa.Array]) -> pa.Table:
        """Stored rows from the values of all columns, in their order and of their types."""
        return pa.table(arrays, names=self.names)


@dataclass(frozen=True, slots=True)
class WindowTable(ResultTable):
    """Groups of windows: all queries with keys and aggregates of these types share it."""

    keys: tuple[SqlType, ...]
    aggregates: tuple[SqlType, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column(QUERY, BIGINT), Column(WINDOW_END, TIMESTAMP), *self.values)

    @property
    def values(self) -> tuple[Column, ...]:
        """Keys and aggregates."""
        keys = (Column(key_column(i), type_) for i, type_ in enumerate(self.keys))
        aggregates = (Column(aggregate_column(i), type_) for i, type_ in enumerate(self.aggregates))
        return (*keys, *aggregates)

    @property
    def signature(self) -> str:
        """The name of the table.

        >>> WindowTable((BIGINT,), (SqlType("double"), SqlType("decimal(10,2)"))).signature
        'windows-bigint-by-double-decimal_10_2'
        """
        return _signature("windows", self.keys, self.aggregates)


@dataclass(frozen=True, slots=True)
class SessionTable(WindowTable):
    """Groups of sessions: these also say when they started."""

    @property
    def columns(self) -> tuple[Column, ...]:
        edges = (Column(WINDOW_START, TIMESTAMP), Column(WINDOW_END, TIMESTAMP))
        return (Column(QUERY, BIGINT), *edges, *self.values)

    @property
    def signature(self) -> str:
        """The name of the table.

        >>> SessionTable((), (BIGINT,)).signature
        'sessions-all-by-bigint'
        """
        return _signature("sessions", self.keys, self.aggregates)


@dataclass(frozen=True, slots=True)
class TupleTable(ResultTable):
    """Selected tuples: each is stored once, with the query-set. `words` are the words of it that are at hand."""

    outputs: tuple[Operand, ...]
    words: tuple[int, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        found = {name: Column(name, o.type) for o in self.outputs for name in (output_column(o),)}
        return (*found.values(), Column(EPOCH, BIGINT), *_sets(self.words))


@dataclass(frozen=True, slots=True)
class JoinedTable(ResultTable):
    """Joined rows: each is stored once, with the query-set. `carried` is what a row holds of the inputs' tuples."""

    carried: tuple[Column, ...]
    words: tuple[int, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        found = dict.fromkeys(self.carried)
        return (*found, Column(EPOCH, BIGINT), Column(LATE_US, BIGINT), *_sets(self.words))


@dataclass(frozen=True, slots=True)
class PlainTable(ResultTable):
    """Rows of fallbacks, with all columns finished."""

    types: tuple[SqlType, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        finished = (Column(numbered_column(i), type_) for i, type_ in enumerate(self.types))
        return (*finished, Column(QUERY, BIGINT), Column(EPOCH, BIGINT))

    @property
    def signature(self) -> str:
        """The name of the table.

        >>> PlainTable((BIGINT,)).signature
        'plain-windows-all-by-bigint'
        """
        return f"plain-{_signature('windows', (), self.types)}"


def table_of(body: Aggregation) -> WindowTable:
    """The table that holds the rows of an aggregation."""
    return window_table(body.window, (k.type for k in body.keys), (a.type for a in body.aggregates))


def window_table(window: AnyWindow, keys: Iterable[SqlType], aggregates: Iterable[SqlType]) -> WindowTable:
    """The table for groups of such windows, with keys and aggregates of these types."""
    match window:
        case SessionWindow():
            return SessionTable(tuple(keys), tuple(aggregates))
        case Window():
            return WindowTable(tuple(keys), tuple(aggregates))
        case never:
            assert_never(never)


def _sets(words: Iterable[int]) -> tuple[Column, ...]:
    return tuple(Column(set_column(word), BIGINT) for word in words)


def _signature(rows: str, keys: Iterable[SqlType], aggregates: Iterable[SqlType]) -> str:
    """What the rows are of, and their types. Long names are shortened to a checksum."""
    parts = ["-".join(re.sub(r"\W+", "_", t.name).strip("_") for t in types) for types in (keys, aggregates)]
    name = f"{rows}-{parts[0] or 'all'}-by-{parts[1] or 'none'}"
    return name if len(name) <= 120 else f"{rows}-{crc32(name.encode()):08x}"


# whose row is whose


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows of one query in a table whose rows name their query."""

    query: int

    @property
    def sql(self) -> str:
        """The condition that Spark asks of a row.

        >>> NamedRows(7).sql
        'query = 7L'
        """
        return f"{QUERY} = {self.query}L"


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The rows of one query in a table whose rows have query-sets.

    A slot is used again after its query, so the bit counts only in the epochs [first_epoch, last_epoch) of this query
    (None: it still runs).
    """

    slot: int
    first_epoch: int
    last_epoch: int | None = None

    @property
    def word(self) -> int:
        """The word of the query-set that has the query's bit."""
        return self.slot // WORD

    @property
    def set_column(self) -> str:
        return set_column(self.word)

    def since(self, epoch: int) -> SharedRows:
        """The rows among these that were stored in this epoch or later."""
        return replace(self, first_epoch=max(self.first_epoch, epoch))

    @property
    def sql(self) -> str:
        """The condition that Spark asks of a row.

        >>> SharedRows(70, 3, 9).sql
        'getbit(qs1, 6) = 1 AND epoch >= 3L AND epoch < 9L'
        """
        ended = "" if self.last_epoch is None else f" AND {EPOCH} < {self.last_epoch}L"
        return f"getbit({self.set_column}, {self.slot % WORD}) = 1 AND {EPOCH} >= {self.first_epoch}L{ended}"

    def among(self, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Which rows are the query's, by their epochs and the word of their query-sets.

        >>> SharedRows(1, 3).among({"qs0": np.array([2, 1, 3]), "epoch": np.array([3, 3, 2])}).tolist()
        [True, False, False]
        """
        words, epochs = columns[self.set_column].view(np.uint64), columns[EPOCH]
        mine = (words >> np.uint64(self.slot % WORD)) & np.uint64(1) == 1
        mine &= epochs >= self.first_epoch
        if self.last_epoch is not None:
            mine &= epochs < self.last_epoch
        return np.asarray(mine)


# how files hold columns


class Holding(Enum):
    """How a file holds a column.

    Values that repeat are in a dictionary, in which runs cost almost nothing. Integers that vary are split into their
    bytes: the lowest ones of all values come first, and so on. Most of the others are alike, and a codec is quick with
    them. Bare values stay as they are, because nothing makes them smaller. A codec compresses what is left: at once, or
    when files are merged, where it takes longer than all the rest of a file.
    """

    REPEATS = "repeats"
    SPLIT = "split"
    BARE = "bare"
    COMPRESSED = "compressed"
    LATER = "compressed when merged"


def with_required(schema: pa.Schema) -> pa.Schema:
    """The columns of result rows, where those that are never NULL say so: a file need not note it row by row.

    >>> schema = with_required(pa.schema([("query", pa.int64()), ("k0", pa.int64())]))
    >>> [field.nullable for field in schema]
    [False, True]
    """
    return pa.schema([field.with_nullable(_REQUIRED.fullmatch(field.name) is None) for field in schema])


_REQUIRED = re.compile(rf"{QUERY}|{WINDOW_START}|{WINDOW_END}|{EPOCH}|{LATE_US}|qs\d+")


def holdings(schema: pa.Schema) -> dict[str, Holding]:
    """How a file of result rows holds each of its columns."""
    joined = LATE_US in schema.names
    return {field.name: _holding(field, joined) for field in schema}


def _holding(field: pa.Field, joined: bool) -> Holding:
    found = next((rule for pattern, rule in _HELD if pattern.fullmatch(field.name)), None)
    if found is None:
        raise ValueError(f"no result table has a column {field.name}")
    return found(field.type, joined)


def _key(type_: pa.DataType, joined: bool) -> Holding:
    # a reader may look a constant up in a dictionary, where it does not find 0.0 when the value is -0.0
    if pa.types.is_floating(type_):
        return Holding.COMPRESSED
    # whole numbers are split: where keys are many, a dictionary of them takes longer than all the rest of a file
    return Holding.SPLIT if type_ in (pa.int32(), pa.int64()) else Holding.REPEATS


def _aggregate(type_: pa.DataType, joined: bool) -> Holding:
    if pa.types.is_floating(type_):
        return Holding.LATER
    return Holding.SPLIT if type_ == pa.int64() else Holding.COMPRESSED


def _carried(type_: pa.DataType, joined: bool) -> Holding:
    packs = type_ in (pa.int32(), pa.int64()) or pa.types.is_timestamp(type_)
    return Holding.SPLIT if packs else Holding.COMPRESSED


def _set(type_: pa.DataType, joined: bool) -> Holding:
    """Query-sets of tuples repeat. Of those of joined rows this cannot be said before they are there."""
    return Holding.BARE if joined else Holding.REPEATS


_HELD: tuple[tuple[re.Pattern[str], Callable[[Any, bool], Holding]], ...] = (
    (re.compile(f"{QUERY}|{WINDOW_END}|{EPOCH}|{LATE_US}"), lambda type_, joined: Holding.REPEATS),
    (re.compile(r"qs\d+"), _set),
    (re.compile(r"k\d+"), _key),
    (re.compile(r"a\d+"), _aggregate),
    (re.compile("j_[0-9a-f]{8}"), _carried),
    (re.compile(rf"{WINDOW_START}|c\d+|o_[0-9a-f]{{8}}"), lambda type_, joined: Holding.COMPRESSED),
)
"""The columns of all tables by their names, and how each is held."""
