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
from headrace.operators.join_block import JoinedBlock, Tuples, holds_across
from headrace.operators.join_keys import KeyTable
from headrace.operators.join_logic import JoinLogic, Step, place_of
from headrace.operators.join_partners import Meeting, has_bits
from headrace.operators.join_rows import JoinTuples, KeyedRows, keyed
from headrace.operators.join_side import Part, Side
from headrace.operators.join_state import JoinSegment, build_segment, read_input
from headrace.operators.join_windows import Containment
from headrace.operators.selection import WORD

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
    consume: Consume | None,
) -> JoinReduced:
    """Run one partition of one epoch. `absorbed` segments are merged into the new one, `kept` ones only read.

    Joined rows go to `consume` block by block; without one nothing is joined, and state alone is made. Segments whose
    last window had ended by `closed_us` are not looked at.
    """
    absorbed, kept = ([s for s in held if s.last_end_us > closed_us] for held in (absorbed, kept))
    fresh = [None if new is None else keyed(new.keys, new.body) for new in received]
    taken = [_read(logic, number, absorbed) for number in range(len(logic.inputs))]
    sides: list[Side | None] = []
    for spec, old, new in zip(logic.inputs, taken, fresh, strict=True):
        parts = [*old, *(_read(logic, spec.number, kept) if any(part is not None for part in fresh) else ())]
        sides.append(Side(spec, parts, new) if parts or new is not None else None)
    counts = _join(logic, sides, consume) if consume is not None else {}
    parts_of = [[*old, *([] if new is None else [new])] for old, new in zip(taken, fresh, strict=True)]
    return JoinReduced(build_segment(logic, parts_of, watermark_us), counts)


def _join(logic: JoinLogic, sides: Sequence[Side | None], consume: Consume) -> dict[int, int]:
    """Join what is new; how many rows each query has."""
    join = _Join(logic, sides, consume)
    for start in logic.starts:
        join.run(start)
    found = ((query, int(join.counts[place_of(slot, logic.words)])) for slot, query in logic.queries.items())
    return {query: count for query, count in found if count}


def _read(logic: JoinLogic, number: int, segments: Sequence[JoinSegment]) -> list[KeyedRows]:
    found = (read_input(logic.inputs[number], segment) for segment in segments)
    return [rows for rows in found if rows is not None]


@dataclass(slots=True)
class _Prefix:
    """Rows joined so far: `tuples[position]` of each member, `keys` of the new tuples, `sets` of who may want them."""

    tuples: dict[int, Tuples]
    keys: Ints
    sets: Array

    @property
    def rows(self) -> int:
        return len(self.keys)

    def take(self, index: Ints) -> _Prefix:
        return _Prefix(_take(self.tuples, index), self.keys[index], np.take(self.sets, index, axis=1))

    def wanted_by(self, mask: Array) -> _Prefix:
        """The rows that some of these queries may want, with no others in their sets."""
        sets = self.sets & mask[:, None]
        some = np.flatnonzero(has_bits(sets))
        if len(some) == self.rows:
            return _Prefix(self.tuples, self.keys, sets)
        return _Prefix(_take(self.tuples, some), self.keys[some], np.take(sets, some, axis=1))


def _take(tuples: dict[int, Tuples], index: Ints) -> dict[int, Tuples]:
    return {position: (part, rows[index]) for position, (part, rows) in tuples.items()}


class _Join:
    def __init__(self, logic: JoinLogic, sides: Sequence[Side | None], consume: Consume) -> None:
        self._logic = logic
        self._sides = sides
        self._consume = consume
        self._containment: dict[tuple[JoinMember, JoinMember], Containment] = {}
        self.counts = np.zeros(len(logic.words) * WORD, np.int64)

    def run(self, start: Step) -> None:
        """Find all rows whose member at `start` is new and the last in the chain's order to be so."""
        side = self._sides[start.member.input]
        if side is None or side.fresh is None:
            return
        part = side.fresh
        every = np.arange(part.body.rows)
        prefix = _Prefix(
            {start.position: (part, every)}, part.keys.of_rows(), part.body.sets[start.member.role]
        )
        self._go_on(start, part.keys, self._checked(start, prefix.wanted_by(start.mask)))

    def _go_on(self, step: Step, keys: KeyTable, prefix: _Prefix) -> None:
        """Emit what is complete, and extend the rest by each step that follows."""
        if prefix.rows == 0:
            return
        for number, mask in step.chains:
            ready = prefix.wanted_by(mask)
            if ready.rows:
                self.counts += count_bits(ready.sets)
                tuples = [ready.tuples[p] for p in range(len(ready.tuples))]
                self._consume(number, JoinedBlock(tuples, (keys, ready.keys), ready.sets, self._logic.words))
        for child in step.children:
            side = self._sides[child.member.input]
            if side is not None:
                for part in side.old if child.old_only else side.parts:
                    for extended in self._extend(child, side, part, prefix):
                        self._go_on(child, keys, extended)

    def _extend(self, step: Step, side: Side, part: Part, prefix: _Prefix) -> Iterator[_Prefix]:
        """The rows with each of their partners in one part that some query wants with them."""
        role = step.member.role
        mask = step.mask if part.body.mask is None else step.mask & part.body.mask[role]
        if not mask.any():
            return
        prefix = prefix.wanted_by(mask)
        if prefix.rows == 0:
            return
        start = self._sides[step.before[0].member.input]
        assert start is not None
        meeting = Meeting(
            side.matches(start, part)[prefix.keys],
            prefix.sets,
            [p.moment(rows) for p, rows in (prefix.tuples[s.position] for s in step.before)],
            [self._contains(earlier.member, step.member) for earlier in step.before],
            lambda rows: _reach(step, prefix, rows),
            part,
            role,
        )
        for left, right, sets in meeting.pairs():
            tuples = _take(prefix.tuples, left)
            tuples[step.position] = (part, right)
            yield self._checked(step, _Prefix(tuples, prefix.keys[left], sets))

    def _checked(self, step: Step, prefix: _Prefix) -> _Prefix:
        """The rows without the queries whose conditions across members do not hold."""
        if not step.across or prefix.rows == 0:
            return prefix
        for condition, mask in step.across:
            asked = np.flatnonzero(has_bits(prefix.sets & mask[:, None]))
            failed = asked[~holds_across(condition, _take(prefix.tuples, asked))]
            prefix.sets[:, failed] &= ~mask[:, None]
        return prefix.take(np.flatnonzero(has_bits(prefix.sets)))

    def _contains(self, left: JoinMember, right: JoinMember) -> Containment:
        if (left, right) not in self._containment:
            a, b = self._sides[left.input], self._sides[right.input]
            assert a is not None and b is not None
            pairs = self._logic.pairs(left, right)
            self._containment[left, right] = Containment(pairs, len(self._logic.words), a.moments, b.moments)
        return self._containment[left, right]


def _reach(step: Step, prefix: _Prefix, rows: Ints) -> tuple[Ints, Ints]:
    """Partners of these rows are at times [low, high)."""
    lows, highs = [], []
    for earlier, (behind, ahead) in zip(step.before, step.reach, strict=True):
        part, tuples = prefix.tuples[earlier.position]
        times = part.body.times_of(tuples[rows])
        lows.append(times - behind + 1)
        highs.append(times + ahead)
    return np.maximum.reduce(lows), np.minimum.reduce(highs)


def count_bits(sets: Array) -> Ints:
    """How often each bit of the words [word, row] is set: full adders over whole arrays, so a few passes for all bits.

    >>> count_bits(np.array([[5, 4]], np.uint64))[:4].tolist()
    [1, 0, 2, 0]
    """
    return np.concatenate([_count_word(words) for words in sets])


def _count_word(words: Array) -> Ints:
    counts = np.zeros(WORD, np.int64)
    weight = 1
    while len(words):
        carries = [words[:0]]
        while len(words) > 3 * WORD:
            third = len(words) // 3
            a, b, c = words[: 3 * third].reshape(3, third)
            half = a ^ b
            carries.append((a & b) | (half & c))
            words = np.concatenate([half ^ c, words[3 * third :]])
        bits = np.unpackbits(words.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        counts += weight * bits.sum(axis=0, dtype=np.int64)
        words = np.concatenate(carries)
        weight *= 2
    return counts
