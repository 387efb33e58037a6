"""Cells or bit rows: how the tuples of a family find the queries that want them.

The coefficients are nanoseconds on one core of the machine that the reports name. Only their ratios matter, and those
differ little between machines. `bench/kernels` has the measurements behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Membership(Enum):
    """CELLS: group tuples by cell, then fold cells into queries. BIT_ROWS: update each matching query per tuple."""

    CELLS = "cells"
    BIT_ROWS = "bit rows"


@dataclass(frozen=True, slots=True)
class CellWork:
    """What cells would cost: how many there are, and how many query columns are no run of neighbouring cells."""

    cells: int
    scattered: int


@dataclass(frozen=True, slots=True)
class FamilyBatch:
    """What is known of a family's tuples before they are worked off.

    `rows` are the (slice, key) pairs that they fall into, `passes` the measures that somebody keeps, `words` the bit
    words that a pass ANDs per tuple, and `updates` the partials that a tuple changes on average, over all passes.
    """

    tuples: int
    rows: int
    passes: int
    words: int
    updates: float
    cells: CellWork | None


GRID_ELEMENTS = 1 << 26
"""A grid of cells times rows may have this many elements."""

GRID_PER_TUPLE = 8
"""Or this many for each tuple."""

GROUP_NS, RUN_NS, SCATTERED_NS = 5.0, 2.0, 1.5
"""To group a tuple; to total a cell's row; to add a cell's row to a query whose cells are no neighbours."""

VISIT_NS, WORD_NS, UPDATE_NS = 15.0, 1.0, 5.0
"""To visit a tuple; to AND one word; to update one partial."""


def decide_membership(batch: FamilyBatch) -> Membership:
    """Whichever is estimated to take less time; `cells` is None where they are too many to be enumerated.

    >>> few, many = CellWork(147, 0), CellWork(2_851, 170)
    >>> decide_membership(FamilyBatch(200_000, 800, 3, 3, 150.0, few))
    <Membership.CELLS: 'cells'>
    >>> decide_membership(FamilyBatch(200_000, 800, 3, 4, 21.0, many))
    <Membership.BIT_ROWS: 'bit rows'>
    """
    if batch.cells is None or is_sparse(batch.cells.cells, batch.rows, batch.tuples):
        return Membership.BIT_ROWS
    return (
        Membership.CELLS if estimate_cells_ns(batch) <= estimate_bit_rows_ns(batch) else Membership.BIT_ROWS
    )


def estimate_cells_ns(batch: FamilyBatch) -> float:
    assert batch.cells is not None
    grid = batch.cells.cells * batch.rows
    return (
        batch.passes * (GROUP_NS * batch.tuples + RUN_NS * grid) + SCATTERED_NS * grid * batch.cells.scattered
    )


def estimate_bit_rows_ns(batch: FamilyBatch) -> float:
    visits = batch.passes * (VISIT_NS + WORD_NS * batch.words)
    return batch.tuples * (visits + UPDATE_NS * batch.updates)


def is_sparse(cells: int, rows: int, tuples: int) -> bool:
    """Whether cells times rows is so much more than there are tuples that a grid of it does not pay."""
    return (cells + 1) * rows > max(GRID_ELEMENTS, GRID_PER_TUPLE * tuples)
