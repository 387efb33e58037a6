"""Splits whose disk, commits, drops or closing fail: nothing is lost, nobody else waits, and the warehouse opens."""

from __future__ import annotations

import dataclasses
import errno
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from split_cases import attach, code_of, expected, found, in_arrow, open_house, split_of
from split_operators import SECOND, Summing, as_rows

from headrace.asking import splits as asking
from headrace.engine.splits import tasks
from headrace.engine.splits.code import SplitCode, pack
from headrace.engine.splits.faults import bad_route
from headrace.log.append import append
from headrace.model.errors import CatalogError, EngineError
from headrace.model.query import Stream, StreamName
from headrace.model.splits import FUNCTION
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP, Column, SqlType
from headrace.running.crew import Crew
from headrace.running.run import Running
from headrace.storage import faults

WAIT = 20.0
PAGE = Path(__file__).parents[2] / "docs" / "splits.md"


pytestmark = pytest.mark.usefixtures("tasks_here")


def rows(first: int, last: int) -> pa.Table:
    return in_arrow(
        [{"id": i, "place": i % 4, "rank": 0, "ts": (20 + i) * SECOND} for i in range(first, last)]
    )


@contextmanager
def full_disk(house: Any, refused: Callable[[str, Any], bool]) -> Iterator[None]:
    """Records that are `refused` cannot be written."""
    real = house.log.warehouse.put_record

    def put(folder: str, number: int, value: Any, **more: Any) -> Any:
        if refused(folder, value):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(folder, number, value, **more)

    house.log.warehouse.put_record = put
    try:
        yield
    finally:
        house.log.warehouse.put_record = real


@pytest.mark.parametrize("where", ["arrivals", "commits"])
@pytest.mark.parametrize("at_the_end", [True, False])
def test_rows_that_could_not_arrive_arrive_later(tmp_path: Path, where: str, at_the_end: bool) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())
    house.add(rows(0, 10))
    house.run()
    house.add(rows(10, 20))
    if at_the_end:
        house.log.arrivals.close("input")
    house.log.sealer.seal()
    of_split = lambda folder, value: where in folder and getattr(value, "stream", "") != "input"  # noqa: E731
    with full_disk(house, of_split), pytest.raises(OSError, match="No space"):
        house.splits.of(split).run_next()
    assert house.splits.due(), "even when no other epoch comes"
    if not at_the_end:
        house.add(rows(20, 30))
        house.log.arrivals.close("input")
    house.run()
    assert found(house) == expected(house, 4, ()) and not house.splits.due()


@pytest.mark.parametrize("what", ["create", "drop"])
def test_a_creation_or_drop_that_fails_leaves_a_warehouse_that_opens(tmp_path: Path, what: str) -> None:
    house, split = open_house(tmp_path), split_of(4)
    if what == "drop":
        attach(house, split, code_of())
        house.add(rows(0, 1))
        house.run()
        with full_disk(house, lambda folder, _: folder == "catalog/splits"), pytest.raises(OSError):
            house.splits.drop(split)
    else:
        streams = iter([False, True])
        with (
            full_disk(house, lambda folder, _: "streams" in folder and next(streams, False)),
            pytest.raises(OSError),
        ):
            house.splits.create(split, code_of())
        assert house.log.catalog.splits.all() == () and not house.log.catalog.has_stream("out_each")
        split = dataclasses.replace(split, id=house.log.catalog.splits.next_id)
        attach(house, split, code_of())
    needs = house.splits.needs
    assert needs is not None, "the log is kept for it"
    for number in range(20, 25):
        house.add(rows(number, number + 1))
        house.log.sealer.seal()
    house.log.sealer.expire(min(int(house.log.sealer.latest.id), needs))
    house.forget()
    again = open_house(tmp_path)
    if what == "drop":
        assert again.splits.runners() == [] and again.log.arrivals.closed("out_each"), (
            "the drop is brought to its end"
        )
    else:
        assert again.splits.of(split).trouble is None


def test_a_creation_that_cannot_even_be_taken_back_can_be_asked_for_again(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4)
    first = iter([True])
    with (
        full_disk(house, lambda folder, _: "catalog" in folder and not next(first, False)),
        pytest.raises(OSError),
    ):
        house.splits.create(split, code_of())
    assert house.splits.find(split) is None and house.splits.needs == split.first_epoch
    house.add(rows(0, 10))
    attach(house, split, code_of())
    house.run()
    assert found(house) == expected(house, 4, ())
    house.splits.drop(split)
    assert house.splits.needs is None


@pytest.mark.parametrize("damage", ["commit", "trouble", "log"])
def test_damage_of_one_split_refuses_no_warehouse(tmp_path: Path, damage: str) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())
    house.add(rows(0, 10))
    house.run()
    for number in range(10, 14):
        house.add(rows(number, number + 1))
        house.log.sealer.seal()
    if damage == "log":
        house.log.sealer.expire(int(house.log.sealer.latest.id))
    house.forget()
    home = tmp_path / "splits" / "000000"
    kept = {path: path.read_bytes() for path in (home / "commits").glob("*.json")}
    state = sorted((home / "state").iterdir())
    if damage == "trouble":
        (home / "trouble.json").write_text("{")
    elif damage == "commit":
        for path in kept:
            path.unlink()
    again = open_house(tmp_path)
    runner = again.splits.of(split)
    assert runner.trouble is not None and not runner.runs
    assert sorted((home / "state").iterdir()) == state and state
    runner.attach(code_of())
    runner.restart()
    assert (runner.trouble is None) == (damage == "trouble"), "only this one can be mended by restarting"
    for path, data in kept.items():
        path.write_bytes(data)
    runner.restart()
    again.run()
    if damage != "log":
        assert found(again) == expected(again, 4, ())


def test_nobody_waits_for_a_drop_that_waits_for_an_epoch(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())
    house.add(rows(0, 10))
    house.log.sealer.seal()
    runner = house.splits.of(split)
    routed, go, dropping = threading.Event(), threading.Event(), threading.Event()

    def hook(point: str) -> None:
        if point == "split.routed":
            routed.set()
            assert go.wait(WAIT)

    runner.cancel = dropping.set  # type: ignore[method-assign]
    with faults.hooked(hook):
        running = threading.Thread(target=runner.run_next)
        running.start()
        assert routed.wait(WAIT)
        drop = threading.Thread(target=house.splits.drop, args=(split,))
        drop.start()
        assert dropping.wait(WAIT)
        asked = threading.Thread(
            target=lambda: (house.splits.needs, house.splits.due(), house.splits.running())
        )
        asked.start()
        asked.join(WAIT / 4)
        assert not asked.is_alive() and drop.is_alive()
        go.set()
        for thread in (running, drop):
            thread.join(WAIT)
            assert not thread.is_alive()
    assert house.rows("out_each") == [] and house.splits.runners() == []


def test_a_split_that_is_dropped_while_epochs_are_handed_out_is_skipped() -> None:
    class Gone:
        def due(self) -> list[str]:
            return ["split:gone"]

        def get(self, name: str) -> Any:
            raise KeyError(name)

        def running(self) -> list[str]:
            return []

    groups: Any = SimpleNamespace(
        due=list, settle=lambda running, failing: set(), shares=lambda: False, cores=2
    )
    splits: Any = Gone()
    crew = Crew(groups, lambda group, commit: None, splits=splits)
    crew.dispatch()
    assert not crew.busy
    crew.close()


def test_a_kill_while_a_split_is_dropped_leaves_no_stream_open(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())

    def die(point: str) -> None:
        if point == "split.drop":
            raise faults.Crash(point)

    with faults.hooked(die), pytest.raises(faults.Crash):
        house.splits.drop(split)
    house.forget()
    again = open_house(tmp_path)
    assert again.log.catalog.splits.all() == () and again.splits.runners() == []
    assert again.log.arrivals.closed("out_each") and again.log.arrivals.closed("out_tens")


def test_failed_attempts_leave_no_files(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())
    house.add(rows(0, 10))
    house.log.sealer.seal()

    def lose(point: str) -> None:
        if point == "split.processed":
            raise RuntimeError("a lost worker")

    with faults.hooked(lose), pytest.raises(Exception, match="epoch 0"):
        house.splits.of(split).run_next()
    home = tmp_path / "splits" / "000000"
    assert [
        path for folder in ("state", "waiting", "rows", "work") for path in (home / folder).glob("*")
    ] == []
    house.run()
    assert house.splits.of(split).commit.files()


def test_an_epoch_in_which_no_time_passes_leaves_instances_as_they_are(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())
    reopened = []
    for first in (0, 10, 9, 8, 20):  # the third and the fourth bring older tuples
        house.add(rows(first, first + 2))
        house.run()
        reopened.append(house.splits.of(split).commit.cost.reopened)
    assert reopened == [4, 0, 0, 0, 0]
    house.log.arrivals.close("input")
    house.run()
    assert found(house) == expected(house, 4, ())


def test_what_fails_says_what_to_do(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of())
    house.add(rows(0, 10))
    house.log.sealer.seal()

    def fail(point: str) -> None:
        if point == "split.processed":
            raise RuntimeError("no room")

    with faults.hooked(fail), pytest.raises(EngineError) as caught:
        house.splits.of(split).run_next()
    assert "split `out`" in caught.value.message and "no room" in (caught.value.detail or "")
    assert "drop_split" in (caught.value.hint or "") and house.splits.of(split).trouble is None


def test_another_route_is_what_mends_one_that_is_sql() -> None:
    hints = {route: bad_route(split_of(4, route=route), "7").hint or "" for route in ("place", FUNCTION)}
    assert "alter_split" in hints["place"] and "create_split" in hints[FUNCTION]


@pytest.mark.parametrize("what", ["route", "broadcast"])
def test_routes_have_a_time_limit(tmp_path: Path, what: str) -> None:
    def forever(batch: Any) -> Any:
        while True:
            pass

    house, split = open_house(tmp_path), dataclasses.replace(split_of(4), call_us=100_000)
    given: dict[str, Any] = {what: forever}
    attach(house, split, code_of(**given))
    house.add(rows(0, 10))
    house.run()
    trouble = house.splits.of(split).trouble
    assert (
        trouble is not None and trouble.code == "SPLIT_TIMEOUT" and f"the {what} of split" in trouble.message
    )


class Twice(Summing):
    def process(self, batch: Any) -> Any:
        given = as_rows([(0, 0, 0, 0)])
        return {"each": pa.RecordBatch.from_arrays([*given, given["id"]], [*given.schema.names, "id"])}


def test_two_columns_of_one_name_are_named(tmp_path: Path) -> None:
    house, split = open_house(tmp_path), split_of(4)
    attach(house, split, code_of(Twice))
    house.add(rows(0, 10))
    house.run()
    trouble = house.splits.of(split).trouble
    assert trouble is not None and trouble.code == "SPLIT_OUTPUT" and "id" in trouble.message


def test_closing_cancels_a_job_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.running.run.CLOSING_SECONDS", 0.01)
    cancelled = threading.Event()
    running = Running.__new__(Running)
    running._loop = threading.Thread(target=cancelled.wait, args=(WAIT,))
    running._loop.start()
    parts: Any = SimpleNamespace(stop=lambda: None, wake=lambda: None, cancel=lambda: None)
    running.conducting = running._crew = running.feeds = running.groups = parts
    running.splits = SimpleNamespace(cancel=cancelled.set)  # type: ignore[assignment]
    running._stopping, running._closed = threading.Event(), True
    running.stop()
    assert cancelled.is_set() and running._loop is None


def wanted(**given: Any) -> asking.Wanted:
    fields = dict.fromkeys(field.name for field in dataclasses.fields(asking.Wanted))
    return asking.Wanted(**{**fields, "name": "out", **given})


def test_kinds_differ_by_more_than_case() -> None:
    with pytest.raises(CatalogError, match="kinds `a` and `A`"):
        asking._named(wanted(outputs={"a": "x INT", "A": "x INT"}))
    assert asking._named(wanted(outputs={"a": "x INT"})) == {"a": ("out_a", "x INT")}
    for bad, why in (({}, "no kinds"), (["a"], "no kinds"), ({1: "x INT"}, "1 as the name")):
        with pytest.raises(CatalogError, match=why):
            asking._named(wanted(outputs=bad))


def test_a_time_limit_is_above_0(tmp_path: Path) -> None:
    for bad in ("0 seconds", "-1 seconds"):
        with pytest.raises(CatalogError, match=f"time_limit of {bad}"):
            asking._time_limit(wanted(time_limit=bad))
    assert asking._time_limit(wanted()) is None and asking._time_limit(wanted(time_limit="1 ms")) == 1_000
    house, split = (
        open_house(tmp_path),
        split_of(1, call_us=asking._time_limit(wanted(time_limit="9999999 days"))),
    )
    attach(house, split, code_of(sub_streams=1))
    house.add(in_arrow([{"id": 1, "place": 0, "rank": 0, "ts": SECOND}]))
    house.log.arrivals.close("input")
    house.run()
    assert found(house) == expected(house, 1, ())


def test_order_by_names_columns_that_have_an_order() -> None:
    columns = (Column("id", BIGINT), Column("list", SqlType("array<bigint>")), Column("ts", TIMESTAMP))
    stream = Stream(StreamName("input"), columns, "ts", 0)
    assert asking._order(wanted(order_by=["ID", "ts"]), stream) == ("id",)
    for bad, why in (
        ("list", "array<bigint>"),
        ([1], "ordered by 1"),
        (1, "ordered by 1"),
        ("no", "no column"),
    ):
        with pytest.raises(CatalogError, match=why):
            asking._order(wanted(order_by=bad), stream)


def test_the_example_of_the_page_can_be_opened_again(tmp_path: Path) -> None:
    """Most of its sub-streams have no tuple then."""
    text = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert text is not None
    asked: dict[str, Any] = {}
    said: Any = SimpleNamespace(
        create_split=lambda *given, **named: asked.update(named), create_query=lambda *a, **k: 0
    )
    exec(text[1], {"hr": said, "__name__": "__main__"})
    kinds = (Column("sensor", BIGINT), Column("value", DOUBLE), Column("ts", TIMESTAMP))
    stream = Stream(StreamName("readings"), kinds, "ts", 0)
    jumps = Stream(StreamName("jumps"), (kinds[0], Column("jump", DOUBLE), kinds[2]), "ts", 0)
    split = dataclasses.replace(
        split_of(8), name="jumps", stream="readings", outputs={"rows": jumps}, broadcast=None
    )
    code = pack("jumps", SplitCode(asked["operator"], lambda b: [n % 8 for n in b["sensor"].to_pylist()]))
    times = pa.timestamp("us", "UTC")
    for life, value in enumerate([1.0, 20.0, 21.0, 5.0]):
        house = open_house(tmp_path)
        if not life:
            house.log.sealer.create_stream(stream)
        attach(house, split, code)
        tuples = pa.table({"sensor": [3], "value": [value], "ts": pa.array([(life + 1) * SECOND], times)})
        append(house.log.warehouse, house.log.arrivals, stream, tuples)
        if life == 3:
            house.log.arrivals.close("readings")
        house.run()
        assert house.splits.of(split).trouble is None
        house.forget()
        tasks._KEPT.clear()
    assert [row["jump"] for row in house.rows("jumps")] == [19.0, -16.0]


def test_an_operator_has_all_that_will_be_called() -> None:
    class Half:
        def open(self, sub_stream: int, state: Any) -> None: ...

    for given in (Half, partial(Half), partial(partial(Half))):
        with pytest.raises(CatalogError, match=r"an operator without process\(\)"):
            asking._check_operator("out", given)
    asking._check_operator("out", lambda: Half())  # what a function makes is seen when it is opened
