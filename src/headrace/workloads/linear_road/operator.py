"""Linear Road as split operators: one instance per expressway, and sums of balances over expressways.

Position reports and requests for a day's expenditure or a travel time go to the instance of their expressway. Requests
for a balance go to all instances, since a vehicle may have paid on any expressway. Each instance answers with what it
knows, and `AddBalances` adds these parts up, in two levels when there are many expressways (parasplit, section 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.model.splitting import State
from headrace.workloads.linear_road.hashing import Ints
from headrace.workloads.linear_road.kernels import (
    ALERTS,
    BALANCES,
    DIR,
    LANE,
    POS,
    SEG,
    SPD,
    TIME,
    TOLLS,
    TYPE,
    drive,
)
from headrace.workloads.linear_road.rules import (
    ANSWERS,
    EXIT_LANE,
    ROAD_FT,
    SEGMENTS,
    Kind,
    Rules,
    minute_of,
)
from headrace.workloads.linear_road.state import RoadState

ROUTED = (Kind.POSITION, Kind.EXPENDITURE, Kind.TRAVEL_TIME)
"""Tuples of these kinds are for one expressway."""

ROUTE = "CASE WHEN Type IN (0, 3, 4) THEN XWay END"
"""The sub-stream of a tuple."""

BROADCAST = "Type = 2"

_READ = ("Type", "Time", "VID", "Spd", "Lane", "Dir", "Seg", "Pos", "QID")
"""The columns that the kernel reads, in its order."""


_LIMITS = ((SEG, SEGMENTS), (DIR, 2), (LANE, EXIT_LANE + 1), (POS, ROAD_FT), (SPD, 256))
"""Fields of a position report, and what they must be below."""

_JOURNEY = ("Sinit", "Send", "DOW", "TOD")
_LEAST, _MOST = np.array([[0, 0, 1, 1]]).T, np.array([[SEGMENTS - 1, SEGMENTS - 1, 7, 1_440]]).T
"""Fields of a request for a travel time, and their least and largest value."""


class History(Protocol):
    """What vehicles paid on earlier days on the operator's expressway."""

    def paid(self, vid: Ints, day: Ints) -> Ints:
        """The toll of each vehicle and day, 0 where there is none."""


class Past(Protocol):
    """How long journeys on the operator's expressway usually take."""

    def travel(self, requests: Ints) -> tuple[Ints, Ints]:
        """Seconds and toll for each column of first segment, last segment, day of the week and minute of the day."""


@dataclass(slots=True)
class LinearRoad:
    """The operator of one expressway; the number of its sub-stream is that of its expressway.

    It gives the kinds `tolls`, `alerts`, `balances` (its part of them), `expenditures` and `travel_times`. Without a
    history it refuses requests for a day's expenditure, and without a past those for a travel time.
    """

    rules: Rules = field(default_factory=Rules)
    history: History | None = None
    past: Past | None = None
    xway: int = field(init=False, default=-1)
    state: RoadState = field(init=False)

    def open(self, sub_stream: int, state: State | None) -> None:
        """Begin with the expressway of this number."""
        self.xway = sub_stream
        if state is not None and not isinstance(state, bytes):
            raise TypeError("the state of an expressway is bytes")
        self.state = RoadState(self.rules) if state is None else RoadState.load(self.rules, state)

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """Answers to the tuples of a batch, in their order."""
        tuples = np.stack([batch.column(name).to_numpy() for name in _READ], dtype=np.int32)
        self._check(tuples, batch)
        count = batch.num_rows
        tolls, alerts = np.empty((4, count), np.int32), np.empty((4, count), np.int32)
        balances, requests = np.empty(count, np.int64), np.empty((2, count), np.int32)
        state = self.state
        state.counters[[TOLLS, ALERTS, BALANCES]] = 0
        minutes = tuples[TIME] // 60
        cuts = np.flatnonzero(np.diff(minutes)) + 1
        for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), count], strict=True):
            if first == last:
                continue
            state.move_to(int(minutes[first]) + 1)
            state.reserve(last - first)
            drive(
                *(
                    tuples,
                    first,
                    last,
                    state.vehicles,
                    state.buckets,
                    state.touched,
                    state.stops,
                    state.counters,
                ),
                *(state.table, state.readings, tolls, alerts, balances, requests),
            )
        made = {name: int(state.counters[at]) for name, at in (("t", TOLLS), ("a", ALERTS), ("b", BALANCES))}
        return {
            "tolls": _rows("tolls", *tolls[:, : made["t"]]),
            "alerts": self._alerts(alerts[:, : made["a"]]),
            "balances": _parts(requests[:, : made["b"]], balances[: made["b"]]),
            "expenditures": self._expenditures(batch, tuples[TYPE]),
            "travel_times": self._travel_times(batch, tuples[TYPE]),
        }

    def on_watermark(self, time: int) -> None:
        """Begin the minute of this time, so that its first tuple need not wait for the statistics."""
        self.state.move_to(minute_of(time))
        self.state.time = max(self.state.time, time)

    def snapshot(self) -> bytes:
        """The whole state."""
        return self.state.dump()

    def changes(self) -> bytes:
        """The vehicles that reported since the last saving, and what else is new."""
        return self.state.dump_changes()

    def apply(self, changes: State) -> None:
        """Take over what `changes` gave."""
        if not isinstance(changes, bytes):
            raise TypeError("the changes of an expressway are bytes")
        self.state.load_changes(changes)

    def _check(self, tuples: Ints, batch: pa.RecordBatch) -> None:
        """Refuse what would be counted wrongly: other expressways, places off the road, time that goes back."""
        reports = tuples[TYPE] == Kind.POSITION
        xway = batch.column("XWay").to_numpy()
        bad = (xway != self.xway) & np.isin(tuples[TYPE], ROUTED)
        for row, below in _LIMITS:
            bad |= reports & ((tuples[row] < 0) | (tuples[row] >= below))
        if bad.any():
            first = batch.slice(int(np.argmax(bad)), 1).to_pylist()[0]
            raise ValueError(f"this tuple is not of expressway {self.xway}: {first}")
        times = np.concatenate([[self.state.time], tuples[TIME]])
        if (np.diff(times) < 0).any():
            raise ValueError(f"the tuples of expressway {self.xway} are not in the order of their time")
        self.state.time = int(times[-1])

    def _alerts(self, found: Ints) -> pa.RecordBatch:
        time, segment, direction, vid = found
        return _rows("alerts", time, np.full_like(time, self.xway), segment, direction, vid)

    def _expenditures(self, batch: pa.RecordBatch, kinds: Ints) -> pa.RecordBatch:
        asked = np.flatnonzero(kinds == Kind.EXPENDITURE)
        if len(asked) and self.history is None:
            raise ValueError("daily expenditure was asked for, but the operator has no history")
        time, qid, vid, day = (batch.column(name).to_numpy()[asked] for name in ("Time", "QID", "VID", "Day"))
        paid = self.history.paid(vid, day) if self.history is not None else np.zeros(0, np.int32)
        return _rows("expenditures", time, qid, paid)

    def _travel_times(self, batch: pa.RecordBatch, kinds: Ints) -> pa.RecordBatch:
        asked = np.flatnonzero(kinds == Kind.TRAVEL_TIME)
        time, qid = (batch.column(name).to_numpy()[asked] for name in ("Time", "QID"))
        if len(asked) == 0:
            return _rows("travel_times", time, qid, time, time)
        if self.past is None:
            raise ValueError("a travel time was asked for, but the operator knows no past")
        journeys = np.stack([batch.column(name).to_numpy()[asked] for name in _JOURNEY])
        bad = ((journeys < _LEAST) | (journeys > _MOST)).any(axis=0)
        if bad.any():
            first = batch.slice(int(asked[np.argmax(bad)]), 1).to_pylist()[0]
            raise ValueError(f"this request names no journey: {first}")
        return _rows("travel_times", time, qid, *self.past.travel(journeys))


@dataclass(slots=True)
class AddBalances:
    """Adds up the parts of balances. A request is answered when `parts` instances have given theirs."""

    parts: int
    waiting: dict[int, tuple[int, int, int, int]] = field(init=False, default_factory=dict)
    """By QID: time, result time, balance so far, parts so far."""

    def open(self, sub_stream: int, state: State | None) -> None:
        """Begin with the requests that still wait for parts."""
        kept = state if isinstance(state, pa.RecordBatch) else None
        rows = kept.to_pylist() if kept is not None else []
        self.waiting = {r["QID"]: (r["Time"], r["ResultTime"], r["Balance"], r["Parts"]) for r in rows}

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """The balances that these parts complete. A sum is as old as its oldest part."""
        done = []
        columns = (
            batch.column(name).to_pylist() for name in ("Time", "QID", "ResultTime", "Balance", "Parts")
        )
        for time, qid, result_time, balance, parts in zip(*columns, strict=True):
            if qid in self.waiting:
                _, earlier, so_far, before = self.waiting[qid]
                result_time, balance, parts = min(result_time, earlier), balance + so_far, parts + before
            if parts >= self.parts:
                self.waiting.pop(qid, None)
                done.append((time, qid, result_time, balance, parts))
            else:
                self.waiting[qid] = (time, result_time, balance, parts)
        return {"balances": _balances(done)}

    def on_watermark(self, time: int) -> None:
        """Nothing: an answer is due when its last part is here, not at a time."""

    def snapshot(self) -> pa.RecordBatch:
        """The requests that wait."""
        return _balances(
            [(time, qid, up_to, sum_, n) for qid, (time, up_to, sum_, n) in self.waiting.items()]
        )


def _rows(kind: str, *columns: Ints) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=ANSWERS[kind])


def _parts(requests: Ints, balances: Ints) -> pa.RecordBatch:
    time, qid = requests
    return _rows("balances", time, qid, time, balances, np.ones_like(time))


def _balances(rows: list[tuple[int, int, int, int, int]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    arrays = [
        pa.array(column, schema.type) for column, schema in zip(columns, ANSWERS["balances"], strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ANSWERS["balances"])
