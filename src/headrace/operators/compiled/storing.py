"""Which rows of spans have a tuple, and their partials as narrow as they are stored.

Partials lie as `compiled.spans` has them: one window after the other, and those of a window as [entry, span, key].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int8, int16, int32, int64, uint8

from headrace.operators.common.arrays import Array, Ints
from headrace.operators.compiled.compiling import called, compiled, given, made

_WIDTHS = (int8, int16, int32, int64)


@compiled(
    *(
        (given(dtype), given(int64), given(int64), int64, made(boolean), *(made(int64),) * 3)
        for dtype in (int32, int64)
    )
)
def list_live(
    counts: Ints,
    entries: Ints,
    spans: Ints,
    count: int,
    live: Array,
    keys: Ints,
    places: Ints,
    rows: Ints,
) -> None:
    """The (key, span) of each window that have a tuple of some entry, by key and span: keys, and places in
    [span, key] of the window. Those of window w are [rows[w], rows[w + 1]). `live` is room for all spans and keys.
    """
    at = found = 0
    for w in range(len(spans) - 1):
        rows[w], size = found, (spans[w + 1] - spans[w]) * count
        for i in range(size):
            live[i] = False
        for _ in range(entries[w], entries[w + 1]):
            for i in range(size):
                live[i] |= counts[at + i] != 0
            at += size
        for k in range(count):
            for place in range(k, size, count):
                if live[place]:
                    keys[found], places[found] = k, place
                    found += 1
    rows[len(spans) - 1] = found


@compiled(
    *((given(dtype), given(int64), given(int64), int64, int64, made(int64, 2)) for dtype in (int32, int64))
)
def span_of_windows(
    partials: Ints, entries: Ints, spans: Ints, count: int, nothing: int, found: Ints
) -> None:
    """Widen found[w] (least, greatest) by all partials of a window but those that are `nothing`."""
    at = 0
    for w in range(len(spans) - 1):
        least, greatest = found[w, 0], found[w, 1]
        end = at + (entries[w + 1] - entries[w]) * (spans[w + 1] - spans[w]) * count
        for i in range(at, end):
            value = np.int64(partials[i])
            least = min(least, value if value != nothing else least)
            greatest = max(greatest, value if value != nothing else greatest)
        found[w, 0], found[w, 1], at = least, greatest, end


@called
def pick_row(
    partials: Ints, base: int, places: Ints, low: int, high: int, change: Any, to: int, picked: Ints
) -> None:
    nothing, instead = change
    for j in range(low, high):
        value = np.int64(partials[np.uint64(base + places[j])])
        picked[np.uint64(to + j - low)] = value if value != nothing else instead


@compiled(
    *(
        (
            *(given(dtype), given(int64), given(int64), int64, given(int64), given(int64), given(uint8)),
            *(given(int64), given(int64), int64, *(made(width) for width in _WIDTHS)),
        )
        for dtype in (int32, int64)
    )
)
def pick_stored(
    partials: Ints,
    entries: Ints,
    spans: Ints,
    count: int,
    places: Ints,
    rows: Ints,
    width: Ints,
    begin: Ints,
    instead: Ints,
    nothing: int,
    bytes_: Ints,
    shorts: Ints,
    ints: Ints,
    longs: Ints,
) -> None:
    """Put the rows of each window [entry, row] where its numbers begin, in its width (0: nowhere), and instead[w] for
    those that are `nothing`. All four arrays are the same bytes.
    """
    base = 0
    for w in range(len(spans) - 1):
        size, low, high = (spans[w + 1] - spans[w]) * count, rows[w], rows[w + 1]
        change, to = (nothing, instead[w]), begin[w]
        for _ in range(entries[w], entries[w + 1]):
            if width[w] == 1:
                pick_row(partials, base, places, low, high, change, to, bytes_)
            elif width[w] == 2:
                pick_row(partials, base, places, low, high, change, to, shorts)
            elif width[w] == 4:
                pick_row(partials, base, places, low, high, change, to, ints)
            elif width[w] == 8:
                pick_row(partials, base, places, low, high, change, to, longs)
            base += size
            to += high - low
