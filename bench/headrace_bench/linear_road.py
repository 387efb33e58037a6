"""How fast Linear Road's parts are by themselves, on one core: from making traffic to validating answers.

Run it with, for example: python -m headrace_bench.linear_road --expressways 64
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.workloads.linear_road.history import TollHistory
from headrace.workloads.linear_road.operator import LinearRoad
from headrace.workloads.linear_road.past import PastRule, PastTable
from headrace.workloads.linear_road.play import emitted, split_tuples
from headrace.workloads.linear_road.rules import DAYS
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import Validator

NO_HISTORY = TollHistory(np.zeros(0, np.int32), np.zeros((0, DAYS), np.uint8))


class Clock:
    """CPU seconds of this process, by what they were spent on."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.last = time.process_time()

    def book(self, what: str) -> float:
        """Book the time since the last call under a name; how long it was."""
        now = time.process_time()
        took, self.last = now - self.last, now
        self.spent[what] += took
        return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expressways", type=int, default=64)
    parser.add_argument(
        "--seconds", type=int, default=120, help="how many seconds of the run's end are measured"
    )
    parser.add_argument(
        "--warm-up", type=int, default=480, help="how many seconds before them fill the state"
    )
    parser.add_argument("--validate", action="store_true", help="also run the validator, which takes long")
    options = parser.parse_args()
    measure(options.expressways, options.seconds, options.warm_up, options.validate)


def measure(expressways: int, seconds: int, warm_up: int, validate: bool) -> None:
    traffic = Traffic(expressways)
    begin = traffic.seconds - seconds
    roads = [
        LinearRoad(history=NO_HISTORY, past=PastTable.by_rule(traffic.seed, xway))
        for xway in range(expressways)
    ]
    for xway, road in enumerate(roads):
        road.open(xway, None)
    validator = Validator(paid=lambda vid, day, xway: 0, past=PastRule(traffic.seed))
    clock, tuples, slowest, saved, savings = Clock(), 0, 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        file = pq.ParquetWriter(Path(folder) / "traffic.parquet", next(traffic.batches(60, 61)).schema)
        for batch in traffic.batches(begin - warm_up, rows=1):
            measured = batch.column("Time")[0].as_py() >= begin
            if not measured:
                play(roads, batch, expressways)
                clock = Clock()
                continue
            clock.book("make")
            tuples += batch.num_rows
            file.write_batch(batch)
            clock.book("write Parquet")
            parts = list(split_tuples(batch, expressways))
            clock.book("split")
            answers = [roads[xway].process(part) for xway, part in parts]
            slowest = max(slowest, clock.book("answer"))
            saved += sum(len(road.changes()) for road in roads)
            savings += 1
            clock.book("save changes")
            if validate:
                validator.feed(batch)
                for found in answers:
                    validator.check("tolls", emitted(found["tolls"]))
                clock.book("validate")
    print(
        f"{expressways} expressways, {tuples / seconds:,.0f} tuples per second of the run, one second per batch"
    )
    for what, spent in clock.spent.items():
        print(f"{what}: {tuples / spent:,.0f} tuples per CPU second")
    print(f"the slowest second took {slowest:.2f} CPU seconds to answer")
    print(f"changes of one second: {saved / savings / 1e6:.1f} MB; ", end="")
    print(f"a whole snapshot: {sum(len(road.snapshot()) for road in roads) / 1e6:.1f} MB")


def play(roads: list[LinearRoad], batch: pa.RecordBatch, expressways: int) -> None:
    for xway, part in split_tuples(batch, expressways):
        roads[xway].process(part)


if __name__ == "__main__":
    main()
