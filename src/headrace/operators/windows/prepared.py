"""A plan's aggregation operator made ready to run: indexes, fold plans and positions, worked out once per plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from headrace.model.lanes import is_ranked
from headrace.model.plan import AggregationOperator, Output
from headrace.model.tables import WORD
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bitrows import given_ints, pack_words
from headrace.operators.common.cells import Cells, family_indexes, merge_cells
from headrace.operators.common.matching import Matcher
from headrace.operators.common.query_sets import QuerySets
from headrace.operators.compiled.bins import place_in_cells
from headrace.operators.windows.bags import BagLogic
from headrace.operators.windows.folds import Fold
from headrace.operators.windows.lanes import LaneLogic
from headrace.operators.windows.lifted import lane_logics
from headrace.operators.windows.lower import ReadyOutput, ready_tables
from headrace.operators.windows.spans import Edges
from headrace.optimizer.pools import WindowWork


class AggregationLogic:
    """A plan's operator made ready to run: indexes and fold plans are worked out once and reused every epoch.

    `base` are the state columns that say which tuples each of `queries` accepts.
    """

    def __init__(self, operator: AggregationOperator) -> None:
        self.operator = operator
        self.edges = Edges.of(operator.windows)
        self.measures: dict[int, LaneLogic] = lane_logics(operator)
        self.lanes: list[LaneLogic] = [self.measures[lane.measures[0]] for lane in operator.lanes]
        self.names = [lane.name for lane in operator.lanes]
        self.ids = [np.array(lane.ids, np.int64) for lane in operator.lanes]
        predicates = [column.predicate for column in operator.columns]
        ready_families = family_indexes(operator.families, operator.operands, predicates)
        self._families = [family for family, _ in ready_families]
        self.families = [index for _, index in ready_families]
        windows = np.array([column.window for column in operator.columns], np.int64)
        bounds = np.searchsorted(windows, np.arange(len(operator.windows) + 1))
        self._columns = [np.array(lane.columns, np.int64) for lane in operator.lanes]
        self._slices = [np.searchsorted(columns, bounds) for columns in self._columns]
        self.widest = np.max([np.diff(bounds) for bounds in self._slices], axis=0)
        """How many entries each window has in the lane that has the most of them."""
        self._of_measure = [np.array(lane.measures, np.int64) for lane in operator.lanes]
        self.bags = [BagLogic(lane, _of_windows(lane.columns, bounds)) for lane in operator.bags]
        self._folds: dict[tuple[int, int], MeasureFold] = {}
        self._keepers: dict[int, tuple[Matcher, list[Keepers]]] = {}
        self._measures: dict[int, tuple[int, ...]] = {}
        self.column_ids = np.array([column.id for column in operator.columns], np.int64)
        self.column_windows = windows
        self.words = -(-len(operator.columns) // WORD)
        self.pool_names = pool_names(operator)
        self.lane_measures = [sorted(set(lane.measures)) for lane in operator.lanes]
        self._asked: dict[tuple[int, int], list[AskedBits]] = {}
        self._number = {(measure.kind, measure.input): i for i, measure in enumerate(operator.measures)}
        self._places: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
        self.queries = np.array([query for output in operator.outputs for query in output.queries], np.int64)
        self.base = np.array([column for output in operator.outputs for column in output.base], np.int64)
        outputs = sorted(operator.outputs, key=lambda output: output.window)
        self.tables = ready_tables(map(self._ready, outputs))

    def window_entries(self, lane: int, window: int) -> slice:
        """The entries of one window inside a lane."""
        return slice(int(self._slices[lane][window]), int(self._slices[lane][window + 1]))

    def entry_bounds(self, lane: int, first: int, last: int) -> Ints:
        """Where the entries of the windows [first, last) begin inside a lane, and where those of the last one end."""
        return self._slices[lane][first : last + 1]

    @cached_property
    def query_sets(self) -> QuerySets:
        """Finds the state columns that accept a tuple, as bits."""
        operator = self.operator
        predicates = [column.predicate for column in operator.columns]
        bits = np.arange(len(predicates))
        return QuerySets(operator.families, operator.operands, predicates, bits, self.words)

    @cached_property
    def window_work(self) -> list[WindowWork]:
        """What is known of each window when it is decided whether tuples are kept."""
        entries = np.diff([self._slices[lane] for lane in range(len(self.lanes))], axis=1).sum(axis=0)
        every = zip(self.operator.windows, entries.tolist(), strict=True)
        return [WindowWork(window.range_us, window.slide_us, count) for window, count in every]

    def pack(self, membership: Bools) -> Array:
        """[word, row] of [row, state column]."""
        return np.ascontiguousarray(pack_words(membership).T)

    def asked_bits(self, lane: int, window: int) -> list[AskedBits]:
        """The entries of one window inside a lane by their bits, each column's first entry, second entry and so on."""
        if (lane, window) not in self._asked:
            some = self.window_entries(lane, window)
            columns = self._columns[lane][some]
            measures = np.searchsorted(self.lane_measures[lane], self._of_measure[lane][some])
            self._asked[lane, window] = ask_bits(columns, measures)
        return self._asked[lane, window]

    def _place(self, lane: int, window: int) -> dict[tuple[int, int], int]:
        """Where each (state column, measure) of a window is among a lane's entries."""
        if (lane, window) not in self._places:
            entries = self.window_entries(lane, window)
            found = zip(
                self._columns[lane][entries].tolist(), self._of_measure[lane][entries].tolist(), strict=True
            )
            self._places[lane, window] = {pair: i for i, pair in enumerate(found, entries.start)}
        return self._places[lane, window]

    def _ready(self, output: Output) -> ReadyOutput:
        """Where in each lane's entries an output's partials are found."""
        rows, lanes = [], []
        for aggregate, columns, inputs in zip(output.aggregates, output.columns, output.inputs, strict=True):
            rows.append(np.array(columns, np.int64))
            at = {}
            for lane in aggregate.lanes:
                kind = self.operator.lanes[lane].kind
                place = self._place(lane, output.window)
                wanted = [place[c, self._number[kind, i]] for c, i in zip(columns, inputs, strict=True)]
                at[kind] = (lane, np.array(wanted, np.int64))
            lanes.append(at)
        windows = np.full(len(output.queries), output.window)
        queries, base = np.array(output.queries, np.int64), np.array(output.base, np.int64)
        return ReadyOutput(output, windows, queries, base, rows, lanes, self._ready_bags(output))

    def _ready_bags(self, output: Output) -> dict[int, tuple[int, Ints]]:
        """The bags of the aggregates that have one, with each query's entry among those of the window."""
        found = {}
        for number, (aggregate, columns) in enumerate(zip(output.aggregates, output.columns, strict=True)):
            if aggregate.bag is not None:
                bag = self.bags[aggregate.bag]
                entries = bag.windows[output.window]
                places = np.searchsorted(bag.columns[entries], np.array(columns, np.int64))
                found[number] = (aggregate.bag, places)
        return found

    def family_columns(self, family: int) -> Ints:
        return np.array(self._families[family].columns, np.int64)

    def fold_for(self, family: int, measure: int, cells: Cells) -> MeasureFold:
        """How a family's cells fold into the entries of one measure; kept while the membership stays."""
        if (family, measure) not in self._folds or not cells.static:
            self._folds[family, measure] = self._plan_fold(family, measure, cells.membership)
        return self._folds[family, measure]

    def measures_of(self, family: int) -> tuple[int, ...]:
        """The measures that the queries of a family keep, once for each lane."""
        if family not in self._measures:
            found = self._kept_by(family, range(len(self.operator.measures)))
            self._measures[family] = tuple(measure for measure, *_ in found)
        return self._measures[family]

    def keepers_of(self, family: int, matcher: Matcher) -> list[Keepers]:
        """Which boxes of a family keep what; worked out once for a matcher."""
        known = self._keepers.get(family)
        if known is None or known[0] is not matcher:
            found = self._kept_by(family, range(len(self.operator.measures)))
            keepers = [Keepers(m, lane, *self._keeping(family, matcher, *kept)) for m, lane, *kept in found]
            known = self._keepers[family] = (matcher, keepers)
        return known[1]

    def _keeping(self, family: int, matcher: Matcher, mine: Ints, at: Ints) -> tuple[Ints, Ints, Ints]:
        of_column = np.full(len(self._families[family].columns), -1, np.int64)
        of_column[at] = mine
        return at, *matcher.entries(of_column)

    def _kept_by(self, family: int, measures: Iterable[int]) -> list[tuple[int, int, Ints, Ints]]:
        """(measure, lane, entries of the lane, their positions among the family's columns) of what is kept."""
        columns = np.array(self._families[family].columns, np.int64)
        of_family = [np.isin(held, columns) for held in self._columns]
        found = []
        for measure in measures:
            for lane, of_measure in enumerate(self._of_measure):
                mine = np.flatnonzero((of_measure == measure) & of_family[lane])
                if len(mine):
                    found.append((measure, lane, mine, np.searchsorted(columns, self._columns[lane][mine])))
        return found

    def _plan_fold(self, family: int, measure: int, membership: Array) -> MeasureFold:
        found = self._kept_by(family, [measure])
        used = np.unique(np.concatenate([at for *_, at in found])) if found else np.empty(0, np.int64)
        lookup, merged = merge_cells(membership[:, used])
        folds = [(lane, mine, Fold(merged[:, np.searchsorted(used, at)])) for _, lane, mine, at in found]
        nobody = len(merged)
        return MeasureFold(np.append(nobody, np.where(lookup < 0, nobody, lookup)), nobody, folds)


@dataclass(frozen=True, slots=True)
class MeasureFold:
    """Cells of a family as one measure sees them: fewer, since fewer columns ask.

    `lookup[cell + 1]` is the coarser cell, `count` standing for none; that is what cell -1 finds. A fold is (lane,
    entries of the lane, how cells fold into these).
    """

    lookup: Ints
    count: int
    folds: list[tuple[int, Ints, Fold]]

    def bins(self, cells: Ints, row: Ints, rows: int) -> Ints:
        """Of each tuple, given its cell and its row: one bin for each coarser cell and row, and one cell for nobody."""
        bins = np.empty(len(cells), np.int64)
        place_in_cells(given_ints(cells), self.lookup * rows, given_ints(row), bins)
        return bins


@dataclass(frozen=True, slots=True)
class Keepers:
    """The boxes of a family whose queries keep one measure in one lane: as bits of bit rows, and each with its entry
    there (-1: none).
    """

    measure: int
    lane: int
    columns: Ints
    mask: Ints
    entries: Ints


@dataclass(frozen=True, slots=True)
class AskedBits:
    """Entries of a window in a lane, no two of which have the same state column, by the bits of these.

    Bit b of `mask`, which has all that are asked for, is that of column `first` + b. It is that of entry entries[b],
    counted from the window's first, which keeps the lane's measure number measures[b].
    """

    first: int
    mask: Array
    entries: Ints
    measures: Ints


def ask_bits(columns: Ints, measures: Ints) -> list[AskedBits]:
    """By bits, the entries that have these state columns, which ascend, and measures.

    >>> found = ask_bits(np.array([70, 71, 71]), np.zeros(3, np.int64))
    >>> [(one.first, one.mask.tolist(), one.entries[:2].tolist()) for one in found]
    [(70, [3], [0, 1]), (71, [1], [2, 0])]
    """
    found = []
    number = np.arange(len(columns)) - np.searchsorted(columns, columns)
    for layer in range(int(number.max(initial=-1)) + 1):
        mine = np.flatnonzero(number == layer)
        first = int(columns[mine[0]])
        bits = columns[mine] - first
        size = (int(bits[-1]) // WORD + 1) * WORD
        entries, of_measure, flags = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, bool)
        entries[bits], of_measure[bits], flags[bits] = mine, measures[mine], True
        found.append(AskedBits(first, pack_words(flags[None])[0], entries, of_measure))
    return found


def pool_names(operator: AggregationOperator) -> list[str]:
    """What each measure is called in pools, for ever: as its lane is, with its input where lanes have several."""
    lanes = {measure: lane.name for lane in operator.lanes for measure in lane.measures}
    found = []
    for number, measure in enumerate(operator.measures):
        name = lanes.get(number, "")
        input_ = None if is_ranked(name) or measure.input is None else operator.inputs[measure.input]
        found.append(name if input_ is None else f"{name}:{input_.sql}")
    return found


def _of_windows(columns: Sequence[int], bounds: Ints) -> list[slice]:
    """The entries of each window, where `bounds` are the first state columns of the windows."""
    places = np.searchsorted(np.array(columns, np.int64), bounds).tolist()
    return [slice(low, high) for low, high in pairwise(places)]
