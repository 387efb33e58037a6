"""Validates a long run of Linear Road on all cores. The rules are those of the validator, read by the same plain loops.

Equal seeds make equal traffic, so each process makes the traffic again and runs the reference for its share of the
expressways. What one process cannot know alone is put together at the end: a balance is the sum over all expressways.
Most tolls are right, and these are told by comparing sorted columns. The others, and all other kinds, go through the
validator one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headrace.engine.splits.workers import own_cores
from headrace.workloads.linear_road.operator import ROUTED
from headrace.workloads.linear_road.past import PastRule
from headrace.workloads.linear_road.reference import Expected, Reference
from headrace.workloads.linear_road.rules import COLUMNS, Kind, Rules
from headrace.workloads.linear_road.split import RuledHistory
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import LIMITS_S, Validator, Verdict

Ints = NDArray[np.int64]

SETTLE_S = 10

TOLLS = ("VID", "Time", "LAV", "Toll")


@dataclass(frozen=True, slots=True)
class Played:
    """What was played: traffic from `warm` on, whose answers count from `begin` up to `end`, in seconds of the run.

    The last seconds before it counts are played at the real rate too, so that it begins with a run that has settled.
    """

    traffic: Traffic
    warm: int
    begin: int
    end: int

    @property
    def start(self) -> int:
        """The first second that is played at the real rate."""
        return max(self.warm, self.begin - SETTLE_S)


@dataclass(frozen=True, slots=True)
class Answers:
    """A file with answers of a kind, and when they were delivered, in seconds of the run."""

    kind: str
    path: str
    emit: float


@dataclass(slots=True)
class Share:
    """What the rules ask for on some of the expressways: tolls as columns, other answers, and charges."""

    tolls: Ints
    others: list[Expected]
    charges: Ints
    """Rows of VID, time and the toll that was charged."""


class Charged(Reference):
    """The reference; what it charges is told to whoever puts the shares together."""

    made: Rows

    def _charge(self, vid: int, time: int, toll: int) -> None:
        self.made.add((vid, time, toll))


def all_shares(played: Played) -> list[Share]:
    """What the rules ask for, in shares, one for each core."""
    count = own_cores()
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        return list(pool.map(partial(share_of, played, count), range(count)))


def validate(played: Played, shares: Sequence[Share], answers: Sequence[Answers]) -> Verdict:
    """The verdict on all answers to the tuples that count."""
    validator = Validator()
    _charge(validator, shares)
    _compare_tolls(validator, [share.tolls for share in shares], list(_read(answers, "tolls", played)))
    for share in shares:
        for due in share.others:
            validator.expect(due)
    for kind in ("alerts", "balances", "expenditures", "travel_times"):
        for rows in _read(answers, kind, played):
            validator.check(kind, rows)
    return validator.verdict()


def share_of(played: Played, count: int, number: int) -> Share:
    """What the rules ask for on the expressways `number`, `number + count` and so on. The first share has balances."""
    traffic = played.traffic
    history = [
        RuledHistory(traffic.seed, traffic.expressways, traffic.vehicles, xway)
        for xway in range(traffic.expressways)
    ]
    tolls, charges = Rows(len(TOLLS)), Rows(3)
    others: list[Expected] = []
    reference = Charged(
        Rules(),
        paid=lambda vid, day, xway: int(history[xway].paid(np.array([vid]), np.array([day]))[0]),
        past=PastRule(traffic.seed),
    )
    reference.made = charges
    for row in _rows_of_share(played, count, number):
        for due in reference.read(row):
            if row[1] < played.begin:
                continue
            if due.kind == "tolls":
                tolls.add((*due.key, *due.value))
            else:
                others.append(due)
    return Share(tolls.columns(), others, charges.columns())


class Rows:
    """Rows of numbers that are kept as columns, since there are millions of them."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._rows: list[tuple[int, ...]] = []
        self._packed: list[Ints] = []

    def add(self, row: tuple[int, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= 1_000_000:
            self._pack()

    def _pack(self) -> None:
        self._packed.append(np.array(self._rows, np.int64).reshape(-1, self._width).T)
        self._rows = []

    def columns(self) -> Ints:
        self._pack()
        return np.concatenate(self._packed, axis=1)


def _rows_of_share(played: Played, count: int, number: int) -> Iterator[tuple[int, ...]]:
    for batch in played.traffic.batches(played.warm, played.end, rows=200_000):
        kinds, xways = batch.column("Type").to_numpy(), batch.column("XWay").to_numpy()
        mine = np.isin(kinds, ROUTED) & (xways % count == number)
        if number == 0:
            mine |= kinds == Kind.BALANCE
        yield from zip(*(batch.column(name).to_numpy()[mine].tolist() for name in COLUMNS), strict=True)


def _charge(validator: Validator, shares: Sequence[Share]) -> None:
    """Let the validator know what was charged to those who ask for a balance, on all expressways."""
    asked = np.array([due.value[0] for due in shares[0].others if due.kind == "balances"], np.int64)
    charges = np.concatenate([share.charges for share in shares], axis=1)
    vid, time, toll = charges[:, np.isin(charges[0], asked)]
    by_vehicle: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for at in np.lexsort((time, vid)).tolist():
        times, sums = by_vehicle[int(vid[at])]
        times.append(int(time[at]))
        sums.append(int(toll[at]) + (sums[-1] if sums else 0))
    validator.charges.update(by_vehicle)


def _read(answers: Iterable[Answers], kind: str, played: Played) -> Iterator[pa.RecordBatch]:
    """The answers of a kind that count, with the moments of their delivery."""
    for file in answers:
        if file.kind != kind:
            continue
        for rows in pq.read_table(file.path).combine_chunks().to_batches():
            times = rows.column("Time").to_numpy().astype(np.float64)
            timed = rows.append_column("Emit", pa.array(np.maximum(times, file.emit)))
            yield timed.filter(pa.array(times >= played.begin))


def _compare_tolls(validator: Validator, wanted: Sequence[Ints], given: Sequence[pa.RecordBatch]) -> None:
    """Count the tolls that are as they should be; the validator judges the others."""
    due = np.concatenate(wanted, axis=1)
    came = [
        np.concatenate([_ints(rows, name) for rows in given] or [np.zeros(0, np.int64)]) for name in TOLLS
    ]
    emit = np.concatenate([rows.column("Emit").to_numpy() for rows in given] or [np.zeros(0)])
    due = due[:, np.lexsort(due[::-1])]
    order = np.lexsort(came[::-1])
    got = np.stack([column[order] for column in came])
    delay = emit[order] - got[1]
    if got.shape != due.shape or not np.array_equal(got, due):
        due_left, got_left = _left(due, got)
        for row in due[:, due_left].T.tolist():
            validator.expect(Expected("tolls", (row[0], row[1]), (row[2], row[3])))
        names = [pa.array(got[at, got_left]) for at in range(4)]
        rest = pa.RecordBatch.from_arrays([*names, pa.array(emit[order][got_left])], names=[*TOLLS, "Emit"])
        validator.check("tolls", rest)
        delay = delay[~got_left]
    late = int(np.count_nonzero(delay > LIMITS_S["tolls"]))
    counts = Counter(due=len(delay), right=len(delay) - late, late=late)
    validator.count("tolls", counts, float(delay.max(initial=0.0)))


def _left(due: Ints, got: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows of two tables, each sorted, have no equal in the other one; rows may come several times."""
    a, b = ([tuple(row) for row in table.T.tolist()] for table in (due, got))
    more, fewer = Counter(a) - Counter(b), Counter(b) - Counter(a)
    return np.array(list(_taken(a, more)), bool), np.array(list(_taken(b, fewer)), bool)


def _taken(rows: Iterable[tuple[int, ...]], wanted: Counter[tuple[int, ...]]) -> Iterator[bool]:
    for row in rows:
        found = wanted[row] > 0
        if found:
            wanted[row] -= 1
        yield found


def _ints(rows: pa.RecordBatch, name: str) -> Ints:
    found: Ints = rows.column(name).to_numpy().astype(np.int64)
    return found
