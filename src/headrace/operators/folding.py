"""From tuples to folded partials: group by cell, slice and key, then fold cells into the lanes' entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.model.plan import LaneKind
from headrace.operators.cells import Cells
from headrace.operators.encode import Array, Ints
from headrace.operators.lanes import LaneLogic, Parts
from headrace.operators.prepared import AggregationLogic, SharedFold
from headrace.operators.tuples import Tuples

BLOCK_ELEMENTS = 1 << 24
"""Keys are worked off in blocks so that no array of partials has more elements than about this."""


@dataclass(slots=True)
class KeyBlock:
    """Keys [first, first + count) and the tuples that have them, as positions in the batch."""

    first: int
    count: int
    tuples: Tuples | None
    keys: Ints
    rows: Ints | slice


@dataclass(slots=True)
class Folded:
    """Partials [entry, row] per lane (None: all zero); rows are the occupied (slice, key) pairs in that order."""

    slices: Ints
    keys: Ints
    bounds: Ints
    starts: Ints
    lanes: list[Parts | None]
    dense: bool


def fold_block(logic: AggregationLogic, block: KeyBlock) -> Folded | None:
    tuples, rows = block.tuples, block.rows
    assert tuples is not None
    slices = tuples.slice[rows]
    if len(slices) == 0:
        return None
    flat = slices * block.count + block.keys
    size = len(tuples.slice_starts) * block.count
    present, row = _occupied(flat, size)
    regions = [r[rows] for r in tuples.regions]
    inputs: list[Parts | None] = [
        {name: part[rows] for name, part in parts.items()}
        if measure.kind is not LaneKind.NULLS or parts["v"].any()
        else None
        for measure, parts in zip(logic.operator.measures, tuples.measures, strict=True)
    ]
    lanes = [
        one.zeros((len(ids), len(present))) if any(inputs[m] is not None for m in lane.measures) else None
        for one, ids, lane in zip(logic.lanes, logic.ids, logic.operator.lanes, strict=True)
    ]
    for f, family in enumerate(logic.families):
        for part, cells in family.blocks(regions, len(row)):
            some = [parts and {name: values[part] for name, values in parts.items()} for parts in inputs]
            _fold_family(logic, f, cells, row[part], len(present), some, lanes, first=part.start == 0)
    row_slices = present // block.count
    bounds = np.searchsorted(row_slices, np.arange(len(tuples.slice_starts) + 1))
    return Folded(row_slices, present % block.count, bounds, tuples.slice_starts, lanes, len(present) == size)


def _occupied(flat: Ints, size: int) -> tuple[Ints, Ints]:
    """(codes that occur, ascending; position of each element's code among them)."""
    if size <= 4 * len(flat) + (1 << 20):
        counts = np.bincount(flat, minlength=size)
        if counts.all():
            return np.arange(size), flat
        present = np.flatnonzero(counts)
        lookup = np.empty(size, np.int64)
        lookup[present] = np.arange(len(present))
        return present, lookup[flat]
    present, row = np.unique(flat, return_inverse=True)
    return present, row


def _fold_family(
    logic: AggregationLogic,
    family: int,
    cells: Cells,
    row: Ints,
    rows: int,
    inputs: list[Parts | None],
    lanes: list[Parts | None],
    first: bool,
) -> None:
    """Group some of one family's tuples into cells and fold these into the family's entries of every lane."""
    if cells.count == 0:
        return
    for share in range(len(logic.shares)):
        shared = logic.fold_for(family, share, cells)
        busy = [fold for fold in shared.folds if inputs[fold[0]] is not None]
        if not busy:
            continue
        ids = shared.lookup[cells.ids]
        size = (shared.count + 1) * rows
        if size > max(4 * BLOCK_ELEMENTS, 8 * len(ids)):
            _fold_sparse(logic, shared, ids, row, rows, inputs, lanes, first)
            continue
        ids *= rows
        ids += row
        for measure, lane, entries, fold in busy:
            parts, into = inputs[measure], lanes[lane]
            assert parts is not None and into is not None
            grouped = logic.measures[measure].group(parts, ids, size)
            wanted = {n: p.reshape(-1, rows)[: shared.count] for n, p in grouped.items()}
            _put(logic.lanes[lane], into, entries, logic.measures[measure].fold(wanted, fold), first)


def _fold_sparse(
    logic: AggregationLogic,
    shared: SharedFold,
    ids: Ints,
    row: Ints,
    rows: int,
    inputs: list[Parts | None],
    lanes: list[Parts | None],
    first: bool,
) -> None:
    """The same when cells times rows is far more than there are tuples: one pass over the tuples per entry."""
    for measure, lane, entries, fold in shared.folds:
        parts, into = inputs[measure], lanes[lane]
        if parts is None or into is None:
            continue
        member = np.append(fold.member, np.zeros((1, fold.columns), bool), axis=0)
        for column, entry in enumerate(entries):
            hit = np.flatnonzero(member[ids, column])
            found = logic.measures[measure].group({n: p[hit] for n, p in parts.items()}, row[hit], rows)
            _put(logic.lanes[lane], into, np.array([entry]), {n: p[None, :] for n, p in found.items()}, first)


def _put(one: LaneLogic, into: Parts, entries: Ints, parts: Parts, first: bool) -> None:
    """A family's first tuples set its entries; what comes after is added."""
    if first:
        assign(into, entries, parts)
    else:
        accumulate_at(one, into, (entries,), parts)


def shadow(parts: Parts, other: Parts) -> Parts:
    """Give `parts` the float shadow that `other` has (exact sums below WIDE shadow themselves)."""
    return {**parts, "f": parts["v"].astype(np.float64)} if "f" in other and "f" not in parts else parts


def assign(into: Parts, at: Ints, parts: Parts) -> None:
    into.update(shadow(into, parts))
    for name, part in shadow(parts, into).items():
        into[name][at] = part


def accumulate_at(one: LaneLogic, into: Parts, at: tuple[Array | slice | int, ...], parts: Parts) -> None:
    """into[at] = combine(into[at], parts); positions in `at` are distinct."""
    into.update(shadow(into, parts))
    current = {name: whole[at] for name, whole in into.items()}
    for name, part in one.combine(current, shadow(parts, into)).items():
        into[name][at] = part
