"""How the tuples of a family find the queries that want them: by cells, by bit rows, or as candidates.

The coefficients are nanoseconds on one core of the machine that the reports name. Only their ratios matter, and those
differ little between machines. `bench/kernels` has the measurements behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger[Any]]


class Membership(Enum):
    """CELLS: group tuples by cell, then fold cells into queries. MATCHES: update each matching query per tuple."""

    CELLS = "cells"
    MATCHES = "matches"


@dataclass(frozen=True, slots=True)
class CellWork:
    """What cells would cost: how many there are, and how many `passes` group and fold them.

    Each pass has cells of its own, at most `cells` and so many over all passes (`every`). Columns whose cells are no
    neighbours go over so many cells in all (`scattered`). So many columns are folded one by one, `alone`, over
    so many cells in all (`alone_cells`). Extremes of runs go over so many in all their steps of doubling (`doubled`).
    """

    cells: int
    passes: int
    every: int
    scattered: int = 0
    alone: int = 0
    alone_cells: int = 0
    doubled: int = 0


@dataclass(frozen=True, slots=True)
class FamilyBatch:
    """What is known of a family's tuples before they are worked off.

    `rows` are the (slice, key) pairs that they fall into. Measures are updated in so many `passes`, some of them
    together. In each pass a tuple meets so many `words` of bit rows and `candidates`. `updates` are the queries whose
    partials a tuple changes on average, over all passes, and `entries` the partials that there are for each row.
    `cells` is None where they cannot be enumerated.
    """

    tuples: int
    rows: int
    passes: int
    operands: int
    words: int
    candidates: float
    listed: bool
    updates: float
    entries: int
    cells: CellWork | None


GRID_ELEMENTS = 1 << 26
"""A grid of cells times rows may have this many elements."""

GRID_PER_TUPLE = 8
"""Or this many for each tuple."""

GROUP_NS, RUN_NS, CELL_NS, SCATTERED_NS = 3.5, 1.3, 800.0, 0.06
"""To group a tuple; to total a cell's row; to take up a cell, where rows are many; to add a cell's row to a query whose
cells are no neighbours.
"""

ALONE_NS, ALONE_CELL_NS, DOUBLED_NS = 20_000.0, 1.6, 1.0
"""To fold a column by itself; a cell's row of it; a cell's row in each step of doubling."""

VISIT_NS, WORD_NS, HIT_NS = 8.0, 0.75, 8.0
"""To visit a tuple; to AND one word of one operand; to look at a word in which a query matches."""

LISTS_NS, LIST_NS, CANDIDATE_NS, COMPARE_NS, GUESS_NS = 2.0, 0.8, 1.7, 3.0, 10.0
"""To look at lists at all; at one operand's; to meet one candidate; to compare it with other operands; a wrong guess of
the processor. It guesses wrongly where a list ends, which the first two candidates stand for. It also does in which
words queries match: most often where a word has a match as often as not.
"""

ORDER_NS, KNOWN_NS = 6.0, 8.0
"""To bring a tuple into the order of rows; to keep what it found for all measures."""

UPDATE_NS, FAR_UPDATE_NS, FLUSH_NS, PLACE_NS, FAR_PLACE_NS = 1.6, 3.5, 1.5, 4.5, 14.0
"""To update a query's partials in a tile; in a tile that no near cache holds; to add one partial of a tile to others;
to update a query's where they are; where they are on a page that the processor has to look up.
"""

NEAR_BOXES, NEAR_PAGES, PAGE = 2_048, 1_024, 512
"""A tile of so many boxes is near. So are partials on so many pages, of which each has so many partials."""

FEW_ROWS = 128
"""Up to so many rows, cells are taken up all at once."""

WORD = 64

REHOMING_GAIN = 1.25
"""Lists are made anew when that makes finding boxes so many times as fast."""


@dataclass(frozen=True, slots=True)
class Homes:
    """Which boxes of a family are candidates, and of which operand's lists (`home`); the others have bit rows.

    `shares[box, operand]` of the sampled tuples were in the box's regions of an operand. Finding the boxes of a tuple
    is estimated to take `cost_ns` for each measure.
    """

    listed: npt.NDArray[np.bool_]
    home: Ints
    shares: npt.NDArray[np.float64]
    cost_ns: float


def decide_homes(hits: Ints, lengths: Ints, regions: Ints, sampled: int, most: int, passes: int = 1) -> Homes:
    """The cheapest split of boxes into candidates and bit rows, for so many measures.

    `hits[box, operand]` are the sampled tuples in the box's set of regions, `lengths` the regions of the set, out of
    `regions[operand]`. Lists may have `most` entries. The home of a box is the operand by which the fewest tuples meet
    it. A word of bit rows costs the same however many boxes it has, so the boxes that are met least often are listed,
    as many as it takes to save words. Where all are, they are compared once for all measures.

    >>> hits = np.array([[1, 90]] * 6_400 + [[60, 80]] * 64)
    >>> homes = decide_homes(hits, np.full((6_464, 2), 1), np.array([9_000, 900]), 10_000, 10**6)
    >>> homes.listed.sum(), homes.home[:3].tolist()
    (np.int64(6400), [0, 0, 0])
    """
    shares = (hits + lengths / regions) / (sampled + 1)
    boxes, operands = shares.shape
    home = shares.argmin(axis=1)
    every = np.arange(boxes)
    order = np.argsort(shares[every, home], kind="stable")
    met = np.append(0.0, np.cumsum(shares[order, home[order]]))
    entries = np.append(0, np.cumsum(lengths[order, home[order]]))
    matched = np.append(0.0, np.cumsum(shares.prod(axis=1)[order]))
    words = -(-(boxes - np.arange(boxes + 1)) // WORD)
    cost = _finding_ns(operands, words, met, np.arange(boxes + 1) > 0) + _hits_ns(
        words, matched[-1] - matched
    )
    cost[-1] = _once_ns(cost[-1], met[-1], operands, passes)
    best = int(np.where(entries <= most, cost, np.inf).argmin())
    listed = np.zeros(boxes, bool)
    listed[order[:best]] = True
    return Homes(listed, home, shares, float(cost[best]))


def is_worth_rehoming(now: Homes, other: Homes, passes: int = 1) -> bool:
    """Whether other homes are clearly better than those in force, for the tuples and the number of measures that the
    other ones were made for.
    """
    boxes, operands = other.shares.shape
    met = float(other.shares[np.arange(boxes), now.home][now.listed].sum())
    words = -(-int((~now.listed).sum()) // WORD)
    matched = float(other.shares.prod(axis=1)[~now.listed].sum())
    cost = _finding_ns(operands, words, met, now.listed.any()) + _hits_ns(words, matched)
    cost = cost if words else _once_ns(cost, met, operands, passes)
    return bool(cost > REHOMING_GAIN * other.cost_ns + VISIT_NS)


def _once_ns(finding_ns: float, candidates: float, operands: int, passes: int) -> float:
    """What finding once takes for each measure, without a visit for each of them.

    Matches are visited for each measure. With one operand all candidates are matches, and with more few of them are.
    """
    if passes <= 1:
        return finding_ns
    known = VISIT_NS * candidates if operands == 1 else 0.0
    return (VISIT_NS + finding_ns + KNOWN_NS) / passes + known - VISIT_NS


def _finding_ns(operands: int, words: Any, candidates: Any, listed: Any) -> Any:
    """To find the boxes of one tuple once, but for the words that have a match."""
    lists = LISTS_NS + operands * LIST_NS + CANDIDATE_NS * candidates + GUESS_NS * np.minimum(candidates, 2.0)
    if operands > 1:
        lists = lists + COMPARE_NS * candidates
    return operands * WORD_NS * words + listed * lists


def _hits_ns(words: Any, matches: Any) -> Any:
    """What so many matches of a tuple take, as they fall into words."""
    hit = 1.0 - np.exp(-matches / np.maximum(words, 1))
    return words * (HIT_NS * hit + 2.0 * GUESS_NS * hit * (1.0 - hit))


def is_best(work: CellWork, rows: int, tuples: int) -> bool:
    """Whether cells take less time than visiting the tuples, so that nothing else need be looked at."""
    least = work.passes * tuples * VISIT_NS
    return not is_sparse(work.cells, rows, tuples) and estimate_cells_ns(work, rows, tuples) < least


@dataclass(frozen=True, slots=True)
class Choice:
    """How a family's tuples find their queries, and what each way was estimated to take (None: not possible).

    `sparse` says that matches update partials where they are, not in tiles: they are few beside all partials.
    """

    membership: Membership
    sparse: bool
    cells_ns: float | None
    matches_ns: float | None


def decide_membership(batch: FamilyBatch) -> Choice:
    """Whichever is estimated to take less time. Where cells are too many to be enumerated, there is no choice.

    >>> few, many = CellWork(147, 3, 441), CellWork(2_851, 3, 8_553, 170 * 2_851)
    >>> decide_membership(FamilyBatch(200_000, 800, 3, 3, 1, 0.0, False, 150.0, 50, few)).membership
    <Membership.CELLS: 'cells'>
    >>> decide_membership(FamilyBatch(200_000, 800, 3, 4, 1, 0.0, False, 21.0, 180, many)).membership
    <Membership.MATCHES: 'matches'>
    """
    sparse = estimate_places_ns(batch) < estimate_tile_ns(batch)
    matches_ns = estimate_matches_ns(batch)
    if batch.cells is None or is_sparse(batch.cells.cells, batch.rows, batch.tuples):
        return Choice(Membership.MATCHES, sparse, None, matches_ns)
    cells_ns = estimate_cells_ns(batch.cells, batch.rows, batch.tuples)
    way = Membership.CELLS if cells_ns <= matches_ns else Membership.MATCHES
    return Choice(way, sparse, cells_ns, matches_ns)


def estimate_cells_ns(work: CellWork, rows: int, tuples: int) -> float:
    taking_up = CELL_NS * work.every if rows > FEW_ROWS else 0.0
    of_rows = (
        RUN_NS * work.every
        + SCATTERED_NS * work.scattered
        + ALONE_CELL_NS * work.alone_cells
        + DOUBLED_NS * work.doubled
    )
    return GROUP_NS * work.passes * tuples + rows * of_rows + taking_up + ALONE_NS * work.alone


def estimate_matches_ns(batch: FamilyBatch) -> float:
    matches = batch.updates / max(batch.passes, 1)
    if batch.operands == 1:  # all candidates match
        matches = max(0.0, matches - batch.candidates)
    finding: float = VISIT_NS + float(_hits_ns(batch.words, matches))
    finding += _finding_ns(batch.operands, batch.words, batch.candidates, batch.listed)
    updating = ORDER_NS * batch.tuples + min(estimate_tile_ns(batch), estimate_places_ns(batch))
    if batch.listed and not batch.words and batch.passes > 1:  # candidates are compared once for all
        return batch.tuples * (finding + KNOWN_NS + VISIT_NS * batch.updates) + updating
    return batch.tuples * batch.passes * finding + updating


def estimate_tile_ns(batch: FamilyBatch) -> float:
    near = batch.entries <= NEAR_BOXES * batch.passes
    update = UPDATE_NS if near else FAR_UPDATE_NS
    return update * batch.updates * batch.tuples + FLUSH_NS * batch.entries * batch.rows


def estimate_places_ns(batch: FamilyBatch) -> float:
    pages = batch.entries * min(1.0, batch.rows / PAGE)
    far = FAR_PLACE_NS if pages > NEAR_PAGES * batch.passes else FAR_UPDATE_NS + PLACE_NS - UPDATE_NS
    update = PLACE_NS if max(batch.entries / NEAR_BOXES, pages / NEAR_PAGES) <= batch.passes else far
    return update * batch.updates * batch.tuples


def is_sparse(cells: int, rows: int, tuples: int) -> bool:
    """Whether cells times rows is so much more than there are tuples that a grid of it does not pay."""
    return (cells + 1) * rows > max(GRID_ELEMENTS, GRID_PER_TUPLE * tuples)
