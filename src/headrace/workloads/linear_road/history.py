"""Ten weeks of tolls: one row per vehicle and day, and a compact table of them to look up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.workloads.linear_road.hashing import Ints, below, named
from headrace.workloads.linear_road.rules import DAYS, HISTORY

_NOTHING = 255
"""In a table of tolls: the vehicle has no row for this day on this expressway."""


def day_rows(seed: int, expressways: int, vehicles: int, vid: Ints, day: Ints) -> tuple[Ints, Ints]:
    """Expressway and toll of each vehicle and day; a tenth of the vehicles has a second expressway on half its days."""
    home = vid // vehicles if vehicles else np.zeros_like(vid)
    habit = named(seed, 6, vid)
    luck = named(seed, 7, vid, day)
    away = (below(habit, 0, 10) == 0) & (below(luck, 16, 2) == 0)
    xway = np.where(away, (home + 1 + below(habit, 16, max(1, expressways - 1))) % expressways, home)
    return xway.astype(np.int32), below(luck, 0, 100).astype(np.int32)


def historical_tolls(
    seed: int, expressways: int, vehicles: int, rows: int = 1_000_000
) -> Iterator[pa.RecordBatch]:
    """All rows (VID, Day, XWay, Toll), by vehicle and day, in batches of about `rows`."""
    step = max(1, rows // DAYS)
    for first in range(0, expressways * vehicles, step):
        few = np.arange(first, min(first + step, expressways * vehicles), dtype=np.int32)
        vid, day = np.repeat(few, DAYS), np.tile(np.arange(1, DAYS + 1, dtype=np.int32), len(few))
        xway, toll = day_rows(seed, expressways, vehicles, vid, day)
        yield pa.RecordBatch.from_arrays([pa.array(part) for part in (vid, day, xway, toll)], schema=HISTORY)


@dataclass(frozen=True, slots=True)
class TollHistory:
    """The tolls of one expressway: a sorted vector of vehicles and one byte per vehicle and day."""

    vids: Ints
    tolls: Ints

    @classmethod
    def read(cls, batches: Iterable[pa.RecordBatch], xway: int) -> TollHistory:
        """Keep the rows of one expressway. Rows may come in any order."""
        kept = []
        for batch in batches:
            columns = [batch.column(name).to_numpy() for name in ("VID", "Day", "Toll")]
            kept.append(np.stack(columns)[:, batch.column("XWay").to_numpy() == xway])
        vid, day, toll = np.concatenate(kept, axis=1) if kept else np.zeros((3, 0), np.int32)
        vids, at = np.unique(vid, return_inverse=True)
        tolls = np.full((len(vids), DAYS), _NOTHING, np.uint8)
        tolls[at, day - 1] = toll
        return cls(vids, tolls)

    def paid(self, vid: Ints, day: Ints) -> Ints:
        """What each vehicle paid on its day on this expressway, 0 where there is no row."""
        if len(self.vids) == 0:
            return np.zeros(len(vid), np.int32)
        at = np.minimum(np.searchsorted(self.vids, vid), len(self.vids) - 1)
        known = (self.vids[at] == vid) & (day >= 1) & (day <= DAYS)
        toll = self.tolls[at, np.where(known, day, 1) - 1].astype(np.int32)
        return np.where(known & (toll != _NOTHING), toll, 0).astype(np.int32)
