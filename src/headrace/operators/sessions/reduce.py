"""The reduce side of shared sessions: micro-sessions per family and cell, merged with the open sessions per query.

All queries and keys are merged by one sort: rows (query, key, start, last) in order, and a new session wherever a row
starts later than everything before it reaches. A query's filters add rows inside of its sessions only, so they need no
merge of their own. Partials follow by bins: lift, combine, lower, as for windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.model.metrics import QueryCounts
from headrace.model.ways import FamilyWay
from headrace.operators.common.encode import Bools, Ints, positions, ranges
from headrace.operators.common.keys import empty_key, unify_keys
from headrace.operators.common.matching import Matcher
from headrace.operators.protocol import Emit
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import MicroSessions, late_limits, lateness, merge_runs, ordered
from headrace.operators.sessions.rows import Found, lower_output, open_block
from headrace.operators.sessions.segment import SessionBlock, SessionSegment, make_segment
from headrace.operators.sessions.values import KeptBags, gather_bags, row_values, values_of_keys
from headrace.operators.windows.aggregation import Reduced
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.partials import shadow
from headrace.operators.windows.stored_bags import query_of_entry
from headrace.operators.windows.vocabularies import common_vocabularies

BLOCK_ELEMENTS = 1 << 21
"""Keys are worked off in blocks, so that micro-sessions times queries are about this many at most."""


@np.errstate(invalid="ignore", over="ignore")
def reduce_sessions(
    logic: SessionLogic,
    micros: MicroSessions | None,
    segments: Sequence[SessionSegment],
    closed_us: int,
    watermark_us: int,
    emit: Emit,
) -> Reduced[SessionSegment]:
    """Run one partition of one epoch: sessions that end by the watermark leave as rows, the others as a new segment.

    Stored sessions that ended by `closed_us` were delivered already and are forgotten.
    """
    vocabularies = common_vocabularies(logic.operator, [] if micros is None else [micros], segments)
    keys, micro_keys, stored_keys = _unify(micros, segments)
    reduced: Reduced[SessionSegment] = Reduced()
    families = []
    if micros is not None and micros.rows:
        families = list(_family_micros(logic, micros, micro_keys, closed_us, reduced.ways))
    stored = [
        _Stored(logic, block, ids[block.keys], closed_us)
        for segment, ids in zip(segments, stored_keys, strict=True)
        for block in segment.blocks
    ]
    bags = gather_bags(logic, micros, micro_keys, list(zip(segments, stored_keys, strict=True)), closed_us)
    accepted = np.zeros(len(logic.query_of), np.int64)
    blocks, later = [], KeptBags(logic.bags)
    for low, high in _key_blocks(keys.num_rows, families):
        limits = late_limits(logic.operator, closed_us)[logic.gap_index]
        pairs = [_pairs(family, limits[family.columns], low, high) for family in families]
        for pair in pairs:
            accepted[pair.family.columns] += pair.tuples()
        found = _merge(logic, pairs, stored, low, high)
        if found is None:
            continue
        values = values_of_keys(logic, bags, found, low, high)
        for ready in logic.outputs:
            kept = partial(row_values, values, found, ready)
            lowered = lower_output(logic, found, ready, keys, vocabularies, watermark_us, kept)
            reduced.note(lowered)
            if lowered.table is not None and lowered.table.num_rows:
                emit(ready.output.signature, lowered.table, lowered.queries, lowered.latest_us)
        if (found.ends > watermark_us).any():
            blocks.append(open_block(logic, found, found.ends > watermark_us))
            later.add(values, watermark_us)
    reduced.matched = QueryCounts.of(logic.queries[logic.query_of[logic.base]], accepted[logic.base])
    if blocks:
        reduced.segment = make_segment(logic.operator, keys, blocks, vocabularies, later.bags())
    return reduced


def _unify(
    micros: MicroSessions | None, segments: Sequence[SessionSegment]
) -> tuple[pa.Table, Ints, list[Ints]]:
    """(all keys, each micro-session's among them, each segment's)."""
    tables = [segment.keys for segment in segments]
    if micros is not None:
        tables.append(micros.keys.table)
    if not tables:
        return empty_key(0), np.empty(0, np.int64), []
    keys, ids = unify_keys(tables)
    mine = np.empty(0, np.int64) if micros is None else ids[-1][micros.keys.ids]
    return keys, mine, ids[: len(segments)]


class _Wanted(Protocol):
    """Which micro-sessions of a family its columns want."""

    def pairs(self, rows: Ints) -> tuple[Ints, Ints]:
        """(positions among these rows, column by column and ascending; how many of them each column wants)."""

    def each(self) -> float:
        """How much work a row is."""


@dataclass(frozen=True, slots=True)
class _ByCells:
    """`membership[cells[i], c]` says whether column c wants row i."""

    membership: Bools
    cells: Ints

    def pairs(self, rows: Ints) -> tuple[Ints, Ints]:
        wanted = self.membership[self.cells[rows]].T
        return np.nonzero(wanted)[1], wanted.sum(axis=1)

    def each(self) -> float:
        return float(self.membership.shape[1])


@dataclass(frozen=True, slots=True)
class _ByMatches:
    """Rows by their codes; those that columns want are listed without a look at the others."""

    matcher: Matcher
    codes: Ints
    matches: float

    def pairs(self, rows: Ints) -> tuple[Ints, Ints]:
        return self.matcher.pairs(self.codes[rows])

    def each(self) -> float:
        return 1.0 + self.matches


@dataclass(frozen=True, slots=True)
class _FamilyMicros:
    """Micro-sessions of a family, ordered by key and start, and which of them the columns `columns` want."""

    columns: Ints
    wanted: _Wanted
    keys: Ints
    starts: Ints
    lasts: Ints
    measures: dict[int, Partials]


def _family_micros(
    logic: SessionLogic, micros: MicroSessions, keys: Ints, closed_us: int, ways: list[FamilyWay]
) -> Iterator[_FamilyMicros]:
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
            yield _FamilyMicros(
                logic.family_columns[f],
                _ByCells(cells.membership, cells.ids[wanted[heads]]),
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
) -> _FamilyMicros:
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
    return _FamilyMicros(
        logic.family_columns[f],
        _ByMatches(matcher, matcher.codes([array[by_key] for array in mine]), matches),
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


class _Stored:
    """Open sessions of earlier epochs as rows; `queries` is -1 for those of which nothing is wanted any more."""

    def __init__(self, logic: SessionLogic, block: SessionBlock, keys: Ints, closed_us: int) -> None:
        self.block, self.keys = block, keys
        self.first = np.append(0, np.cumsum(block.counts))
        queries = np.repeat(positions(logic.queries, block.queries), block.counts)
        self.queries = np.where(block.ends > closed_us, queries, -1)


def _key_blocks(keys: int, families: Sequence[_FamilyMicros]) -> Iterator[tuple[int, int]]:
    """All keys as ranges, each with few enough micro-sessions."""
    work = np.zeros(keys, np.int64)
    for family in families:
        work += (np.bincount(family.keys, minlength=keys) * family.wanted.each()).astype(np.int64)
    home = np.cumsum(work) // BLOCK_ELEMENTS
    edges = np.flatnonzero(np.diff(home, prepend=-1, append=-1)) if keys else np.empty(0, np.int64)
    yield from zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The rows of a family that its columns want, column by column: `counts[c]` of them from `first[c]` on."""

    family: _FamilyMicros
    rows: Ints
    first: Ints
    counts: Ints

    def tuples(self) -> Ints:
        """How many tuples each column accepts."""
        ends = np.append(0, np.cumsum(self.family.measures[0]["v"][self.rows]))  # measure 0 is ROWS
        return ends[self.first + self.counts] - ends[self.first]


def _merge(
    logic: SessionLogic,
    pairs: Sequence[_Pairs],
    stored: Sequence[_Stored],
    low: int,
    high: int,
) -> Found | None:
    """The sessions of the keys [low, high) after this epoch's tuples; None when there are none."""
    columns = [np.repeat(p.family.columns, p.counts) for p in pairs]
    kept = [np.flatnonzero((s.queries >= 0) & (s.keys >= low) & (s.keys < high)) for s in stored]
    queries = _joined(
        [logic.query_of[c] for c in columns], [s.queries[k] for s, k in zip(stored, kept, strict=True)]
    )
    if len(queries) == 0:
        return None
    keys = _joined(
        [p.family.keys[p.rows] for p in pairs], [s.keys[k] for s, k in zip(stored, kept, strict=True)]
    )
    starts = _joined(
        [p.family.starts[p.rows] for p in pairs],
        [s.block.starts[k] for s, k in zip(stored, kept, strict=True)],
    )
    lasts = _joined(
        [p.family.lasts[p.rows] for p in pairs],
        [s.block.ends[k] - logic.gaps[s.queries[k]] for s, k in zip(stored, kept, strict=True)],
    )
    gaps = logic.gaps[queries]
    merged = merge_runs(queries * (high - low) + keys - low, starts, lasts, gaps)
    heads = merged.order[merged.first]
    of_row = np.empty(len(queries), np.int64)
    of_row[merged.order] = np.repeat(
        np.arange(len(heads)), np.diff(np.append(merged.first, len(merged.order)))
    )
    bounds = np.searchsorted(queries[heads], np.arange(len(logic.queries) + 1))
    found = Found(queries[heads], keys[heads], starts[heads], merged.lasts + gaps[heads], bounds, {}, [])
    _fill_lanes(logic, found, pairs, [(s, k) for s, k in zip(stored, kept, strict=True)], of_row)
    return found


def _joined(fresh: list[Ints], stored: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *fresh, *stored])


def _pairs(family: _FamilyMicros, limits: Ints, low: int, high: int) -> _Pairs:
    mine = np.flatnonzero((family.keys >= low) & (family.keys < high))
    at, counts = family.wanted.pairs(mine)
    rows, column = mine[at], np.repeat(np.arange(len(counts)), counts)
    in_time = family.starts[rows] > limits[column]
    if not in_time.all():
        rows, counts = rows[in_time], np.bincount(column[in_time], minlength=len(counts))
    return _Pairs(family, rows, np.append(0, np.cumsum(counts))[:-1], counts)


def _fill_lanes(
    logic: SessionLogic,
    found: Found,
    pairs: Sequence[_Pairs],
    stored: Sequence[tuple[_Stored, Ints]],
    of_row: Ints,
) -> None:
    """Every lane's partials: those of micro-sessions and stored sessions that are in one session are combined."""
    for i, lane in enumerate(logic.lanes):
        sizes = found.counts[lane.queries]
        offsets = np.append(0, np.cumsum(sizes))
        found.offsets.append(offsets[:-1])
        shift = offsets[:-1] - found.bounds[lane.queries]
        pieces: list[tuple[Partials, Ints]] = []
        at = 0
        for pair in pairs:
            entries, columns = lane.of_family(pair.family.columns)
            rows = ranges(pair.first[columns], pair.counts[columns])
            partials = _picked(lane.measures[entries], pair.counts[columns], pair, rows)
            if partials is not None:
                bins = np.repeat(shift[entries], pair.counts[columns]) + of_row[at + rows]
                pieces.append((partials, bins))
            at += len(pair.rows)
        for held, kept in stored:
            if lane.name in held.block.lanes:
                session = np.full(len(held.keys), -1, np.int64)
                session[kept] = of_row[at : at + len(kept)]
                pieces.append(
                    _stored_parts(lane.find(held.block.lanes[lane.name].ids), shift, held, lane.name, session)
                )
            at += len(kept)
        if pieces:
            bins = np.concatenate([bins for _, bins in pieces])
            found.lanes[i] = lane.logic.group(_concatenated([p for p, _ in pieces]), bins, int(offsets[-1]))


def _picked(measures: Ints, counts: Ints, pairs: _Pairs, rows: Ints) -> Partials | None:
    """The partials at `rows` of the pairs, `counts` of them of each measure in turn; None when there are none."""
    if len(rows) == 0:
        return None
    used, slot = np.unique(measures, return_inverse=True)
    known = [pairs.family.measures[m] for m in used.tolist()]
    if any("f" in partials for partials in known):
        known = [shadow(partials, {"f": partials["v"]}) for partials in known]
    at = pairs.rows[rows]
    if len(known) == 1:
        return {name: array[at] for name, array in known[0].items()}
    slots = np.repeat(slot, counts)
    return {name: np.stack([partials[name] for partials in known])[slots, at] for name in known[0]}


def _stored_parts(
    entries: Ints, shift: Ints, held: _Stored, name: str, session: Ints
) -> tuple[Partials, Ints]:
    """(a stored lane's partials, the bin of each), for the entries and sessions that are still wanted."""
    lane = held.block.lanes[name]
    query = positions(held.block.queries, query_of_entry(lane.ids))
    counts = held.block.counts[query]
    rows = ranges(held.first[query], counts)
    wanted = np.flatnonzero((np.repeat(entries, counts) >= 0) & (session[rows] >= 0))
    bins = shift[np.repeat(entries, counts)[wanted]] + session[rows[wanted]]
    return {array: values[wanted] for array, values in lane.partials.items()}, bins


def _concatenated(pieces: Sequence[Partials]) -> Partials:
    shadowed: Partials = {"f": np.empty(0)} if any("f" in piece for piece in pieces) else {}
    same = [shadow(piece, shadowed) for piece in pieces]
    return {name: np.concatenate([piece[name] for piece in same]) for name in same[0]}
