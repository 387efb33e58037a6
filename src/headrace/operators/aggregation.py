"""The reduce side of a shared windowed aggregation: one update per tuple and family, one fold per slice.

Partials are grouped per (cell, slice, key), folded into state columns, summed into each window's own slices, joined
with the segments of earlier epochs, and closed windows are lowered to rows. State is kept per (own slice, key, state
column) rather than per cell: see `docs/decisions/0003-state-per-query-column.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.model.plan import AggregationOperator, LaneKind, Measure, Output
from headrace.model.types import Kind
from headrace.model.window import Window
from headrace.operators.cells import Cells, FamilyIndex, merge_cells
from headrace.operators.encode import Array, Ints, OrderedStrings, translate_ranks
from headrace.operators.folds import Fold
from headrace.operators.keys import empty_key, unify_keys
from headrace.operators.lanes import LaneLogic, Parts, each_range
from headrace.operators.lower import Closed, Lowered, ReadyOutput, lower_output
from headrace.operators.segment import LaneBlock, Segment, WindowBlock
from headrace.operators.slices import closing_windows, last_ends, slice_starts
from headrace.operators.tuples import Tuples, measure_logics, rerank

BLOCK_ELEMENTS = 1 << 24
"""Keys are worked off in blocks so that no array of partials has more elements than about this."""

DENSE_SLICES = 512
"""Up to so many fine slices are added to own slices one by one; beyond that, runs of rows are reduced."""


@dataclass(slots=True)
class Reduced:
    """What a partition of an operator produced: result tables by signature, and its new segment (None: no state)."""

    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    segment: Segment | None = None
    failures: dict[int, str] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    def add(self, signature: str, lowered: Lowered) -> None:
        self.tables.append((signature, lowered.table))
        for query, count in lowered.rows.items():
            self.rows[query] = self.rows.get(query, 0) + count


class AggregationLogic:
    """A plan's operator made ready to run: indexes and fold plans are worked out once and reused every epoch."""

    def __init__(self, operator: AggregationOperator) -> None:
        self.operator = operator
        self.measures: list[LaneLogic] = measure_logics(operator)
        self.lanes: list[LaneLogic] = [self.measures[lane.measures[0]] for lane in operator.lanes]
        self.names = [lane.name for lane in operator.lanes]
        self.ids = [np.array(lane.ids, np.int64) for lane in operator.lanes]
        predicates = [column.predicate for column in operator.columns]
        self.families = [FamilyIndex(f, operator.operands, predicates) for f in operator.families]
        windows = np.array([column.window for column in operator.columns], np.int64)
        bounds = np.searchsorted(windows, np.arange(len(operator.windows) + 1))
        self._columns = [np.array(lane.columns, np.int64) for lane in operator.lanes]
        self._slices = [np.searchsorted(columns, bounds) for columns in self._columns]
        self._of_measure = [np.array(lane.measures, np.int64) for lane in operator.lanes]
        self.shares = _shares(operator)
        self._folds: dict[tuple[int, int], _SharedFold] = {}
        self.outputs: list[list[ReadyOutput]] = [[] for _ in operator.windows]
        for output in operator.outputs:
            self.outputs[output.window].append(self._ready(output))

    def window_entries(self, lane: int, window: int) -> slice:
        """The entries of one window inside a lane."""
        return slice(int(self._slices[lane][window]), int(self._slices[lane][window + 1]))

    def _ready(self, output: Output) -> ReadyOutput:
        """Where in each lane's entries of the window an output's partials are found."""
        measures = {measure: i for i, measure in enumerate(self.operator.measures)}
        base = np.array(output.base) - self.window_entries(0, output.window).start
        rows, lanes = [], []
        for aggregate, columns, inputs in zip(output.aggregates, output.columns, output.inputs, strict=True):
            rows.append(np.array(columns) - self.window_entries(0, output.window).start)
            at = {}
            for lane in aggregate.lanes:
                entries = self.window_entries(lane, output.window)
                kind = self.operator.lanes[lane].kind
                found = zip(self._columns[lane][entries], self._of_measure[lane][entries], strict=True)
                place = {pair: i for i, pair in enumerate(found)}
                wanted = [place[c, measures[Measure(kind, i)]] for c, i in zip(columns, inputs, strict=True)]
                at[kind] = (lane, np.array(wanted, np.int64))
            lanes.append(at)
        return ReadyOutput(output, base, rows, lanes)

    def fold_for(self, family: int, share: int, cells: Cells) -> _SharedFold:
        """How a family's cells fold into the entries of one input; kept while the membership stays."""
        if (family, share) not in self._folds or not cells.static:
            columns = np.array(self.operator.families[family].columns, np.int64)
            self._folds[family, share] = self._plan_fold(columns, self.shares[share], cells.member)
        return self._folds[family, share]

    def _plan_fold(self, columns: Ints, measures: Sequence[int], member: Array) -> _SharedFold:
        found = []
        for measure in measures:
            for lane, of_measure in enumerate(self._of_measure):
                mine = np.flatnonzero((of_measure == measure) & np.isin(self._columns[lane], columns))
                if len(mine):
                    found.append((measure, lane, mine, np.searchsorted(columns, self._columns[lane][mine])))
        used = np.unique(np.concatenate([at for *_, at in found])) if found else np.empty(0, np.int64)
        lookup, merged = merge_cells(member[:, used])
        folds = [(m, lane, mine, Fold(merged[:, np.searchsorted(used, at)])) for m, lane, mine, at in found]
        trash = np.append(np.where(lookup < 0, len(merged), lookup), len(merged))
        return _SharedFold(trash, len(merged), folds)


@dataclass(frozen=True, slots=True)
class _SharedFold:
    """Cells of a family as the measures of one input see them: fewer, since fewer columns ask.

    `lookup[cell]` is the coarser cell, `count` standing for none; cell -1 finds that entry too, as the last one. A fold
    is (measure, lane, entries of the lane, how cells fold into these).
    """

    lookup: Ints
    count: int
    folds: list[tuple[int, int, Ints, Fold]]


def _shares(operator: AggregationOperator) -> list[list[int]]:
    """Measures by input: those of one input are grouped over the same bins."""
    groups: dict[int | None, list[int]] = {}
    for i, measure in enumerate(operator.measures):
        groups.setdefault(measure.input, []).append(i)
    return list(groups.values())


@np.errstate(invalid="ignore", over="ignore")
def reduce_aggregation(
    logic: AggregationLogic,
    tuples: Tuples | None,
    absorbed: Sequence[Segment],
    kept: Sequence[Segment],
    closed_us: int,
    watermark_us: int,
) -> Reduced:
    """Run one partition of one epoch. `absorbed` segments are merged into the new one, `kept` ones only read."""
    operator = logic.operator
    words = _common_words(logic, tuples, [*absorbed, *kept])
    blank = (
        tuples.keys.table
        if tuples
        else (list(absorbed) + list(kept))[0].keys
        if absorbed or kept
        else empty_key(0)
    )
    tables = [tuples.keys.table if tuples else blank.slice(0, 0), *(s.keys for s in (*absorbed, *kept))]
    keys, ids = unify_keys(tables)
    sources = [
        _Source(s, i, segment_is_new)
        for (s, i), segment_is_new in zip(
            zip((*absorbed, *kept), ids[1:], strict=True),
            [True] * len(absorbed) + [False] * len(kept),
            strict=True,
        )
    ]
    reduced = Reduced()
    gathered: dict[int, list[WindowBlock]] = {}
    for block in _key_blocks(logic, tuples, ids[0], keys.num_rows):
        folded = _fold_block(logic, block) if block.tuples is not None else None
        key_rows = keys.slice(block.first, block.count)
        for w, window in enumerate(operator.windows):
            fresh, closing = _window_step(logic, w, block, folded, sources, closed_us, watermark_us)
            for output in logic.outputs[w] if closing is not None else ():
                assert closing is not None
                lowered = lower_output(operator, output, closing, key_rows, words)
                reduced.failures.update(lowered.failures)
                if lowered.table is not None and lowered.table.num_rows:
                    reduced.add(output.output.signature, lowered)
            rest = _live_rows(logic, w, window, fresh, block, watermark_us)
            if rest is not None:
                gathered.setdefault(w, []).append(rest)
    if gathered:
        reduced.segment = _segment(logic, keys, gathered, words)
    return reduced


@dataclass(slots=True)
class _Source:
    """A segment with the position of its keys among the common keys."""

    segment: Segment
    ids: Ints
    absorbed: bool

    def block(self, window: Window) -> WindowBlock | None:
        return next((b for b in self.segment.blocks if b.window == window), None)


@dataclass(slots=True)
class _KeyBlock:
    """Keys [first, first + count) and the tuples that have them, as positions in the batch."""

    first: int
    count: int
    tuples: Tuples | None
    keys: Ints
    rows: Ints | slice


def _key_blocks(logic: AggregationLogic, tuples: Tuples | None, ids: Ints, keys: int) -> Iterator[_KeyBlock]:
    if tuples is None:
        yield _KeyBlock(0, keys, None, np.empty(0, np.int64), slice(0, 0))
        return
    own = ids[tuples.keys.ids]
    cells = max((min(64, len(f.operands) * 64) for f in logic.operator.families), default=1)
    width = len(tuples.slice_starts) * max(len(logic.operator.columns), cells)
    size = max(1, min(keys, BLOCK_ELEMENTS // max(width, 1)))
    if size >= keys:
        yield _KeyBlock(0, keys, tuples, own, slice(None))
        return
    order = np.argsort(own // size, kind="stable")
    bounds = np.searchsorted((own // size)[order], np.arange(-(-keys // size) + 1))
    for i in range(len(bounds) - 1):
        rows = order[bounds[i] : bounds[i + 1]]
        yield _KeyBlock(i * size, min(size, keys - i * size), tuples, own[rows] - i * size, rows)


@dataclass(slots=True)
class _Folded:
    """Partials [entry, row] per lane (None: all zero); rows are the occupied (slice, key) pairs in that order."""

    slices: Ints
    keys: Ints
    bounds: Ints
    starts: Ints
    lanes: list[Parts | None]
    dense: bool


def _fold_block(logic: AggregationLogic, block: _KeyBlock) -> _Folded | None:
    tuples, rows = block.tuples, block.rows
    assert tuples is not None
    slices = tuples.slice[rows]
    if len(slices) == 0:
        return None
    flat = slices * block.count + block.keys
    size = len(tuples.slice_starts) * block.count
    present, row = _occupied(flat, size)
    regions = [r[rows] for r in tuples.regions]
    inputs: list[Parts | None] = [
        {name: part[rows] for name, part in parts.items()}
        if measure.kind is not LaneKind.NULLS or parts["v"].any()
        else None
        for measure, parts in zip(logic.operator.measures, tuples.measures, strict=True)
    ]
    lanes = [
        one.zeros((len(ids), len(present))) if any(inputs[m] is not None for m in lane.measures) else None
        for one, ids, lane in zip(logic.lanes, logic.ids, logic.operator.lanes, strict=True)
    ]
    for f, family in enumerate(logic.families):
        cells = family.locate(regions, len(row))
        _fold_family(logic, f, cells, row, len(present), inputs, lanes)
    row_slices = present // block.count
    bounds = np.searchsorted(row_slices, np.arange(len(tuples.slice_starts) + 1))
    return _Folded(
        row_slices, present % block.count, bounds, tuples.slice_starts, lanes, len(present) == size
    )


def _occupied(flat: Ints, size: int) -> tuple[Ints, Ints]:
    """(codes that occur, ascending; position of each element's code among them)."""
    if size <= 4 * len(flat) + (1 << 20):
        counts = np.bincount(flat, minlength=size)
        if counts.all():
            return np.arange(size), flat
        present = np.flatnonzero(counts)
        lookup = np.empty(size, np.int64)
        lookup[present] = np.arange(len(present))
        return present, lookup[flat]
    present, row = np.unique(flat, return_inverse=True)
    return present, row


def _fold_family(
    logic: AggregationLogic,
    family: int,
    cells: Cells,
    row: Ints,
    rows: int,
    inputs: list[Parts | None],
    lanes: list[Parts | None],
) -> None:
    """Group one family's tuples into cells and fold these into the family's entries of every lane."""
    if cells.count == 0:
        return
    for share in range(len(logic.shares)):
        shared = logic.fold_for(family, share, cells)
        busy = [fold for fold in shared.folds if inputs[fold[0]] is not None]
        if not busy:
            continue
        ids = shared.lookup[cells.ids]
        size = (shared.count + 1) * rows
        if size > max(4 * BLOCK_ELEMENTS, 8 * len(ids)):
            _fold_sparse(logic, shared, ids, row, rows, inputs, lanes)
            continue
        ids *= rows
        ids += row
        for measure, lane, entries, fold in busy:
            parts, into = inputs[measure], lanes[lane]
            assert parts is not None and into is not None
            grouped = logic.measures[measure].group(parts, ids, size)
            wanted = {n: p.reshape(-1, rows)[: shared.count] for n, p in grouped.items()}
            _assign(into, entries, logic.measures[measure].fold(wanted, fold))


def _fold_sparse(
    logic: AggregationLogic,
    shared: _SharedFold,
    ids: Ints,
    row: Ints,
    rows: int,
    inputs: list[Parts | None],
    lanes: list[Parts | None],
) -> None:
    """The same when cells times rows is far more than there are tuples: one pass over the tuples per entry."""
    for measure, lane, entries, fold in shared.folds:
        parts, into = inputs[measure], lanes[lane]
        if parts is None or into is None:
            continue
        member = np.append(fold.member, np.zeros((1, fold.columns), bool), axis=0)
        for column, entry in enumerate(entries):
            hit = np.flatnonzero(member[ids, column])
            found = logic.measures[measure].group({n: p[hit] for n, p in parts.items()}, row[hit], rows)
            _assign(into, np.array([entry]), {n: p[None, :] for n, p in found.items()})


def _shadow(parts: Parts, other: Parts) -> Parts:
    """Give `parts` the float shadow that `other` has (exact sums below WIDE shadow themselves)."""
    return {**parts, "f": parts["v"].astype(np.float64)} if "f" in other and "f" not in parts else parts


def _assign(into: Parts, at: Ints, parts: Parts) -> None:
    into.update(_shadow(into, parts))
    for name, part in _shadow(parts, into).items():
        into[name][at] = part


def _accumulate(one: LaneLogic, into: Parts, at: tuple[Array | slice | int, ...], parts: Parts) -> None:
    """into[at] = combine(into[at], parts); positions in `at` are distinct."""
    into.update(_shadow(into, parts))
    current = {name: whole[at] for name, whole in into.items()}
    for name, part in one.combine(current, _shadow(parts, into)).items():
        into[name][at] = part


@dataclass(slots=True)
class _Grid:
    """Partials [entry, own slice, key] per lane of one window (None: all zero)."""

    starts: Ints
    lanes: list[Parts | None]


def _window_step(
    logic: AggregationLogic,
    w: int,
    block: _KeyBlock,
    folded: _Folded | None,
    sources: Sequence[_Source],
    closed_us: int,
    watermark_us: int,
) -> tuple[_Grid | None, Closed | None]:
    """(the grid of new and absorbed partials, the windows that closed) for one window and block of keys."""
    window = logic.operator.windows[w]
    own, alive = np.empty(0, np.int64), np.empty(0, bool)
    if folded is not None:
        own = slice_starts(window, folded.starts)
        alive = last_ends(window, own) > closed_us
    mine = [(s, b) for s in sources if (b := s.block(window)) is not None]
    starts = np.unique(np.concatenate([own[alive], *(b.slices for s, b in mine if s.absorbed)]))
    elsewhere = [b.slices for s, b in mine if not s.absorbed]
    closing = closing_windows(
        window, np.unique(np.concatenate([starts, *elsewhere])), closed_us, watermark_us
    )
    fresh = None
    if len(starts):
        fresh = _Grid(starts, _fresh_lanes(logic, w, starts, folded, own, alive, block.count))
        for source, stored in mine:
            if source.absorbed:
                _add_stored(logic, w, fresh, source, stored, block)
    if len(closing) == 0:
        return fresh, None
    old = None
    if elsewhere:
        needed = np.unique(np.concatenate(elsewhere))
        needed = needed[(needed >= closing[0]) & (needed < closing[-1] + window.range_us)]
        if len(needed):
            old = _Grid(needed, [None] * len(logic.lanes))
            for source, stored in mine:
                if not source.absorbed:
                    _add_stored(logic, w, old, source, stored, block)
    return fresh, _close(logic, w, window, closing, [g for g in (fresh, old) if g is not None], block.count)


def _fresh_lanes(
    logic: AggregationLogic, w: int, starts: Ints, folded: _Folded | None, own: Ints, alive: Array, keys: int
) -> list[Parts | None]:
    """This epoch's partials summed into the window's own slices."""
    if folded is None:
        return [None] * len(logic.lanes)
    target = np.searchsorted(starts, own)
    lanes: list[Parts | None] = []
    for i, one in enumerate(logic.lanes):
        columns, found = logic.window_entries(i, w), folded.lanes[i]
        if columns.start == columns.stop or found is None:
            lanes.append(None)
            continue
        parts = {name: part[columns] for name, part in found.items()}
        if folded.dense and len(own) <= DENSE_SLICES:
            cube = {name: part.reshape(len(part), len(own), keys) for name, part in parts.items()}
            lows = np.searchsorted(target, np.arange(len(starts)), "left")
            highs = np.searchsorted(target, np.arange(len(starts)), "right")
            first = int(np.argmax(alive)) if alive.any() else len(own)
            lanes.append(each_range(one, cube, np.maximum(lows, first), np.maximum(highs, first)))
            continue
        grid = one.zeros((columns.stop - columns.start, len(starts), keys))
        if len(own) > DENSE_SLICES:
            _add_runs(one, grid, parts, folded, target, alive)
        else:
            _add_slices(one, grid, parts, folded, target, alive)
        lanes.append(grid)
    return lanes


def _add_slices(
    one: LaneLogic, into: Parts, parts: Parts, folded: _Folded, target: Ints, alive: Array
) -> None:
    """Add fine slices to own slices one by one; a slice holds each key once at most."""
    for s in np.flatnonzero(alive):
        low, high = folded.bounds[s], folded.bounds[s + 1]
        if low < high:
            piece = {name: part[:, low:high] for name, part in parts.items()}
            _accumulate(one, into, (slice(None), int(target[s]), folded.keys[low:high]), piece)


def _add_runs(one: LaneLogic, into: Parts, parts: Parts, folded: _Folded, target: Ints, alive: Array) -> None:
    """The same for many slices: order rows by (key, slice) and reduce the runs that share an own slice."""
    live = np.flatnonzero(alive[folded.slices])
    order = live[np.lexsort((folded.slices[live], folded.keys[live]))]
    if len(order) == 0:
        return
    keys, slots = folded.keys[order], target[folded.slices[order]]
    first = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]) | (slots[1:] != slots[:-1])))
    runs = one.runs({name: part[:, order] for name, part in parts.items()}, first)
    _accumulate(one, into, (slice(None), slots[first], keys[first]), runs)


def _add_stored(
    logic: AggregationLogic, w: int, grid: _Grid, source: _Source, stored: WindowBlock, block: _KeyBlock
) -> None:
    keys = source.ids[stored.keys] - block.first
    slot = np.minimum(np.searchsorted(grid.starts, stored.slices), len(grid.starts) - 1)
    rows = np.flatnonzero((keys >= 0) & (keys < block.count) & (grid.starts[slot] == stored.slices))
    if len(rows) == 0:
        return
    everything = len(rows) == len(keys)
    for i, one in enumerate(logic.lanes):
        lane = stored.lanes.get(logic.names[i])
        columns = logic.window_entries(i, w)
        if lane is None or columns.start == columns.stop:
            continue
        ids = logic.ids[i][columns]
        at = np.searchsorted(ids, lane.ids)
        here = np.flatnonzero(ids[np.minimum(at, len(ids) - 1)] == lane.ids)
        if len(here) == 0:
            continue
        whole = everything and len(here) == len(lane.ids)
        parts = {n: p if whole else p[np.ix_(here, rows)] for n, p in lane.parts.items()}
        into = grid.lanes[i]
        if into is None:
            into = one.zeros((columns.stop - columns.start, len(grid.starts), block.count))
            grid.lanes[i] = into
        _accumulate(one, into, (at[here][:, None], slot[rows][None, :], keys[rows][None, :]), parts)


def _close(
    logic: AggregationLogic, w: int, window: Window, closing: Ints, grids: Sequence[_Grid], keys: int
) -> Closed:
    """Combine each closed window's slices, from new and old partials, into [entry, window, key]."""
    lanes: dict[int, Parts] = {}
    for i, one in enumerate(logic.lanes):
        for grid in grids:
            parts = grid.lanes[i]
            if parts is None:
                continue
            lows, highs = np.searchsorted(grid.starts, [closing, closing + window.range_us])
            sums = one.ranges(parts, lows, highs)
            if i in lanes:
                sums = one.combine(_shadow(lanes[i], sums), _shadow(sums, lanes[i]))
            lanes[i] = sums
    if 0 not in lanes:
        entries = logic.window_entries(0, w)
        lanes[0] = logic.lanes[0].zeros((entries.stop - entries.start, len(closing), keys))
    return Closed(closing, window.range_us, lanes)


def _live_rows(
    logic: AggregationLogic, w: int, window: Window, grid: _Grid | None, block: _KeyBlock, watermark_us: int
) -> WindowBlock | None:
    """What later epochs still need: own slices of windows that have not closed, rows that hold a tuple."""
    if grid is None:
        return None
    live = np.flatnonzero(last_ends(window, grid.starts) > watermark_us)
    if len(live) == 0:
        return None
    counts = grid.lanes[0]
    if counts is None:
        return None
    slot, keys = np.nonzero((counts["v"][:, live] != 0).any(axis=0))
    if len(slot) == 0:
        return None
    slot = live[slot]
    lanes = {}
    for i, text in enumerate(logic.names):
        ids = logic.ids[i][logic.window_entries(i, w)]
        parts = grid.lanes[i]
        if len(ids) and parts is not None:
            lanes[text] = LaneBlock(ids, {n: p[:, slot, keys] for n, p in parts.items()})
    return WindowBlock(window, keys + block.first, grid.starts[slot], lanes)


def _segment(
    logic: AggregationLogic,
    keys: pa.Table,
    gathered: dict[int, list[WindowBlock]],
    words: dict[int, pa.Array],
) -> Segment:
    blocks = [_merge_blocks(logic, parts) for parts in gathered.values()]
    used = np.unique(np.concatenate([b.keys for b in blocks]))
    for block in blocks:
        block.keys = np.searchsorted(used, block.keys)
    texts = {logic.operator.inputs[i].sql: array for i, array in words.items()}
    return Segment(keys.take(pa.array(used)), blocks, texts)


def _merge_blocks(logic: AggregationLogic, parts: list[WindowBlock]) -> WindowBlock:
    """Blocks of different keys, one after the other; a lane that some lack is zero there."""
    if len(parts) == 1:
        return parts[0]
    lanes = {}
    for text, one in zip(logic.names, logic.lanes, strict=True):
        ids = next((p.lanes[text].ids for p in parts if text in p.lanes), None)
        if ids is None:
            continue
        pieces = [
            p.lanes[text].parts if text in p.lanes else one.zeros((len(ids), len(p.keys))) for p in parts
        ]
        names = {name for piece in pieces for name in piece}
        merged = {
            n: np.concatenate([p[n] if n in p else p["v"].astype(np.float64) for p in pieces], axis=1)
            for n in names
        }
        lanes[text] = LaneBlock(ids, merged)
    keys = np.concatenate([p.keys for p in parts])
    return WindowBlock(parts[0].window, keys, np.concatenate([p.slices for p in parts]), lanes)


def _common_words(
    logic: AggregationLogic, tuples: Tuples | None, segments: Sequence[Segment]
) -> dict[int, pa.Array]:
    """One dictionary per string input for MIN and MAX; ranks in tuples and segments are translated to it."""
    operator = logic.operator
    words: dict[int, pa.Array] = {}
    for i, operand in enumerate(operator.inputs):
        if operand.type.kind is not Kind.STRING:
            continue
        known = [s.words[operand.sql] for s in segments if operand.sql in s.words]
        if tuples is not None and i in tuples.words:
            known.append(tuples.words[i])
        if not known:
            continue
        ordered = OrderedStrings.of(*known)
        words[i] = ordered.values
        if tuples is not None and i in tuples.words:
            rerank(operator, tuples.measures, i, ordered.ranks(tuples.words[i]).values)
        for segment in segments:
            if operand.sql in segment.words:
                _rerank_segment(logic, segment, i, ordered.ranks(segment.words[operand.sql]).values)
    return words


def _rerank_segment(logic: AggregationLogic, segment: Segment, input_: int, ranks: Ints) -> None:
    domain = f":words:{logic.operator.inputs[input_].sql}"
    for block in segment.blocks:
        for name, lane in block.lanes.items():
            if name.endswith(domain):
                lane.parts = {"v": translate_ranks(lane.parts["v"], ranks)}
