"""Slices and closing windows against `Window.starts_of`, one tuple at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.window import Window
from headrace.operators.windows import slices
from headrace.operators.windows.slices import (
    closing_windows,
    fine_slices,
    first_starts,
    last_ends,
    slice_starts,
)
from plan_strategies import windows

TIMES = st.one_of(
    st.lists(st.integers(-60, 200), min_size=1, max_size=20),
    st.lists(st.one_of(st.integers(-(2**62), 2**62), st.integers(-5, 5)), min_size=1, max_size=8),
)


def array(times: list[int]) -> np.ndarray:
    return np.array(times, np.int64)


@given(windows(), TIMES)
def test_own_slices_lie_in_the_same_windows_as_their_tuples(window: Window, times: list[int]) -> None:
    for start, time in zip(slice_starts(window, array(times)).tolist(), times, strict=True):
        assert start <= time
        assert start == window.slice_start(time)
        assert window.starts_of(start) == window.starts_of(time)
    starts = [window.starts_of(time) for time in times]
    assert first_starts(window, slice_starts(window, array(times))).tolist() == [found[0] for found in starts]
    assert last_ends(window, array(times)).tolist() == [found[-1] + window.range_us for found in starts]


@given(st.lists(windows(), min_size=1, max_size=4), TIMES, st.booleans())
def test_no_window_edge_crosses_a_fine_slice(some: list[Window], times: list[int], few_edges: bool) -> None:
    before, slices.EDGE_BUDGET = slices.EDGE_BUDGET, 1 << 16 if few_edges else 0
    try:
        index, starts = fine_slices(array(times), some)
    finally:
        slices.EDGE_BUDGET = before
    assert (starts[1:] > starts[:-1]).all()
    for time, position in zip(times, index.tolist(), strict=True):
        start = int(starts[position])
        assert start <= time
        for window in some:
            assert window.starts_of(start) == window.starts_of(time)
            assert window.slice_start(start) == window.slice_start(time)


@given(
    windows(),
    TIMES,
    st.integers(-80, 260),
    st.integers(0, 120),
    st.sampled_from(["both", "never", "forever"]),
)
@example(Window(1, 1), [0], 0, 0, "forever")
@example(Window(7, 3, 1), [-(2**62), 2**62], 0, 0, "never")
def test_closing_windows_are_those_that_hold_a_tuple_and_end_now(
    window: Window, times: list[int], closed: int, step: int, limits: str
) -> None:
    closed_us = NEVER_US if limits == "never" else closed
    watermark_us = FOREVER_US if limits == "forever" else closed + step
    own = np.unique(slice_starts(window, array(times)))
    expected = {
        start
        for time in times
        for start in window.starts_of(time)
        if closed_us < start + window.range_us <= watermark_us
    }
    assert closing_windows(window, own, closed_us, watermark_us).tolist() == sorted(expected)
