"""The shared windowed inner join: every combination of tuples is found once, in the epoch its last tuple arrives.

For each position in turn its new tuples start rows, which the other positions extend: with all of their tuples where
they come before the starting one in the chain, with older ones only where they come after it. So nothing is found twice
and no joined row is state. Candidates are worked off in blocks; a hot key costs time and never memory. Where the next
position is joined on another key, rows are sent to where its tuples are, and the next stage goes on with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.model.metrics import NOBODY, QueryCounts
from headrace.model.partitioning import Partitioning
from headrace.model.plan import InputRole
from headrace.model.statistics import JoinCount
from headrace.model.tables import WORD
from headrace.model.ways import FamilyWay, add_ways, input_role
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import count_bits
from headrace.operators.common.bundle import Blob, Item, read_bundle
from headrace.operators.common.calls import Caller
from headrace.operators.join.block import JoinedBlock, holds_across
from headrace.operators.join.called import CalledConditions
from headrace.operators.join.counting import accepted_tuples, count_sides, spread_of_join
from headrace.operators.join.hops import Arrivals, Outbox, Send
from headrace.operators.join.logic import JoinLogic, Step, place_of, slot_mask
from headrace.operators.join.partners import MayScore, Meeting
from headrace.operators.join.prefix import Prefix, take_chosen
from headrace.operators.join.probing import has_bits
from headrace.operators.join.rows import JoinTuples, KeyedRows, keyed
from headrace.operators.join.side import Side, Stock
from headrace.operators.join.similar import Looks, score_bounds
from headrace.operators.join.state import JoinSegment, build_segment, read_input
from headrace.operators.join.tuples import meta_of, together
from headrace.operators.join.windows import Containment, Moments

Consume = Callable[[int, JoinedBlock], None]
"""Takes joined rows of a chain, by its number in the operator."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where rows go: complete ones to `consume`, those on their way to another key to `send`. `caller` calls functions,
    and `failures` gets the queries for which that failed.

    Every stage has the same partitioning. Rows are joined for the queries of these slots; None stands for all. What the
    sides of queries let in is counted for these chains.
    """

    consume: Consume
    send: Send
    partitioning: Partitioning
    slots: frozenset[int] | None = None
    counted_chains: tuple[int, ...] = ()
    caller: Caller = field(default_factory=Caller)
    failures: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class JoinReduced:
    """What a partition produced: its new segment (None: no state), how many joined rows each query has, how many tuples
    it accepted, and what the sides of the queries that are counted let in. `spread` weighs key groups by their work.
    `ways` says how partners were found.
    """

    segment: JoinSegment | None = None
    rows: QueryCounts = NOBODY
    matched: QueryCounts = NOBODY
    sides: list[JoinCount] = field(default_factory=list)
    spread: Ints | None = None
    ways: list[FamilyWay] = field(default_factory=list)


def reduce_join(
    logic: JoinLogic,
    received: Sequence[JoinTuples | None],
    absorbed: Sequence[JoinSegment],
    kept: Sequence[JoinSegment],
    closed_us: int,
    watermark_us: int,
    outlet: Outlet | None,
) -> JoinReduced:
    """Run one partition of one epoch. `absorbed` segments are merged into the new one, `kept` ones only read.

    Joined rows go to the outlet block by block; without one nothing is joined, and state alone is made. Segments whose
    last window had ended by `closed_us` are not looked at.
    """
    absorbed, kept = (_needed(held, closed_us) for held in (absorbed, kept))
    fresh = [None if new is None else keyed(new.keys, new.content) for new in received]
    taken = [_read(logic, number, absorbed) for number in range(len(logic.inputs))]
    sides: list[Side | None] = []
    for spec, old, new in zip(logic.inputs, taken, fresh, strict=True):
        before = [*old, *(_read(logic, spec.number, kept) if any(rows is not None for rows in fresh) else ())]
        sides.append(Side(spec, before, new) if before or new is not None else None)
    reduced = JoinReduced()
    if outlet is not None:
        join = _Join(logic, sides, outlet)
        for start in logic.starts:
            join.run(start)
        reduced.rows, reduced.ways = join.finish(), join.ways
        reduced.matched = accepted_tuples(logic, fresh)
        reduced.sides = count_sides(logic, fresh, outlet.counted_chains)
        if outlet.partitioning.partitions > 1:
            reduced.spread = spread_of_join(logic, sides)
    parts_of = [[*old, *([] if new is None else [new])] for old, new in zip(taken, fresh, strict=True)]
    reduced.segment = build_segment(logic, parts_of, watermark_us)
    return reduced


def resume_join(
    logic: JoinLogic,
    blobs: Sequence[Blob],
    absorbed: Sequence[JoinSegment],
    kept: Sequence[JoinSegment],
    closed_us: int,
    outlet: Outlet,
    ways: list[FamilyWay] | None = None,
) -> QueryCounts:
    """Go on with the rows that were sent to this partition; how many joined rows each query has of them. How their
    partners were found is added to `ways`.

    `blobs` are those rows and, once more, the epoch's new tuples that `reduce_join` received here; the segments are
    those it was given. They are only read.
    """
    tuples: list[dict[str, Item]] = []
    arrived: list[list[dict[str, Item]]] = [[] for _ in logic.hops]
    for items in map(read_bundle, blobs):
        meta = meta_of(items)
        (arrived[meta["hop"]] if "hop" in meta else tuples).append(items)
    steps = [step for step, bundles in zip(logic.hops, arrived, strict=True) if bundles]
    needed = {number for step in steps for number in _inputs(step)}
    received = together(logic, [items for items in tuples if meta_of(items)["input"] in needed])
    held = _needed([*absorbed, *kept], closed_us)
    sides: list[Side | None] = []
    for spec, new in zip(logic.inputs, received, strict=True):
        before = _read(logic, spec.number, held) if spec.number in needed else []
        fresh = None if new is None else keyed(new.keys, new.content)
        sides.append(Side(spec, before, fresh) if before or fresh is not None else None)
    join = _Join(logic, sides, outlet)
    for step in steps:
        assert step.number is not None
        for prefix in Arrivals(logic, step, arrived[step.number]).blocks():
            join.resume(step, prefix)
    if ways is not None:
        ways += join.ways
    return join.finish()


def _inputs(step: Step) -> Iterator[int]:
    """The inputs that rows meet at a step and after it, up to the next hops."""
    yield step.met.input
    for child in step.children:
        if child.of.hop is None:
            yield from _inputs(child)


def _needed(segments: Sequence[JoinSegment], closed_us: int) -> list[JoinSegment]:
    return [segment for segment in segments if segment.last_end_us > closed_us]


def _read(logic: JoinLogic, number: int, segments: Sequence[JoinSegment]) -> list[KeyedRows]:
    found = (read_input(logic.inputs[number], segment) for segment in segments)
    return [rows for rows in found if rows is not None]


class _Join:
    def __init__(self, logic: JoinLogic, sides: Sequence[Side | None], outlet: Outlet) -> None:
        self._logic = logic
        self._sides = sides
        self._consume = outlet.consume
        self._asking = None if outlet.slots is None else slot_mask(outlet.slots, logic.words)
        self._outbox = Outbox(logic, outlet.send, outlet.partitioning)
        self._looks = Looks()
        self.ways: list[FamilyWay] = []
        self._caller, self._failures = outlet.caller, outlet.failures
        self._containment: dict[tuple[InputRole, InputRole, Moments, Moments], Containment] = {}
        self._counts = np.zeros(len(logic.words) * WORD, np.int64)

    def run(self, start: Step) -> None:
        """Find all rows whose tuple at `start` is new and the last in the chain's order to be so."""
        side = self._sides[start.met.input]
        if side is None or side.fresh is None or side.probe is None:
            return
        stock = side.fresh
        every = np.arange(stock.content.rows)
        sets = stock.content.sets[start.met.role]
        prefix = Prefix(side.probe, {start.position: (stock, every)}, stock.keys.of_rows(), sets)
        mask = start.mask if self._asking is None else start.mask & self._asking
        if mask.any():
            self._go_on(start, self._checked(start, prefix.wanted_by(mask)))

    def resume(self, step: Step, prefix: Prefix) -> None:
        """Find all rows that go on with this step from here."""
        for extended in self._extended(step, prefix):
            self._go_on(step, extended)

    def finish(self) -> QueryCounts:
        """Send what is left; how many rows each query has."""
        self._outbox.flush()
        slots, words = self._logic.queries, self._logic.words
        places = [place_of(slot, words) for slot in slots]
        return QueryCounts.of(list(slots.values()), self._counts[places])

    def _go_on(self, step: Step, prefix: Prefix) -> None:
        """Emit what is complete, and extend or send the rest by each step that follows.

        Every row is wanted by some query of the step, and has no others in its set.
        """
        if prefix.rows == 0:
            return
        for number, mask in step.chains:
            ready = prefix if np.array_equal(mask, step.mask) else prefix.wanted_by(mask)
            if ready.rows:
                self._counts += count_bits(ready.sets)
                tuples = [ready.tuples[p] for p in range(len(ready.tuples))]
                keys = (ready.probe.keys, ready.keys)
                self._consume(number, JoinedBlock(tuples, keys, ready.sets, self._logic.words))
        for child in step.children:
            if child.of.hop is not None:
                self._outbox.put(child, prefix.wanted_by(child.mask))
                continue
            for extended in self._extended(child, prefix):
                self._go_on(child, extended)

    def _extended(self, step: Step, prefix: Prefix) -> Iterator[Prefix]:
        side = self._sides[step.met.input]
        if side is not None:
            for stock in side.old if step.old_only else side.stocks:
                yield from self._extend(step, stock, prefix)

    def _extend(self, step: Step, stock: Stock, prefix: Prefix) -> Iterator[Prefix]:
        """The rows with each of their partners in one stock that some query wants with them."""
        role = step.met.role
        mask = step.mask if stock.content.mask is None else step.mask & stock.content.mask[role]
        if not mask.any():
            return
        prefix = prefix.wanted_by(mask)
        if prefix.rows == 0:
            return
        before = [(earlier.met, *prefix.tuples[earlier.position]) for earlier in step.before]
        meeting = Meeting(
            prefix.probe.places(stock)[prefix.keys],
            prefix.sets,
            [held.moment(rows) for _, held, rows in before],
            [self._contains(met, step.met, held.moments, stock.moments) for met, held, _ in before],
            lambda rows: _reach(step, prefix, rows),
            stock,
            role,
            self._may_score(step, stock, prefix),
        )
        for left, right, sets in meeting.pairs():
            tuples = take_chosen(prefix.tuples, left)
            tuples[step.position] = (stock, right)
            yield self._checked(step, Prefix(prefix.probe, tuples, prefix.keys[left], sets))
        met = (input_role(step.met.input, step.met.role),)
        self.ways = list(add_ways([*self.ways, *(replace(way, operands=met) for way in meeting.ways)]))

    def _may_score(self, step: Step, stock: Stock, prefix: Prefix) -> MayScore | None:
        """Which pairs are worth a look, where the scores of vectors decide."""
        if step.bounds is None:
            step.bounds = score_bounds(step)
        return self._looks.may_score(step.bounds, prefix, stock) if step.bounds else None

    def _checked(self, step: Step, prefix: Prefix) -> Prefix:
        """The rows without the queries whose conditions across positions, or on functions of them, do not hold."""
        if step.across and prefix.rows:
            prefix = self._compared(step, prefix)
        if step.called and prefix.rows:
            return self._conditions(step).restrict(prefix, self._caller, self._failures)
        return prefix

    def _conditions(self, step: Step) -> CalledConditions:
        """What functions decide at a step; built once per plan."""
        if step.conditions is None:
            words = self._logic.words
            places = [place_of(query.slot, words) for query in step.called]
            step.conditions = CalledConditions(step.called, places, len(words))
        return step.conditions

    def _compared(self, step: Step, prefix: Prefix) -> Prefix:
        for condition, mask in step.across:
            asked = np.flatnonzero(has_bits(prefix.sets & mask[:, None]))
            failed = asked[~holds_across(condition, take_chosen(prefix.tuples, asked))]
            prefix.sets[:, failed] &= ~mask[:, None]
        return prefix.take(np.flatnonzero(has_bits(prefix.sets)))

    def _contains(self, left: InputRole, right: InputRole, mine: Moments, theirs: Moments) -> Containment:
        at = (left, right, mine, theirs)
        if at not in self._containment:
            pairs = self._logic.pairs(left, right)
            self._containment[at] = Containment(pairs, len(self._logic.words), mine, theirs)
        return self._containment[at]


def _reach(step: Step, prefix: Prefix, rows: Ints) -> tuple[Ints, Ints]:
    """Partners of these rows are at times [low, high)."""
    lows, highs = [], []
    for earlier, (behind, ahead) in zip(step.before, step.reach, strict=True):
        stock, tuples = prefix.tuples[earlier.position]
        times = stock.content.times_of(tuples[rows])
        lows.append(times - behind + 1)
        highs.append(times + ahead)
    return np.maximum.reduce(lows), np.minimum.reduce(highs)
