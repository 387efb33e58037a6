"""What pools are read for: partials of windows that close, and of own slices where stored partials are met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from headrace.model.plan import LaneKind
from headrace.model.tables import WORD
from headrace.model.ways import FamilyWay
from headrace.model.window import Window
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bitrows import count_bits
from headrace.operators.common.keys import empty_key
from headrace.operators.compiled.accepted import add_accepted, keep_accepted, merge_accepted
from headrace.operators.compiled.sparse import count_keys, list_keys
from headrace.operators.windows.folding import KeyBlock
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.held import HeldSegment
from headrace.operators.windows.lanes import AddedLogic, ExtremeLogic, Partials
from headrace.operators.windows.lanes.moments import MomentsLogic
from headrace.operators.windows.lifted import Lifted
from headrace.operators.windows.lower import Closed, Places
from headrace.operators.windows.pool import Pooled, Source, source_of
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, WindowBlock
from headrace.operators.windows.slices import closing_windows, distinct_of, in_closing, slice_starts
from headrace.operators.windows.sparse import window_runs

KNOWN_LANES = (AddedLogic, ExtremeLogic, MomentsLogic)
"""The kinds of partials that can be made of tuples here. Operators with another kind keep partials."""

TURN_ELEMENTS = 1 << 20
"""Windows close together as long as a lane of them has no more partials than this: they stay near to the processor."""


def stored_sources(logic: AggregationLogic, before: Sequence[HeldSegment]) -> list[Source]:
    """The pools of segments under this plan; where they are only read, the tuples in windows that close."""
    return [
        source_of(logic, pool, held.ids, held.absorbed, None if held.absorbed else held.closing)
        for held in before
        if (pool := held.segment.pool) is not None
    ]


def fresh_source(
    logic: AggregationLogic, lifted: Lifted, keys: Ints, ways: list[FamilyWay]
) -> tuple[Source, Ints]:
    """(this epoch's tuples that somebody accepts, how many each state column accepts); `keys` is the key of each
    tuple. How they found their queries is added to `ways`.
    """
    found: list[FamilyWay] = []
    sets = logic.query_sets.of(lifted.regions, lifted.rows, found)
    ways += [replace(way, pooled=True) for way in found]
    (rows,) = logic.operator.lanes[0].measures[:1]
    counts = _weighted_bits(sets, lifted.measures[rows]["v"])[: len(logic.column_ids)]
    measures: list[Partials | None] = [
        partials if number in logic.measures and not _is_null_count(logic, number, partials) else None
        for number, partials in enumerate(lifted.measures)
    ]
    every = Source(keys, lifted.slice_starts, lifted.slice, sets, measures, own=True)
    accepted = np.bitwise_or.reduce(sets, axis=0) != 0
    return every if accepted.all() else every.take(np.flatnonzero(accepted)), counts


def _is_null_count(logic: AggregationLogic, number: int, partials: Partials) -> bool:
    """Whether a measure counts NULLs of which there are none: then nobody need keep it."""
    return logic.operator.measures[number].kind is LaneKind.NULLS and not partials["v"].any()


def _weighted_bits(sets: Array, weights: Ints) -> Ints:
    """How many tuples have each bit, given how many each one stands for."""
    counts, power = np.zeros(len(sets) * WORD, np.int64), 1
    while weights.any():
        some = (weights & 1).astype(bool)
        counts += power * count_bits(sets if some.all() else sets[:, some])
        weights, power = weights >> 1, 2 * power
    return counts


def close_pooled(
    logic: AggregationLogic, pooled: Pooled, closed_us: int, watermark_us: int
) -> Iterator[Closed]:
    """The windows that closed. They come some at a time, for as many keys as fit, so that their partials stay near."""
    for w, window in _asked_windows(logic, pooled):
        own = distinct_of(slice_starts(window, pooled.starts))
        closing = closing_windows(window, own, closed_us, watermark_us)
        if len(closing) == 0:
            continue
        entries = (logic.window_entries(lane, w) for lane in range(len(logic.lanes)))
        fit = max(1, TURN_ELEMENTS // max(some.stop - some.start for some in entries))
        cuts = np.searchsorted(pooled.keys, np.arange(0, int(pooled.keys[-1]) + fit + 1, fit))
        for low, high in pairwise(cuts.tolist()):
            if low < high:
                yield from _close_some(logic, pooled, w, closing, (low, high), fit)


def _close_some(
    logic: AggregationLogic, pooled: Pooled, w: int, closing: Ints, some: tuple[int, int], fit: int
) -> Iterator[Closed]:
    """The tuples [low, high) in windows that close; these come together while they have as many keys as `fit`."""
    (low, high), starts = some, pooled.starts
    keys, slots = pooled.keys[low:high], pooled.slots[low:high]
    ends = closing + logic.operator.windows[w].range_us
    first, last = (np.searchsorted(edges, starts, "right") for edges in (ends, closing))
    until = np.searchsorted(starts, ends)
    counts = np.zeros(len(closing), np.int64)
    count_keys(keys, slots, first, last, counts)
    for begin, end in window_runs(counts, fit):
        bounds = np.append(0, np.cumsum(counts[begin:end]))
        listed, runs = np.empty(bounds[-1], np.int32), np.empty((2, bounds[-1]), np.int64)
        inside = (np.clip(first, begin, end) - begin, np.clip(last, begin, end) - begin)
        list_keys(keys, slots, *inside, until[begin:end], bounds[:-1].copy(), listed, runs)
        runs += low
        places = Places(w, np.array([0, end - begin]), ends[begin:end], bounds, listed)
        lanes = partials_of(logic, pooled, w, runs)
        offsets = {i: places.offsets(logic.entry_bounds(i, w, w + 1)) for i in lanes}
        flat = {i: {name: array.reshape(-1) for name, array in p.items()} for i, p in lanes.items()}
        yield Closed(places, flat, offsets)


def _asked_windows(logic: AggregationLogic, pooled: Pooled) -> list[tuple[int, Window]]:
    """The windows, with their numbers, whose queries accept any tuple. Others may overlap too much for pools."""
    every = np.bitwise_or.reduce(pooled.sets, axis=1)[None]
    bits = np.unpackbits(every.view(np.uint8), bitorder="little")[: len(logic.column_windows)]
    asked = set(logic.column_windows[bits > 0].tolist())
    return [(w, window) for w, window in enumerate(logic.operator.windows) if w in asked]


def partials_of(logic: AggregationLogic, pooled: Pooled, w: int, runs: Ints) -> dict[int, Partials]:
    """By lane, the partials [entry, run] of a window's columns; one that is absent is zero."""
    found = {}
    for lane in range(len(logic.lanes)):
        some = logic.window_entries(lane, w)
        if some.start == some.stop:
            continue
        if logic.lane_measures[lane][0] in pooled.rows:
            found[lane] = _lane_partials(logic, lane, w, pooled, runs)
    return found


def _lane_partials(logic: AggregationLogic, lane: int, w: int, pooled: Pooled, runs: Ints) -> Partials:
    one, some = logic.lanes[lane], logic.window_entries(lane, w)
    every = [pooled.rows[measure] for measure in logic.lane_measures[lane]]
    rows = {name: np.array([of_names[name] for of_names in every]) for name in every[0]}
    into = one.zeros((some.stop - some.start, runs.shape[1]))
    for name in rows.keys() - into.keys():
        into[name] = np.zeros(into["v"].shape)
    for asked in logic.asked_bits(lane, w):
        bits = (pooled.sets, runs, asked.first, asked.mask, asked.entries)
        if isinstance(one, MomentsLogic):
            n, v, q = (rows[name][asked.measures] for name in ("n", "v", "q"))
            merge_accepted(*bits, n, v, q, pooled.ints, pooled.floats, into["n"], into["v"], into["q"])
        elif isinstance(one, ExtremeLogic):
            keep_accepted(*bits, rows["v"][asked.measures], pooled.ints, one.least, into["v"])
        else:
            for name, of_measure in rows.items():
                table = pooled.table(one, name)
                add_accepted(*bits, of_measure[asked.measures], table, into[name])
    return into


ClosingSlots = list[tuple[int, Window, Bools]]
"""Windows with their numbers, and which fine slices are in one that closes; windows without any are left out."""


def closing_of_windows(
    logic: AggregationLogic, pooled: Pooled, closed_us: int, watermark_us: int
) -> ClosingSlots:
    """Of windows whose queries accept any tuple of a pool."""
    every = (
        (w, window, in_closing(window, pooled.starts, closed_us, watermark_us))
        for w, window in _asked_windows(logic, pooled)
    )
    return [(w, window, slots) for w, window, slots in every if slots.any()]


def expand_pooled(
    logic: AggregationLogic, pooled: Pooled, block: KeyBlock, keys: int, closing: ClosingSlots
) -> HeldSegment:
    """A block of keys of a pool as a segment of partials, for windows that close. It is only read, for the tuples
    themselves are what is stored.
    """
    low, high = np.searchsorted(pooled.keys, [block.first, block.first + block.count])
    of_key, slots = pooled.keys[low:high], pooled.slots[low:high]
    blocks = []
    for w, window, asked in closing if low < high else ():
        own = slice_starts(window, pooled.starts)[slots]
        begins = np.flatnonzero(np.append(True, (of_key[1:] != of_key[:-1]) | (own[1:] != own[:-1])))
        runs = np.stack([begins, np.append(begins[1:], len(own))])[:, asked[slots[begins]]]
        if runs.shape[1] == 0:
            continue
        found = partials_of(logic, pooled, w, np.ascontiguousarray(runs + low))
        lanes = {
            logic.names[i]: LaneBlock(logic.ids[i][logic.window_entries(i, w)], partials)
            for i, partials in found.items()
        }
        if 0 in found:
            blocks.append(WindowBlock(window, of_key[runs[0]].astype(np.int64), own[runs[0]], lanes))
    segment = Segment(empty_key(0), blocks, {})
    return HeldSegment(segment, np.arange(keys), absorbed=False)
