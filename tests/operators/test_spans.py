"""Spans of all windows at once are those of each window by itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headrace.model.epoch import NEVER_US
from headrace.model.window import Window
from headrace.operators.common.bundle import pack_bundle, read_bundle
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.packed import PackedLane, lane_items
from headrace.operators.windows.slices import closing_windows, first_starts, last_ends, slice_starts
from headrace.operators.windows.spans import Edges, closing_spans, live_spans, union_by_window


def random_windows(rng: random.Random) -> list[Window]:
    found = []
    for _ in range(rng.randint(1, 5)):
        range_us = rng.randint(1, 40)
        found.append(Window(range_us, rng.randint(1, range_us), rng.choice([0, 0, rng.randint(0, 9)])))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_spans_of_all_windows_are_those_of_each(seed: int) -> None:
    rng = random.Random(seed)
    windows = random_windows(rng)
    edges = Edges.of(windows)
    lists = []
    for window in windows:
        times = np.sort(np.array([rng.randint(-60, 200) for _ in range(rng.choice([0, 1, 12]))], np.int64))
        lists.append(np.unique(slice_starts(window, times)))
    w = np.repeat(np.arange(len(windows)), [len(some) for some in lists])
    starts = np.concatenate(lists)
    closed = rng.choice([NEVER_US, rng.randint(-80, 150)])
    watermark = rng.choice([2**62, rng.randint(-80, 260)])
    closing, live = (
        closing_spans(edges, w, starts, closed, watermark),
        live_spans(edges, w, starts, watermark),
    )
    assert (edges.slice_starts(w, starts) == starts).all()
    for i, (window, some) in enumerate(zip(windows, lists, strict=True)):
        mine = slice(closing.of[i], closing.of[i + 1])
        assert closing.low[mine].tolist() == closing_windows(window, some, closed, watermark).tolist()
        assert (closing.high[mine] == closing.low[mine] + window.range_us).all()
        needed = some[last_ends(window, some) > watermark]
        mine = slice(live.of[i], live.of[i + 1])
        assert live.low[mine].tolist() == needed.tolist()
        ends = live.high[mine]
        assert (slice_starts(window, ends) == ends).all()
        assert (slice_starts(window, ends - 1) == needed).all()
        here = np.full(len(some), i)
        assert (edges.first_starts(here, some) == first_starts(window, some)).all()


def test_a_union_has_each_slice_of_a_window_once() -> None:
    rng = random.Random(1)
    lists = [sorted({(rng.randint(0, 3), rng.randint(0, 9)) for _ in range(n)}) for n in (0, 1, 20, 15)]
    arrays = [
        (np.array([w for w, _ in some], np.int64), np.array([t for _, t in some], np.int64)) for some in lists
    ]
    w, times = union_by_window(arrays)
    assert list(zip(w.tolist(), times.tolist(), strict=True)) == sorted(
        {pair for some in lists for pair in some}
    )
    assert all(len(some) == 0 for some in union_by_window([]))


def test_lanes_are_packed_with_what_each_block_has_of_them() -> None:
    nan = np.array([[np.nan, -0.0, 1.5]])
    blocks = [
        LaneBlock(np.array([3, 9]), {"v": np.array([[1], [-2]], np.int8)}),
        None,
        LaneBlock(np.array([4]), {"v": np.array([[2**40, -1, 7]]), "f": nan}),
    ]
    rows = np.array([1, 8, 3])
    items, letters = lane_items("0", blocks)
    assert letters == ["v", "f"]
    check_packed(PackedLane.of(blocks), blocks, rows)
    check_packed(PackedLane.read(read_bundle(pack_bundle(items)), "0", letters, rows), blocks, rows)


def check_packed(again: PackedLane, blocks: list[LaneBlock | None], rows: np.ndarray) -> None:
    assert again.block(1, 8) is None
    for number in (0, 2):
        block, found = blocks[number], again.block(number, int(rows[number]))
        assert block is not None and found is not None
        assert found.ids.tolist() == block.ids.tolist() and found.partials.keys() == block.partials.keys()
        for name, array in block.partials.items():
            assert found.partials[name].dtype == array.dtype
            assert found.partials[name].tobytes() == array.tobytes()
