"""Partials are stored in the narrowest numbers that hold them, and come back as they were, at the edges of widths."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.window import Window
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bundle import pack_bundle, read_bundle
from headrace.operators.common.ordered import KeyOrder
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.held import put_stored
from headrace.operators.windows.lanes import CountLogic, ExtremeLogic, IntSumLogic
from headrace.operators.windows.lanes.extremes import GREATEST, LEAST
from headrace.operators.windows.segment import Segment, WindowBlock, segment_from, segment_items
from headrace.operators.windows.storing import (
    join_rows,
    narrow_extremes,
    no_rows,
    store_rows,
    widen_extremes,
)
from thorough import seeds

EDGES = [
    sign * 2**bits + off for bits in (7, 8, 15, 16, 31, 32, 62) for sign in (1, -1) for off in range(-3, 4)
]
VALUES = np.array([0, *EDGES, 2**63 - 2, -(2**63) + 1])


def extremes(least: bool) -> ExtremeLogic:
    return ExtremeLogic(None, np.minimum if least else np.maximum, LEAST if least else GREATEST)


def some(rng: np.random.Generator, shape: tuple[int, ...], nothing: int | None = None) -> Ints:
    """A few of the edges, so that often the narrow types are just wide enough."""
    pool = rng.choice(VALUES, 3)
    return rng.choice(pool if nothing is None else np.append(pool, nothing), shape)


@pytest.mark.parametrize("least", [True, False])
def test_extremes_come_back_as_they_were(least: bool) -> None:
    for seed in seeds(60):
        print(f"seed {seed}")
        check_extremes(np.random.default_rng(seed), least)


def check_extremes(rng: np.random.Generator, least: bool) -> None:
    one = extremes(least)
    entries, slots, keys = rng.integers(0, 4, 3)
    cube = some(rng, (entries, slots, keys), one.nothing)
    rows = int(rng.integers(0, 6)) if slots * keys else 0
    at = rng.integers(0, max(slots, 1), rows), rng.integers(0, max(keys, 1), rows)
    stored = store_rows(one, {"v": cube}, *at)["v"]
    assert (widen_extremes(stored, least) == cube[:, at[0], at[1]]).all()
    wide = some(rng, (entries, 3), one.nothing)
    narrow = narrow_extremes(wide, least)
    assert (widen_extremes(narrow, least) == wide).all()
    assert narrow_extremes(narrow, least).dtype == narrow.dtype, "what is narrow stays so"
    joined = join_rows(one, [stored, narrow, no_rows(one, (entries, 2))["v"]])
    nobody = np.full((entries, 2), one.nothing)
    expected = np.concatenate([cube[:, at[0], at[1]], wide, nobody], axis=1)
    assert (widen_extremes(joined, least) == expected).all()
    count = joined.shape[1]
    into, every = one.zeros((entries, 1, count)), np.arange(count)
    places = np.arange(entries), every, np.array([0, count]), np.array([0]), np.array([1])
    assert put_stored(one, into, {"v": joined}, (np.arange(entries), every), places)
    assert (into["v"][:, 0] == expected).all()


@pytest.mark.parametrize("one", [IntSumLogic(), CountLogic(nulls=True)])
def test_sums_come_back_as_they_were(one: IntSumLogic | CountLogic) -> None:
    for seed in seeds(40):
        print(f"seed {seed}")
        check_sums(np.random.default_rng(seed), one)


def check_sums(rng: np.random.Generator, one: IntSumLogic | CountLogic) -> None:
    cube = some(rng, (2, 3, 4))
    slots, keys = np.divmod(np.arange(12), 4)
    stored = store_rows(one, {"v": cube}, slots, keys)["v"]
    assert (stored == cube.reshape(2, 12)).all()
    most = int(np.abs(cube.astype(object)).max())
    assert stored.dtype.itemsize <= (1 if most < 127 else 2 if most < 2**15 - 1 else 8)


def test_the_last_number_of_a_width_is_no_value() -> None:
    assert narrow_extremes(np.array([[126, LEAST]]), least=True).dtype == np.int8
    assert narrow_extremes(np.array([[127, LEAST]]), least=True).dtype == np.int16
    assert narrow_extremes(np.array([[-(2**15) + 1, GREATEST]]), least=False).dtype == np.int16
    assert narrow_extremes(np.array([[-(2**15), GREATEST]]), least=False).dtype == np.int32


def test_a_segment_of_another_version_is_refused() -> None:
    lanes = {"rows:int": LaneBlock(np.array([7]), {"v": np.array([[1]], np.int8)})}
    block = WindowBlock(Window(10, 10), np.array([0]), np.array([0]), lanes)
    order = KeyOrder(np.append(0, np.ones(256, np.int64)))
    items = read_bundle(pack_bundle(segment_items(Segment(pa.table({"k0": [1]}), [block], {}, order=order))))
    assert segment_from(items).blocks[0].lanes["rows:int"].partials["v"].tolist() == [[1]]
    meta = json.loads(items["meta"].tobytes())
    items["meta"] = np.frombuffer(json.dumps(meta | {"version": 2}).encode(), np.uint8)
    with pytest.raises(ValueError, match="a segment of version 2"):
        segment_from(items)
