"""Every rule of Linear Road as a short timeline. The operator and the validator must both see it as written here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from road_samples import answers_of, crowd, report, request, seen_in

from headrace.workloads.linear_road.kernels import SCALE
from headrace.workloads.linear_road.past import PastTable
from headrace.workloads.linear_road.reference import journey
from headrace.workloads.linear_road.rules import PAST, Kind, Lav, Rules
from headrace.workloads.linear_road.state import exact_lav


def toll(tuples: list[dict[str, int]], vid: int, rules: Rules | None = None) -> tuple[int, int]:
    """LAV and toll of a vehicle's last notification."""
    rows = [row for row in answers_of(tuples, rules)["tolls"] if row["VID"] == vid]
    return rows[-1]["LAV"], rows[-1]["Toll"]


def alerts(tuples: list[dict[str, int]]) -> list[tuple[int, int]]:
    """Vehicle and accident segment of each alert."""
    return [(row["VID"], row["Seg"]) for row in answers_of(tuples)["alerts"]]


def balance(tuples: list[dict[str, int]], vid: int, time: int) -> int:
    answers = answers_of([*tuples, request(Kind.BALANCE, time, vid, 1)])["balances"]
    return int(answers[0]["Balance"])


# --- tolls ---


@pytest.mark.parametrize(("cars", "due"), [(50, 0), (51, 2), (52, 8), (60, 200)])
def test_the_toll_grows_with_the_square_of_the_cars_above_fifty(cars: int, due: int) -> None:
    assert toll([*crowd(0, 10, cars), report(60, 1, 10)], 1) == (30, due)


@pytest.mark.parametrize(("speed", "due"), [(39, 8), (40, 0), (41, 0)])
def test_no_toll_where_traffic_flows(speed: int, due: int) -> None:
    assert toll([*crowd(0, 10, 52, spd=speed), report(60, 1, 10)], 1) == (speed, due)


def test_only_cars_of_the_minute_before_count_and_each_once() -> None:
    #   minute 1: 52 cars    minute 2: 51 cars, each twice     minute 3
    twice = [*crowd(60, 10, 51), *crowd(90, 10, 51)]
    assert toll([*crowd(0, 10, 52), report(59, 1, 10)], 1) == (0, 0)
    assert toll([*crowd(0, 10, 52), *twice, report(120, 1, 10)], 1) == (30, 2)
    assert toll([*crowd(0, 10, 52), report(120, 1, 10)], 1) == (30, 0)


def test_directions_are_apart() -> None:
    assert toll([*crowd(0, 10, 52, dir=1), report(60, 1, 10)], 1) == (0, 0)


def test_the_average_looks_back_five_minutes() -> None:
    one = [report(0, 2, 10, spd=50)]
    assert toll([*one, report(359, 1, 10)], 1) == (50, 0)
    assert toll([*one, report(360, 1, 10)], 1) == (0, 0)


def test_the_two_averages_differ_where_vehicles_report_unequally_often() -> None:
    #   minute 1: car 2 at 10, 10, 11; car 3 at 40      minute 2: car 3 at 60
    tuples = [
        *(report(time, 2, 10, spd=spd) for time, spd in ((0, 10), (20, 10), (40, 11))),
        *(report(time, 3, 10, spd=spd) for time, spd in ((0, 40), (60, 60))),
        report(120, 1, 10),
    ]
    assert toll(tuples, 1, Rules(Lav.PAPER)) == (42, 0)  # ((31/3 + 40) / 2 + 60) / 2 = 42.58
    assert toll(tuples, 1, Rules(Lav.READINGS)) == (26, 0)  # 131 / 5 = 26.2


def test_an_average_of_thirds_that_is_whole_is_not_rounded_down_too_far() -> None:
    speeds = {2: (39, 39, 40), 3: (39, 39, 40), 4: (39, 40, 40), 5: (40, 40, 41), 6: (41, 41, 42)}
    tuples = [
        report(20 * i, vid, 10, spd=spd) for vid, found in speeds.items() for i, spd in enumerate(found)
    ]
    assert toll([*tuples, report(60, 1, 10)], 1) == (40, 0)  # (118 + 118 + 119 + 121 + 124) / 15


def test_averages_next_to_a_whole_number_are_exact() -> None:
    #   three minutes whose averages are 40 + a/d, 40 + b/d and 40 - (a + b)/d: the mean is 40
    misled = 0
    for bottom, a in [(d, a) for d in range(2, 30) for a in range(1, d)]:
        b = bottom // 2
        tops = np.array([40 * bottom + a, 40 * bottom + b, 40 * bottom - a - b])
        past = np.zeros((5, 4, 200), np.int64)
        past[2:, 0, 7], past[2:, 1, 7] = bottom, tops * SCALE
        assert exact_lav(past)[7] == 40
        misled += int((tops / bottom).sum() / 3 < 40)
        past[4, 1, 7] -= 1
        assert exact_lav(past)[7] == 39
    assert misled > 3, "floating-point numbers alone would do"


def test_only_the_first_report_from_a_segment_is_answered_and_none_from_the_exit() -> None:
    tuples = [report(0, 1, 10), report(30, 1, 10), report(60, 1, 11), report(90, 1, 12, lane=4)]
    assert [row["Time"] for row in answers_of(tuples)["tolls"]] == [0, 60]


# --- charges ---

JAM = [*crowd(0, 10, 52), *crowd(0, 11, 53), *crowd(0, 12, 54)]
"""In minute 2, segments 10, 11 and 12 cost 8, 18 and 32."""


def test_a_segment_is_charged_on_entering_the_next() -> None:
    way = [report(60, 1, 10), report(90, 1, 11)]
    assert balance([*JAM, *way], 1, 89) == 0
    assert balance([*JAM, *way], 1, 91) == 8
    assert balance([*JAM, *way, report(119, 1, 12)], 1, 170) == 8 + 18


def test_who_leaves_by_the_exit_does_not_pay_for_that_segment() -> None:
    inside = [report(60, 1, 10), report(90, 1, 11), report(110, 1, 11, lane=4)]
    assert balance([*JAM, *inside], 1, 170) == 8
    on_entering = [report(60, 1, 10), report(90, 1, 11, lane=4)]
    assert balance([*JAM, *on_entering], 1, 170) == 8


def test_who_has_left_is_ignored_until_the_entry_ramp_more_than_a_minute_later() -> None:
    left = [*JAM, report(60, 1, 10), report(70, 1, 10, lane=4)]
    for noise in (report(100, 1, 11), report(119, 1, 12, lane=4), report(130, 1, 12, lane=0)):
        answers = answers_of([*left, noise, request(Kind.BALANCE, 180, 1, 1)])
        assert len([row for row in answers["tolls"] if row["VID"] == 1]) == 1
        assert answers["balances"][0]["Balance"] == 0
    again = answers_of([*left, report(100, 1, 12), report(131, 1, 10, lane=0), report(161, 1, 11)])
    assert [row["Time"] for row in again["tolls"] if row["VID"] == 1] == [60, 131, 161]


def test_reports_that_are_ignored_do_not_count_as_cars() -> None:
    ghosts = [row for car in range(60) for row in (report(0, car, 10, lane=4), report(61, car, 20))]
    assert toll([*ghosts, report(121, 99, 20)], 99) == (0, 0)


def test_an_unknown_vehicle_has_paid_nothing() -> None:
    assert balance([], 7, 5) == 0


# --- accidents ---


def standing(vid: int, *times: int, seg: int = 10, **where: int) -> list[dict[str, int]]:
    return [report(time, vid, seg, spd=0, **where) for time in times]


CRASH = [*standing(1, 0, 30, 60, 90), *standing(2, 0, 30, 60, 95)]
"""Detected in minute 2, at 95 s, in segment 10."""


def test_an_accident_counts_from_the_minute_after_its_detection() -> None:
    assert alerts([*CRASH, report(119, 3, 10)]) == []
    assert alerts([*CRASH, report(120, 3, 10)]) == [(3, 10)]


def test_it_counts_through_the_minute_in_which_one_car_drives_on() -> None:
    cleared = [*CRASH, report(250, 2, 10, at=9)]  # minute 5
    assert alerts([*cleared, report(240, 3, 9), report(299, 4, 9), report(300, 5, 9)]) == [(3, 10), (4, 10)]


def test_it_never_counts_when_it_is_cleared_in_the_minute_of_its_detection() -> None:
    assert alerts([*CRASH, report(119, 1, 10, at=9), report(120, 3, 10), report(180, 4, 10)]) == []


@pytest.mark.parametrize(("dir", "warned"), [(0, [6, 7, 8, 9, 10]), (1, [10, 11, 12, 13, 14])])
def test_four_segments_upstream_are_warned(dir: int, warned: list[int]) -> None:
    crash = [*standing(1, 0, 30, 60, 90, dir=dir), *standing(2, 0, 30, 60, 90, dir=dir)]
    cars = [report(120, 100 + seg, seg, dir=dir) for seg in range(2, 20)]
    assert alerts([*crash, *cars]) == [(100 + seg, 10) for seg in warned]
    assert alerts([*crash, *(report(120, 100, seg, dir=1 - dir) for seg in (9, 10, 11))]) == []


def test_the_nearest_of_two_accidents_is_named() -> None:
    further = [*standing(5, 0, 30, 60, 90, seg=12), *standing(6, 0, 30, 60, 90, seg=12)]
    assert alerts([*CRASH, *further, report(120, 3, 9), report(121, 4, 11)]) == [(3, 10), (4, 12)]


def test_no_toll_and_no_alert_at_the_exit_near_an_accident() -> None:
    jam = [*crowd(60, 9, 60, spd=10)]
    assert toll([*CRASH, *jam, report(120, 3, 9)], 3) == (10, 0)
    assert alerts([*CRASH, report(120, 3, 10, lane=4)]) == []


@pytest.mark.parametrize(
    "second",
    [
        standing(2, 0, 30, 60),
        standing(2, 0, 30, 60, 90, at=1),
        standing(2, 0, 30, 60, 90, lane=2),
        standing(2, 0, 30, 60, 90, dir=1),
        [*standing(2, 0, 30, 60), report(70, 2, 10, at=5), *standing(2, 90)],
    ],
    ids=["three reports", "elsewhere", "other lane", "other direction", "moved in between"],
)
def test_two_cars_must_be_stopped_at_one_place(second: list[dict[str, int]]) -> None:
    assert alerts([*standing(1, 0, 30, 60, 90), *second, report(120, 3, 10), report(180, 4, 10)]) == []


def test_a_third_car_keeps_the_accident_alive() -> None:
    third = [*CRASH, *standing(3, 120, 130, 140, 150), report(160, 1, 10, at=9)]
    assert alerts([*third, report(300, 4, 10)]) == [(3, 10), (4, 10)]


# --- travel times ---

WEEKS = [
    #   Dir, Seg, Day, Quarter, LAV, Toll: yesterday, day 1, was day 7 of the week
    *((0, 10, 1, 32, 40, 10), (0, 10, 8, 32, 80, 21), (0, 10, 15, 32, 0, 99)),
    *((0, 11, 1, 32, 4, 7), (0, 12, 1, 32, 90, 1), (0, 12, 1, 33, 30, 100)),
    *((1, 20, 1, 95, 2, 5), (1, 19, 7, 1, 12, 9)),
]


def test_a_journey_takes_what_it_usually_takes_at_that_time() -> None:
    past = pa.RecordBatch.from_pylist(
        [dict(zip(PAST.names, (0, *row), strict=True)) for row in WEEKS], schema=PAST
    )
    wanted = {
        (10, 10, 7, 481): (60, 0),  # (40 + 80) / 2; nobody drove on day 15; who leaves at once pays nothing
        (10, 10, 7, 495): (60, 0),
        (10, 10, 7, 496): (60, 0),  # nothing is known from 8:15 on: a mile a minute
        (11, 10, 7, 481): (120, 0),  # nor of the other direction
        (10, 11, 6, 481): (120, 0),  # nor of another weekday
        (10, 12, 7, 481): (
            60 + 900 + 120,
            15 + 7,
        ),  # at 8:16 segment 12 is as in the next quarter; it is not paid
        (11, 12, 7, 480): (60 + 40, 0),  # nothing is known of 7:59
        (20, 19, 7, 1_426): (1_800 + 300, 5),  # after midnight it is the next day of the week
    }
    asked = np.array(list(wanted), np.int32).T
    seconds, tolls = PastTable.read([past], 0).travel(asked)
    assert list(zip(seconds.tolist(), tolls.tolist(), strict=True)) == list(wanted.values())
    assert {key: journey(seen_in(past), 0, *key) for key in wanted} == wanted
