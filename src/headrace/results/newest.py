"""The newest rows of a query: those that the last epochs have delivered, without reading all the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.catalog.queries import QueryEntry
from headrace.engine.delivered import Delivered
from headrace.engine.files import check_results
from headrace.engine.records import ResultFile
from headrace.engine.stored import ResultReader
from headrace.model.epoch import FOREVER_US
from headrace.model.query import Aggregation, Join
from headrace.results.view import Excerpt, query_frame, readable

STEPS = (1, 8, 64, 512)
"""So many epochs back is looked first, then further: most of the time the newest rows are a few epochs old."""


@dataclass(frozen=True, slots=True)
class Newest:
    """`rows` were delivered up to and including `epoch`, where the next look goes on."""

    rows: pa.Table
    epoch: int


def newest_rows(
    reader: ResultReader, entry: QueryEntry, delivered: Delivered, limit: int, after: int | None
) -> Newest:
    """All rows that were delivered after an epoch, or (None) the `limit` newest ones; the newest last.

    A row is newer than another when its window ends later, or without windows when a later epoch delivered it. To find
    the `limit` newest rows, it goes back as far as it takes and no more.

    A query delivers in epoch e the windows that end in (W(e-1), W(e)], and other rows with the number of the epoch. So
    the rows after an epoch are told by its watermark and its number, and few files hold them.
    """
    # epochs may be committed meanwhile: everything is told as of one moment
    view, first = delivered.view(entry), entry.first_epoch or 0
    rows: pa.Table | None = None
    for epoch in looks_back(entry, view.cursor) if after is None else (min(after, view.cursor),):
        found, since = files_after(entry, view.files, epoch), view.after_us
        if epoch >= first:
            closed_us = delivered.watermark_at(entry.query.plan.streams, epoch)
            since = closed_us if since is None else max(since, closed_us)
        if since == FOREVER_US and entry.query.plan.window is not None:
            found = []  # the streams were closed by then, and no window ends later
        check_results(reader.root, found)
        excerpt = Excerpt(after_us=since, first_epoch=epoch + 1, newest_first=True)
        shown = readable(query_frame(reader, entry, replace(view, files=tuple(found)), excerpt))
        rows = (shown.limit(limit) if after is None else shown).toArrow()
        if rows.num_rows >= limit:
            break
    assert rows is not None
    return Newest(rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64())), view.cursor)


def looks_back(entry: QueryEntry, epoch: int) -> Iterator[int]:
    """The epochs after which to look for rows, one after the other until there are enough; the last finds all."""
    first = (entry.first_epoch or 0) - 1
    last = epoch if entry.last_epoch is None else min(epoch, entry.last_epoch)
    yield from (last - step for step in STEPS if last - step > first)
    yield first


def files_after(entry: QueryEntry, files: Sequence[ResultFile], epoch: int) -> list[ResultFile]:
    """The files that may hold rows that were delivered after an epoch.

    Joined rows are stored before they show, so that any file may hold some.
    """
    body = entry.query.plan.body
    if isinstance(body, Join) and not isinstance(body.then, Aggregation):
        return list(files)
    return [file for file in files if file.last_epoch > epoch]
