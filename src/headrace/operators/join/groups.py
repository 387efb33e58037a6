"""Groups of tuples that nobody can tell apart: one key, one query-set, one slice (AStream 3.1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bitrows import ordered_by_row

SAMPLE_ROWS = 1 << 12


@dataclass(slots=True)
class Groups:
    """Group g holds the rows `order[offsets[g]]` to `order[offsets[g + 1]]`, and has key `keys[g]`, ascending."""

    order: Ints
    offsets: Ints
    keys: Ints

    @property
    def heads(self) -> Ints:
        """A row of each group."""
        return self.order[self.offsets[:-1]]

    @property
    def sizes(self) -> Ints:
        return np.diff(self.offsets)


def group_rows(keys: Ints, moments: Sequence[Ints], sets: Array) -> Groups:
    """The rows by key, moments and query-set."""
    codes = _codes(keys, moments, sets)
    bins = int(codes.max(initial=0)) + 1
    order = ordered_by_row(codes, bins)[0] if bins <= 4 * len(codes) else np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return Groups(order, np.append(first, len(order)), keys[order[first]])


def sampled(rows: int) -> Ints:
    """Some neighbours in the middle: there, the rows of a key are together."""
    begin = max((rows - SAMPLE_ROWS) // 2, 0)
    return np.arange(begin, min(begin + SAMPLE_ROWS, rows))


def average_group(keys: Ints, moments: Sequence[Ints], sets: Array) -> float:
    """Rows per group, on average."""
    codes = _codes(keys, moments, sets)
    return len(codes) / max(len(pa.array(codes).unique()), 1)


def _codes(keys: Ints, moments: Sequence[Ints], sets: Array) -> Ints:
    """A number per row that is the same inside a group, and ascends with the key."""
    columns = [*moments, *(_dense(words) for words in sets)]
    codes, size = keys, int(keys.max(initial=0)) + 1
    for column in columns:
        radix = int(column.max(initial=0)) + 1
        if size * radix >= 2**62:
            found, codes = np.unique(codes, return_inverse=True)
            size = len(found)
        codes = codes * radix + column
        size *= radix
    return codes


def _dense(words: Array) -> Ints:
    encoded = pa.array(words).dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
