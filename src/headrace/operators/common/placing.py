"""Where keys live: a key belongs to a key group for ever, by one stable hash, and a table gives the group a partition.

The hash is part of the warehouse's format: the keys of older segments are where it put them. It depends on a key's
values alone. So operators of the same keys are placed alike, and the sides of a join or of a product meet. An operator
without keys has one key group, which follows from its id, so that such operators are spread too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa

from headrace.model.partitioning import KEY_GROUPS, Partitioning, Ranges
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.encode import canonical_floats, decoded, one_chunk
from headrace.operators.common.keys import Keys, is_empty_key
from headrace.operators.compiled.texts import hash_texts

_NULL = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - (KEY_GROUPS - 1).bit_length())
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_SPANS = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time)


def key_groups_of(keys: pa.Table, operator: str) -> Ints:
    """The key group of each row of a key table. `operator` is the operator's id, which counts without keys only."""
    if is_empty_key(keys):
        return np.full(keys.num_rows, crc32(operator.encode()) % KEY_GROUPS, np.int64)
    return _groups(hash_keys(keys).view(np.uint64))


def key_groups_of_integers(keys: Ints) -> Ints:
    """The same for keys of one part that is an int64: a number, a moment, a small decimal."""
    return _groups(mix(keys.view(np.uint64)))


def _groups(hashes: Array) -> Ints:
    return (hashes >> _SHIFT).astype(np.int64)


def partitions_of(groups: Ints, partitioning: Partitioning) -> Ints:
    """The partition that owns each key group."""
    return np.array(partitioning.table, np.int64)[groups]


def route_keys(
    keys: Keys, partitioning: Partitioning, operator: str
) -> Iterator[tuple[int, slice | Ints, Bools]]:
    """(partition, the tuples that go there, which rows of the key table do), for each partition that gets any."""
    home = partitions_of(key_groups_of(keys.table, operator), partitioning)
    target = home[keys.ids]
    for partition in np.unique(home):
        mine = home == partition
        yield int(partition), slice(None) if mine.all() else np.flatnonzero(target == partition), mine


def spread_of(keys: Keys, operator: str) -> Ints:
    """How much work each key group is, about: one for each of its tuples, and one for each of its keys.

    >>> from headrace.operators.common.keys import encode_keys
    >>> spread = spread_of(encode_keys([pa.array([7, 7, 7, 8])], 4), "operator")
    >>> spread[key_groups_of_integers(np.array([7, 8]))].tolist(), int(spread.sum())
    ([4, 2], 6)
    """
    groups = key_groups_of(keys.table, operator)
    times = 1 + np.bincount(keys.ids, minlength=keys.count)
    return np.bincount(groups, times, KEY_GROUPS).astype(np.int64)


def hash_keys(keys: pa.Table) -> Ints:
    """A 64-bit hash per row of a key table, as int64. Values that Spark groups together have one hash.

    >>> hash_keys(pa.table({"k0": [0.0, -0.0], "k1": ["a", "a"]})).tolist()
    [5842393365962143918, 5842393365962143918]
    """
    mixed = np.zeros(keys.num_rows, np.uint64)
    if keys.num_rows:
        for column in keys.columns:
            mixed = mix(mixed ^ _words(one_chunk(column)))
    return mixed.view(np.int64)


def mix(words: Array) -> Array:
    """Words in which every bit depends on every bit of what went in."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(31))) * np.uint64(0x7FB5D329728EA185)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x81DADEF4BC2DD44D)
        return words ^ (words >> np.uint64(33))


def _words(array: pa.Array) -> Array:
    """A word per value: the value itself where it fits, else a hash of it."""
    array = decoded(array)
    words = _known_words(array)
    if array.null_count:
        words = np.where(np.asarray(array.is_null()), _NULL, words)
    return words


def _known_words(array: pa.Array) -> Array:
    """The same; where a value is NULL, any word."""
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.uint64)
    if pa.types.is_floating(kind):
        numbers = array.fill_null(0).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return canonical_floats(numbers).view(np.uint64)
    if pa.types.is_decimal(kind):
        return _decimal_words(array)
    if any(is_text(kind) for is_text in _TEXTS):
        return _text_words(array)
    if pa.types.is_date(kind):
        array = array.cast(pa.date32()).view(pa.int32())
    elif any(is_span(kind) for is_span in _SPANS):
        array = _in_micros(array).view(pa.int64())
    elif not pa.types.is_signed_integer(kind) and not pa.types.is_boolean(kind):
        raise TypeError(f"{kind} is no type of keys")
    numbers = array.fill_null(False if pa.types.is_boolean(kind) else 0).cast(pa.int64())
    return numbers.to_numpy(zero_copy_only=False).view(np.uint64)


def _in_micros(array: pa.Array) -> pa.Array:
    kind = array.type
    if kind.unit == "us":
        return array
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", kind.tz))
    return array.cast(pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us"))


def _decimal_words(array: pa.Array) -> Array:
    """Unscaled values: those that fit an int64 are that number, whatever the precision."""
    if array.type.bit_width != 128:
        raise TypeError(f"{array.type} is no type of keys")
    both = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = both[::2], both[1::2]
    wide = mix(low.view(np.uint64)) ^ high.view(np.uint64)
    return np.where(high == low >> 63, low.view(np.uint64), wide)


def _text_words(array: pa.Array) -> Array:
    wide = array.cast(pa.large_binary())
    offsets = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
    data = np.frombuffer(wide.buffers()[2] or b"", np.uint8)
    words = np.empty(len(wide), np.uint64)
    hash_texts(offsets, data, words)
    return words


@dataclass(frozen=True, slots=True)
class Portion:
    """What counts of a segment: some key groups (None: all), and of its queries those in `only` (None: all) that are
    not in `without`.
    """

    key_groups: Ranges | None = None
    only: frozenset[int] | None = None
    without: frozenset[int] = frozenset()

    @property
    def whole(self) -> bool:
        return self.key_groups is None and not self.chooses

    @property
    def chooses(self) -> bool:
        """Whether it leaves queries out."""
        return self.only is not None or bool(self.without)

    def has(self, query: int) -> bool:
        return query not in self.without and (self.only is None or query in self.only)

    def queries(self, ids: Ints) -> Bools:
        """Which of these ids of queries count."""
        wanted = np.ones(len(ids), bool) if self.only is None else np.isin(ids, _array(self.only))
        return wanted & ~np.isin(ids, _array(self.without)) if self.without else wanted

    def keys(self, groups: Ints) -> Bools:
        """Which keys count, by their key groups."""
        if self.key_groups is None:
            return np.ones(len(groups), bool)
        mine = np.zeros(KEY_GROUPS, bool)
        for low, high in self.key_groups:
            mine[low:high] = True
        return mine[groups]


EVERYTHING = Portion()


def _array(ids: Iterable[int]) -> Ints:
    return np.fromiter(ids, np.int64)
