"""Linear Road's segment statistics in SQL are those of a plain loop and, without noise, those of the operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road import sql
from headrace.workloads.linear_road.history import TollHistory
from headrace.workloads.linear_road.operator import LinearRoad
from headrace.workloads.linear_road.past import PastTable
from headrace.workloads.linear_road.play import split_tuples
from headrace.workloads.linear_road.reference import lav_of_readings
from headrace.workloads.linear_road.rules import Kind, Lav, Rules
from headrace.workloads.linear_road.traffic import Traffic

pytestmark = pytest.mark.spark

TRAFFIC = Traffic(2, seed=3, peak=60, segments=(50, 54), trip=(5, 15))
BEGIN, END = 10_200, 10_620


def test_statistics_of_segments_are_those_of_a_plain_loop(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("traffic", road.DDL, event_time=road.EVENT_TIME)
    for name, text in sql.QUERIES.items():
        hr.create_query(text, name=name)
    seen = [without_noise(pa.Table.from_batches(TRAFFIC.batches(BEGIN, END)))]
    hr.append("traffic", pa.Table.from_batches([road.as_tuples(batch) for batch in seen]))
    hr.close_stream("traffic")
    hr.run_available()
    speeds: dict[tuple[int, ...], dict[int, dict[int, list[int]]]] = defaultdict(lambda: defaultdict(dict))
    for row in pa.Table.from_batches(seen).to_pylist():
        if row["Type"] == Kind.POSITION:
            place = (row["XWay"], row["Dir"], row["Seg"])
            speeds[place][row["Time"] // 60].setdefault(row["VID"], []).append(row["Spd"])
    wanted: dict[tuple[int, ...], tuple[int, ...]] = {}
    for where, minutes in speeds.items():
        for minute, vehicles in minutes.items():
            lav = lav_of_readings([minutes.get(past, {}) for past in range(minute - 4, minute + 1)])
            toll = 2 * (len(vehicles) - 50) ** 2 if len(vehicles) > 50 and lav < 40 else 0
            wanted[(*where, (minute + 1) * 60)] = (len(vehicles), lav, toll)
    rows = hr.select(sql.TOLLS).toArrow().to_pylist()
    found = {
        (r["XWay"], r["Dir"], r["Seg"], int(r["minute"].timestamp())): (r["cars"], int(r["lav"]), r["toll"])
        for r in rows
    }
    assert len(rows) == len(found) > 50 and found == wanted
    assert any(toll for _, _, toll in wanted.values())
    assert all(hr.query(name).audit().ok for name in sql.QUERIES)
    by_operator = {key: row for key, row in statistics_of_operators(seen[0]).items() if key in found}
    assert len(by_operator) > 50 and by_operator == {key: found[key] for key in by_operator}


def without_noise(tuples: pa.Table) -> pa.RecordBatch:
    """Tuples without the reports of vehicles that have left the expressway and have not entered it again."""
    left: dict[tuple[int, int], int] = {}
    counts = []
    for row in tuples.to_pylist():
        vehicle, gone = (row["VID"], row["XWay"]), None
        if row["Type"] == Kind.POSITION:
            gone = left.get(vehicle)
            if gone is not None and row["Lane"] == 0 and row["Time"] - gone > 60:
                del left[vehicle]
                gone = None
            if gone is None and row["Lane"] == 4:
                left[vehicle] = row["Time"]
        counts.append(gone is None)
    (batch,) = tuples.filter(pa.array(counts)).combine_chunks().to_batches()
    assert 0 < tuples.num_rows - batch.num_rows < tuples.num_rows / 50
    return batch


def statistics_of_operators(tuples: pa.RecordBatch) -> dict[tuple[int, ...], tuple[int, int, int]]:
    """Cars of the minute before, average and toll of every stretch and minute, where no accident is ahead."""
    found: dict[tuple[int, ...], tuple[int, int, int]] = {}
    for xway in range(TRAFFIC.expressways):
        operator = LinearRoad(
            Rules(Lav.READINGS), history=TollHistory.read([], xway), past=PastTable.read([], xway)
        )
        operator.open(xway, None)
        (mine,) = (part for number, part in split_tuples(tuples, TRAFFIC.expressways) if number == xway)
        times = mine.column("Time").to_numpy()
        for begin in range(BEGIN, END, 60):
            first, last = np.searchsorted(times, (begin, begin + 60))
            operator.process(mine.slice(int(first), int(last - first)))
            operator.on_watermark(begin + 60)
            lav, toll, ahead = operator.state.table
            for at in np.flatnonzero(ahead < 0).tolist():
                cars = operator.state.past[-1, 0, at]
                found[(xway, at // 100, at % 100, begin + 60)] = (int(cars), int(lav[at]), int(toll[at]))
    return found
