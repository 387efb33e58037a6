"""The partials of sessions: those of micro-sessions and of stored sessions, combined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import as_given
from headrace.operators.common.encode import positions, ranges
from headrace.operators.compiled.sessions import add_to_sessions, keep_in_sessions
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.merging import Merged, Stored
from headrace.operators.sessions.wanted import Pairs
from headrace.operators.windows.lanes import AddedLogic, ExtremeLogic, LaneLogic, Partials
from headrace.operators.windows.partials import shadow
from headrace.operators.windows.stored_bags import query_of_entry


def fill_lanes(logic: SessionLogic, merged: Merged, pairs: Sequence[Pairs], stored: Sequence[Stored]) -> None:
    """Every lane's partials: those of micro-sessions and stored sessions that are in one session are combined."""
    found = merged.found
    for i, lane in enumerate(logic.lanes):
        sizes = found.counts[lane.queries]
        offsets = np.append(0, np.cumsum(sizes))
        found.offsets.append(offsets[:-1])
        shift = offsets[:-1] - found.bounds[lane.queries]
        held = [
            _stored_parts(lane.find(one.block.lanes[lane.name].ids), shift, one, lane.name, session)
            for one, session in zip(stored, merged.of_stored, strict=True)
            if lane.name in one.block.lanes
        ]
        held = [(partials, bins) for partials, bins in held if len(bins)]
        fresh = [
            (pair, session, shift[entries], lane.measures[entries], columns)
            for pair, session in zip(pairs, merged.of_pairs, strict=True)
            for entries, columns in (lane.of_family(pair.family.columns),)
            if pair.counts[columns].any()
        ]
        if fresh or held:
            found.lanes[i] = _combined(lane.logic, int(offsets[-1]), fresh, held)


_Fresh = tuple[Pairs, Ints, Ints, Ints, Ints]
"""Pairs of a family and the session of each; for each entry of a lane where its query's sessions begin, its measure,
and its column.
"""


def _combined(
    one: LaneLogic, size: int, fresh: Sequence[_Fresh], stored: Sequence[tuple[Partials, Ints]]
) -> Partials:
    """A lane's partials, of so many sessions of its entries."""
    known = [
        pair.family.measures[m] for pair, _, _, measures, _ in fresh for m in np.unique(measures).tolist()
    ]
    if isinstance(one, AddedLogic | ExtremeLogic) and all(
        len(p) == 1 for p in [*known, *(p for p, _ in stored)]
    ):
        return _added(one, size, fresh, stored)
    pieces = list(stored)
    for pair, session, shift, measures, columns in fresh:
        counts = pair.counts[columns]
        rows = ranges(pair.first[columns], counts)
        pieces.append((_picked(measures, counts, pair, rows), np.repeat(shift, counts) + session[rows]))
    return one.group(
        _concatenated([p for p, _ in pieces]), np.concatenate([bins for _, bins in pieces]), size
    )


def _added(
    one: LaneLogic, size: int, fresh: Sequence[_Fresh], stored: Sequence[tuple[Partials, Ints]]
) -> Partials:
    """The same where partials are one array, which is added up, or of which extremes are kept: pairs are not copied."""
    into = one.zeros((size,))
    if stored:
        values = np.concatenate([partials["v"] for partials, _ in stored])
        into = one.group({"v": values}, np.concatenate([bins for _, bins in stored]), size)
    for pair, session, shift, measures, columns in fresh:
        for measure in np.unique(measures).tolist():
            mine = measures == measure
            places = (pair.rows, pair.first, pair.counts, columns[mine], shift[mine], session)
            array = as_given(pair.family.measures[measure]["v"])
            if isinstance(one, ExtremeLogic):
                keep_in_sessions(array, *places, one.least, into["v"])
            else:
                add_to_sessions(array, *places, into["v"])
    return into


def _picked(measures: Ints, counts: Ints, pairs: Pairs, rows: Ints) -> Partials:
    """The partials at `rows` of the pairs, `counts` of them of each measure in turn."""
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
    entries: Ints, shift: Ints, held: Stored, name: str, session: Ints
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
