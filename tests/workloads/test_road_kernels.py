"""The loops of Linear Road that have no rule of the road in them, against plain loops."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from headrace.workloads.linear_road.kernels import SCALE, STRETCHES, drive_through, summarise


@pytest.mark.parametrize("count", [0, 1, 2_000])
def test_a_minute_is_summarised_by_vehicle_and_stretch(count: int) -> None:
    rng = np.random.default_rng(count)
    stretches, slots, speeds = rng.integers(0, (5, 60, 101), (count, 3)).T
    readings = np.sort((stretches * 40 << 40) | (slots << 8) | speeds)
    before = rng.integers(0, 9, (4, STRETCHES))
    minute, expected, most = before.copy(), before.copy(), 0
    for (stretch, _), mine in groupby(readings.tolist(), lambda one: (one >> 40, one >> 8 & 2**32 - 1)):
        found = [one & 255 for one in mine]
        expected[:, stretch] += (1, sum(found) * (SCALE // len(found)), sum(found), len(found))
        most = max(most, len(found))
    assert summarise(readings, minute) == most
    assert minute.tolist() == expected.tolist() and (count < 2 or most > 1)


@pytest.mark.parametrize("count", [0, 1, 300])
def test_journeys_take_each_segment_as_it_is_when_they_come_there(count: int) -> None:
    rng = np.random.default_rng(count)
    seconds = rng.integers(30, 3_000, (672, STRETCHES)).astype(np.int32)
    tolls = rng.integers(0, 50, (672, STRETCHES)).astype(np.int32)
    columns = [rng.integers(low, high, count) for low, high in ((0, 100), (0, 100), (1, 8), (1, 1_441))]
    requests, found = np.stack(columns).astype(np.int32), np.full((2, count), -1, np.int32)
    if count > 1:
        requests[:, 0] = (99, 0, 7, 1_440)  # backwards, over the end of the week
        requests[1, 1] = requests[0, 1]  # a single segment
    drive_through(requests, seconds, tolls, found)
    expected = []
    for first, last, day, minute in requests.T.tolist():
        begin = ((day - 1) * 24 * 60 + minute - 1) * 60
        side, step = (0, 1) if first <= last else (100, -1)
        time, toll = begin, 0
        for segment in range(first, last + step, step):
            quarter = time // 900 % 672
            time += int(seconds[quarter, side + segment])
            toll += int(tolls[quarter, side + segment]) if segment != last else 0
        expected.append([time - begin, toll])
    assert found.T.tolist() == expected
