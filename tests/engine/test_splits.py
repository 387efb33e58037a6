"""Splits without Spark: whatever is cut, killed or restarted, the rows are those of a plain loop over the input."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from split_cases import attach, code_of, expected, found, in_arrow, open_house, random_rows, split_of
from split_operators import SECOND, Incremental, Summing, Tabular

from headrace.engine.splits import tasks
from headrace.engine.splits.calls import limited, noting, stuck_call
from headrace.engine.splits.commits import KEEP_COMMITS
from headrace.model.epoch import FOREVER_US
from headrace.model.errors import CatalogError
from headrace.optimizer.splitting.adapting import Adapting, SplitPlan
from headrace.storage import faults
from thorough import seeds

pytestmark = pytest.mark.usefixtures("tasks_here")


def feed(house: Any, rng: random.Random, step: int) -> None:
    rows = random_rows(rng, step * 100, rng.randrange(1, 60), 20 + step * 5)
    house.add(in_arrow(rows), chunk_rows=rng.choice([1, 7, 1000]))


@pytest.mark.parametrize("seed", seeds(2))
def test_rows_are_those_of_a_plain_loop(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random routes, broadcasts, orders, chunks, windows, batches, epochs, kills and lost instances."""
    rng = random.Random(seed)
    q, order = rng.choice([1, 3, 4]), rng.choice([(), ("rank",)])
    operator = rng.choice([Summing, Incremental, Tabular])
    deadly = rng.choice([0.0, 0.05])
    plan = (rng.choice([1, 2, 5]), rng.choice([1, 5, 1000]))
    monkeypatch.setattr("headrace.engine.splits.instances.BATCH_ROWS", rng.choice([1, 5, 1000]))
    monkeypatch.setattr(Adapting, "plan", lambda self, cores: SplitPlan(*plan))
    print(f"seed {seed}: plan {plan}, q {q}, order {order}, {operator.__name__}, deadly {deadly}")
    split, code = split_of(q, order), code_of(operator, q)
    lives, step, steps = 0, 0, 8
    while True:
        lives += 1
        house = open_house(tmp_path)
        try:
            with faults.hooked(lambda point: _die(rng, deadly, point)):
                attach(house, split, code)
                house.run(rng.choice([10, 1000]), together=rng.random() < 0.5)
                while step < steps:
                    arrived = house.log.arrivals.next_number
                    feed(house, random.Random(f"{seed} {step} {arrived}"), step)
                    step += 1
                    if rng.random() < 0.2:
                        tasks._KEPT.clear()
                    house.run(rng.choice([10, 1000]), together=rng.random() < 0.5)
                if not house.log.arrivals.closed("input"):
                    house.log.arrivals.close("input")
                house.run()
            break
        except faults.Crash:
            house.forget()
    print(f"{lives} lives")
    wanted = expected(house, q, order)
    assert sum(wanted["each"].values()) > 100
    for kind, rows in found(house).items():
        assert rows == wanted[kind], f"seed {seed}, {kind}"
    assert house.log.arrivals.closed("out_each") and house.log.arrivals.closed("out_tens")
    assert house.splits.of(split).commit.waiting == ()


def _die(rng: random.Random, chance: float, point: str) -> None:
    if rng.random() < chance:
        raise faults.Crash(point)


@pytest.mark.parametrize("together", [False, True])
def test_time_that_passes_without_tuples_makes_later_ones_late(tmp_path: Path, together: bool) -> None:
    """As it does for the output of another split; also where both epochs are run as one."""
    house = open_house(tmp_path)
    attach(house, split_of(1), code_of(Summing, 1))

    def add(*tuples: tuple[int, int]) -> None:
        rows = [{"id": id_, "place": 0, "rank": 0, "ts": second * SECOND} for id_, second in tuples]
        house.add(in_arrow(rows))

    add((1, 10))
    house.run()
    house.log.arrivals.add("input", (), mark_us=50 * SECOND)
    if together:
        house.log.sealer.seal()
    else:
        house.run()
    add((2, 20), (3, 60))
    house.run()
    house.log.arrivals.close("input")
    house.run()
    assert house.splits.runners()[0].commit.counts.late == 1
    assert found(house) == expected(house, 1, ())


def test_the_watermark_goes_on_with_the_rows(tmp_path: Path) -> None:
    house = open_house(tmp_path)
    attach(house, split_of(4), code_of())
    house.add(in_arrow([{"id": 1, "place": 1, "rank": 0, "ts": 50 * SECOND}]))
    house.run()
    latest = house.log.sealer.latest
    assert latest.of("out_each").watermark_us == latest.of("input").watermark_us == 48 * SECOND
    assert house.rows("out_each") == []  # it waits for the watermark
    house.log.arrivals.close("input")
    house.run()
    assert [row["id"] for row in house.rows("out_each")] == [1]


class Raises(Summing):
    def process(self, batch: Any) -> Any:
        if 7 in batch.column("id").to_pylist():
            raise KeyError("seven")
        return super().process(batch)


class Forever(Summing):
    def on_watermark(self, time: int) -> Any:
        while True:
            pass


class Misnamed(Summing):
    def process(self, batch: Any) -> Any:
        return {"each": super().process(batch)["each"].rename_columns(["sub", "id", "sum", "ts"])}


class Mistyped(Summing):
    def process(self, batch: Any) -> Any:
        return {"each": super().process(batch)["each"].set_column(1, "id", pa.array(["x"] * batch.num_rows))}


class Unknown(Summing):
    def process(self, batch: Any) -> Any:
        return {"other": super().process(batch)["each"]}


class Stateless(Summing):
    def snapshot(self) -> Any:
        return {"total": self.total}


class Exits(Summing):
    def process(self, batch: Any) -> Any:
        sys.exit(3)


class Lists(Summing):
    def process(self, batch: Any) -> Any:
        return {"each": [1]}


class Unfinished:
    def open(self, sub_stream: int, state: Any) -> None:
        pass


class Unreadable(Summing):
    """Cannot be unpacked by whoever gets it."""

    missing = CatalogError("CODE", "an error that pickle cannot make again")


class Drawing:
    """A route that depends on more than the row."""

    def __call__(self, batch: Any) -> Any:
        return [random.randrange(4) for _ in range(batch.num_rows)]


ROUTES = {
    "far": (lambda batch: [9] * batch.num_rows, "SPLIT_ROUTE", "sub-stream 9, and there are only 0 to 3"),
    "negative": (lambda batch: [-1] * batch.num_rows, "SPLIT_ROUTE", "sub-stream -1"),
    "text": (lambda batch: ["a"] * batch.num_rows, "SPLIT_ROUTE", "string"),
    "truth": (lambda batch: [True] * batch.num_rows, "SPLIT_ROUTE", "values of type bool, not whole numbers"),
    "parts": (lambda batch: pa.array([Decimal("0.5")] * batch.num_rows), "SPLIT_ROUTE", "not whole numbers"),
    "digits": (lambda batch: ["1"] * batch.num_rows, "SPLIT_ROUTE", "string"),
    "huge": (lambda batch: [2**70] * batch.num_rows, "SPLIT_ROUTE", "too large"),
    "endless": (lambda batch: count(), "SPLIT_ROUTE", "values for"),
    "generator": (
        lambda batch: (1 // (i - 1) for i in range(9)),
        "SPLIT_OPERATOR",
        "raised ZeroDivisionError",
    ),
    "exits": (lambda batch: sys.exit(), "SPLIT_OPERATOR", "the route of split `out` raised SystemExit"),
    "short": (lambda batch: [1], "SPLIT_ROUTE", "1 values for"),
    "raises": (lambda batch: batch.column("missing"), "SPLIT_OPERATOR", "the route of split `out` raised"),
    "draws": (Drawing(), "SPLIT_ROUTE_CHANGES", "other answers for the same tuples"),
}
OPERATORS = {
    Raises: (
        "SPLIT_OPERATOR",
        "process() of sub-stream 3, with tuple 1 of its epoch (event times 1970-01-01 00:00:27",
    ),
    Forever: ("SPLIT_TIMEOUT", "did not return within 0.2 seconds"),
    Misnamed: ("SPLIT_OUTPUT", "without column `total`"),
    Mistyped: ("SPLIT_OUTPUT", "do not fit its schema"),
    Unknown: ("SPLIT_OUTPUT", "kind `other`"),
    Stateless: ("SPLIT_OUTPUT", "a dict as its state"),
    Exits: ("SPLIT_OPERATOR", "with tuple 0 of its epoch (event times 1970-01-01 00:00:24"),
    Lists: ("SPLIT_OUTPUT", "a list instead of a RecordBatch"),
    Unfinished: ("SPLIT_OPERATOR", "open() of sub-stream 0 of split `out` raised TypeError"),
    Unreadable: ("SPLIT_OPERATOR", "the code of split `out` raised TypeError"),
}
CASES = {
    **{name: (code_of(route=route), code, text) for name, (route, code, text) in ROUTES.items()},
    **{kind.__name__: (code_of(kind), code, text) for kind, (code, text) in OPERATORS.items()},
}


@pytest.mark.parametrize("case", CASES)
def test_what_code_does_wrong_is_named_and_loses_nothing(tmp_path: Path, case: str) -> None:
    """It runs for a while, fails in one epoch, is mended, and gives the rows of a plain loop in the end."""
    bad, code, text = CASES[case]
    house = open_house(tmp_path)
    split = dataclasses.replace(split_of(4), call_us=200_000)
    attach(house, split, code_of())
    step = [{"id": i, "place": i % 4, "rank": 0, "ts": (20 + i) * SECOND} for i in range(30)]
    house.add(in_arrow(step[:5]))
    house.run()
    runner = house.splits.of(split)
    runner.attach(bad)
    house.add(in_arrow(step[5:20]))
    house.run()
    assert runner.trouble is not None and not runner.due
    assert runner.trouble.code == code and text in runner.trouble.message, runner.trouble
    committed = runner.commit.epoch
    house.add(in_arrow(step[20:]))
    house.log.arrivals.close("input")
    house.run()
    assert runner.needs == committed + 1, "the log is kept for it"
    house.forget()
    again = open_house(tmp_path)
    runner = again.splits.of(split)
    assert runner.trouble is not None and runner.trouble.code == code
    runner.attach(code_of())
    again.run()
    assert runner.commit.epoch == committed, "it stays in quarantine until somebody says so"
    runner.restart()
    again.run()
    assert found(again) == expected(again, 4, ())


def test_a_dropped_split_closes_its_streams_and_leaves_nothing_else(tmp_path: Path) -> None:
    house = open_house(tmp_path)
    split = split_of(4)
    attach(house, split, code_of())
    house.add(in_arrow([{"id": 1, "place": 1, "rank": 0, "ts": second * SECOND} for second in (1, 50)]))
    house.run()
    house.splits.drop(split)
    house.run()
    assert house.log.sealer.latest.of("out_each").watermark_us == FOREVER_US
    assert len(house.rows("out_each")) == 1, "rows that were delivered stay"
    home = tmp_path / "splits" / "000000"
    assert sorted(path.name for path in home.iterdir()) == ["rows"]
    assert house.splits.needs is None
    house.forget()
    again = open_house(tmp_path)
    assert again.splits.runners() == []
    with pytest.raises(CatalogError, match="there is already a stream"):
        again.splits.create(dataclasses.replace(split, id=5), code_of())


def test_files_that_no_commit_names_go(tmp_path: Path) -> None:
    house = open_house(tmp_path)
    split = split_of(3)
    attach(house, split, code_of(sub_streams=3))
    rng = random.Random(1)
    for step in range(6):
        feed(house, rng, step)
        house.run()
    commit, home = house.splits.of(split).commit, tmp_path / "splits" / "000000"
    for folder in ("state", "waiting"):
        found = {f"splits/000000/{folder}/{path.name}" for path in (home / folder).iterdir()}
        assert found <= commit.files()
    assert len(list((home / "commits").iterdir())) <= KEEP_COMMITS
    stray = home / "rows" / f"{commit.epoch:012d}-{'0' * 32}.parquet"
    stray.write_bytes(b"")
    house.forget()
    open_house(tmp_path)
    assert not stray.exists()


STUCK_WORKER = """
import signal, sys, time
from pathlib import Path
from headrace.engine.splits import calls
calls.GRACE_S = 0.2
folder = Path(sys.argv[1])
with calls.noting(folder / "call-0"), calls.limited(0.1, "the call that hangs"):
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # as deaf as compiled code
        time.sleep(60)
    finally:
        print("not reached")
"""


def test_a_worker_that_hangs_in_compiled_code_ends_and_says_where(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK_WORKER, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "not reached" not in done.stdout
    assert stuck_call(tmp_path) == "the call that hangs"


def test_a_call_that_ends_leaves_no_word(tmp_path: Path) -> None:
    with noting(tmp_path / "call-0"), limited(5.0, "a quick call"):
        pass
    assert stuck_call(tmp_path) is None
