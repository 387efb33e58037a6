"""The input of processors: tuples of the files that splitters wrote, merged into the order of their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.engine.splits.bundles import Bundle, from_stream, open_bundle
from headrace.engine.splits.messages import ProcessWork, SplitEpoch
from headrace.engine.splits.routing import POSITION, Ints, Ranges, microseconds, ordering, ranges_of
from headrace.log.chunks import arrow_schema
from headrace.model.splits import ALL, BundleFile

COPIED_ROWS = 1 << 16
"""Rows of sub-streams are copied together up to about so many."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file with tuples, open in one task: its rows without positions, and what orders them."""

    file: BundleFile
    rows: pa.Table
    times: Ints
    positions: Ints
    ranges: Ranges

    def passed(self, place: int, epoch: SplitEpoch) -> tuple[int, int]:
        """The first row of a place that the watermark passes in an epoch, and the one after the last."""
        start, rows = self.ranges[place]
        if epoch.closed_us <= self.file.min_us and self.file.max_us < epoch.watermark_us:
            return start, start + rows
        times = self.times[start : start + rows]
        first, last = np.searchsorted(times, (epoch.closed_us, epoch.watermark_us))
        return start + int(first), start + int(last)


@dataclass(slots=True)
class DueTuples:
    """The files with an epoch's tuples, as one table; and for each place the ranges of rows that are due in it."""

    work: ProcessWork
    rows: pa.Table = field(init=False)
    times: Ints = field(init=False)
    came: list[Ints] = field(init=False)
    """What orders tuples of the same time: positions, and then epochs."""
    due: dict[int, list[tuple[int, int]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        root, epoch = Path(self.work.epoch.root), self.work.epoch
        opened = [self._open(file, open_bundle(root, file, durable=True)) for file in self.work.waiting]
        opened += [self._open(file, open_bundle(root, file, durable=False)) for file in self.work.due]
        before = 0
        for one in opened:
            for place in one.ranges:
                first, last = one.passed(place, epoch)
                if first < last:
                    self.due.setdefault(place, []).append((before + first, before + last))
            before += len(one.times)
        empty = arrow_schema(epoch.stream).empty_table()
        # a table of one piece: rows are taken from it for every sub-stream
        self.rows = pa.concat_tables([one.rows for one in opened] or [empty]).combine_chunks()
        self.times = _joined([one.times for one in opened])
        epochs = [np.full(len(one.times), one.file.epoch) for one in opened]
        self.came = [_joined([one.positions for one in opened]), _joined(epochs)]

    def _open(self, file: BundleFile, bundle: Bundle) -> OpenFile:
        entry = bundle.entry(0)
        assert entry is not None
        table = from_stream(entry)
        times = microseconds(table.column(self.work.epoch.stream.event_time))
        positions = table.column(POSITION).to_numpy()
        rows = table.drop_columns([POSITION]).replace_schema_metadata(None)
        return OpenFile(file, rows, times, positions, ranges_of(table))

    def each(self, sub_streams: Iterable[int]) -> Iterator[tuple[int, pa.Table, Ints]]:
        """For each sub-stream the tuples that the watermark has passed since the last epoch, in order; and their times.

        Rows of several sub-streams are copied at once, because a copy of few rows costs as much as one of many.
        """
        held, rows = [], 0
        for sub_stream in sub_streams:
            ranges = [*self.due.get(sub_stream, ()), *self.due.get(ALL, ())]
            first, last = ranges[0] if len(ranges) == 1 else (0, 0)
            if last - first >= COPIED_ROWS:  # in order already, and worth no copy
                yield sub_stream, self.rows.slice(first, last - first), self.times[first:last]
                continue
            at = self._places(ranges)
            held.append((sub_stream, at))
            rows += len(at)
            if rows >= COPIED_ROWS:
                yield from self._copied(held)
                held, rows = [], 0
        yield from self._copied(held)

    def _copied(self, held: Sequence[tuple[int, Ints]]) -> Iterator[tuple[int, pa.Table, Ints]]:
        if not held:
            return
        at = np.concatenate([found for _, found in held])
        rows, times = self.rows.take(pa.array(at)), self.times[at]
        start = 0
        for sub_stream, found in held:
            end = start + len(found)
            yield sub_stream, rows.slice(start, end - start), times[start:end]
            start = end

    def _places(self, ranges: Sequence[tuple[int, int]]) -> Ints:
        """Where the tuples of some ranges are, in their order."""
        at = np.concatenate([np.zeros(0, np.int64), *(np.arange(first, last) for first, last in ranges)])
        if len(ranges) <= 1:  # a splitter has put them in order
            return at
        order_by, came, times = self.work.epoch.split.order_by, [key[at] for key in self.came], self.times[at]
        named = self.rows.select(list(order_by)).take(pa.array(at)) if order_by else self.rows
        order = ordering(named, order_by, came, times)
        return at if order is None else at[order]


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
