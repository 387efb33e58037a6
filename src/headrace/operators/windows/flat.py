"""Partials of the spans of all windows, in one pass for each lane.

This is for lanes of whole numbers that are added or compared; `grid` makes others of one window after the other.
Partials of a lane are flat: of one window after the other, and in each [entry, span, key].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import as_given, ordered_by_row
from headrace.operators.compiled.spans import (
    add_slices,
    add_stored_rows,
    keep_slices,
    keep_stored_rows,
    match_ids,
    place_rows,
)
from headrace.operators.compiled.storing import list_live, pick_stored, span_of_windows
from headrace.operators.windows.folding import Folded, KeyBlock
from headrace.operators.windows.held import HeldSegment
from headrace.operators.windows.lanes import CountLogic, ExtremeLogic, IntSumLogic
from headrace.operators.windows.lanes.extremes import LEAST, nothing_in
from headrace.operators.windows.packed import PackedLane, PackedPart
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.spans import Spans
from headrace.operators.windows.sums import NARROW, SliceSums

OVERLAPPING = 4
"""Partials of spans that overlap more than this are put together from those of spans that overlap less."""


@dataclass(slots=True)
class StoredRows:
    """The rows that a segment has of a block of keys, window by window: those of window w are [of[w], of[w + 1]).

    `blocks[w]` is the number of the segment's block (-1: none), and `rows` are positions in it. There are `count` keys.
    """

    held: HeldSegment
    count: int
    blocks: Ints
    of: Ints
    rows: Ints
    keys: Ints
    slices: Ints

    @classmethod
    def of_keys(cls, logic: AggregationLogic, held: HeldSegment, block: KeyBlock) -> StoredRows:
        numbers = {stored.window: i for i, stored in enumerate(held.segment.blocks)}
        blocks = np.array([numbers.get(window, -1) for window in logic.operator.windows], np.int64)
        found = [held.segment.blocks[i] for i in blocks[blocks >= 0].tolist()]
        each = [np.arange(len(b.keys)) if block.whole else held.rows_of(b, block) for b in found]
        counts = np.zeros(len(blocks), np.int64)
        counts[blocks >= 0] = [len(rows) for rows in each]
        none = np.empty(0, np.int64)
        keys = [b.keys if block.whole else b.keys[rows] for b, rows in zip(found, each, strict=True)]
        slices = [b.slices if block.whole else b.slices[rows] for b, rows in zip(found, each, strict=True)]
        of_key = held.ids[np.concatenate([none, *keys]).astype(np.int64, copy=False)] - block.first
        of = np.append(0, np.cumsum(counts))
        rows, starts = np.concatenate([none, *each]), np.concatenate([none, *slices])
        return cls(held, block.count, blocks, of, rows, of_key, starts)

    def distinct(self) -> tuple[Ints, Ints]:
        """(window, slice) of all rows, each once at least."""
        known = np.flatnonzero(self.blocks >= 0).tolist()
        slices = [self.held.segment.blocks[int(self.blocks[w])].distinct_slices for w in known]
        counts = [len(some) for some in slices]
        return np.repeat(known, counts).astype(np.int64), np.concatenate([np.empty(0, np.int64), *slices])

    def lane(self, name: str) -> PackedLane | None:
        """A lane of the segment's blocks."""
        return self.held.lane(name)

    def is_plain(self, name: str) -> bool:
        """Whether a lane has nothing but whole numbers, one for each row."""
        lane = self.lane(name)
        return lane is None or (list(lane.parts) == ["v"] and bool((lane.parts["v"].types <= 8).all()))


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows of a segment that are in some spans, in runs of those that are in the same ones.

    The rows of run r are [bounds[r], bounds[r + 1]). It is in the spans [first[r], last[r]) of its window, and the runs
    of the window number first_window + i are [of[i], of[i + 1]).
    """

    stored: StoredRows
    first_window: int
    rows: Ints
    keys: Ints
    bounds: Ints
    first: Ints
    last: Ints
    of: Ints

    @classmethod
    def among(cls, stored: StoredRows, spans: Spans) -> PlacedRows:
        where = stored.of[spans.first : spans.first + len(spans.of)]
        some = slice(int(where[0]), int(where[-1]))
        slices, of = as_given(stored.slices[some]), where - where[0]
        first, last = np.empty(len(slices), np.int32), np.empty(len(slices), np.int32)
        place_rows(slices, of, spans.low, spans.high, spans.of, first, last)
        # both ends grow with the slice, so their sum tells rows apart that are in other spans
        codes = np.repeat(2 * spans.of[:-1] + np.arange(len(of) - 1), np.diff(of)) + first + last
        size = 2 * int(spans.of[-1]) + len(of)
        codes[first == last] = size
        order, bounds = ordered_by_row(codes, size + 1)
        runs = np.flatnonzero(np.diff(bounds[:-1]))
        heads, windows = order[bounds[runs]], 2 * spans.of + np.arange(len(of))
        order = order[: bounds[-2]]
        each = (first[heads].astype(np.int64), last[heads].astype(np.int64), np.searchsorted(runs, windows))
        ends = np.append(bounds[runs], len(order))
        return cls(stored, spans.first, stored.rows[some][order], stored.keys[some][order], ends, *each)

    def arguments(self, logic: AggregationLogic, lane: int, spans: Spans) -> tuple[Any, ...] | None:
        """What kernels are told of a lane; None when nothing of it is asked for."""
        found = self.stored.lane(logic.names[lane])
        if found is None or len(self.rows) == 0:
            return None
        last = self.first_window + len(spans.of) - 1
        blocks = self.stored.blocks[self.first_window : last]
        known, at = blocks >= 0, np.maximum(blocks, 0)
        begin = np.stack([found.entries[at], np.where(known, found.entries[at + 1], found.entries[at])], 1)
        entries = logic.entry_bounds(lane, self.first_window, last)
        wanted, places = np.empty(len(found.ids), np.int64), np.empty(len(found.ids), np.int64)
        bounds = np.empty(len(entries), np.int64)
        match_ids(logic.ids[lane], entries, found.ids, begin.ravel(), wanted, places, bounds)
        if bounds[-1] == 0:
            return None
        part = found.parts["v"]
        width = np.where(known, part.types[at], 0).astype(np.uint8)
        length = np.array([len(b.keys) for b in self.stored.held.segment.blocks], np.int64)[at]
        rows = (self.rows, self.keys, self.bounds, self.first, self.last, self.of)
        here = (entries, spans.of, self.stored.count)
        return (*part.numbers, width, part.firsts[at], length, wanted, places, bounds, *rows, *here)

    def most(self, name: str) -> int:
        """No sum of stored partials of a lane is further from 0, for one entry, key and span."""
        found = self.stored.lane(name)
        if found is None or len(self.rows) == 0:
            return 0
        slices = [len(block.distinct_slices) for block in self.stored.held.segment.blocks]
        widths = np.maximum(found.parts["v"].types, 1).tolist()
        return max(count << (8 * width - 1) for count, width in zip(slices, widths, strict=True))


@dataclass(frozen=True, slots=True)
class Flat:
    """What a block of keys has, of all windows: this epoch's partials and those that are stored."""

    logic: AggregationLogic
    folded: Folded | None
    stored: Sequence[StoredRows]
    count: int

    def is_plain(self, lane: int) -> bool:
        """Whether a lane is made here: it has whole numbers alone, which are added or compared."""
        if not isinstance(self.logic.lanes[lane], CountLogic | IntSumLogic | ExtremeLogic):
            return False
        fresh = None if self.folded is None else self.folded.lanes[lane]
        plain = fresh is None or isinstance(fresh, SliceSums) or len(fresh) == 1
        return plain and all(one.is_plain(self.logic.names[lane]) for one in self.stored)

    def overlapping(self, spans: Spans) -> bool:
        """Whether slices are in many spans each."""
        taken = least = len(spans.low)
        if self.folded is not None:
            first, last = self._slices(spans)
            taken, least = taken + int((last - first).sum()), least + len(self.folded.starts) * len(spans.of)
        for stored in self.stored:
            w, slices = stored.distinct()
            of = np.searchsorted(w, np.arange(len(spans.of)))
            begin, end = np.empty(len(slices), np.int32), np.empty(len(slices), np.int32)
            place_rows(slices, of, spans.low, spans.high, spans.of, begin, end)
            taken, least = taken + int((end - begin).sum()), least + len(slices)
        return taken > OVERLAPPING * least

    def has(self, lane: int, placed: Sequence[PlacedRows]) -> bool:
        """Whether a lane is anything but zero."""
        fresh = self.folded is not None and self.folded.lanes[lane] is not None
        return fresh or any(one.stored.lane(self.logic.names[lane]) is not None for one in placed)

    def partials(self, lane: int, spans: Spans, placed: Sequence[PlacedRows]) -> Ints:
        """The partials of a lane."""
        one = self.logic.lanes[lane]
        last = spans.first + len(spans.of) - 1
        entries = self.logic.entry_bounds(lane, spans.first, last)
        size = int((np.diff(entries) * spans.counts).sum()) * self.count
        added = [found for each in placed if (found := each.arguments(self.logic, lane, spans)) is not None]
        stored = sum(each.most(self.logic.names[lane]) for each in placed)
        into = self._fresh(lane, spans, entries, size, stored)
        for arguments in added:
            if isinstance(one, ExtremeLogic):
                keep_stored_rows(*(*arguments, one.least, into))
            else:
                add_stored_rows(*(*arguments, into))
        return into

    def _fresh(self, lane: int, spans: Spans, entries: Ints, size: int, stored: int) -> Ints:
        """What this epoch's tuples give, in 32 bits where sums are so small, with up to so much that is `stored`."""
        one, found = self.logic.lanes[lane], None if self.folded is None else self.folded.lanes[lane]
        if found is None or self.folded is None:
            nothing = one.nothing if isinstance(one, ExtremeLogic) else 0
            return np.full(size, nothing, np.int64)
        first, last = self._slices(spans)
        if isinstance(found, SliceSums):
            into = np.empty(size, np.int32 if found.most + stored < NARROW else np.int64)
            found.put_spans(entries, spans.of, first, last, into)
            return into
        into = np.empty(size, np.int64)
        keys, bounds = self.folded.keys, self.folded.bounds
        if self.folded.dense:
            keys = keys[:0]
        some = (found["v"], keys, bounds, self.count, entries, spans.of, first, last)
        if isinstance(one, ExtremeLogic):
            keep_slices(*some, one.least, one.nothing, into)
        else:
            add_slices(*some, into)
        return into

    def _slices(self, spans: Spans) -> tuple[Ints, Ints]:
        """This epoch's slices that each span is made of."""
        assert self.folded is not None
        first, last = np.searchsorted(self.folded.starts, [spans.low, spans.high])
        return first, last


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The (key, span) that have a tuple, by window, key and span: those of window w are [of[w], of[w + 1]).

    `places` are in [span, key] of each window.
    """

    of: Ints
    keys: Ints
    places: Ints

    @classmethod
    def among(cls, logic: AggregationLogic, spans: Spans, count: int, counts: Ints) -> LiveRows:
        """Where the partials of ROWS are not zero."""
        widest, most = int(spans.counts.max(initial=0)) * count, int(spans.of[-1]) * count
        keys, places = np.empty(most, np.int64), np.empty(most, np.int64)
        of = np.empty(len(spans.of), np.int64)
        entries = logic.entry_bounds(0, spans.first, spans.first + len(spans.of) - 1)
        list_live(counts, entries, spans.of, count, np.empty(widest, np.bool_), keys, places, of)
        return cls(of, keys[: of[-1]], places[: of[-1]])

    def stored(
        self, logic: AggregationLogic, lane: int, spans: Spans, count: int, partials: Ints
    ) -> PackedLane:
        """A lane's partials of these rows, each window's as narrow as it may be."""
        one, windows = logic.lanes[lane], len(spans.of) - 1
        entries = logic.entry_bounds(lane, spans.first, spans.first + windows)
        extreme = one if isinstance(one, ExtremeLogic) else None
        nothing = 0 if extreme is None else extreme.nothing
        span = np.tile([[2**63 - 1, -(2**63)]] if extreme else [[0, 0]], (windows, 1))
        span_of_windows(partials, entries, spans.of, count, nothing, span)
        rows = np.diff(self.of)
        types = np.where((rows > 0) & (np.diff(entries) > 0), widths_for(span, extreme is not None), 0)
        if lane and extreme is None:  # sums that are zero everywhere need not be kept
            types[(span == 0).all(axis=1)] = 0
        types = types.astype(np.uint8)
        part = PackedPart.empty(types, np.diff(entries) * rows)
        instead = np.full(windows, LEAST)
        if extreme is not None:
            every = [nothing_in(dtype, extreme.least) for dtype in (np.int8, np.int16, np.int32, np.int64)]
            instead = np.array(every)[np.log2(np.maximum(types, 1)).astype(np.int64)]
        taken = (self.places, self.of, types, part.firsts, instead, nothing if extreme else LEAST)
        pick_stored(partials, entries, spans.of, count, *taken, *part.numbers)
        ids = logic.ids[lane][entries[0] : entries[-1]]
        return PackedLane(ids, entries - entries[0], {"v": part})


def widths_for(span: Ints, extreme: bool) -> Ints:
    """The fewest bytes for numbers between two each. Extremes leave the last ones of a width to those of no tuple.

    >>> widths_for(np.array([[0, 127], [0, 128], [-40_000, 0]]), extreme=False).tolist()
    [1, 2, 4]
    """
    room = 1 if extreme else 0
    width = np.full(len(span), 8)
    for dtype in (np.int32, np.int16, np.int8):
        limits = np.iinfo(dtype)
        fits = (span[:, 0] >= limits.min + room) & (span[:, 1] <= limits.max - room)
        width[fits] = np.dtype(dtype).itemsize
    return width
