"""Partials of all blocks of a segment as one run of bytes for each lane: so they lie in files, and kernels read them.

Each block has the width that `storing` gave it. Its bytes begin at a multiple of 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.bundle import Item, Pieces
from headrace.operators.windows.framing import LaneBlock

_WIDE = 8
_TYPES = {0: np.uint8, 1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64, 9: np.float64}
"""What the partials of a block are, by the code that stands for it: whole numbers of so many bytes. These codes are
durable."""

_CODES = {np.dtype(dtype): code for code, dtype in _TYPES.items() if code}


@dataclass(frozen=True, slots=True)
class PackedPart:
    """Arrays [entry, row] of some blocks: `types` are their codes (0: there is none), `begin` their first bytes."""

    data: Array
    types: Array
    begin: Ints

    @classmethod
    def empty(cls, types: Array, elements: Ints) -> PackedPart:
        """Room for arrays of so many elements."""
        ends = np.cumsum(_taken(types, elements))
        room = np.empty(int(ends[-1]) // _WIDE if len(ends) else 0, np.int64)
        return cls(room.view(np.uint8), types, ends - _taken(types, elements))

    @classmethod
    def of(cls, arrays: Sequence[Array | None]) -> PackedPart:
        part = cls.empty(
            _types(arrays), np.array([0 if array is None else array.size for array in arrays], np.int64)
        )
        for i, array in enumerate(arrays):
            if array is not None:
                part.block(i, *array.shape)[...] = array
        return part

    @classmethod
    def read(cls, data: Array, types: Array, elements: Ints) -> PackedPart:
        """What was written, as views of it where these are aligned."""
        taken = _taken(types, elements)
        return cls(as_given(data.view(np.int64)).view(np.uint8), types, np.cumsum(taken) - taken)

    def block(self, number: int, entries: int, rows: int) -> Array:
        """The array [entry, row] of a block, as a view."""
        dtype, begin = np.dtype(_TYPES[int(self.types[number])]), int(self.begin[number])
        return self.data[begin : begin + entries * rows * dtype.itemsize].view(dtype).reshape(entries, rows)

    @property
    def numbers(self) -> tuple[Array, Array, Array, Array]:
        """The same bytes as whole numbers of each width."""
        return (
            self.data.view(np.int8),
            self.data.view(np.int16),
            self.data.view(np.int32),
            self.data.view(np.int64),
        )

    @property
    def firsts(self) -> Ints:
        """At which of the numbers of its width each block begins."""
        return self.begin // np.maximum(self.types, 1)


def _taken(types: Array, elements: Ints) -> Ints:
    """How many bytes arrays take."""
    return -(-elements * np.minimum(types, _WIDE).astype(np.int64) // _WIDE) * _WIDE


@dataclass(frozen=True, slots=True)
class PackedLane:
    """A lane of some blocks. Block b has the ids [entries[b], entries[b + 1]); without partials it lacks the lane."""

    ids: Ints
    entries: Ints
    parts: dict[str, PackedPart]

    @classmethod
    def of(cls, blocks: Sequence[LaneBlock | None]) -> PackedLane:
        ids = [np.empty(0, np.int64) if block is None else block.ids for block in blocks]
        parts = {
            letter: PackedPart.of([None if b is None else b.partials.get(letter) for b in blocks])
            for letter in _letters(blocks)
        }
        none = np.empty(0, np.int64)  # a segment of nothing but a pool has no blocks
        return cls(np.concatenate([none, *ids]), np.cumsum([0, *map(len, ids)]), parts)

    @classmethod
    def read(cls, items: Mapping[str, Item], prefix: str, letters: Sequence[str], rows: Ints) -> PackedLane:
        """The inverse of `lane_items`, of blocks of so many rows."""
        entries = items[f"{prefix}.entries"]
        size = np.diff(entries) * rows
        parts = {
            letter: PackedPart.read(items[f"{prefix}.{letter}"], items[f"{prefix}.{letter}.types"], size)
            for letter in letters
        }
        return cls(items[f"{prefix}.ids"], entries, parts)

    def block(self, number: int, rows: int) -> LaneBlock | None:
        """The lane of a block of so many rows."""
        low, high = int(self.entries[number]), int(self.entries[number + 1])
        partials = {
            letter: part.block(number, high - low, rows)
            for letter, part in self.parts.items()
            if part.types[number]
        }
        return LaneBlock(self.ids[low:high], partials) if partials else None


def lane_items(prefix: str, blocks: Sequence[LaneBlock | None]) -> tuple[dict[str, Item], list[str]]:
    """(a lane of some blocks as bundle items, the letters of its partials). `PackedLane.read` is the inverse."""
    ids = [np.empty(0, np.int64) if block is None else block.ids for block in blocks]
    items: dict[str, Item] = {
        f"{prefix}.ids": np.concatenate(ids),
        f"{prefix}.entries": np.cumsum([0, *map(len, ids)]),
    }
    letters = _letters(blocks)
    for letter in letters:
        arrays = [None if block is None else block.partials.get(letter) for block in blocks]
        items[f"{prefix}.{letter}"] = Pieces([array for array in arrays if array is not None])
        items[f"{prefix}.{letter}.types"] = _types(arrays)
    return items, letters


def _letters(blocks: Sequence[LaneBlock | None]) -> list[str]:
    return list(dict.fromkeys(letter for block in blocks if block is not None for letter in block.partials))


def _types(arrays: Sequence[Array | None]) -> Array:
    return np.array([0 if array is None else _CODES[array.dtype] for array in arrays], np.uint8)
