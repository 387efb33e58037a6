"""Micro-sessions of each family in the order of keys and moments, and which of them each column wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from headrace.model.ways import FamilyWay
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.matching import Matcher
from headrace.operators.compiled.sessions import count_wanted, list_wanted
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import MicroSessions, late_limits, lateness, merge_runs, ordered
from headrace.operators.windows.lanes import Partials


class Wanted(Protocol):
    """Which micro-sessions of a family its columns want."""

    def between(self, rows: slice) -> Wanted:
        """The same for some rows."""

    def pairs(self, starts: Ints, limits: Ints) -> tuple[Ints, Ints]:
        """(rows, column by column and ascending; how many of them each column wants): those that start later than the
        column's limit.
        """

    def each(self) -> float:
        """How much work a row is."""


@dataclass(frozen=True, slots=True)
class ByCells:
    """`wanted[c, cells[i]]` says whether column c wants row i."""

    wanted: Bools
    cells: Ints

    def between(self, rows: slice) -> ByCells:
        return ByCells(self.wanted, self.cells[rows])

    def pairs(self, starts: Ints, limits: Ints) -> tuple[Ints, Ints]:
        counts = np.empty(len(self.wanted), np.int64)
        count_wanted(self.cells, self.wanted, starts, limits, counts)
        ends = np.cumsum(counts)
        rows = np.empty(int(ends[-1]) + 1, np.int64)
        list_wanted(self.cells, self.wanted, starts, limits, ends - counts, rows)
        return rows[:-1], counts

    def each(self) -> float:
        return float(len(self.wanted))


@dataclass(frozen=True, slots=True)
class ByMatches:
    """Rows by their codes; those that columns want are listed without a look at the others."""

    matcher: Matcher
    codes: Ints
    matches: float

    def between(self, rows: slice) -> ByMatches:
        return ByMatches(self.matcher, self.codes[rows], self.matches)

    def pairs(self, starts: Ints, limits: Ints) -> tuple[Ints, Ints]:
        rows, counts = self.matcher.pairs(self.codes)
        column = np.repeat(np.arange(len(counts)), counts)
        in_time = starts[rows] > limits[column]
        if in_time.all():
            return rows, counts
        return rows[in_time], np.bincount(column[in_time], minlength=len(counts))

    def each(self) -> float:
        return 1.0 + self.matches


@dataclass(frozen=True, slots=True)
class FamilyMicros:
    """Micro-sessions of family `number`, by key and start, and which of them the columns `columns` want."""

    number: int
    columns: Ints
    wanted: Wanted
    keys: Ints
    starts: Ints
    lasts: Ints
    measures: dict[int, Partials]

    def of_keys(self, low: int, high: int) -> FamilyMicros:
        """The rows of the keys [low, high)."""
        some = slice(*np.searchsorted(self.keys, [low, high]).tolist())
        return replace(
            self,
            wanted=self.wanted.between(some),
            keys=self.keys[some],
            starts=self.starts[some],
            lasts=self.lasts[some],
            measures={
                m: {name: array[some] for name, array in partials.items()}
                for m, partials in self.measures.items()
            },
        )


def family_micros(
    logic: SessionLogic, micros: MicroSessions, keys: Ints, closed_us: int, ways: list[FamilyWay]
) -> Iterator[FamilyMicros]:
    """Each family's rows, merged per cell and key within the family's smallest gap: one pass for all its queries.

    Where nearly every row has a cell of its own, nothing is merged, and rows find their queries by matches.
    """
    late = lateness(late_limits(logic.operator, closed_us), micros.starts)
    ages = len(logic.operator.gaps) + 1
    by_key: Ints | None = None
    for f, family in enumerate(logic.families):
        if family.matched:
            by_key = ordered(keys, micros.starts) if by_key is None else by_key
            yield _matched_micros(logic, f, micros, keys, by_key, ways)
            continue
        ways.append(family.way(micros.rows, 0, None))
        for block, cells in family.blocks(micros.regions, micros.rows):
            wanted = np.flatnonzero(cells.ids >= 0)
            if len(wanted) == 0:
                continue
            rows = wanted + block.start
            groups = (cells.ids[wanted] * (int(keys.max()) + 1) + keys[rows]) * ages + late[rows]
            merged = merge_runs(groups, micros.starts[rows], micros.lasts[rows], logic.family_gaps[f])
            heads = merged.order[merged.first]
            in_order = ordered(keys[rows[heads]], micros.starts[rows[heads]])
            heads, order = heads[in_order], rows[merged.order]
            yield FamilyMicros(
                f,
                logic.family_columns[f],
                ByCells(np.ascontiguousarray(cells.membership.T), cells.ids[wanted[heads]]),
                keys[rows[heads]],
                micros.starts[rows[heads]],
                merged.lasts[in_order],
                {
                    m: _runs(logic, micros, m, order, merged.first, in_order)
                    for m in logic.family_measures(f).tolist()
                },
            )


def _matched_micros(
    logic: SessionLogic, f: int, micros: MicroSessions, keys: Ints, by_key: Ints, ways: list[FamilyWay]
) -> FamilyMicros:
    """All rows of a family as they are."""
    family = logic.families[f]
    matcher = family.matcher(micros.regions)
    mine = [micros.regions[operand] for operand in family.operands]
    some = matcher.sampled(mine)
    matches = float(matcher.matching(some).sum()) / len(some)
    ways.append(family.way(micros.rows, matches * micros.rows, matcher, some))
    measures = {
        m: {name: array[by_key] for name, array in micros.measures[m].items()}
        for m in logic.family_measures(f).tolist()
    }
    return FamilyMicros(
        f,
        logic.family_columns[f],
        ByMatches(matcher, matcher.codes([array[by_key] for array in mine]), matches),
        keys[by_key],
        micros.starts[by_key],
        micros.lasts[by_key],
        measures,
    )


def _runs(
    logic: SessionLogic, micros: MicroSessions, measure: int, order: Ints, first: Ints, by_key: Ints
) -> Partials:
    partials = {name: array[order] for name, array in micros.measures[measure].items()}
    if len(first) < len(order):
        partials = logic.measures[measure].runs(partials, first)
    return {name: array[by_key] for name, array in partials.items()}


@dataclass(frozen=True, slots=True)
class Pairs:
    """The rows of a family that its columns want, column by column: `counts[c]` of them from `first[c]` on."""

    family: FamilyMicros
    rows: Ints
    first: Ints
    counts: Ints

    def tuples(self) -> Ints:
        """How many tuples each column accepts."""
        each = self.family.measures[0]["v"]  # measure 0 is ROWS
        if (each == 1).all():
            return self.counts
        ends = np.append(0, np.cumsum(each[self.rows]))
        return ends[self.first + self.counts] - ends[self.first]


def pairs_of(families: Sequence[FamilyMicros], limits: Ints, low: int, high: int) -> list[Pairs]:
    """What each family's columns want of the keys [low, high). `limits` says what is late for each column."""
    found: dict[int, list[Pairs]] = {}
    for family in families:
        mine = family.of_keys(low, high)
        rows, counts = mine.wanted.pairs(mine.starts, limits[family.columns])
        found.setdefault(family.number, []).append(Pairs(mine, rows, np.cumsum(counts) - counts, counts))
    return [blocks[0] if len(blocks) == 1 else _one_after_the_other(blocks) for blocks in found.values()]


def _one_after_the_other(blocks: Sequence[Pairs]) -> Pairs:
    """The pairs of one family whose cells are so many that its rows were worked off in blocks, in order again."""
    parts = [block.family for block in blocks]
    before = np.cumsum([0, *(len(part.keys) for part in parts[:-1])])
    keys, starts, lasts = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("keys", "starts", "lasts")
    )
    measures = {
        m: {name: np.concatenate([part.measures[m][name] for part in parts]) for name in partials}
        for m, partials in parts[0].measures.items()
    }
    rows = np.concatenate([block.rows + first for block, first in zip(blocks, before, strict=True)])
    every = np.arange(len(blocks[0].counts))
    column = np.concatenate([np.repeat(every, block.counts) for block in blocks])
    order = ordered(column * (int(keys.max(initial=0)) + 1) + keys[rows], starts[rows]) if len(rows) else rows
    counts = np.sum([block.counts for block in blocks], axis=0)
    family = replace(parts[0], keys=keys, starts=starts, lasts=lasts, measures=measures)
    return Pairs(family, rows[order], np.cumsum(counts) - counts, counts)
