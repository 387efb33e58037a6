"""The traffic that Linear Road is played with: repeatable, cut anywhere, and enough to make every rule count."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from road_samples import batch_of, journey, report, request

from headrace.workloads.linear_road.history import TollHistory, historical_tolls
from headrace.workloads.linear_road.operator import AddBalances, LinearRoad
from headrace.workloads.linear_road.past import PastRule, PastTable, historical_segments
from headrace.workloads.linear_road.rules import DAYS, INPUT, MILE_FT, Kind
from headrace.workloads.linear_road.traffic import Traffic

SMALL = Traffic(3, seed=1, seconds=600, peak=40, trip=(4, 12), accidents_per_hour=100)


@cache
def third_hour() -> pa.Table:
    """Seven minutes of one expressway at nearly its full rate."""
    return pa.Table.from_batches(Traffic(trip=(5, 25), accidents_per_hour=60).batches(10_260, 10_680))


def column(table: pa.Table, name: str) -> np.ndarray:
    return table.column(name).to_numpy()


def test_any_range_in_any_pieces_is_the_same_traffic() -> None:
    traffic = replace(SMALL, seconds=360, trip=(2, 4))
    whole = pa.Table.from_batches(traffic.batches()).combine_chunks()
    pieces = pa.Table.from_batches(
        [*traffic.batches(0, 100, rows=1), *traffic.batches(100, 297), *traffic.batches(297, 360, rows=900)]
    )
    assert whole.schema == INPUT and whole.equals(pieces.combine_chunks())
    assert not whole.equals(pa.Table.from_batches(replace(traffic, seed=2).batches()).combine_chunks())


def test_the_rate_rises_to_1700_tuples_per_second_and_the_shares_are_the_benchmark_s() -> None:
    assert 1_640 < third_hour().num_rows / 420 < 1_720
    kinds = np.bincount(column(third_hour(), "Type")) / third_hour().num_rows
    assert kinds[[0, 2, 3, 4]] == pytest.approx([0.99, 0.005, 0.001, 0.004], rel=0.15)
    seconds = np.arange(10_800)
    assert 12e6 < (1_700 * np.sqrt(seconds / 10_800)).sum() < 20e6


def test_tuples_are_of_the_road_and_in_time_order() -> None:
    table = pa.Table.from_batches(SMALL.batches())
    reports = column(table, "Type") == Kind.POSITION
    assert (np.diff(column(table, "Time")) >= 0).all()
    limits = {"Spd": (0, 100), "XWay": (0, 2), "Lane": (0, 4), "Dir": (0, 1), "Seg": (0, 99)}
    for name, (low, high) in limits.items():
        values = column(table, name)[reports]
        assert low <= values.min() and values.max() <= high
    assert (column(table, "Seg")[reports] == column(table, "Pos")[reports] // MILE_FT).all()
    qids = column(table, "QID")[~reports]
    assert len(np.unique(qids)) == len(qids) > 50 and (column(table, "QID")[reports] == -1).all()


def reports_by_vehicle(traffic: Traffic) -> list[list[dict[str, int]]]:
    found: dict[int, list[dict[str, int]]] = {}
    for batch in traffic.batches():
        for row in batch.filter(pa.compute.equal(batch.column("Type"), 0)).to_pylist():
            found.setdefault(row["VID"], []).append(row)
    return list(found.values())


def trips_of(reports: list[dict[str, int]]) -> list[list[dict[str, int]]]:
    """A vehicle's reports, cut where it was away."""
    trips = [[reports[0]]]
    for before, after in pairwise(reports):
        if after["Time"] - before["Time"] > 30:
            trips.append([])
        trips[-1].append(after)
    return trips


def test_vehicles_report_every_30_seconds_and_drive_as_fast_as_they_say() -> None:
    noise = 0
    for reports in reports_by_vehicle(SMALL):
        for trip in trips_of(reports):
            lanes = [row["Lane"] for row in trip]
            on_road = lanes.index(4) + 1 if 4 in lanes else len(trip)
            noise += len(trip) - on_road
            assert lanes[0] == 0 and 0 not in lanes[1:on_road] and len(trip) - on_road <= 2
            for before, after in pairwise(trip[:on_road]):
                assert (before["XWay"], before["Dir"]) == (after["XWay"], after["Dir"])
                assert after["Time"] - before["Time"] == 30
                assert (after["Pos"] - before["Pos"]) * (1 - 2 * before["Dir"]) == before["Spd"] * 44
    assert noise > 3


def test_some_vehicles_come_back_on_this_or_another_expressway_more_than_a_minute_later() -> None:
    other = same = 0
    vehicles = reports_by_vehicle(replace(SMALL, seconds=900))
    for reports in vehicles:
        for before, after in pairwise(trips_of(reports)):
            left = next(row["Time"] for row in before if row["Lane"] == 4)
            assert after[0]["Time"] - left > 61
            elsewhere = before[0]["XWay"] != after[0]["XWay"]
            other, same = other + elsewhere, same + (not elsewhere)
    assert min(other, same) > 3 and other + same < len(vehicles) / 5


def test_the_third_hour_makes_the_rules_count() -> None:
    operator = LinearRoad(history=TollHistory.read([], 0), past=PastTable.read([], 0))
    operator.open(0, None)
    charged = alerted = 0
    accidents = []
    for batch in third_hour().to_batches(max_chunksize=100_000):
        answers = operator.process(batch)
        charged += int((answers["tolls"].column("Toll").to_numpy() > 0).sum())
        alerted += answers["alerts"].num_rows
        accidents.append(set(operator.state.table[2].tolist()))
    assert charged > 1_000 and alerted > 100
    assert any(after - before for before, after in pairwise(accidents)), "none begins"
    assert any(before - after for before, after in pairwise(accidents)), "none is cleared"
    lav, toll, _ = operator.state.table
    assert (lav < 40).sum() > 20 and (lav >= 40).sum() > 20 and 0 < (toll > 0).sum() < 200


def test_history_has_a_row_per_vehicle_and_day() -> None:
    rows = pa.Table.from_batches(historical_tolls(3, 2, 500, rows=7_000))
    assert rows.num_rows == 2 * 500 * DAYS
    keys = column(rows, "VID") * 100 + column(rows, "Day")
    assert len(np.unique(keys)) == rows.num_rows
    assert set(np.unique(column(rows, "Toll"))) == set(range(100))
    away = column(rows, "XWay") != column(rows, "VID") // 500
    assert 0.03 < away.mean() < 0.07
    found = TollHistory.read(rows.to_batches(), 1).paid(column(rows, "VID"), column(rows, "Day"))
    assert (found == np.where(column(rows, "XWay") == 1, column(rows, "Toll"), 0)).all()


# --- what operators refuse and remember ---


def opened() -> LinearRoad:
    operator = LinearRoad()
    operator.open(0, None)
    return operator


@pytest.mark.parametrize(
    "bad",
    [
        report(0, 1, 5, xway=1),
        report(0, 1, 100),
        report(0, 1, 5, dir=2),
        report(0, 1, 5, spd=-1),
        report(0, 1, 5, lane=5),
        report(0, 1, 0, at=-1),
    ],
    ids=["other expressway", "off the road", "no direction", "no speed", "no lane", "before the road"],
)
def test_tuples_that_would_be_counted_wrongly_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="not of expressway 0"):
        opened().process(batch_of([report(0, 2, 5), bad]))


def test_time_never_goes_back_and_history_is_not_made_up() -> None:
    with pytest.raises(ValueError, match="order of their time"):
        opened().process(batch_of([report(5, 1, 5), report(4, 2, 5)]))
    operator = opened()
    operator.process(batch_of([report(5, 1, 5)]))
    later = opened()
    later.open(0, operator.snapshot())
    with pytest.raises(ValueError, match="order of their time"):
        later.process(batch_of([report(4, 2, 5)]))
    with pytest.raises(ValueError, match="no history"):
        opened().process(batch_of([request(Kind.EXPENDITURE, 5, 1, 1, xway=0, day=3)]))


@pytest.mark.parametrize(
    "bad", [(100, 0, 1, 1), (0, -1, 1, 1), (0, 9, 0, 1), (0, 9, 8, 1), (0, 9, 1, 0), (0, 9, 1, 1_441)]
)
def test_journeys_that_are_none_are_refused(bad: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="knows no past"):
        opened().process(batch_of([journey(5, 1, 0, 9, 1, 1)]))
    operator = LinearRoad(past=PastTable.read([], 0))
    operator.open(0, None)
    with pytest.raises(ValueError, match="no journey"):
        operator.process(batch_of([journey(5, 1, 0, 9, 1, 1), journey(5, 2, *bad)]))
    with pytest.raises(ValueError, match="not of expressway 0"):
        operator.process(batch_of([journey(5, 1, 0, 9, 1, 1, xway=1)]))


def test_the_table_of_the_past_is_that_of_its_rows() -> None:
    (rows,) = historical_segments(3, 1)
    by_rule, read = PastTable.by_rule(3, 0), PastTable.read([rows.slice(700_000), rows.slice(0, 700_000)], 0)
    assert np.array_equal(by_rule.seconds, read.seconds) and np.array_equal(by_rule.tolls, read.tolls)
    assert not np.array_equal(by_rule.seconds, PastTable.by_rule(3, 1).seconds)
    one = PastRule(3)
    for row in rows.take(pa.array([0, 5, 77_000, 1_300_000])).to_pylist():
        assert one(*(row[name] for name in ("XWay", "Dir", "Seg", "Day", "Quarter"))) == (
            row["LAV"],
            row["Toll"],
        )
    lav = rows.column("LAV").to_numpy()
    assert 0 < (lav == 0).mean() < 0.1 and (lav < 40).mean() > 0.05 and lav.max() <= 100


def test_a_vehicle_that_reports_all_the_time_is_an_error_and_not_a_wrong_average() -> None:
    often = [report(second, 1, 5) for second in range(25)]
    with pytest.raises(ValueError, match="25 times"):
        opened().process(batch_of([*often, report(60, 1, 5)]))


def test_balances_wait_for_all_parts_across_a_snapshot() -> None:
    part = opened().process(batch_of([request(Kind.BALANCE, 5, 1, 1)]))["balances"]
    adder = AddBalances(3)
    adder.open(0, None)
    assert adder.process(part)["balances"].num_rows == 0
    later = AddBalances(3)
    later.open(0, adder.snapshot())
    assert later.process(part)["balances"].num_rows == 0
    assert later.process(part)["balances"].to_pylist() == [
        {"Time": 5, "QID": 1, "ResultTime": 5, "Balance": 0, "Parts": 3}
    ]
