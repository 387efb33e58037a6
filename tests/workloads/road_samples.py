"""Small inputs for Linear Road: tuples by hand, and random tuples that make rare things common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random

import pyarrow as pa

from headrace.workloads.linear_road.kernels import MOST_READINGS
from headrace.workloads.linear_road.operator import LinearRoad
from headrace.workloads.linear_road.play import Play, emitted
from headrace.workloads.linear_road.rules import COLUMNS, DAYS, HISTORY, INPUT, MILE_FT, PAST, Kind, Rules
from headrace.workloads.linear_road.validator import Validator, Verdict

Answers = dict[str, list[dict[str, int]]]


def report(
    time: int, vid: int, seg: int, *, spd: int = 30, lane: int = 1, dir: int = 0, at: int = 0, xway: int = 0
) -> dict[str, int]:
    """A position report, `at` feet into its segment."""
    values = (Kind.POSITION, time, vid, spd, xway, lane, dir, seg, seg * MILE_FT + at)
    return dict(zip(COLUMNS, (*values, -1, -1, -1, -1, -1, -1), strict=True))


def request(kind: Kind, time: int, vid: int, qid: int, *, xway: int = -1, day: int = -1) -> dict[str, int]:
    empty = dict.fromkeys(COLUMNS, -1)
    return {**empty, "Type": kind, "Time": time, "VID": vid, "QID": qid, "XWay": xway, "Day": day}


def journey(time: int, qid: int, first: int, last: int, dow: int, tod: int, xway: int = 0) -> dict[str, int]:
    """A request for a travel time."""
    asked = request(Kind.TRAVEL_TIME, time, 1, qid, xway=xway)
    return {**asked, "Sinit": first, "Send": last, "DOW": dow, "TOD": tod}


def crowd(time: int, seg: int, cars: int, *, spd: int = 30, dir: int = 0) -> list[dict[str, int]]:
    """Reports of many cars, each of its own place."""
    return [report(time, 10_000 + car, seg, spd=spd, dir=dir, at=car) for car in range(cars)]


def batch_of(tuples: Iterable[dict[str, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{k: int(v) for k, v in row.items()} for row in tuples], schema=INPUT)


def answers_of(tuples: Iterable[dict[str, int]], rules: Rules | None = None) -> Answers:
    """What the operator of expressway 0 answers, after the validator found no fault with it."""
    rules = rules or Rules()
    batch = batch_of(sorted(tuples, key=lambda row: row["Time"]))
    operator, validator = LinearRoad(rules), Validator(rules)
    operator.open(0, None)
    validator.feed(batch)
    found = operator.process(batch)
    for kind, rows in found.items():
        validator.check(kind, emitted(rows))
    verdict = validator.verdict()
    assert verdict.ok, verdict.render()
    return {kind: rows.to_pylist() for kind, rows in found.items()}


def history_of(random: Random, vehicles: int, expressways: int) -> pa.RecordBatch:
    """Some rows of history, with gaps."""
    rows = [
        {"VID": vid, "Day": day, "XWay": random.randrange(expressways), "Toll": random.randrange(100)}
        for vid in range(vehicles)
        for day in random.sample(range(1, DAYS + 1), 20)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=HISTORY)


def past_of(random: Random, expressways: int) -> pa.RecordBatch:
    """Statistics of some segments at some times of a few days, and of more around midnight."""
    keys = {
        (
            random.randrange(expressways), random.randrange(2), random.choice([0, 1, 97, 98, 99]),
            random.randint(1, DAYS), random.choice([0, 1, 94, 95, 30, 31]),
        )
        for _ in range(6_000)
    }  # fmt: skip
    rows = [(*key, random.choice([0, 1, 7, 30, 39, 40, 100]), random.randrange(50)) for key in sorted(keys)]
    return pa.RecordBatch.from_arrays([pa.array(c, pa.int32()) for c in zip(*rows, strict=True)], schema=PAST)


def seen_in(past: pa.RecordBatch) -> Callable[[int, int, int, int, int], tuple[int, int]]:
    """What the rows say, one by one."""
    rows = zip(*(column.to_pylist() for column in past.columns), strict=True)
    known = {tuple(row[:5]): tuple(row[5:]) for row in rows}
    return lambda *key: known.get(key, (0, 0))


def paid_in(history: pa.RecordBatch) -> dict[tuple[int, int, int], int]:
    vid, day, xway, toll = (column.to_numpy().tolist() for column in history.columns)
    return dict(zip(zip(vid, day, xway, strict=True), toll, strict=True))


def random_tuples(random: Random, expressways: int, vehicles: int, count: int) -> list[dict[str, int]]:
    """Cars that jump about on a few segments, often stand still, leave and come back: nothing is realistic."""
    time, tuples = random.choice([0, 0, 3_000]), []
    where: dict[int, tuple[int, int, int, int, int]] = {}
    often: Counter[tuple[int, int]] = Counter()
    restless = random.choice([0.05, 0.15, 0.4])
    for qid in range(count):
        time += (
            random.choice([0, 0, 0, 1, 1, 2, 3, 5]) if random.random() < 0.998 else random.choice([70, 400])
        )
        vid = random.randrange(vehicles)
        what = random.random()
        if what < 0.06:
            tuples.append(request(Kind.BALANCE, time, vid, qid))
        elif what < 0.09:
            day, xway = random.randint(1, DAYS), random.randrange(expressways)
            tuples.append(request(Kind.EXPENDITURE, time, vid, qid, xway=xway, day=day))
        elif what < 0.12:
            first, last, xway = random.randrange(100), random.randrange(100), random.randrange(expressways)
            tod = random.choice([1, 15, 16, 450, 466, 1_410, 1_425, 1_440, random.randint(1, 1_440)])
            tuples.append(journey(time, qid, first, last, random.randint(1, 7), tod, xway))
        else:
            if vid not in where or random.random() < restless:
                lane = random.choices(range(5), (3, 4, 2, 2, 1))[0]
                place = (random.randrange(94, 100), random.randrange(2), lane, random.randrange(2))
                popular = (97, random.randrange(2), 1, 0)  # where cars meet, so that there are accidents
                where[vid] = (*(place if random.random() < 0.7 else popular), random.randrange(expressways))
            seg, dir, lane, at, xway = where[vid]
            often[vid, time // 60] += 1
            if often[vid, time // 60] > MOST_READINGS:
                continue  # the operator refuses more, which is an error of its own
            speed = random.choice([0, 10, 35, 39, 40, 41, 100])
            tuples.append(report(time, vid, seg, spd=speed, lane=lane, dir=dir, at=at, xway=xway))
    return tuples


def cut(random: Random, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The batch in pieces that end anywhere."""
    ends = sorted(random.sample(range(batch.num_rows + 1), min(12, batch.num_rows)))
    edges = [0, *ends, batch.num_rows]
    return [batch.slice(low, high - low) for low, high in pairwise(edges)]


def validated(play: Play, validator: Validator, pieces: Iterable[pa.RecordBatch], random: Random) -> Verdict:
    """Play the pieces; operators restart from their snapshots, and hear of watermarks, at random moments."""
    for piece in pieces:
        if random.random() < 0.4:
            play.save(random.randrange(play.expressways), whole=random.random() < 0.2)
        if random.random() < 0.3:
            play.restart(random.randrange(play.expressways))
        if piece.num_rows and random.random() < 0.3:
            play.roads[random.randrange(play.expressways)].on_watermark(piece.column("Time")[0].as_py())
        validator.feed(piece)
        for kind, rows in play.process(piece):
            validator.check(kind, emitted(rows))
    return validator.verdict()
