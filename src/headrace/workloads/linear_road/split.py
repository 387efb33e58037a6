"""Linear Road for `create_split`: the operators with event times, and what the streams around them look like.

The benchmark counts seconds from the beginning of the run. Streams have timestamps: second 0 is the beginning of 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.model.epoch import FOREVER_US
from headrace.model.splitting import Output, State, rows_by_kind
from headrace.workloads.linear_road import operator
from headrace.workloads.linear_road.hashing import Ints
from headrace.workloads.linear_road.history import day_rows
from headrace.workloads.linear_road.operator import AddBalances, History, LinearRoad, Past
from headrace.workloads.linear_road.play import group_width
from headrace.workloads.linear_road.rules import ANSWERS, COLUMNS, DAYS, Kind, Rules

ROUTE, BROADCAST = operator.ROUTE, operator.BROADCAST

EVENT_TIME = "ts"
DDL = ", ".join([*(f"{name} INT" for name in COLUMNS), f"{EVENT_TIME} TIMESTAMP"])
"""The columns of the input stream."""

_SQL = {pa.int32(): "INT", pa.int64(): "BIGINT"}
_TIME = pa.field(EVENT_TIME, pa.timestamp("us", "UTC"))

_ANSWERED = {
    kind: ", ".join([*(f"{f.name} {_SQL[f.type]}" for f in schema), f"{EVENT_TIME} TIMESTAMP"])
    for kind, schema in ANSWERS.items()
}
OUTPUTS = _ANSWERED | {"balances": f"XWay INT, {_ANSWERED['balances']}"}
"""The columns of what expressways answer, by kind. A balance is the part of one expressway."""

SUMS = _ANSWERED["balances"]
"""The columns of balances that are added up."""

ONE_LEVEL = 64
"""So many expressways at most are added up by one instance. More have one for each group, and one for all groups."""


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
        answers = _timed(self.road.process(batch))
        if (parts := answers.get("balances")) is not None:
            xway = pa.array(np.full(parts.num_rows, self.road.xway, np.int32))
            answers["balances"] = parts.append_column("XWay", xway)
        return answers

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


@dataclass(slots=True)
class GroupOperator(SumOperator):
    """Adds up the parts of a group of neighbouring expressways. `parts` says how many expressways there are in all."""

    def open(self, sub_stream: int, state: State | None) -> None:
        """Begin with the group of this number; the last one may have fewer expressways."""
        width = group_width(self.parts)
        self.adder = AddBalances(min(width, self.parts - sub_stream * width))
        self.adder.open(sub_stream, state)


def sums(expressways: int, one_level: int = ONE_LEVEL) -> list[dict[str, Any]]:
    """The splits that add balances up, as what `create_split` is to be called with. The last one is named `sums`.

    Two levels, as in the paper's section 4.4, keep what one instance gets small: the square root of what there is. They
    take one epoch more, and few expressways do not need them.
    """
    all_: dict[str, Any] = {
        "name": "sums",
        "stream": "road_balances",
        "q": 1,
        "route": _everything,
        "operator": partial(SumOperator, expressways),
        "schema": SUMS,
    }
    if expressways <= one_level:
        return [all_]
    width = group_width(expressways)
    groups = all_ | {
        "name": "group_sums",
        "q": ceil(expressways / width),
        "route": partial(_group, width),
        "operator": partial(GroupOperator, expressways),
    }
    return [groups, all_ | {"stream": "group_sums"}]


def _everything(batch: pa.RecordBatch) -> Ints:
    return np.zeros(batch.num_rows, np.int64)


def _group(width: int, batch: pa.RecordBatch) -> Ints:
    groups: Ints = batch.column("XWay").to_numpy() // width
    return groups
