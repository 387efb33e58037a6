"""The shared windowed inner join: every combination of tuples is found once, in the epoch its last tuple arrives.

For each member in turn its new tuples start rows, which the other members extend: with all of their tuples where they
come before the starting member in the chain, with older ones only where they come after it. So nothing is found twice
and no joined row is state. Candidates are worked off in blocks; a hot key costs time and never memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.model.plan import JoinMember
from headrace.operators.encode import Array, Ints
from headrace.operators.join_block import JoinedBlock, holds_across
from headrace.operators.join_logic import JoinLogic, Step
from headrace.operators.join_rows import JoinTuples, KeyedRows, keyed
from headrace.operators.join_side import Side
from headrace.operators.join_state import JoinSegment, build_segment, read_input
from headrace.operators.join_windows import Containment

BLOCK_ROWS = 1 << 20
"""Candidates that are in memory at a time."""

SCAN_ROWS = 16
"""A row with at most this many partners of its key tries them all; with more it first searches those near in time."""

Consume = Callable[[int, JoinedBlock], None]
"""Takes joined rows of a chain, by its number in the operator."""


@dataclass(slots=True)
class JoinReduced:
    """What a partition produced: its new segment (None: no state), and how many joined rows each query has."""

    segment: JoinSegment | None = None
    rows: dict[int, int] = field(default_factory=dict)


def reduce_join(
    logic: JoinLogic,
    received: Sequence[JoinTuples | None],
    absorbed: Sequence[JoinSegment],
    kept: Sequence[JoinSegment],
    closed_us: int,
    watermark_us: int,
    consume: Consume,
) -> JoinReduced:
    """Run one partition of one epoch. `absorbed` segments are merged into the new one, `kept` ones only read.

    Joined rows go to `consume` block by block.
    """
    fresh = [None if new is None else keyed(new.keys, new.body) for new in received]
    taken = [_read(logic, number, absorbed) for number in range(len(logic.inputs))]
    sides: list[Side | None] = []
    for spec, old, new in zip(logic.inputs, taken, fresh, strict=True):
        parts = [*old, *(_read(logic, spec.number, kept) if any(part is not None for part in fresh) else ())]
        sides.append(Side(spec, parts, new) if parts or new is not None else None)
    join = _Join(logic, sides, consume)
    for start in logic.starts:
        join.run(start)
    parts_of = [[*old, *([] if new is None else [new])] for old, new in zip(taken, fresh, strict=True)]
    return JoinReduced(build_segment(logic, parts_of, watermark_us), join.counts.rows(logic))


def _read(logic: JoinLogic, number: int, segments: Sequence[JoinSegment]) -> list[KeyedRows]:
    found = (read_input(logic.inputs[number], segment) for segment in segments)
    return [rows for rows in found if rows is not None]


@dataclass(slots=True)
class _Prefix:
    """Rows joined so far: `rows[position]` are the tuples, `keys` the new tuple's key, `sets` who may want them."""

    rows: dict[int, Ints]
    keys: Ints
    sets: Array

    def take(self, index: Ints) -> _Prefix:
        rows = {position: tuples[index] for position, tuples in self.rows.items()}
        return _Prefix(rows, self.keys[index], np.take(self.sets, index, axis=1))


class _Join:
    def __init__(self, logic: JoinLogic, sides: Sequence[Side | None], consume: Consume) -> None:
        self._logic = logic
        self._sides = sides
        self._consume = consume
        self._containment: dict[tuple[JoinMember, JoinMember], Containment] = {}
        self.counts = _Counts(logic.words)

    def run(self, start: Step) -> None:
        """Find all rows whose member at `start` is new and the last in the chain's order to be so."""
        side = self._sides[start.member.input]
        if side is None or side.fresh is None:
            return
        base = int(side.bases[side.old])
        sets = side.sets[start.member.role][:, base:] & start.mask[:, None]
        wanted = np.flatnonzero(_any(sets))
        keys = side.fresh.keys.of_rows()[wanted]
        prefix = _Prefix({start.position: wanted + base}, keys, np.take(sets, wanted, axis=1))
        self._go_on(start, self._checked(start, prefix))

    def _go_on(self, step: Step, prefix: _Prefix) -> None:
        """Emit what is complete, and extend the rest by each step that follows."""
        if len(prefix.keys) == 0:
            return
        for number, mask in step.chains:
            self._emit(number, mask, prefix)
        for child in step.children:
            sets = prefix.sets & child.mask[:, None]
            wanted = np.flatnonzero(_any(sets))
            mine = _Prefix(prefix.rows, prefix.keys, sets)
            if len(wanted) < len(prefix.keys):
                mine = mine.take(wanted)
            for extended in self._extend(child, mine):
                self._go_on(child, extended)

    def _extend(self, step: Step, prefix: _Prefix) -> Iterator[_Prefix]:
        side = self._sides[step.member.input]
        if side is None or len(prefix.keys) == 0:
            return
        mine = side.sets[step.member.role]
        row, first, last = self._partners(step, side, prefix)
        for left, right in _candidates(row, first, last - first):
            sets = np.take(prefix.sets, left, axis=1)
            sets &= np.take(mine, right, axis=1)
            some = np.flatnonzero(_any(sets))
            if len(some) < len(left):
                left, right, sets = left[some], right[some], np.take(sets, some, axis=1)
            if len(left) == 0:
                continue
            moment = side.moment[right]
            for earlier in step.before:
                other = self._side(earlier)
                rows = prefix.rows[earlier.position][left]
                self._contains(earlier.member, step.member).restrict(sets, other.moment[rows], moment)
            some = np.flatnonzero(_any(sets))
            if len(some) == 0:
                continue
            if len(some) < len(left):
                left, right, sets = left[some], right[some], np.take(sets, some, axis=1)
            rows_of = {position: tuples[left] for position, tuples in prefix.rows.items()}
            rows_of[step.position] = right
            yield self._checked(step, _Prefix(rows_of, prefix.keys[left], sets))

    def _partners(self, step: Step, side: Side, prefix: _Prefix) -> tuple[Ints, Ints, Ints]:
        """(row of the prefix, first and last row of the side): of equal key, and near enough in time."""
        start = self._side(step.before[0])
        found: list[tuple[Ints, Ints, Ints]] = []
        for part in range(side.old if step.old_only else len(side.parts)):
            keys = side.matches(start, part)[prefix.keys]
            row = np.flatnonzero(keys >= 0)
            keys = keys[row]
            offsets = side.parts[part].keys.offsets + side.bases[part]
            found.append((row, offsets[keys], offsets[keys + 1]))
        if not found:
            return (np.empty(0, np.int64),) * 3
        row, first, last = (np.concatenate(column) for column in zip(*found, strict=True))
        many = np.flatnonzero(last - first > SCAN_ROWS)
        if len(many):
            low, high = self._reach(step, prefix, row[many])
            first[many] = _bisect(side.times, first[many], last[many], low)
            last[many] = _bisect(side.times, first[many], last[many], high)
        return row, first, last

    def _reach(self, step: Step, prefix: _Prefix, rows: Ints) -> tuple[Ints, Ints]:
        """Partners of these rows are at times [low, high)."""
        lows, highs = [], []
        for earlier, (behind, ahead) in zip(step.before, step.reach, strict=True):
            times = self._side(earlier).times[prefix.rows[earlier.position][rows]]
            lows.append(times - behind + 1)
            highs.append(times + ahead)
        return np.maximum.reduce(lows), np.minimum.reduce(highs)

    def _checked(self, step: Step, prefix: _Prefix) -> _Prefix:
        """The rows without the queries whose conditions across members do not hold."""
        if not step.across or len(prefix.keys) == 0:
            return prefix
        sides = {s.position: self._side(s) for s in (*step.before, step)}
        sets = prefix.sets
        for condition, mask in step.across:
            asked = np.flatnonzero(_any(sets & mask[:, None]))
            rows = {position: tuples[asked] for position, tuples in prefix.rows.items()}
            failed = asked[~holds_across(condition, sides, rows)]
            sets[:, failed] &= ~mask[:, None]
        some = np.flatnonzero(_any(sets))
        return prefix if len(some) == len(prefix.keys) else prefix.take(some)

    def _emit(self, number: int, mask: Array, prefix: _Prefix) -> None:
        sets = prefix.sets & mask[:, None]
        some = np.flatnonzero(_any(sets))
        if len(some) == 0:
            return
        rows = prefix.rows
        if len(some) < sets.shape[1]:
            sets = np.take(sets, some, axis=1)
            rows = {position: tuples[some] for position, tuples in rows.items()}
        members = self._logic.operator.chains[number].members
        sides = [self._sides[member.input] for member in members]
        ready = [side for side in sides if side is not None]
        self.counts.add(sets)
        self._consume(number, JoinedBlock(ready, [rows[p] for p in range(len(members))], sets))

    def _side(self, step: Step) -> Side:
        side = self._sides[step.member.input]
        assert side is not None
        return side

    def _contains(self, left: JoinMember, right: JoinMember) -> Containment:
        if (left, right) not in self._containment:
            a, b = self._sides[left.input], self._sides[right.input]
            assert a is not None and b is not None
            pairs = self._logic.pairs(left, right)
            self._containment[left, right] = Containment(pairs, self._logic.words, a.moments, b.moments)
        return self._containment[left, right]


def _any(sets: Array) -> Array:
    """Which columns have a bit."""
    return np.not_equal(sets[0], 0) if len(sets) == 1 else np.logical_or.reduce(sets, axis=0)


def _candidates(row: Ints, first: Ints, counts: Ints) -> Iterator[tuple[Ints, Ints]]:
    """(row, partner) for partners `first[i]` and on of row `row[i]`, in blocks of at most BLOCK_ROWS."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    shift = first - (ends - counts)
    for begin in range(0, total, BLOCK_ROWS):
        stop = min(begin + BLOCK_ROWS, total)
        low, high = np.searchsorted(ends, [begin, stop - 1], "right")
        inside = np.minimum(ends[low : high + 1], stop) - np.maximum(
            ends[low : high + 1] - counts[low : high + 1], begin
        )
        at = np.repeat(np.arange(low, high + 1), inside)
        yield row[at], np.arange(begin, stop) + shift[at]


def _bisect(times: Ints, first: Ints, last: Ints, bound: Ints) -> Ints:
    """In each range [first, last) of ascending times, the first row that is not before `bound`."""
    low, high = first.copy(), last.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        before = times[middle] < bound[open_]
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]
        open_ = open_[low[open_] < high[open_]]
    return low


class _Counts:
    """How often each bit occurs, byte by byte: one pass per eight queries."""

    def __init__(self, words: int) -> None:
        self._bytes = np.zeros((words, 8, 256), np.int64)

    def add(self, sets: Array) -> None:
        for word, values in zip(self._bytes, sets, strict=True):
            split = values.view(np.uint8).reshape(-1, 8)
            for i, counts in enumerate(word):
                counts += np.bincount(split[:, i], minlength=256)

    def rows(self, logic: JoinLogic) -> dict[int, int]:
        """Rows per query id, of those that have any."""
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
        totals = (self._bytes @ bits).reshape(-1)
        return {query: int(totals[slot]) for slot, query in logic.queries.items() if totals[slot]}
