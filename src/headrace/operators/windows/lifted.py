"""What map tasks send to reduce tasks for a shared aggregation: tuples, or partials of tuples that look alike.

Both are rows of (key, slice, region per operand) with the lanes' partials; a raw tuple is a partial of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pyarrow as pa

from headrace.model.lanes import has_vocabulary
from headrace.model.partitioning import Partitioning
from headrace.model.plan import AggregatingOperator, AggregationOperator, LaneKind, Measure
from headrace.model.types import SqlType
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bundle import Blob, Item, pack_bundle, read_bundle
from headrace.operators.common.encode import Physical, narrow, one_chunk, to_physical
from headrace.operators.common.keys import Keys, encode_keys, unify_keys
from headrace.operators.common.placing import route_keys
from headrace.operators.common.regions import Regions, region_count, regions_of
from headrace.operators.common.vocabulary import input_column, known_rows, vocabulary_of
from headrace.operators.protocol import Columns, Shipment
from headrace.operators.windows.lanes import LaneLogic, MeasureLogic, Partials, ValueLogic, logic_for
from headrace.operators.windows.slices import fine_slices, last_ends
from headrace.operators.windows.vocabularies import unify_vocabularies
from headrace.optimizer.movement import Movement, decide_combine

SAMPLE_ROWS = 1 << 15
VALUE_LANES = (LaneKind.SUM, LaneKind.MIN, LaneKind.MAX, LaneKind.MOMENTS, LaneKind.BAG)


def lane_logics(operator: AggregatingOperator) -> dict[int, LaneLogic]:
    """The logic of every measure that is kept in dense lanes, by the measure's number."""
    return {
        number: logic_for(measure.kind, _type_of(operator, measure))
        for number, measure in enumerate(operator.measures)
        if measure.kind is not LaneKind.BAG
    }


def measure_logics(operator: AggregatingOperator) -> list[MeasureLogic]:
    """What map tasks need to know of every measure."""
    dense, found = lane_logics(operator), list[MeasureLogic]()
    for number, measure in enumerate(operator.measures):
        type_ = _type_of(operator, measure)
        found.append(dense[number] if type_ is None or number in dense else ValueLogic(type_))
    return found


def _type_of(operator: AggregatingOperator, measure: Measure) -> SqlType | None:
    return None if measure.input is None else operator.inputs[measure.input].type


@dataclass(slots=True)
class Lifted:
    """Rows ready to be grouped: `measures[i]` are the partials of measure i, `vocabularies[i]` is that of input i."""

    keys: Keys
    slice: Ints
    slice_starts: Ints
    regions: list[Regions]
    measures: list[Partials]
    vocabularies: dict[int, pa.Array]

    @property
    def rows(self) -> int:
        return len(self.slice)


def lift_tuples(operator: AggregationOperator, columns: Columns, closed_us: int) -> Lifted | None:
    """Index a batch: keys, slices, regions and lifted measures. Tuples no window can still count are dropped."""
    times = to_physical(columns[operator.event_time], operator.event_time.type)
    kept = None if times.valid is None else np.flatnonzero(times.valid)
    moments = times.values if kept is None else times.values[kept]
    index, starts = fine_slices(moments, operator.windows)
    open_slice = np.logical_or.reduce([last_ends(w, starts) > closed_us for w in operator.windows])
    if not open_slice.all():
        still = np.flatnonzero(open_slice[index])
        kept = still if kept is None else kept[still]
        index = index[still]
    if len(index) == 0:
        return None
    if kept is not None:
        columns = {operand: column.take(pa.array(kept)) for operand, column in columns.items()}
    rows = len(index)
    keys = encode_keys([columns[key] for key in operator.keys], rows)
    regions = [regions_of(columns[i.operand], i) for i in operator.operands]
    measures, vocabularies = lift_measures(operator, columns, rows)
    return Lifted(keys, index, starts, regions, measures, vocabularies)


def lift_measures(
    operator: AggregatingOperator, columns: Columns, rows: int
) -> tuple[list[Partials], dict[int, pa.Array]]:
    """(the tuples' partials of every measure, the vocabulary of each input that has one)."""
    inputs, vocabularies = _inputs(operator, columns)
    measures, nowhere = list[Partials](), None
    for measure, logic in zip(operator.measures, measure_logics(operator), strict=True):
        column = None if measure.input is None else inputs[measure.input].for_kind(measure.kind)
        alike = measure.kind is LaneKind.NULLS and column is not None and column.valid is None
        if (
            alike and nowhere is not None
        ):  # inputs without NULLs share one array, all the way to the reduce task
            measures.append(nowhere)
            continue
        measures.append(logic.lift(column, rows))
        nowhere = measures[-1] if alike else nowhere
    return measures, vocabularies


@dataclass(frozen=True, slots=True)
class _Input:
    """What tuples have of one input. A row counts for an extreme when its first part is known, and for a bag when all
    of its parts are (`whole`; None: everywhere).
    """

    column: Physical
    whole: Bools | None = None

    def for_kind(self, kind: LaneKind) -> Physical:
        return Physical(self.column.values, self.whole) if kind is LaneKind.BAG else self.column


def _inputs(operator: AggregatingOperator, columns: Columns) -> tuple[list[_Input], dict[int, pa.Array]]:
    valued = {measure.input for measure in operator.measures if measure.kind in VALUE_LANES}
    inputs: list[_Input] = []
    vocabularies: dict[int, pa.Array] = {}
    for i, operand in enumerate(operator.inputs):
        if i not in valued:
            column = columns[operand]
            valid = None if column.null_count == 0 else np.asarray(one_chunk(column).is_valid())
            inputs.append(_Input(Physical(np.empty(0), valid)))
        elif has_vocabulary(operand):
            array = input_column(operand, columns)
            vocabulary = vocabulary_of(operand, array)
            vocabularies[i] = vocabulary.values
            ranks = vocabulary.ranks(array)
            if operand.parts:
                first, whole = (known_rows(array, known) for known in (1, len(operand.parts)))
                inputs.append(_Input(Physical(ranks.values, first), whole))
            else:
                inputs.append(_Input(ranks, ranks.valid))
        else:
            physical = to_physical(columns[operand], operand.type)
            inputs.append(_Input(physical, physical.valid))
    return inputs, vocabularies


@np.errstate(invalid="ignore", over="ignore")
def combine_lifted(operator: AggregationOperator, lifted: Lifted) -> Lifted:
    """Partials of the tuples that share key, slice and regions, when that ships fewer bytes; else the tuples.

    Where all values are kept, tuples that are put together share these too.
    """
    bags = [i for i, measure in enumerate(operator.measures) if measure.kind is LaneKind.BAG]
    coded = [np.unique(lifted.measures[i]["v"], return_inverse=True) for i in bags]
    radices = [len(lifted.slice_starts), lifted.keys.count, *(region_count(i) for i in operator.operands)]
    radices += [len(values) for values, _ in coded]
    digits_of = [*lifted.regions, *(codes for _, codes in coded)]
    capacity = prod(radices)
    partial_bytes = 8 + sum(8 * len(partials) for partials in lifted.measures) + len(operator.operands)
    tuple_bytes = 8 + 8 * len(operator.inputs) + sum(r.itemsize for r in lifted.regions)
    if capacity >= 2**62:
        return lifted
    sample = slice(0, SAMPLE_ROWS)
    distinct = count_distinct(_codes(lifted, digits_of, radices, sample))
    sampled = min(SAMPLE_ROWS, lifted.rows)
    if not decide_combine(Movement(lifted.rows, capacity, sampled, distinct, tuple_bytes, partial_bytes)):
        return lifted
    codes = _codes(lifted, digits_of, radices, slice(None))
    bins, codes = _bins(codes, capacity, lifted.rows)
    size = len(codes)
    logics = measure_logics(operator)
    measures = [
        logic.group(partials, bins, size) for logic, partials in zip(logics, lifted.measures, strict=True)
    ]
    digits: list[Ints] = []
    for radix in reversed(radices):
        digits.append(codes % radix)
        codes = codes // radix
    slice_, key, *rest = reversed(digits)
    regions = rest[: len(operator.operands)]
    typed = [r.astype(old.dtype) for r, old in zip(regions, lifted.regions, strict=True)]
    return Lifted(
        Keys(key, lifted.keys.table), slice_, lifted.slice_starts, typed, measures, lifted.vocabularies
    )


def count_distinct(codes: Ints) -> int:
    """How many different codes there are. To sort them takes a tenth of what `np.unique` takes.

    >>> count_distinct(np.array([7, 3, 7]))
    2
    """
    return min(len(codes), 1) + int(np.count_nonzero(np.diff(np.sort(codes))))


def _codes(lifted: Lifted, others: Sequence[Ints], radices: Sequence[int], rows: slice) -> Ints:
    """One number per combination of slice, key and the `others`."""
    codes = lifted.slice[rows] * radices[1] + lifted.keys.ids[rows]
    for digits, radix in zip(others, radices[2:], strict=True):
        codes = codes * radix + digits[rows]
    return codes


def _bins(codes: Ints, capacity: int, rows: int) -> tuple[Ints, Ints]:
    """(bin per row, code per bin) for the codes that occur; by counting where the range is small, else sorting."""
    if capacity <= 4 * rows + 65_536:
        present = np.flatnonzero(np.bincount(codes, minlength=capacity))
        lookup = np.empty(capacity, np.int64)
        lookup[present] = np.arange(len(present))
        return lookup[codes], present
    present, bins = np.unique(codes, return_inverse=True)
    return bins, present


def ship_lifted(operator: AggregationOperator, lifted: Lifted, partitioning: Partitioning) -> list[Shipment]:
    """Route rows to partitions by key, one blob each."""
    lifted = replace(lifted, measures=_narrowed(lifted.measures), slice=narrow(lifted.slice))
    return [
        Shipment(partition, pack_bundle(_items(operator, lifted, rows, home)))
        for partition, rows, home in route_keys(lifted.keys, partitioning, operator.id)
    ]


def _narrowed(measures: Sequence[Partials]) -> list[Partials]:
    """Partials in few bytes, so that fewer are moved; arrays that are the same stay the same."""
    every = {id(array): array for partials in measures for array in partials.values()}
    small = {number: narrow(array) for number, array in every.items()}
    return [{name: small[id(array)] for name, array in partials.items()} for partials in measures]


def _items(operator: AggregationOperator, lifted: Lifted, rows: slice | Ints, home: Array) -> dict[str, Item]:
    local = np.cumsum(home) - 1
    items: dict[str, Item] = {
        "keys": lifted.keys.table.filter(pa.array(home)),
        "key": narrow(local[lifted.keys.ids[rows]]),
        "slices": lifted.slice_starts,
        "slice": narrow(lifted.slice[rows]),
    }
    for i, regions in enumerate(lifted.regions):
        items[f"r{i}"] = regions[rows]
    return items | measure_items(operator, lifted.measures, lifted.vocabularies, rows)


def measure_items(
    operator: AggregatingOperator,
    measures: list[Partials],
    vocabularies: dict[int, pa.Array],
    rows: slice | Ints,
) -> dict[str, Item]:
    """Some rows' partials, and the whole vocabularies, as bundle items."""
    items: dict[str, Item] = {}
    shrunk: dict[int, Array] = {}  # SUM, MIN and MAX of an input that was not combined are the same array
    for measure, partials in zip(operator.measures, measures, strict=True):
        for name, array in partials.items():
            if id(array) not in shrunk:
                shrunk[id(array)] = _shrink(array[rows])
            items[f"{measure.name}.{name}"] = shrunk[id(array)]
    for i, vocabulary in vocabularies.items():
        items[f"vocabulary{i}"] = pa.table({"v": vocabulary})
    return items


def _shrink(values: Array) -> Array:
    """The values in few bytes: a constant as one value, integers in the smallest type that holds them."""
    return values[:1] if len(values) and (values[0] == values).all() else narrow(values)


def receive_lifted(operator: AggregationOperator, blobs: Sequence[Blob]) -> Lifted | None:
    """All blobs of one partition as one batch."""
    batches = [_received(operator, read_bundle(blob)) for blob in blobs]
    return merge_lifted(operator, batches) if batches else None


def merge_lifted(operator: AggregationOperator, batches: Sequence[Lifted]) -> Lifted:
    """Batches as one, with keys, slices and ranks made common."""
    vocabularies = unify_vocabularies(operator, batches)
    table, ids = unify_keys([batch.keys.table for batch in batches])
    starts = np.unique(np.concatenate([batch.slice_starts for batch in batches]))
    slices = [np.searchsorted(starts, batch.slice_starts)[batch.slice] for batch in batches]
    keys = np.concatenate([i[batch.keys.ids] for i, batch in zip(ids, batches, strict=True)])
    regions = [np.concatenate([p.regions[i] for p in batches]) for i in range(len(operator.operands))]
    measures = concat_measures([batch.measures for batch in batches])
    return Lifted(Keys(keys, table), np.concatenate(slices), starts, regions, measures, vocabularies)


def _received(operator: AggregationOperator, items: dict[str, Item]) -> Lifted:
    measures, vocabularies = received_measures(operator, items)
    regions = [items[f"r{i}"] for i in range(len(operator.operands))]
    keys = Keys(items["key"].astype(np.int64), items["keys"])
    return Lifted(keys, items["slice"].astype(np.int64), items["slices"], regions, measures, vocabularies)


def received_measures(
    operator: AggregatingOperator, items: dict[str, Item]
) -> tuple[list[Partials], dict[int, pa.Array]]:
    """The inverse of `measure_items`."""
    rows = len(items["key"])
    measures: list[Partials] = []
    wide: dict[int, Array] = {}
    for measure in operator.measures:
        prefix = f"{measure.name}."
        found = {name[len(prefix) :]: array for name, array in items.items() if name.startswith(prefix)}
        for array in found.values():
            if id(array) not in wide:
                wide[id(array)] = _widen(array, rows)
        measures.append({name: wide[id(array)] for name, array in found.items()})
    vocabularies = {
        i: one_chunk(items[f"vocabulary{i}"].column("v"))
        for i in range(len(operator.inputs))
        if f"vocabulary{i}" in items
    }
    return measures, vocabularies


def _widen(values: Array, rows: int) -> Array:
    wide = values if values.dtype == np.float64 else values.astype(np.int64)
    return np.repeat(wide, rows) if len(wide) == 1 and rows != 1 else wide


def concat_measures(batches: Sequence[list[Partials]]) -> list[Partials]:
    """The batches' partials of every measure, one after the other."""
    joined: dict[tuple[int, ...], Array] = {}
    return [_concat_partials(list(lists), joined) for lists in zip(*batches, strict=True)]


def _concat_partials(lists: list[Partials], joined: dict[tuple[int, ...], Array]) -> Partials:
    """The batches' partials of one measure, one after the other; arrays that are the same stay the same."""
    found: Partials = {}
    for name in {name for one in lists for name in one}:
        if any(name not in one for one in lists):
            found[name] = np.concatenate([p[name] if name in p else p["v"].astype(np.float64) for p in lists])
            continue
        pieces = [one[name] for one in lists]
        same = tuple(map(id, pieces))
        if same not in joined:
            joined[same] = np.concatenate(pieces)
        found[name] = joined[same]
    return found
