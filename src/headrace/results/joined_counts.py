"""How many rows a reader gets of a join whose stored rows only have to be put into windows (see `engine.joined`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headrace.catalog.queries import QueryEntry
from headrace.engine.joined import columns_of
from headrace.engine.stored import shared_rows
from headrace.model.query import Join, JoinedRows, Stream
from headrace.model.tables import EPOCH, LATE_US
from headrace.model.window import Window

_LEAST = -(2**62)

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CountedJoin:
    """A join query, the columns of its sides' event times, and the watermark up to which its windows have closed."""

    entry: QueryEntry
    body: Join
    times: tuple[str, ...]
    until_us: int


def counted_join(entry: QueryEntry, streams: Mapping[str, Stream], until_us: int) -> CountedJoin | None:
    """None when conditions or groups are left for a reader: then Spark has to look at the rows."""
    body = entry.query.plan.body
    if not isinstance(body, Join) or entry.slot is None:
        return None
    then = body.then
    if not isinstance(then, JoinedRows) or then.where is not None or then.groups is not None:
        return None
    times = tuple(column.name for column in columns_of(body, streams).times)
    return CountedJoin(entry, body, times, until_us)


def count_joined(path: Path, queries: Sequence[CountedJoin]) -> dict[int, int]:
    """The rows of each query that a file gives, once per window that has closed."""
    names = {shared_rows(query.entry).set_column for query in queries}
    names |= {name for query in queries for name in query.times}
    there = set(pq.read_schema(path).names)
    table = pq.read_table(path, columns=[EPOCH, LATE_US, *sorted(names & there)], memory_map=True)
    columns = {name: _micros(table.column(name)) for name in table.column_names}
    return {int(query.entry.query.id): _rows(query, columns) for query in queries}


def _micros(column: pa.ChunkedArray) -> Ints:
    # rows that were merged from a file with fewer slots have NULL query-sets
    return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy())


def _rows(query: CountedJoin, columns: Mapping[str, Ints]) -> int:
    window, mine = query.body.window, shared_rows(query.entry)
    if mine.set_column not in columns:
        return 0  # written when there were fewer slots
    rows = np.flatnonzero(mine.among(columns))
    moments = [columns[name][rows] for name in query.times]
    low = np.maximum.reduce([*moments, columns[LATE_US][rows]])
    reach = [m + side.window.range_us for m, side in zip(moments, query.body.sides, strict=True)]
    high = np.minimum(np.minimum.reduce(reach), max(query.until_us, _LEAST))
    return int(window_ends(window, low, high).sum())


def window_ends(window: Window, low: Ints, high: Ints) -> Ints:
    """How many windows end after `low`, and not after `high`."""
    phase, slide = (window.offset_us + window.range_us) % window.slide_us, window.slide_us
    found: Ints = np.maximum((high - phase) // slide - (low - phase) // slide, 0)
    return found
