"""How partials lie in segments: narrow, and whatever number an extreme is, it comes back."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.window import Window
from headrace.operators.common.ordered import KeyOrder
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.held import put_stored
from headrace.operators.windows.lanes import ExtremeLogic
from headrace.operators.windows.lanes.extremes import GREATEST, LEAST
from headrace.operators.windows.segment import Segment, WindowBlock, segment_from, segment_items
from headrace.operators.windows.storing import join_rows, narrow_extremes, no_rows, widen_extremes

ENDS = [number for bits in (7, 15, 31, 63) for number in (-(2**bits), 1 - 2**bits, 2**bits - 2, 2**bits - 1)]
"""The numbers at the ends of the types that extremes are stored in: the last ones stand for no tuple there."""


def logic_of(least: bool) -> ExtremeLogic:
    return ExtremeLogic(None, np.minimum if least else np.maximum, LEAST if least else GREATEST)


@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("value", ENDS)
def test_an_extreme_that_is_the_last_number_of_a_type_comes_back(value: int, least: bool) -> None:
    one = logic_of(least)
    values = np.array([[value, one.nothing, 0, value]])
    stored = narrow_extremes(values, least)
    assert widen_extremes(stored, least).tolist() == values.tolist()
    into = one.zeros((1, 1, 4))
    rows, alone = np.arange(4), np.array([0])
    assert put_stored(
        one, into, {"v": stored}, (alone, rows), (alone, rows, np.array([0, 4]), alone, alone + 1)
    )
    assert into["v"].tolist() == [values.tolist()]


@pytest.mark.parametrize("least", [True, False])
def test_blocks_of_several_widths_are_joined(least: bool) -> None:
    one = logic_of(least)
    pieces = [np.array([[value, one.nothing]]) for value in (5, *ENDS)]
    narrow = [narrow_extremes(piece, least) for piece in pieces]
    joined = join_rows(one, [*narrow, no_rows(one, (1, 1))["v"]])
    expected = np.concatenate([*pieces, [[one.nothing]]], axis=1)
    assert widen_extremes(joined, least).tolist() == expected.tolist()


def test_a_segment_of_another_version_is_refused() -> None:
    lanes = {"rows:int": LaneBlock(np.array([7]), {"v": np.array([[1]], np.int8)})}
    block = WindowBlock(Window(10, 10), np.array([0]), np.array([0]), lanes)
    order = KeyOrder(np.append(0, np.ones(256, np.int64)))
    items = segment_items(Segment(pa.table({"k0": [1]}), [block], {}, order=order))
    assert segment_from(items).blocks[0].lanes["rows:int"].partials["v"].tolist() == [[1]]
    meta = json.loads(items["meta"].tobytes())
    items["meta"] = np.frombuffer(json.dumps(meta | {"version": 2}).encode(), np.uint8)
    with pytest.raises(ValueError, match="a segment of version 2"):
        segment_from(items)
