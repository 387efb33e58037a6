"""Linear Road's segment statistics in SQL: cars, averages and tolls are those of a plain loop over the traffic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road import sql
from headrace.workloads.linear_road.reference import lav_of_readings
from headrace.workloads.linear_road.rules import Kind
from headrace.workloads.linear_road.traffic import Traffic

pytestmark = pytest.mark.spark

TRAFFIC = Traffic(2, seed=3, peak=60, segments=(50, 54), trip=(5, 15))
BEGIN, END = 10_200, 10_620


def test_statistics_of_segments_are_those_of_a_plain_loop(open_session: Callable[..., Any]) -> None:
    hr = open_session()
    hr.create_stream("traffic", road.DDL, event_time=road.EVENT_TIME)
    for name, text in sql.QUERIES.items():
        hr.create_query(text, name=name)
    seen = list(TRAFFIC.batches(BEGIN, END))
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
