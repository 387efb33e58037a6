"""From tuples to folded partials: group by cell, slice and key, then fold cells into the lanes' entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.plan import LaneKind
from headrace.model.ways import FamilyWay
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bitrows import ordered_by_row
from headrace.operators.common.cells import Cells
from headrace.operators.windows.bags import Bag, BagBuilder
from headrace.operators.windows.lanes import CountLogic, ExtremeLogic, IntSumLogic, LaneLogic, Partials
from headrace.operators.windows.lifted import Lifted
from headrace.operators.windows.matches import Brought, choose_matching, update_matches
from headrace.operators.windows.partials import accumulate_at, assign
from headrace.operators.windows.prepared import AggregationLogic, MeasureFold
from headrace.operators.windows.sums import SliceSums
from headrace.operators.windows.together import fours_for
from headrace.optimizer.membership import is_sparse

BLOCK_ELEMENTS = 1 << 24
"""Keys are worked off in blocks so that no array of partials has more elements than about this."""


@dataclass(slots=True)
class KeyBlock:
    """Keys [first, first + count) and the tuples that have them, as positions in the batch.

    All blocks but the last have `size` keys.
    """

    first: int
    count: int
    lifted: Lifted | None
    keys: Ints
    rows: Ints | slice
    size: int = 0
    sparse: bool = False
    """Whether most of the keys have no tuple in most slices."""

    @property
    def whole(self) -> bool:
        """Whether there are no other keys."""
        return isinstance(self.rows, slice)


@dataclass(slots=True)
class Folded:
    """Partials of fine slices: per lane as [entry, row] (None: all zero) or as sums, read for any run of slices.

    Rows are pairs of a slice and a key, all of them when `dense`, else the occupied ones. They are ordered by slice and
    key, and `bounds` says where each slice begins. Where rows are listed (see `sparse`), they are ordered by key and
    slice, and there are no bounds.
    """

    slices: Ints
    keys: Ints
    bounds: Ints
    starts: Ints
    lanes: list[Partials | SliceSums | None]
    dense: bool


def fold_block(logic: AggregationLogic, block: KeyBlock, ways: list[FamilyWay]) -> Folded | None:
    """What the tuples of some keys add; how they found their queries is added to `ways`."""
    lifted, rows = block.lifted, block.rows
    assert lifted is not None
    slices = lifted.slice[rows]
    if len(slices) == 0:
        return None
    starts = lifted.slice_starts
    if not block.whole:  # some keys may have tuples in few of the slices
        occurs = np.bincount(slices, minlength=len(starts)) > 0
        slices, starts = (np.cumsum(occurs) - 1)[slices], starts[occurs]
    flat = block.keys * len(starts) + slices if block.sparse else slices * block.count + block.keys
    size = len(starts) * block.count
    present, row = _occupied(flat, size)
    regions = [r[rows] for r in lifted.regions]
    inputs: list[Partials | None] = [
        {name: array[rows] for name, array in partials.items()}
        if measure.kind is not LaneKind.BAG and (measure.kind is not LaneKind.NULLS or partials["v"].any())
        else None
        for measure, partials in zip(logic.operator.measures, lifted.measures, strict=True)
    ]
    mosts = [0 if partials is None else _most(partials["v"]) for partials in inputs]
    nobody = [r[:0] for r in regions]
    enumerated = [family.locate(nobody, 0) if family.static else None for family in logic.families]
    brought = Brought(regions, inputs, fours_for(logic, inputs))
    matching = [
        choose_matching(logic, f, cells, brought, len(present), ways) for f, cells in enumerate(enumerated)
    ]
    lanes: list[Partials | SliceSums | None] = []
    for i, one in enumerate(logic.lanes):
        mine = [
            partials for m in set(logic.operator.lanes[i].measures) if (partials := inputs[m]) is not None
        ]
        grid = len(present) == size and not any(matching) and not block.sparse
        needed = _sums_rows(logic, i, enumerated, inputs, len(row), size) if grid else None
        if not mine:
            lanes.append(None)
        elif needed is not None:
            most = max(mosts[m] for m in set(logic.operator.lanes[i].measures) if inputs[m] is not None)
            lanes.append(SliceSums(len(logic.ids[i]), needed, len(starts), block.count, most))
        elif any(matching):
            lanes.append(one.zeros((len(logic.ids[i]), len(present))))
        else:  # families set nearly all of it, and the rest is cleared then
            shape = len(logic.ids[i]), len(present)
            lanes.append({name: np.empty(shape, zero.dtype) for name, zero in one.zeros(()).items()})
    known = [np.zeros(len(ids), np.bool_) for ids in logic.ids]
    order = ordered_by_row(row, len(present)) if any(matching) else None
    for f, family in enumerate(logic.families):
        found = matching[f]
        if found is not None:
            assert order is not None
            update_matches(logic, f, found, brought, *order, lanes)
            continue
        for piece, cells in family.blocks(regions, len(row)):
            some = [
                partials and {name: values[piece] for name, values in partials.items()} for partials in inputs
            ]
            _fold_family(logic, f, cells, _Piece(row[piece], len(present), some, lanes, known))
    for one, into, set_ in zip(logic.lanes, lanes, known, strict=True):
        if isinstance(into, dict) and not any(matching):
            _clear(one, into, np.flatnonzero(~set_))
    if block.sparse:
        row_keys, row_slices = np.divmod(present, len(starts))
        return Folded(row_slices, row_keys, np.empty(0, np.int64), starts, lanes, dense=False)
    row_slices, row_keys = np.divmod(present, block.count)
    bounds = np.searchsorted(row_slices, np.arange(len(starts) + 1))
    return Folded(row_slices, row_keys, bounds, starts, lanes, len(present) == size)


def fold_bags(logic: AggregationLogic, lifted: Lifted, keys: Ints) -> list[list[Bag]]:
    """What a batch of tuples puts into each bag, in no order; `keys` is the key of each tuple."""
    builders = [BagBuilder(bag, len(bag.ids)) for bag in logic.bags]
    slices = lifted.slice_starts[lifted.slice]
    for f, family in enumerate(logic.families):
        asked = [builder.logic.asked(logic.family_columns(f)) for builder in builders]
        if not any(len(entries) for entries, _ in asked):
            continue
        for piece, cells in family.blocks(lifted.regions, lifted.rows):
            for builder, mine in zip(builders, asked, strict=True):
                some = {
                    name: values[piece] for name, values in lifted.measures[builder.logic.measure].items()
                }
                builder.add(cells, mine, keys[piece], slices[piece], some)
    return [builder.bags for builder in builders]


def _sums_rows(
    logic: AggregationLogic,
    lane: int,
    enumerated: Sequence[Cells | None],
    inputs: Sequence[Partials | None],
    tuples: int,
    rows: int,
) -> int | None:
    """How many rows of running totals a lane needs; None when its partials are better kept one by one."""
    if not isinstance(logic.lanes[lane], CountLogic | IntSumLogic):
        return None
    known = {m: partials for m in logic.operator.lanes[lane].measures if (partials := inputs[m]) is not None}
    if any("f" in partials for partials in known.values()):
        return None
    needed = 0
    for f, cells in enumerate(enumerated):
        if cells is None:
            return None
        for measure in known if cells.count else ():
            found = logic.fold_for(f, measure, cells)
            mine = [fold for i, _, fold in found.folds if i == lane]
            if mine and is_sparse(found.count, rows, tuples):
                return None
            needed += sum(SliceSums.rows_for(fold) for fold in mine)
    return needed if needed * rows <= 4 * BLOCK_ELEMENTS else None


def _most(values: Array) -> int:
    """No sum of some of these is further from 0, where they are whole numbers."""
    if values.dtype == np.float64:
        return 2**63
    return max(int(values.max(initial=0)), -int(values.min(initial=0))) * len(values)


def _occupied(flat: Ints, size: int) -> tuple[Ints, Ints]:
    """(codes that occur, ascending; position of each element's code among them). If most occur, all of them."""
    if size <= 4 * len(flat) + (1 << 20):
        counts = np.bincount(flat, minlength=size)
        present = np.flatnonzero(counts)
        if 2 * len(present) >= size:
            return np.arange(size), flat
        lookup = np.empty(size, np.int64)
        lookup[present] = np.arange(len(present))
        return present, lookup[flat]
    present, row = np.unique(flat, return_inverse=True)
    return present, row


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some tuples of a batch: the row of each among `rows`, what they contribute, and the lanes that take it in.

    Of the entries of each lane some are `known`: tuples before these have set what they are added to.
    """

    row: Ints
    rows: int
    inputs: Sequence[Partials | None]
    lanes: Sequence[Partials | SliceSums | None]
    known: Sequence[Bools]

    def put(self, one: LaneLogic, lane: int, entries: Ints, partials: Partials) -> None:
        """Take partials into some entries of a lane."""
        into, known = self.lanes[lane], self.known[lane]
        assert isinstance(into, dict)
        if not known[entries].any():
            assign(into, entries, partials)
        else:
            _clear(one, into, entries[~known[entries]])
            accumulate_at(one, into, (entries,), partials)
        known[entries] = True


def _fold_family(logic: AggregationLogic, family: int, cells: Cells, piece: _Piece) -> None:
    """Group some of one family's tuples into cells and fold these into the family's entries of every lane."""
    if cells.count == 0:
        return
    for measure, partials in enumerate(piece.inputs):
        if partials is None:
            continue
        found = logic.fold_for(family, measure, cells)
        if not found.folds:
            continue
        if is_sparse(found.count, piece.rows, len(cells.ids)):
            _fold_sparse(logic, measure, found, cells.ids, piece)
            continue
        totals = [(piece.lanes[lane], entries, fold) for lane, entries, fold in found.folds]
        for into, entries, fold in totals:
            if isinstance(into, SliceSums):
                into.add_tuples(partials["v"], cells.ids, found.lookup, piece.row, fold, entries)
        if all(isinstance(into, SliceSums) for into, _, _ in totals):
            continue
        one, size = logic.measures[measure], (found.count + 1) * piece.rows
        if isinstance(one, ExtremeLogic):
            grouped = one.group_cells(partials, cells.ids, found.lookup * piece.rows, piece.row, size)
        else:
            grouped = one.group(partials, found.bins(cells.ids, piece.row, piece.rows), size)
        wanted = {n: p.reshape(-1, piece.rows)[: found.count] for n, p in grouped.items()}
        for lane, entries, fold in found.folds:
            if not isinstance(piece.lanes[lane], SliceSums):
                piece.put(logic.lanes[lane], lane, entries, one.fold(wanted, fold))


def _fold_sparse(
    logic: AggregationLogic, measure: int, found: MeasureFold, cells: Ints, piece: _Piece
) -> None:
    """The same when cells times rows is far more than there are tuples: one pass over the tuples per entry."""
    partials, ids = piece.inputs[measure], found.lookup[cells + 1]
    for lane, entries, fold in found.folds:
        assert partials is not None
        membership = np.append(fold.membership, np.zeros((1, fold.columns), bool), axis=0)
        for column, entry in enumerate(entries):
            hit = np.flatnonzero(membership[ids, column])
            some = {name: values[hit] for name, values in partials.items()}
            grouped = logic.measures[measure].group(some, piece.row[hit], piece.rows)
            one = {name: values[None, :] for name, values in grouped.items()}
            piece.put(logic.lanes[lane], lane, np.array([entry]), one)


def _clear(one: LaneLogic, into: Partials, entries: Ints) -> None:
    """Make some entries those of no tuple."""
    if len(entries):
        zeros = one.zeros((len(entries), into["v"].shape[1]))
        for name, array in into.items():
            array[entries] = zeros.get(name, 0)
