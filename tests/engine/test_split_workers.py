"""Splits in the driver's own workers: the same rows whoever is killed, and what an operator does wrong is found."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from split_cases import attach, code_of, expected, found, in_arrow, open_house, random_rows, split_of
from split_operators import SECOND, Incremental, Summing, Tabular

from headrace.engine.splits import calls, instances
from headrace.engine.splits.losses import Losses
from headrace.engine.splits.workers import SPLIT_WORKERS, SplitWorker, SplitWorkers, WorkerCancelled
from headrace.model.errors import EngineError
from headrace.optimizer.splitting.adapting import Adapting, SplitPlan
from headrace.storage import faults
from thorough import seeds

pytestmark = pytest.mark.usefixtures("forked_workers")

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True, scope="module")
def workers() -> Iterator[None]:
    yield
    SPLIT_WORKERS.close()


def kill_one(rng: random.Random) -> None:
    if pids := SPLIT_WORKERS.pids:
        with suppress(ProcessLookupError):  # one that was killed a moment ago may be among them
            os.kill(rng.choice(pids), signal.SIGKILL)


@pytest.mark.parametrize("seed", seeds(1))
def test_rows_are_those_of_a_plain_loop(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random routes, broadcasts, orders, chunks, numbers of workers, killed workers and killed drivers."""
    rng = random.Random(seed)
    q, order = rng.choice([3, 4]), rng.choice([(), ("rank",)])
    operator = rng.choice([Summing, Incremental, Tabular])
    monkeypatch.setattr(
        Adapting, "plan", lambda self, cores: SplitPlan(rng.choice([1, 2]), rng.choice([5, 1000]))
    )
    monkeypatch.setattr(
        "headrace.engine.splits.placing.decide_processors", lambda load, most: rng.choice([1, 2])
    )
    print(f"seed {seed}: q {q}, order {order}, {operator.__name__}")
    split, code = split_of(q, order), code_of(operator, q)
    step = 0

    def die(point: str) -> None:
        if rng.random() < 0.03:
            kill_one(rng)
        if rng.random() < 0.02:
            raise faults.Crash(point)

    while True:
        house = open_house(tmp_path)
        try:
            with faults.hooked(die):
                attach(house, split, code)
                while step <= 6:
                    if step < 6:
                        rows = random_rows(random.Random(f"{seed} {step}"), step * 100, 50, 20 + step * 5)
                        house.add(in_arrow(rows), chunk_rows=rng.choice([7, 1000]))
                    elif not house.log.arrivals.closed("input"):
                        house.log.arrivals.close("input")
                    step += 1
                    run(house)
                run(house)
            break
        except faults.Crash:
            house.forget()
    assert house.splits.of(split).commit.cost.own_workers
    assert found(house) == expected(house, q, order), f"seed {seed}"


def run(house: Any) -> None:
    """Run everything; an epoch whose worker was killed is run again."""
    while True:
        try:
            return house.run()
        except EngineError as error:
            assert error.code == "EPOCH_FAILED"


class Deadly(Summing):
    """Ends its process when it sees one tuple."""

    def process(self, batch: Any) -> Any:
        if 57 in batch.column("id").to_pylist():
            os._exit(3)
        return super().process(batch)


class DeadlySnapshot(Summing):
    def snapshot(self) -> bytes:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError


class Raises(Summing):
    def process(self, batch: Any) -> Any:
        if 57 in batch.column("id").to_pylist():
            raise KeyError("fifty-seven")
        return super().process(batch)


class Deaf(Summing):
    """Hangs where no alarm is heard."""

    def on_watermark(self, time_us: int) -> Any:
        calls.GRACE_S = 0.2
        with calls.limited(0.2, "on_watermark() that hangs"):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(60)


@pytest.mark.parametrize(
    ("operator", "code", "told"),
    [
        (Deadly, "SPLIT_OPERATOR", "process() of sub-stream 1, with tuple 0 of its epoch"),
        (DeadlySnapshot, "SPLIT_OPERATOR", "snapshot() of sub-stream 0 of split `out` ended its process"),
        (Raises, "SPLIT_OPERATOR", "process() of sub-stream 1, with tuple 0 of its epoch"),
        (Deaf, "SPLIT_TIMEOUT", "did not return"),
    ],
)
def test_what_an_operator_does_wrong_is_found(tmp_path: Path, operator: Any, code: str, told: str) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of(operator))
    house.add(in_arrow([{"id": i, "place": i % 4, "rank": 0, "ts": i * SECOND} for i in range(56, 62)]))
    run(house)
    runner = house.splits.of(split)
    assert runner.trouble is not None and runner.trouble.code == code
    assert told in runner.trouble.message
    runner.attach(code_of())
    runner.restart()
    house.log.arrivals.close("input")
    house.run()
    assert found(house) == expected(house, 4, ())


def test_losses_lead_to_one_tuple() -> None:
    """The batch in which a worker is lost is cut into smaller ones, until it is one tuple that ends it twice."""
    poison, rows, losses, sizes = 70_123, 100_000, Losses("out"), []
    with pytest.raises(EngineError, match="tuple 70123 of split `out` ended its process"):
        while True:
            cuts = instances.usual_cuts(rows, losses.cuts.get("3", ()))
            start, end = next((a, b) for a, b in pairwise(cuts) if a <= poison < b)
            sizes.append(end - start)
            losses = losses.after(calls.Noted(f"tuple {start}", 3, (start, end), stuck=False))
            assert losses.alone
    assert sizes == [34_464, 34_464, 2_154, 135, 9, 1, 1]


class Lost(Summing):
    """Ends its process once; afterwards a file says that it has been there."""

    marker = ""

    def process(self, batch: Any) -> Any:
        try:
            os.unlink(self.marker)
        except FileNotFoundError:
            return super().process(batch)
        os._exit(3)


def test_a_worker_that_is_lost_once_quarantines_nobody(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.touch()
    house, split = open_house(tmp_path / "w"), split_of(4)
    attach(house, split, code_of(type("LostHere", (Lost,), {"marker": str(marker)})))
    house.add(in_arrow([{"id": i, "place": i % 4, "rank": 0, "ts": i * SECOND} for i in range(20)]))
    house.log.arrivals.close("input")
    house.run()
    assert not marker.exists() and house.splits.of(split).trouble is None
    assert found(house) == expected(house, 4, ())


def test_instances_stay_alive_between_epochs_and_are_made_anew_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.engine.splits.placing.decide_processors", lambda load, most: 2)
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())
    reopened = []
    for step in range(4):
        rows = [{"id": i, "place": i % 4, "rank": 0, "ts": (step * 20 + i) * SECOND} for i in range(20)]
        house.add(in_arrow(rows))
        if step == 3:
            for pid in SPLIT_WORKERS.pids:
                os.kill(pid, signal.SIGKILL)
        run(house)
        reopened.append(house.splits.of(split).commit.cost.reopened)
    assert reopened == [4, 0, 0, 4]
    house.log.arrivals.close("input")
    house.run()
    assert found(house) == expected(house, 4, ())


class Waits(Summing):
    def on_watermark(self, time_us: int) -> Any:
        time.sleep(60)


def test_an_epoch_under_way_can_be_cancelled(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4, call_us=None)
    attach(house, split, code_of(Waits))
    house.add(in_arrow([{"id": i, "place": 0, "rank": 0, "ts": i * SECOND} for i in range(9)]))
    house.log.sealer.seal()
    thread = threading.Thread(target=house.splits.of(split).run_next)
    thread.start()
    began = time.monotonic()
    while not any((tmp_path / "splits" / "000000").rglob("call-*")):
        assert time.monotonic() - began < 30
        time.sleep(0.01)
    house.splits.drop(split)
    thread.join(20)
    assert not thread.is_alive() and time.monotonic() - began < 40


def test_workers_that_cannot_start_leave_everything_to_spark(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.engine.splits.workers._PROGRAM", "raise SystemExit(1)")
    pool = SplitWorkers(1)
    for _ in range(3):
        assert pool.usable
        with pool.hired("home", 1) as hired:
            assert hired == []
    assert not pool.usable and "did not start" in caplog.text


def test_a_split_that_waits_for_a_worker_can_be_cancelled() -> None:
    pool, nobody = SplitWorkers(1), SplitWorker(None)  # type: ignore[arg-type]
    pool._hired[nobody] = "another split"
    waits, told = threading.Event(), []
    real = pool._changed.wait

    def wait(timeout: float | None = None) -> bool:
        waits.set()
        return real(timeout)

    pool._changed.wait = wait  # type: ignore[method-assign]

    def hire() -> None:
        with pytest.raises(WorkerCancelled), pool.hired("home", 1):
            raise AssertionError("there is no worker")
        told.append("cancelled")

    thread = threading.Thread(target=hire, daemon=True)
    thread.start()
    assert waits.wait(20)
    pool.cancel("home")
    thread.join(20)
    assert told == ["cancelled"]
