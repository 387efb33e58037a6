"""Another number of sub-streams while a split runs: its state and the tuples that wait go along, whatever is killed."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from split_cases import attach, code_of, found, in_arrow, open_house, random_rows, split_of
from split_operators import SECOND, Keyed, KeyedChanges, Route, Summing

from headrace.engine.splits.workers import SPLIT_WORKERS
from headrace.storage import faults
from thorough import seeds

pytestmark = pytest.mark.usefixtures("tasks_here")


def by_hand(house: Any) -> Counter[tuple[int, ...]]:
    """A plain loop over the tuples that were not late, in their order."""
    kept: list[tuple[Any, ...]] = []
    watermark = 0
    for epoch in house.log.sealer.epochs():
        part = epoch.of("input")
        rows = [r for c in part.chunks for r in pq.read_table(house.log.warehouse.path(c.path)).to_pylist()]
        for at, row in enumerate(rows):
            when = None if row["ts"] is None else int(row["ts"].timestamp() * SECOND)
            if when is not None and when >= part.closed_us:
                kept.append((when, int(epoch.id), at, row))
        watermark = part.watermark_us
    counts: dict[int, int] = {}
    found: Counter[tuple[int, ...]] = Counter()
    for when, _, _, row in sorted(kept, key=lambda item: item[:3]):
        place = row["place"]
        if place is None or place < 0 or when >= watermark:
            continue
        if place >= 100:
            counts = {key: count + 1 for key, count in counts.items()}
            continue
        counts[place] = counts.get(place, 0) + 1
        found[(place, row["id"], counts[place], when)] += 1
    return found


def altered(house: Any, q: int, operator: Any, **code: Any) -> Any:
    """Ask for another number of sub-streams, as whoever calls `alter_split` does."""
    split = dataclasses.replace(house.log.catalog.splits.get("out"), sub_streams=q)
    return house.splits.alter(split, code_of(operator, q, **code), rerouted="route" in code)


def life(root: Path, seed: int, deadly: float) -> Any:
    rng = random.Random(seed)
    operator = rng.choice([Keyed, KeyedChanges])
    step, lives = 0, 0
    used = set()
    while True:
        lives += 1
        house = open_house(root)
        try:
            with faults.hooked(lambda point: _die(rng, deadly, point)):
                known = house.log.catalog.splits.find("out")
                q = 3 if known is None else known.sub_streams
                attach(house, known or split_of(3), code_of(operator, q))
                while step < 12:
                    rows = random_rows(random.Random(f"{seed} {step}"), step * 100, 40, 20 + step * 5)
                    house.add(in_arrow(rows), chunk_rows=rng.choice([7, 1000]))
                    step += 1
                    if rng.random() < 0.5:
                        now = house.splits.runners()[0].split.sub_streams
                        altered(house, rng.choice([n for n in (1, 2, 3, 4, 5, 7) if n != now]), operator)
                    house.run(rng.choice([30, 1000]), together=rng.random() < 0.3)
                    used.add(house.splits.runners()[0].commit.sub_stream_count)
                house.log.arrivals.close("input")
                house.run()
            break
        except faults.Crash:
            house.forget()
    print(f"seed {seed}: {operator.__name__}, {lives} lives, q of {used}")
    assert len(used) > 1
    return house


@pytest.mark.parametrize("seed", seeds(3))
def test_rows_do_not_depend_on_the_number_of_sub_streams(tmp_path: Path, seed: int) -> None:
    house = life(tmp_path, seed, 0.02 if seed % 2 else 0.0)
    assert found(house)["each"] == by_hand(house), f"seed {seed}"
    commit, home = house.splits.runners()[0].commit, tmp_path / "splits" / "000000"
    for folder in ("state", "waiting"):
        assert {f"splits/000000/{folder}/{p.name}" for p in (home / folder).iterdir()} <= commit.files()


def half_of(place: int) -> int:
    return 0 if place < 4 else 1


class HalfRoute:
    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        places = batch.column("place").to_pylist()
        return pa.array([None if p is None or not 0 <= p < 100 else half_of(p) for p in places], pa.int64())


class Halves(Keyed):
    def split_state(self, state: bytes, sub_streams: int) -> dict[int, bytes]:
        found: dict[int, dict[str, int]] = {}
        for place, count in json.loads(state).items():
            found.setdefault(half_of(int(place)), {})[place] = count
        return {number: json.dumps(counts).encode() for number, counts in found.items()}


def some_rows(first: int, second: int) -> pa.Table:
    rows = [{"id": first + i, "place": i % 8, "rank": 0, "ts": (second + i) * SECOND} for i in range(16)]
    return in_arrow(rows)


@pytest.mark.parametrize("between", [None, 3])
def test_another_route_moves_state_and_waiting_tuples_with_the_same_number_too(
    tmp_path: Path, between: int | None
) -> None:
    """Also where it was another number in between, and no epoch ran with that."""
    house = open_house(tmp_path)
    attach(house, split_of(2), code_of(Keyed, 2))
    house.add(some_rows(0, 0))
    house.run()
    if between is not None:
        altered(house, between, Keyed)
    altered(house, 2, Halves, route=HalfRoute())
    house.add(some_rows(100, 20))
    house.run()
    house.log.arrivals.close("input")
    house.run()
    assert house.splits.runners()[0].trouble is None
    assert found(house)["each"] == by_hand(house)


@pytest.mark.usefixtures("forked_workers")
def test_own_workers_move_state_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_OWN_WORKER")
    try:
        house = life(tmp_path, 5, 0.0)
        assert house.splits.runners()[0].commit.cost.own_workers
        assert found(house)["each"] == by_hand(house)
    finally:
        SPLIT_WORKERS.close()


def _die(rng: random.Random, chance: float, point: str) -> None:
    if rng.random() < chance:
        raise faults.Crash(point)


class Misplaced(Keyed):
    def split_state(self, state: bytes, sub_streams: int) -> dict[int, bytes]:
        return {sub_streams: state}


class Raising(Keyed):
    def merge_state(self, states: Any) -> bytes:
        raise KeyError("merge")


@pytest.mark.parametrize(
    ("operator", "code", "told"),
    [
        (Summing, "SPLIT_OPERATOR", "has no split_state()"),
        (Misplaced, "SPLIT_OUTPUT", "a part of the state for sub-stream 2, and there are 0 to 1"),
        (Raising, "SPLIT_OPERATOR", "merge_state() for sub-stream 0"),
    ],
)
def test_an_operator_that_cannot_move_its_state_loses_nothing(
    tmp_path: Path, operator: Any, code: str, told: str
) -> None:
    house = open_house(tmp_path)
    attach(house, split_of(4), code_of(operator, 4))
    rng = random.Random(1)
    house.add(in_arrow(random_rows(rng, 0, 40, 20)))
    house.add(in_arrow(random_rows(rng, 100, 40, 30)))
    house.run()
    altered(house, 2, operator)
    house.add(in_arrow(random_rows(rng, 200, 40, 40)))
    house.run()
    runner = house.splits.runners()[0]
    assert runner.trouble is not None and runner.trouble.code == code
    assert told in runner.trouble.message
    split = altered(house, 4, operator) if operator is Summing else altered(house, 2, Keyed)
    runner.restart()
    house.log.arrivals.close("input")
    house.run()
    assert runner.trouble is None and split.sub_streams == runner.commit.sub_stream_count
    if operator is not Summing:
        assert found(house)["each"] == by_hand(house)


def test_a_route_for_another_number_is_an_error_of_its_own(tmp_path: Path) -> None:
    house = open_house(tmp_path)
    attach(house, split_of(4), code_of(Keyed, 4))
    house.add(in_arrow(random_rows(random.Random(1), 0, 40, 20)))
    house.run()
    split = dataclasses.replace(house.log.catalog.splits.get("out"), sub_streams=2)
    house.splits.alter(split, code_of(Keyed, 4, route=Route(4)), rerouted=True)
    house.add(in_arrow(random_rows(random.Random(2), 100, 40, 30)))
    house.run()
    trouble = house.splits.runners()[0].trouble
    assert trouble is not None and trouble.code == "SPLIT_ROUTE"
