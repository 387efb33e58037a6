"""Sessions: what each query wants of this epoch, merged with what was left open by one walk over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.operators.common.arrays import Ints
from headrace.operators.common.encode import joined, positions, ranges
from headrace.operators.compiled.sessions import find_sessions, place_rows
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import ordered
from headrace.operators.sessions.rows import Found
from headrace.operators.sessions.segment import SessionBlock
from headrace.operators.sessions.wanted import Pairs


class Stored:
    """Open sessions of earlier epochs as rows; `queries` is -1 for those of which nothing is wanted any more."""

    def __init__(self, logic: SessionLogic, block: SessionBlock, keys: Ints, closed_us: int) -> None:
        self.block, self.keys = block, keys
        self.first = np.append(0, np.cumsum(block.counts))
        queries = np.repeat(positions(logic.queries, block.queries), block.counts)
        self.queries = np.where(block.ends > closed_us, queries, -1)


@dataclass(frozen=True, slots=True)
class Open:
    """Stored sessions of some keys, by query, key and start; those of query q are [bounds[q], bounds[q + 1]).

    `kept` are their rows in each segment. `order` says which of these each of them is, one segment after the other.
    """

    kept: list[Ints]
    order: Ints
    keys: Ints
    starts: Ints
    lasts: Ints
    bounds: Ints

    @classmethod
    def of(cls, logic: SessionLogic, stored: Sequence[Stored], low: int, high: int) -> Open:
        kept = [np.flatnonzero((s.queries >= 0) & (s.keys >= low) & (s.keys < high)) for s in stored]
        both = list(zip(stored, kept, strict=True))
        queries, keys = joined([s.queries[k] for s, k in both]), joined([s.keys[k] for s, k in both])
        starts = joined([s.block.starts[k] for s, k in both])
        ends = joined([s.block.ends[k] for s, k in both])
        order = ordered(queries * (high - low) + keys - low, starts) if len(queries) else queries
        queries = queries[order]
        bounds = np.searchsorted(queries, np.arange(len(logic.queries) + 1))
        return cls(kept, order, keys[order], starts[order], ends[order] - logic.gaps[queries], bounds)

    def placed(self, stored: Sequence[Stored], found: Found, lasts: Ints) -> list[Ints]:
        """For each segment the session that each of its rows is in now; -1 for rows that are not among these."""
        queries, session = np.arange(len(self.bounds) - 1), np.empty(len(self.order), np.int64)
        rows = (np.arange(len(self.order)), self.bounds[:-1], np.diff(self.bounds))
        place_rows(self.keys, self.starts, *rows, queries, found.keys, lasts, found.bounds, session)
        in_turn = np.empty(len(session), np.int64)
        in_turn[self.order] = session
        every, at = [], 0
        for one, kept in zip(stored, self.kept, strict=True):
            every.append(np.full(len(one.keys), -1, np.int64))
            every[-1][kept] = in_turn[at : at + len(kept)]
            at += len(kept)
        return every


@dataclass(frozen=True, slots=True)
class Merged:
    """Sessions without partials, the session of each pair of each family, and that of each stored row (-1: none)."""

    found: Found
    of_pairs: list[Ints]
    of_stored: list[Ints]


def merge(
    logic: SessionLogic, pairs: Sequence[Pairs], stored: Sequence[Stored], low: int, high: int
) -> Merged | None:
    """The sessions of the keys [low, high) after this epoch's tuples; None when there are none."""
    held = Open.of(logic, stored, low, high)
    found, lasts = _find(logic, pairs, held)
    if len(found.keys) == 0:
        return None
    of_pairs = []
    for p in pairs:
        of_pairs.append(np.empty(len(p.rows), np.int64))
        rows, queries = (p.rows, p.first, p.counts), logic.query_of[p.family.columns]
        sessions = (queries, found.keys, lasts, found.bounds, of_pairs[-1])
        place_rows(p.family.keys, p.family.starts, *rows, *sessions)
    return Merged(found, of_pairs, held.placed(stored, found, lasts))


def _find(logic: SessionLogic, pairs: Sequence[Pairs], held: Open) -> tuple[Found, Ints]:
    """(the sessions without their partials, the last moment of each)."""
    queries = np.arange(len(logic.queries))
    column = [positions(p.family.columns, logic.base_of) for p in pairs]
    most = np.diff(held.bounds)
    for p, mine in zip(pairs, column, strict=True):
        most = most + np.where(mine >= 0, p.counts[mine], 0)
    begin, sizes = np.cumsum(most) - most, np.zeros(len(queries), np.int64)
    keys, starts, lasts = np.empty((3, int(most.sum())), np.int64)
    into, rest = (begin, keys, starts, lasts, sizes), np.ones(len(queries), bool)
    open_ = (held.keys, held.starts, held.lasts, held.bounds, logic.gaps)
    for p, mine in zip(pairs, column, strict=True):
        here = mine >= 0
        rest &= ~here
        rows = (p.family.keys, p.family.starts, p.family.lasts, p.rows, p.first, p.counts)
        find_sessions(queries[here], mine[here], *rows, *open_, *into)
    none = np.empty(0, np.int64)
    find_sessions(queries[rest], np.full(int(rest.sum()), -1), *(none,) * 6, *open_, *into)
    some = ranges(begin, sizes)
    of_session, bounds = np.repeat(queries, sizes), np.append(0, np.cumsum(sizes))
    ends = lasts[some] + logic.gaps[of_session]
    return Found(of_session, keys[some], starts[some], ends, bounds, {}, []), lasts[some]
