"""Linear Road for `create_split`: the operators with event times, and what the streams around them look like.

The benchmark counts seconds from the beginning of the run. Streams have timestamps: second 0 is the beginning of 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.model.epoch import FOREVER_US
from headrace.model.splitting import Output, State, rows_by_kind
from headrace.workloads.linear_road import operator
from headrace.workloads.linear_road.hashing import Ints
from headrace.workloads.linear_road.history import day_rows
from headrace.workloads.linear_road.operator import AddBalances, History, LinearRoad, Past
from headrace.workloads.linear_road.rules import ANSWERS, COLUMNS, DAYS, Kind, Rules

ROUTE, BROADCAST = operator.ROUTE, operator.BROADCAST

EVENT_TIME = "ts"
DDL = ", ".join([*(f"{name} INT" for name in COLUMNS), f"{EVENT_TIME} TIMESTAMP"])
"""The columns of the input stream."""

_SQL = {pa.int32(): "INT", pa.int64(): "BIGINT"}
_TIME = pa.field(EVENT_TIME, pa.timestamp("us", "UTC"))

OUTPUTS = {
    kind: ", ".join([*(f"{f.name} {_SQL[f.type]}" for f in schema), f"{EVENT_TIME} TIMESTAMP"])
    for kind, schema in ANSWERS.items()
}
"""The columns of the answers, by kind."""


def route(batch: pa.RecordBatch) -> pa.Array:
    """ROUTE as a function: it needs no Spark, so that splitters read the chunks themselves."""
    kinds = batch.column("Type").to_numpy()
    return pa.array(batch.column("XWay").to_numpy(), mask=~np.isin(kinds, operator.ROUTED))


def broadcast(batch: pa.RecordBatch) -> pa.Array:
    """BROADCAST as a function."""
    return pa.array(batch.column("Type").to_numpy() == Kind.BALANCE)


def as_tuples(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with their event time, which follows from the column `Time`."""
    seconds = batch.column("Time").to_numpy().astype(np.int64)
    return batch.append_column(_TIME, pa.array(seconds * 1_000_000).cast(_TIME.type))


def _timed(output: Output) -> dict[str, pa.RecordBatch]:
    return {kind: as_tuples(rows) for kind, rows in rows_by_kind(output).items()}


@dataclass(frozen=True, slots=True)
class RuledHistory:
    """The tolls of one expressway as the rule that makes them: the same answers as `TollHistory`, without a table."""

    seed: int
    expressways: int
    vehicles: int
    xway: int

    def paid(self, vid: Ints, day: Ints) -> Ints:
        """What each vehicle paid on its day on this expressway, 0 where there is no row."""
        xway, toll = day_rows(self.seed, self.expressways, self.vehicles, vid, day)
        known = (xway == self.xway) & (vid >= 0) & (vid < self.expressways * self.vehicles)
        return np.where(known & (day >= 1) & (day <= DAYS), toll, 0).astype(np.int32)


@dataclass(slots=True)
class RoadOperator:
    """The operator of one expressway, with event times. `history` and `past` make those of an expressway."""

    rules: Rules = field(default_factory=Rules)
    history: Callable[[int], History] | None = None
    past: Callable[[int], Past] | None = None
    road: LinearRoad = field(init=False)

    def open(self, sub_stream: int, state: State | None) -> None:
        """Begin with the expressway of this number."""
        history = None if self.history is None else self.history(sub_stream)
        past = None if self.past is None else self.past(sub_stream)
        self.road = LinearRoad(self.rules, history, past)
        self.road.open(sub_stream, state)

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """Answers to the tuples of a batch."""
        return _timed(self.road.process(batch))

    def on_watermark(self, time: int) -> None:
        """Begin the minute of this time. The end of the stream begins no minute."""
        if 0 <= time < FOREVER_US:
            self.road.on_watermark(time // 1_000_000)

    def snapshot(self) -> bytes:
        """The whole state of the expressway."""
        return self.road.snapshot()

    def changes(self) -> bytes:
        """What is new since the last saving."""
        return self.road.changes()

    def apply(self, changes: State) -> None:
        """Take over what `changes` gave."""
        self.road.apply(changes)


@dataclass(slots=True)
class SumOperator:
    """Adds up the parts of balances, with event times."""

    parts: int
    adder: AddBalances = field(init=False)

    def open(self, sub_stream: int, state: State | None) -> None:
        """Begin with the requests that still wait for parts."""
        self.adder = AddBalances(self.parts)
        self.adder.open(sub_stream, state)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The balances that these parts complete."""
        return _timed(self.adder.process(batch)).get("balances")

    def on_watermark(self, time: int) -> None:
        """Nothing: an answer is due when its last part is here."""

    def snapshot(self) -> State:
        """The requests that wait."""
        return self.adder.snapshot()
