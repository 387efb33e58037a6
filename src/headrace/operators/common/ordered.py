"""State in the order of key groups: the keys of a key group lie side by side, so a partition reads only its own.

A segment says where the keys of each key group begin. Its rows are in the order of their keys. So what counts of a
segment are a few sections of it, and nothing else of a memory-mapped file is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.partitioning import KEY_GROUPS
from headrace.operators.common.arrays import Ints
from headrace.operators.common.encode import ranges
from headrace.operators.common.placing import Portion, key_groups_of


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The keys of key group g are those from `first[g]` up to `first[g + 1]`."""

    first: Ints

    @property
    def keys(self) -> int:
        return int(self.first[-1])

    def sections(self, portion: Portion) -> Sections:
        """The keys of a portion's key groups."""
        wanted = ((0, KEY_GROUPS),) if portion.key_groups is None else portion.key_groups
        bounds = self.first[np.array(wanted, np.int64).reshape(-1, 2)]
        bounds = bounds[bounds[:, 0] < bounds[:, 1]]
        return Sections(bounds[:, 0], bounds[:, 1])


@dataclass(frozen=True, slots=True)
class Sections:
    """Numbers in a few runs: from `low[i]` up to `high[i]`, ascending."""

    low: Ints
    high: Ints

    def __bool__(self) -> bool:
        return len(self.low) > 0

    @property
    def numbers(self) -> Ints:
        return ranges(self.low, self.high - self.low)

    def slice_table(self, table: pa.Table) -> pa.Table:
        """These rows of a table; they are not copied."""
        runs = zip(self.low.tolist(), self.high.tolist(), strict=True)
        return pa.concat_tables([table.slice(low, high - low) for low, high in runs])

    def renumber(self, keys: Ints) -> Ints:
        """The numbers of these keys when nothing but the sections is left; all of them are in a section."""
        before = np.cumsum(self.high - self.low) - (self.high - self.low)
        run = np.searchsorted(self.low, keys, "right") - 1
        return keys - self.low[run] + before[run]

    def rows_of(self, keys: Ints) -> Sections:
        """The rows that have one of these keys; `keys`, one for each row, ascend. Looks at a few of them only."""
        # In the type of the keys: numpy would convert all of them otherwise. It can be too narrow for some of these
        # numbers, for rows are stored in the type of their own greatest key; no row has a number beyond it.
        most = np.iinfo(keys.dtype).max
        low = np.searchsorted(keys, np.minimum(self.low, most).astype(keys.dtype), "left")
        high = np.searchsorted(keys, np.minimum(self.high - 1, most).astype(keys.dtype), "right")
        some = (low < high) & (self.low <= most)
        return Sections(low[some], high[some])


def order_keys(keys: pa.Table, operator: str) -> tuple[KeyOrder, Ints]:
    """(where the key groups are, the keys in their order). `operator` is the id of the operator that has the keys."""
    groups = key_groups_of(keys, operator)
    counts = np.bincount(groups, minlength=KEY_GROUPS)
    order = np.argsort(groups.astype(np.uint8), kind="stable")
    return KeyOrder(np.append(0, np.cumsum(counts))), order


def ranks_of(order: Ints) -> Ints:
    """Where each number is in an order of all of them.

    >>> ranks_of(np.array([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
