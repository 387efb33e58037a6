"""What every kind of operator does: map tuples, reduce what came with the state there was, keep state.

The engine knows operators by this protocol alone. `operators/kinds.py` says which plan node is run by what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from headrace.model.metrics import NOBODY, Numbers, QueryCounts
from headrace.model.partitioning import Partitioning
from headrace.model.plan import SharedPlan
from headrace.model.predicate import Operand
from headrace.model.statistics import JoinCount, KeyStatistics
from headrace.model.ways import FamilyWay
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bundle import Blob, Item
from headrace.operators.common.calls import Caller
from headrace.operators.common.placing import Portion

Columns = Mapping[Operand, pa.ChunkedArray]
Items = dict[str, Item]
State = Any
"""What a kind keeps from epoch to epoch, decoded. Only the kind itself looks inside."""

Emit = Callable[[str, pa.Table, Numbers, int | None], None]
"""Takes result rows for a signature, with the queries they are of and the end of their last window (None: none)."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """One blob for one reduce partition."""

    partition: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Tuples for the `read`-th of an operator's reads. `watermark_us` is that of the stream they are of."""

    read: int
    columns: Columns
    rows: int
    epoch: int
    closed_us: int
    watermark_us: int


@dataclass(frozen=True, slots=True)
class MapOutlet:
    """Where what a map task makes goes: rows that are complete, and the partitions that the rest is for."""

    emit: Emit
    partitioning: Partitioning


@dataclass(slots=True)
class Mapped:
    """What became of a batch: blobs for reduce tasks, and for each query its rows and the tuples it accepted.

    `keys` says how often tuples share a key, where somebody decides by it. `ways` says how tuples found their queries.
    """

    shipments: Sequence[Shipment] = ()
    rows: QueryCounts = NOBODY
    matched: QueryCounts = NOBODY
    keys: KeyStatistics | None = None
    ways: Sequence[FamilyWay] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """What one partition of an operator has in an epoch.

    `step` counts the operator's own stages from 0. State that is `absorbed` becomes part of the new state; what is
    `kept` stays where it is. A rebuild makes state and delivers nothing.
    """

    step: int
    blobs: Sequence[Blob]
    absorbed: Sequence[State]
    kept: Sequence[State]
    epoch: int
    closed_us: int
    watermark_us: int
    rebuilds: bool


@dataclass(frozen=True, slots=True)
class ReduceOutlet:
    """Where what a reduce task makes goes: complete rows, and blobs for the next stage of an operator, by its id.

    `caller` calls registered functions.
    """

    emit: Emit
    send: Callable[[str, Sequence[Shipment]], None]
    partitioning: Partitioning
    caller: Caller


@dataclass(frozen=True, slots=True)
class Saved:
    """State to write, as bundle items. The last window that needs it ends at `last_end_us`."""

    items: Items
    last_end_us: int


@dataclass(slots=True)
class Reduced:
    """What a partition produced besides rows: its new state (None: none), for each query its rows and the tuples it
    accepted, and the queries that failed with the reason.

    A join says how many rows it `joined` for each query, whether they are results or go on. `joins` is what was counted
    for queries whose strategy is decided by it. `ways` says how tuples found their queries. `spread` weighs key
    groups by their part of the work (None: nothing is known of that). `closing_seconds` is the CPU time in which an
    aggregation closed windows, made rows and emitted them.
    """

    state: Saved | None = None
    rows: QueryCounts = NOBODY
    failures: dict[int, str] = field(default_factory=dict)
    matched: QueryCounts = NOBODY
    joined: QueryCounts = NOBODY
    joins: Sequence[JoinCount] = ()
    ways: Sequence[FamilyWay] = ()
    spread: Ints | None = None
    closing_seconds: float = 0.0


class OperatorLogic(Protocol):
    """An operator of a plan made ready to run; built once per plan and process."""

    def map(self, batch: Batch, outlet: MapOutlet) -> Mapped:
        """What a batch of tuples becomes."""

    def reduce(self, received: Received, outlet: ReduceOutlet) -> Reduced:
        """What a partition makes of what it received and of its state."""


def all_sources(operator: Any, read: int) -> Sequence[Operand]:
    """Everything that an operator scans for one of its reads."""
    sources: Sequence[Operand] = operator.reads[read].sources
    return sources


def sources_of(operands: Iterable[Operand]) -> list[Operand]:
    """What has to be scanned for these, once each."""
    return list(dict.fromkeys(source for operand in operands for source in operand.sources))


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """What the driver and the tasks must know of a kind before anything is made ready.

    `load` decodes what counts of a segment of an operator, by its id (None: nothing does). `stages` says in how many
    reduce stages an operator runs, in a rebuild or not; 0 means that map tasks do everything. `fed_by` names the
    operator that an operator gets its tuples from, if it reads no stream. `factor_of` names the product whose factors
    its rows are, if they are no results. A kind that `ticks` has work when time passes over its state, even without
    tuples. One that `merges` leaves older segments as they are, up to a limit; any other writes its state anew in every
    epoch.

    Any string column may come as codes and a dictionary. `encoded` names those that are best read so, by operator and
    read: they are looked up. Strings that are only handed on are not, for a dictionary of many values takes longer to
    read than the strings.
    """

    prepare: Callable[[Any, SharedPlan], OperatorLogic]
    load: Callable[[Items, str, Portion], State | None]
    stages: Callable[[Any, bool], int]
    fed_by: Callable[[Any], str | None] = lambda operator: None
    factor_of: Callable[[Any], str | None] = lambda operator: None
    ticks: bool = False
    merges: bool = False
    encoded: Callable[[Any, int], Sequence[Operand]] = all_sources
