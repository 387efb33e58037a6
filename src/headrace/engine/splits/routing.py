"""Splitters: where each tuple goes, and tuples in the order in which the operators get them. No files, no Spark.

Order is by event time, then by the columns of `order_by`, then by epoch, and then by the place in it (chunk and row).
It depends on the tuples alone, so that results do not depend on how many splitters there are or how they cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.engine.splits.calls import calling
from headrace.engine.splits.code import RowFunction
from headrace.engine.splits.faults import bad_broadcast, bad_route, changing_route
from headrace.engine.splits.instances import one_batch
from headrace.model.splits import ALL, NOTHING, Counts, Split
from headrace.operators.common.encode import decoded

Ints = NDArray[np.int64]

POSITION = "__headrace_position"
ROUTED, SPREAD = "__headrace_route", "__headrace_broadcast"
"""Columns that splitters add to tuples: the place in the epoch, and what Spark computed of route and broadcast."""

CHUNK_ROWS = 1 << 40
"""The position of a row is its number in its chunk, and so much for each chunk of the epoch before it."""

NOWHERE = -2
"""The place of tuples that nobody gets."""

CHECKED_ROWS = 256
"""So many rows of a task's first window are asked for twice, to find routes that do not depend on the row alone."""

_RANGES = b"ranges"


def plain_column(text: str | None, columns: Sequence[str]) -> str | None:
    """The column of a stream that an expression is; None when it is no plain column.

    >>> plain_column(" `XWAY` ", ["Time", "XWay"]), plain_column("XWay % 2", ["XWay"])
    ('XWay', None)
    """
    bare = "" if text is None else text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == "`":
        bare = bare[1:-1].replace("``", "`")
    return next((column for column in columns if column.lower() == bare.lower()), None)


@dataclass(slots=True)
class Router:
    """Evaluates the route and broadcast of one split, window by window."""

    split: Split
    route: RowFunction | str | None
    broadcast: RowFunction | str | None
    """A function, or the column that has the values."""
    hidden: frozenset[str] = frozenset((POSITION, ROUTED, SPREAD))
    _checked: bool = False

    def places(self, window: pa.Table) -> Ints:
        """For each tuple: the number of its sub-stream, ALL or NOWHERE."""
        found = np.full(window.num_rows, NOWHERE, np.int64)
        if not window.num_rows:
            return found
        batch = one_batch(window.select([n for n in window.column_names if n not in self.hidden]))
        routes = self._asked("route", self.route, window, batch)
        if routes is not None:
            numbers, known = self._numbers(routes)
            found[known] = numbers[known]
        spread = self._asked("broadcast", self.broadcast, window, batch)
        if spread is not None:
            found[self._truths(spread)] = ALL
        self._checked = True
        return found

    def _asked(
        self, what: str, given: RowFunction | str | None, window: pa.Table, batch: pa.RecordBatch
    ) -> Any:
        if given is None or isinstance(given, str):
            return None if given is None else window.column(given)
        with calling(self.split, f"the {what}"):
            values = _read(given(batch), batch.num_rows)
            again = None if self._checked else _read(given(batch.slice(0, CHECKED_ROWS)), CHECKED_ROWS)
        array = self._array(what, values, batch.num_rows)
        if again is not None:
            first = self._array(what, again, min(batch.num_rows, CHECKED_ROWS))
            if not _same(array[: len(first)], first):
                raise changing_route(self.split.name, what)
        return array

    def _array(self, what: str, values: Any, rows: int) -> pa.Array | pa.ChunkedArray:
        bad = bad_route if what == "route" else bad_broadcast
        try:
            array = (
                values
                if isinstance(values, pa.Array | pa.ChunkedArray)
                else pa.array(values, from_pandas=True)
            )
        except Exception as error:  # Arrow raises several kinds, and values of other libraries their own
            raise bad(self.split, f"no column of values: {error}") from error
        if len(array) != rows:
            raise bad(self.split, f"{len(array)} values for {rows} tuples")
        return array

    def _numbers(self, values: pa.Array | pa.ChunkedArray) -> tuple[Ints, NDArray[np.bool_]]:
        """Sub-streams, and for which tuples there is one."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        known = np.asarray(values.is_valid())
        try:
            numbers = np.asarray(_as_numbers(values).cast(pa.int64()).fill_null(0))
        except pa.ArrowException:
            raise bad_route(self.split, f"values of type {values.type}, not whole numbers") from None
        wrong = known & ((numbers < 0) | (numbers >= self.split.sub_streams))
        if wrong.any():
            at = int(np.argmax(wrong))
            last = self.split.sub_streams - 1
            raise bad_route(self.split, f"sub-stream {numbers[at]}, and there are only 0 to {last}")
        return numbers, known

    def _truths(self, values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
        if not pa.types.is_boolean(values.type) and not pa.types.is_null(values.type):
            raise bad_broadcast(self.split, f"values of type {values.type}, not truth values")
        return np.asarray(values.cast(pa.bool_()).fill_null(False), dtype=bool)


def _read(values: Any, rows: int) -> Any:
    """What a function gave, with all of its values: they are to be made within its time. One too many is enough."""
    return list(islice(values, rows + 1)) if isinstance(values, Iterator) else values


def _as_numbers(values: pa.Array) -> pa.Array:
    """Whole numbers, or what others make of them where some are missing; ArrowInvalid for the rest."""
    values = decoded(values)
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return values
    if pa.types.is_null(kind):
        return values
    raise pa.ArrowInvalid(f"{kind} is no number")


@dataclass(slots=True)
class Splitter:
    """Takes in windows of tuples in any order; gives those that are due and those that wait, each sorted by place."""

    router: Router
    event_time: str
    closed_us: int
    watermark_us: int
    late_us: Ints | None = None
    """For each chunk the time before which its tuples are late; None: `closed_us` for all."""
    counts: Counts = NOTHING
    _due: list[tuple[pa.Table, Ints, Ints]] = field(default_factory=list)
    _waiting: list[tuple[pa.Table, Ints, Ints]] = field(default_factory=list)

    def take(self, window: pa.Table) -> None:
        """Route the tuples of a window, which has POSITION."""
        places = self.router.places(window)
        times = microseconds(window.column(self.event_time))
        known = np.asarray(pc.is_valid(window.column(self.event_time)))
        wanted = (places != NOWHERE) & known
        late = wanted & (times < self._late_before(window))
        taken = wanted & ~late
        due = taken & (times < self.watermark_us)
        everywhere = int(np.count_nonzero(taken & (places == ALL)))
        self.counts += Counts(
            read=window.num_rows,
            routed=int(np.count_nonzero(taken)) - everywhere,
            broadcast=everywhere,
            omitted=window.num_rows - int(np.count_nonzero(wanted)),
            late=int(np.count_nonzero(late)),
        )
        for mask, into in ((due, self._due), (taken & ~due, self._waiting)):
            if mask.any():
                shipped = window.drop_columns([n for n in (ROUTED, SPREAD) if n in window.column_names])
                rows = shipped if mask.all() else shipped.filter(pa.array(mask))
                into.append((rows, places[mask], times[mask]))

    def _late_before(self, window: pa.Table) -> Ints | int:
        if self.late_us is None:
            return self.closed_us
        limits: Ints = self.late_us[window.column(POSITION).to_numpy() // CHUNK_ROWS]
        return limits

    def due(self) -> tuple[pa.Table, tuple[int, int]] | None:
        """The tuples that the watermark has passed, by place and in order; and their least and largest time."""
        return self._sorted(self._due)

    def waiting(self) -> tuple[pa.Table, tuple[int, int]] | None:
        return self._sorted(self._waiting)

    def _sorted(self, found: list[tuple[pa.Table, Ints, Ints]]) -> tuple[pa.Table, tuple[int, int]] | None:
        if not found:
            return None
        table = pa.concat_tables([rows for rows, _, _ in found])
        places, times = (np.concatenate([some[i] for some in found]) for i in (1, 2))
        position = table.column(POSITION).to_numpy()
        order = ordering(table, self.router.split.order_by, [position], times, places)
        sorted_places = places if order is None else places[order]
        table = table if order is None else table.take(pa.array(order))
        starts = np.flatnonzero(np.diff(sorted_places, prepend=sorted_places[0] - 1))
        ends = [*starts[1:].tolist(), len(sorted_places)]
        ranges = {
            str(int(sorted_places[start])): (int(start), int(end - start))
            for start, end in zip(starts.tolist(), ends, strict=True)
        }
        table = table.replace_schema_metadata({_RANGES: json.dumps(ranges).encode()})
        return table, (int(times.min()), int(times.max()))


Ranges = dict[int, tuple[int, int]]
"""The first row and the number of rows of each place."""


def ranges_of(table: pa.Table) -> Ranges:
    """Which rows are for which place in what a splitter gave."""
    found = json.loads(table.schema.metadata[_RANGES])
    return {int(place): (start, rows) for place, (start, rows) in found.items()}


def ordering(
    table: pa.Table, order_by: Sequence[str], came: Sequence[Ints], times: Ints, places: Ints | None = None
) -> Ints | None:
    """The order of rows by place, time, `order_by` and where they came from; None when they are in that order.

    `came` is positions, or positions and then epochs: what weighs least is first, as in numpy's lexsort.
    """
    last = [] if places is None else [places]
    if not order_by:
        keys = [*came, times, *last]
        if _in_order(keys):
            return None
        if places is not None and _in_order(keys[:-1]):
            return np.argsort(_narrow(places), kind="stable")
        return np.lexsort(keys)
    named = [*last, times, *(table.column(name) for name in order_by), *reversed(came)]
    keyed = pa.table({str(i): column for i, column in enumerate(named)})
    wanted = [(str(i), "ascending") for i in range(len(named))]
    return np.asarray(pc.sort_indices(keyed, sort_keys=wanted), dtype=np.int64)


def _narrow(places: Ints) -> NDArray[np.integer[Any]]:
    """Places as small numbers where they are small: numpy sorts these by counting, ten times as fast."""
    small = np.iinfo(np.int16)
    return places.astype(np.int16) if len(places) and places.max() <= small.max else places


def _in_order(keys: Sequence[Ints]) -> bool:
    """Whether rows are sorted by keys, the last one first."""
    undecided = np.ones(max(len(keys[0]) - 1, 0), bool)
    for key in reversed(keys):
        later, earlier = key[1:], key[:-1]
        if (undecided & (later < earlier)).any():
            return False
        undecided &= later == earlier
    return True


def microseconds(times: pa.ChunkedArray) -> Ints:
    """Event times as numbers; 0 for NULL."""
    return np.asarray(times.cast(pa.int64()).fill_null(0).to_numpy(), dtype=np.int64)


def _same(left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> bool:
    def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values

    return bool(plain(left).to_pylist() == plain(right).to_pylist())
