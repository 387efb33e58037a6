"""Tuples that update the partials of the queries they match, where that is cheaper than folding a family's cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.model.plan import LaneKind
from headrace.model.ways import FamilyWay
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.cells import Cells
from headrace.operators.common.matching import Matcher, Matches
from headrace.operators.common.regions import Regions
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.partials import shadow
from headrace.operators.windows.prepared import AggregationLogic, Keepers
from headrace.operators.windows.sums import SliceSums
from headrace.operators.windows.together import Four, by_itself, passes_of, update_together
from headrace.optimizer.membership import CellWork, FamilyBatch, Membership, decide_membership, is_best


@dataclass(frozen=True, slots=True)
class Matching:
    """What finds a family's matches, and whether they are few beside all partials."""

    matcher: Matcher
    sparse: bool


@dataclass(frozen=True, slots=True)
class Brought:
    """What the tuples of a block bring: a region for each operand, and a partial for each measure, some of which are
    updated `together`.
    """

    regions: Sequence[Regions]
    inputs: Sequence[Partials | None]
    together: Sequence[Four]


def choose_matching(
    logic: AggregationLogic,
    family: int,
    cells: Cells | None,
    brought: Brought,
    rows: int,
    ways: list[FamilyWay],
) -> Matching | None:
    """How the tuples of a family find their queries; None for cells. `cells` is None where there are too many."""
    regions, inputs = brought.regions, brought.inputs
    index, tuples, work = logic.families[family], len(regions[0]) if regions else 0, None
    if cells is not None:
        work = _cell_work(logic, family, cells, inputs)
    if tuples == 0 or index.boxes is None or (work is not None and is_best(work, rows, tuples)):
        ways.append(index.way(tuples, 0, None))
        return None
    known = [measure for measure in logic.measures_of(family) if inputs[measure] is not None]
    passes = passes_of(logic, brought.together, known, inputs)
    matcher = index.matcher(regions, len(passes))
    kept = [one for one in logic.keepers_of(family, matcher) if inputs[one.measure] is not None]
    some = matcher.sampled([regions[operand] for operand in index.operands])
    matching = matcher.matching(some) / len(some)
    batch = FamilyBatch(
        tuples,
        rows,
        len(passes),
        len(index.operands),
        matcher.words,
        matcher.candidates_of(some),
        matcher.candidates > 0,
        sum(float(matching[_columns_of(kept, one, len(matching))].sum()) for one in passes),
        sum(len(k.columns) for k in kept),
        work,
    )
    choice = decide_membership(batch)
    by_cells = choice.membership is Membership.CELLS
    way = index.way(tuples, float(matching.sum()) * tuples, None if by_cells else matcher, some)
    ways.append(
        replace(
            way,
            sparse=None if by_cells else choice.sparse,
            cells_ms=None if choice.cells_ns is None else choice.cells_ns / 1e6,
            matches_ms=None if choice.matches_ns is None else choice.matches_ns / 1e6,
        )
    )
    return None if by_cells else Matching(matcher, choice.sparse)


def _columns_of(kept: Sequence[Keepers], measures: Sequence[int], queries: int) -> Bools:
    """Which queries of a family keep some of these measures."""
    found = np.zeros(queries, np.bool_)
    for one in kept:
        if one.measure in measures:
            found[one.columns] = True
    return found


def _cell_work(
    logic: AggregationLogic, family: int, cells: Cells, inputs: Sequence[Partials | None]
) -> CellWork:
    """What folding a family's cells takes; a measure without input takes nothing."""
    known = [m for m in logic.measures_of(family) if inputs[m] is not None] if cells.count else []
    every = [
        (logic.operator.measures[measure].kind, fold)
        for measure in known
        for _, _, fold in logic.fold_for(family, measure, cells).folds
    ]
    slow = [fold for kind, fold in every if kind in (LaneKind.MIN, LaneKind.MAX)]
    moments = [fold for kind, fold in every if kind is LaneKind.MOMENTS]
    return CellWork(
        max((fold.cells for _, fold in every), default=0),
        len(every),
        sum(fold.cells for _, fold in every),
        sum(fold.cells * len(fold.scattered) for _, fold in every),
        sum(len(fold.scattered) for fold in slow) + sum(fold.columns for fold in moments),
        sum(int(np.count_nonzero(fold.membership[:, fold.scattered])) for fold in slow)
        + 4 * sum(int(np.count_nonzero(fold.membership)) for fold in moments),
        sum(fold.cells * fold.steps for fold in slow),
    )


def update_matches(
    logic: AggregationLogic,
    family: int,
    matching: Matching,
    brought: Brought,
    order: Ints,
    bounds: Ints,
    lanes: Sequence[Partials | SliceSums | None],
) -> None:
    """Let every tuple update the partials of the queries that it matches."""
    matcher, inputs, tuples = matching.matcher, brought.inputs, len(order)
    codes = matcher.codes([brought.regions[operand] for operand in logic.families[family].operands])
    keepers = [kept for kept in logic.keepers_of(family, matcher) if inputs[kept.measure] is not None]
    by_measure = {kept.measure: kept for kept in keepers}
    passes = passes_of(logic, brought.together, by_measure, inputs)
    known = matcher.listed_matches(codes, order, bounds) if len(passes) > 1 else None
    matched: Ints | None = None
    if known is not None:  # candidates are compared once, and what matched is gone through in each pass
        codes, matched = known
        matcher, bounds = matcher.found, _bounds_of(matched, order, bounds)
        order = np.arange(len(matched))
    none = np.empty(0, np.int64)
    matches = Matches(matcher, codes, none, none, order, bounds, matching.sparse)
    into: dict[int, Array] = {}
    for kept in keepers:  # before anything is added: a float shadow begins with what its lane has had so far
        partials, mine = inputs[kept.measure], lanes[kept.lane]
        assert partials is not None and mine is not None and not isinstance(mine, SliceSums)
        mine.update(shadow(mine, partials))
    for kept in keepers:
        partials, mine = inputs[kept.measure], lanes[kept.lane]
        assert partials is not None and mine is not None and not isinstance(mine, SliceSums)
        one, into[kept.measure] = logic.measures[kept.measure], mine["v"]
        given = by_itself(one, shadow(partials, mine))
        if matched is not None:
            given = {name: array[matched] for name, array in given.items()}
        if given:
            one.update(mine, given, replace(matches, mask=kept.mask, entries=kept.entries))
    for some in brought.together:
        if not by_measure.keys().isdisjoint(some.measures.values()):
            values = some.values(inputs, tuples)
            update_together(some, by_measure, into, values if matched is None else values[matched], matches)


def _bounds_of(some: Ints, order: Ints, bounds: Ints) -> Ints:
    """Where each row's begin of some tuples in the order of rows, given the order and bounds of all."""
    row = np.empty(len(order), np.int64)
    row[order] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    counts = np.bincount(row[some], minlength=len(bounds) - 1)
    return np.append(0, np.cumsum(counts))
