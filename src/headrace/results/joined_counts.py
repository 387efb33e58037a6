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
from headrace.model.predicate import Operand
from headrace.model.query import Join, JoinedRows, QueryId, Stream
from headrace.model.window import Window
from headrace.operators.common.bitrows import WORD
from headrace.planner.joins import Joining
from headrace.planner.signatures import joined_column

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
    times = []
    for side, (input_, role) in zip(body.sides, Joining(QueryId(0), entry.slot, body).members, strict=True):
        stream = streams[side.stream]
        operand = Operand(stream.event_time, stream.column(stream.event_time).type)
        times.append(joined_column(input_, role, operand))
    return CountedJoin(entry, body, tuple(times), until_us)


def count_joined(path: Path, queries: Sequence[CountedJoin]) -> dict[int, int]:
    """The rows of each query that a file gives, once per window that has closed."""
    names = {f"qs{query.entry.slot // WORD}" for query in queries if query.entry.slot is not None}
    names |= {name for query in queries for name in query.times}
    there = set(pq.read_schema(path).names)
    table = pq.read_table(path, columns=["epoch", "late_us", *sorted(names & there)], memory_map=True)
    columns = {name: _micros(table.column(name)) for name in table.column_names}
    return {int(query.entry.query.id): _rows(query, columns) for query in queries}


def _micros(column: pa.ChunkedArray) -> Ints:
    # rows that were merged from a file with fewer slots have NULL query-sets
    return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy())


def _rows(query: CountedJoin, columns: Mapping[str, Ints]) -> int:
    entry, window = query.entry, query.body.window
    assert entry.slot is not None and entry.first_epoch is not None
    word, bit = divmod(entry.slot, WORD)
    if f"qs{word}" not in columns:
        return 0  # written when there were fewer slots
    mine = (columns[f"qs{word}"].view(np.uint64) >> np.uint64(bit)) & np.uint64(1) == 1
    mine &= columns["epoch"] >= int(entry.first_epoch)
    if entry.last_epoch is not None:
        mine &= columns["epoch"] < int(entry.last_epoch)
    rows = np.flatnonzero(mine)
    moments = [columns[name][rows] for name in query.times]
    low = np.maximum.reduce([*moments, columns["late_us"][rows]])
    reach = [m + side.window.range_us for m, side in zip(moments, query.body.sides, strict=True)]
    high = np.minimum(np.minimum.reduce(reach), max(query.until_us, _LEAST))
    return int(window_ends(window, low, high).sum())


def window_ends(window: Window, low: Ints, high: Ints) -> Ints:
    """How many windows end after `low`, and not after `high`."""
    phase, slide = (window.offset_us + window.range_us) % window.slide_us, window.slide_us
    found: Ints = np.maximum((high - phase) // slide - (low - phase) // slide, 0)
    return found
