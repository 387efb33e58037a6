"""Micro-sessions: tuples of one key and one set of regions that are so close that no query can tell them apart.

Map tasks ship them, reduce tasks merge them: first per cell of a family within its smallest gap, then per query. A
tuple is a micro-session of its own moment. What a query's gap makes late, others may still want, so that tuples on
both sides of such a limit are never merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from headrace.model.epoch import NEVER_US
from headrace.model.partitioning import Partitioning
from headrace.model.plan import SessionOperator
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bitrows import given_ints, ordered_by_row
from headrace.operators.common.bundle import Blob, Item, pack_bundle, read_bundle
from headrace.operators.common.encode import narrow, to_physical
from headrace.operators.common.keys import Keys, encode_keys, unify_keys
from headrace.operators.common.placing import route_keys
from headrace.operators.common.regions import Regions, region_count, regions_of
from headrace.operators.compiled.runs import find_runs
from headrace.operators.protocol import Columns, Shipment
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.lifted import (
    concat_measures,
    lane_logics,
    lift_measures,
    measure_items,
    received_measures,
)
from headrace.operators.windows.vocabularies import unify_vocabularies

WORTH_MERGING = 0.75
"""Micro-sessions are shipped in place of tuples when there are at most so many as a share of these."""


COUNTED_GROUPS, GROUPS_PER_ROW = 1 << 16, 8
"""So many groups are counted, and so many more for each row. If there are more of them, rows are sorted by group."""


@dataclass(slots=True)
class MicroSessions:
    """Row i holds the tuples of one key between `starts[i]` and `lasts[i]`, as partials of every measure."""

    keys: Keys
    starts: Ints
    lasts: Ints
    regions: list[Regions]
    measures: list[Partials]
    vocabularies: dict[int, pa.Array]

    @property
    def rows(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Merged:
    """Rows put in order, the runs of them that are one session, and each run's last moment."""

    order: Ints
    first: Ints
    lasts: Ints


def merge_runs(groups: Ints, starts: Ints, lasts: Ints, gap: int) -> Merged:
    """Merge the rows of a group of which one starts at most `gap` after an earlier one's last moment.

    Costs one sort, whatever the groups, and less the more the rows are in order already.

    >>> found = merge_runs(np.array([0, 0, 1, 0]), np.array([9, 0, 4, 5]), np.array([9, 3, 4, 6]), 2)
    >>> found.order.tolist(), found.first.tolist(), found.lasts.tolist()
    ([1, 3, 0, 2], [0, 2, 3], [6, 9, 4])
    """
    if len(groups) == 0:
        nothing = np.empty(0, np.int64)
        return Merged(nothing, nothing, nothing)
    order = ordered(groups, starts)
    first, until, count = (
        np.empty(len(order), np.int64),
        np.empty(len(order), np.int64),
        np.zeros(1, np.int64),
    )
    find_runs(order, given_ints(groups), given_ints(starts), given_ints(lasts), gap, first, until, count)
    return Merged(order, first[: count[0]], until[: count[0]])


def ordered(groups: Ints, starts: Ints) -> Ints:
    """The rows by group, and by start inside of it; rows that are alike stay in their order.

    Tuples come nearly in the order of time, which makes sorting by start cheap. Groups are then counted.
    """
    later = groups[1:] > groups[:-1]
    in_time = starts[1:] >= starts[:-1]
    if (later | ((groups[1:] == groups[:-1]) & in_time)).all():
        return np.arange(len(groups))
    count = int(groups.max()) + 1
    if count > COUNTED_GROUPS + GROUPS_PER_ROW * len(groups):
        return np.lexsort((starts, groups))
    if in_time.all():
        return ordered_by_row(groups, count)[0]
    by_start = np.argsort(starts, kind="stable")
    return by_start[ordered_by_row(groups[by_start], count)[0]]


def late_limits(operator: SessionOperator, closed_us: int) -> Ints:
    """Per gap: tuples up to this moment are late for it."""
    return np.array([max(closed_us - gap.gap_us, NEVER_US) for gap in operator.gaps], np.int64)


def lateness(limits: Ints, starts: Ints) -> Ints:
    """How many of the limits lie before each moment."""
    return np.searchsorted(np.sort(limits), starts, "left")


def prepare_micros(operator: SessionOperator, columns: Columns, closed_us: int) -> MicroSessions | None:
    """A batch of tuples, indexed and lifted. Tuples that are late for every gap, or have no event time, are dropped."""
    times = to_physical(columns[operator.event_time], operator.event_time.type)
    wanted = times.values > late_limits(operator, closed_us).min()
    if times.valid is not None:
        wanted &= times.valid
    moments = times.values
    if not wanted.all():
        kept = np.flatnonzero(wanted)
        moments = moments[kept]
        columns = {operand: column.take(pa.array(kept)) for operand, column in columns.items()}
    if len(moments) == 0:
        return None
    keys = encode_keys([columns[key] for key in operator.keys], len(moments))
    regions = [regions_of(columns[i.operand], i) for i in operator.operands]
    measures, vocabularies = lift_measures(operator, columns, len(moments))
    return MicroSessions(keys, moments, moments, regions, measures, vocabularies)


@np.errstate(invalid="ignore", over="ignore")
def combine_micros(operator: SessionOperator, micros: MicroSessions, closed_us: int) -> MicroSessions:
    """Rows of the same key and regions merged within the smallest gap, when that leaves clearly fewer of them.

    Where all values are kept, tuples stay as they are: each has its value.
    """
    if operator.bags:
        return micros
    limits = late_limits(operator, closed_us)
    radices = [region_count(index) for index in operator.operands]
    if prod(radices) * micros.keys.count * (len(limits) + 1) >= 2**62:
        return micros
    groups = micros.keys.ids
    for regions, radix in zip(micros.regions, radices, strict=True):
        groups = groups * radix + regions
    groups = groups * (len(limits) + 1) + lateness(limits, micros.starts)
    merged = merge_runs(groups, micros.starts, micros.lasts, operator.gaps[0].gap_us)
    if len(merged.first) > WORTH_MERGING * micros.rows:
        return micros
    heads = merged.order[merged.first]
    measures = [
        logic.runs({name: array[merged.order] for name, array in partials.items()}, merged.first)
        for logic, partials in zip(lane_logics(operator).values(), micros.measures, strict=True)
    ]
    return MicroSessions(
        Keys(micros.keys.ids[heads], micros.keys.table),
        micros.starts[heads],
        merged.lasts,
        [regions[heads] for regions in micros.regions],
        measures,
        micros.vocabularies,
    )


def ship_micros(
    operator: SessionOperator, micros: MicroSessions, partitioning: Partitioning
) -> list[Shipment]:
    """Route rows to partitions by key, one blob each."""
    return [
        Shipment(partition, pack_bundle(_items(operator, micros, rows, home)))
        for partition, rows, home in route_keys(micros.keys, partitioning, operator.id)
    ]


def _items(
    operator: SessionOperator, micros: MicroSessions, rows: slice | Ints, home: Array
) -> dict[str, Item]:
    starts = micros.starts[rows]
    items: dict[str, Item] = {
        "keys": micros.keys.table.filter(pa.array(home)),
        "key": narrow((np.cumsum(home) - 1)[micros.keys.ids[rows]]),
        "start": starts,
        "length": narrow(micros.lasts[rows] - starts),
    }
    for i, regions in enumerate(micros.regions):
        items[f"r{i}"] = regions[rows]
    return items | measure_items(operator, micros.measures, micros.vocabularies, rows)


def receive_micros(operator: SessionOperator, blobs: Sequence[Blob]) -> MicroSessions | None:
    """All blobs of one partition as one batch, with keys and string ranks made common."""
    batches = [_received(operator, read_bundle(blob)) for blob in blobs]
    if not batches:
        return None
    vocabularies = unify_vocabularies(operator, batches)
    table, ids = unify_keys([batch.keys.table for batch in batches])
    return MicroSessions(
        Keys(np.concatenate([i[batch.keys.ids] for i, batch in zip(ids, batches, strict=True)]), table),
        np.concatenate([batch.starts for batch in batches]),
        np.concatenate([batch.lasts for batch in batches]),
        [np.concatenate([batch.regions[i] for batch in batches]) for i in range(len(operator.operands))],
        concat_measures([batch.measures for batch in batches]),
        vocabularies,
    )


def _received(operator: SessionOperator, items: dict[str, Item]) -> MicroSessions:
    measures, vocabularies = received_measures(operator, items)
    regions = [items[f"r{i}"] for i in range(len(operator.operands))]
    keys = Keys(items["key"].astype(np.int64), items["keys"])
    return MicroSessions(
        keys, items["start"], items["start"] + items["length"], regions, measures, vocabularies
    )
