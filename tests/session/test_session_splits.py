"""Splits in a session: SQL and functions as routes, queries over the output, and operators that misbehave."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import headrace
from headrace.looking.splits import SplitState
from headrace.model.errors import CatalogError, EngineError
from headrace.model.events import EventKind

pytestmark = pytest.mark.spark

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[attr-defined]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = "sub BIGINT, id BIGINT, total BIGINT, ts TIMESTAMP"


class Totals:
    """The sum of the ids so far, for each tuple. It fails at a tuple with id 13, when it is told to."""

    fails = False

    def open(self, sub_stream: int, state: Any) -> None:
        self.sub, self.total = sub_stream, int(state or b"0")

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids, totals = batch.column("id").to_pylist(), []
        for id_ in ids:
            if self.fails and id_ == 13:
                raise ValueError("thirteen brings bad luck")
            self.total += id_
            totals.append(self.total)
        columns = {"sub": [self.sub] * len(ids), "id": ids, "total": totals, "ts": batch.column("ts")}
        return pa.record_batch(columns)

    def on_watermark(self, time: int) -> None:
        return None

    def snapshot(self) -> bytes:
        return str(self.total).encode()


class Unlucky(Totals):
    fails = True


def rows(first: int, count: int, place: Any = lambda i: i % 5) -> list[dict[str, Any]]:
    return [
        {"id": i, "place": place(i), "ts": NOON + timedelta(seconds=i)} for i in range(first, first + count)
    ]


def totals_of(tuples: list[dict[str, Any]], sub_streams: int) -> Counter[tuple[int, int, int]]:
    """By a plain loop: places from 100 on go to all, and nobody wants id 5."""
    totals = [0] * sub_streams
    found: Counter[tuple[int, int, int]] = Counter()
    for row in sorted(tuples, key=lambda row: row["ts"]):
        everywhere = row["place"] >= 100
        for sub in range(sub_streams) if everywhere else [row["place"] % sub_streams]:
            if row["id"] != 5:
                totals[sub] += row["id"]
                found[(sub, row["id"], totals[sub])] += 1
    return found


@pytest.fixture
def hr(spark: Any, tmp_path: Path) -> Any:
    session = headrace.open(tmp_path, spark=spark, progress=False, partitions=2)
    session.create_stream("input", "id BIGINT, place BIGINT, ts TIMESTAMP", event_time="ts")
    yield session
    session.close()


def test_a_split_by_sql_feeds_queries_and_another_split(hr: Any, spark: Any, tmp_path: Path) -> None:
    by_sql: dict[str, Any] = {
        "route": "place % 3",
        "broadcast": "place >= 100",
        "wants": "id <> 5",
        "schema": SCHEMA,
        "operator": Totals,
    }
    hr.create_split("sums", "input", 3, **by_sql)
    hr.create_split("again", "sums", 2, route=lambda batch: [n % 2 for n in batch.column("sub").to_pylist()],
                    operator=Totals, schema=SCHEMA)  # fmt: skip
    hr.create_query(
        "SELECT sub, COUNT(*) AS n, MAX(total) AS most FROM sums GROUP BY sub, window(ts, '1 day')", "daily"
    )
    tuples = rows(0, 40, lambda i: 100 if i % 7 == 0 else i % 5)
    hr.append("input", tuples[:25])
    hr.run_available()
    hr.append("input", tuples[25:])
    hr.close_stream("input")
    hr.run_available()
    wanted = totals_of(tuples, 3)
    got = hr.select("SELECT sub, id, total FROM sums").toArrow().to_pylist()
    assert Counter((row["sub"], row["id"], row["total"]) for row in got) == wanted
    daily = {row["sub"]: (row["n"], row["most"]) for row in hr.query("daily").results().toArrow().to_pylist()}
    for sub in range(3):
        mine = [total for (at, _, total), n in wanted.items() for _ in range(n) if at == sub]
        assert daily[sub] == (len(mine), max(mine))
    assert hr.query("daily").audit().ok
    assert hr.stream("again").rows == sum(wanted.values()) and hr.stream("again").closed
    metrics = hr.split("sums").metrics()
    assert metrics.tuples.read == 39 and metrics.tuples.broadcast == 6  # Spark left id 5 out
    assert sum(cost.tuples for cost in metrics.sub_streams.values()) == metrics.rows == sum(wanted.values())
    assert "place % 3" in str(hr.split("sums").explain())
    assert [info.state for info in hr.splits()] == [SplitState.RUNNING] * 2 and hr.health().ok
    with pytest.raises(CatalogError, match="written by split"):
        hr.drop_stream("again")
    with pytest.raises(CatalogError, match="alone feeds"):
        hr.append("sums", [])
    hr.close()
    with headrace.open(tmp_path, spark=spark, progress=False) as reopened:
        assert "waits for its operator" in str(reopened.health())
        with pytest.raises(CatalogError, match="another one"):
            reopened.create_split("sums", "input", 4, **by_sql)
        reopened.create_split("sums", "input", 3, **by_sql)
        assert reopened.splits()[0].state is SplitState.RUNNING
        with pytest.raises(CatalogError, match="a function, which is not kept"):
            reopened.attach_split("again", Totals)
        reopened.attach_split("again", Totals, route=lambda batch: [0] * batch.num_rows)
        assert reopened.splits()[1].state is SplitState.RUNNING
        reopened.drop_split("again")
        assert [info.name for info in reopened.splits()] == ["sums"]


def test_what_an_operator_does_wrong_stops_its_split_alone(hr: Any) -> None:
    hr.create_split("good", "input", 5, route="place", operator=Totals, schema=SCHEMA)
    hr.create_split("bad", "input", 5, route="place", operator=Unlucky, schema=SCHEMA)
    hr.create_split("far", "input", 3, route="place", operator=Totals, schema=SCHEMA)
    tuples = rows(0, 30)
    hr.append("input", tuples[:10])
    hr.run_available()
    hr.append("input", tuples[10:])
    hr.close_stream("input")
    hr.run_available()
    states = {info.name: info for info in hr.splits()}
    assert states["good"].state is SplitState.RUNNING and hr.stream("good").rows == 30
    assert "thirteen brings bad luck" in states["bad"].error and "sub-stream 3" in states["bad"].error
    assert "sub-stream 3, and there are only 0 to 2" in states["far"].error
    before = hr.stream("bad").rows
    assert 0 < before < 13 and not hr.health().ok
    hr.create_split("bad", "input", 5, route="place", operator=Totals, schema=SCHEMA)
    hr.restart_split("bad")
    hr.run_available()
    query = "SELECT sub, id, total FROM {} ORDER BY id"
    assert hr.select(query.format("bad")).toArrow() == hr.select(query.format("good")).toArrow()
    for wrong, why in {
        "rand()": "rand",
        "CAST(place AS DOUBLE)": "whole numbers",
        "missing": "missing",
        "SUM(place)": "never ends",
    }.items():
        with pytest.raises((CatalogError, EngineError, headrace.HeadraceError), match=f"(?i){why}"):
            hr.create_split("wrong", "input", 5, route=wrong, operator=Totals, schema=SCHEMA)


class PerPlace(Totals):
    """The sum of the ids of each place so far, so that rows do not depend on the number of sub-streams."""

    def open(self, sub_stream: int, state: Any) -> None:
        self.sums: dict[str, int] = json.loads(state or b"{}")

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        ids, places, totals = batch.column("id").to_pylist(), batch.column("place").to_pylist(), []
        for id_, place in zip(ids, places, strict=True):
            self.sums[str(place)] = self.sums.get(str(place), 0) + id_
            totals.append(self.sums[str(place)])
        return pa.record_batch({"sub": places, "id": ids, "total": totals, "ts": batch.column("ts")})

    def snapshot(self) -> bytes:
        return json.dumps(self.sums).encode()

    def split_state(self, state: bytes, q: int) -> dict[int, bytes]:
        sums = json.loads(state)
        parts = {int(place) % q for place in sums}
        return {n: json.dumps({p: s for p, s in sums.items() if int(p) % q == n}).encode() for n in parts}

    def merge_state(self, states: list[bytes]) -> bytes:
        return json.dumps(
            {place: total for state in states for place, total in json.loads(state).items()}
        ).encode()


def test_another_number_of_sub_streams_changes_no_row(hr: Any) -> None:
    hr.create_stream("late", "id BIGINT, place BIGINT, ts TIMESTAMP", event_time="ts", watermark="9 seconds")
    hr.create_split("places", "late", 2, route="place % 2", operator=PerPlace, schema=SCHEMA)
    hr.create_split("fixed", "late", 2, route="place % 2", operator=Totals, schema=SCHEMA)
    tuples = rows(0, 60)
    for at, change in enumerate((None, "ALTER SPLIT places SET q = 5, route = 'place'", None)):
        hr.append("late", tuples[at * 20 : at * 20 + 20])
        if change:
            assert "has 5 sub-streams" in str(hr.execute(change))
        hr.run_available()
    hr.alter_split("places", 3, route=lambda batch: [n % 3 for n in batch.column("place").to_pylist()])
    hr.close_stream("late")
    hr.run_available()
    wanted: Counter[tuple[int, ...]] = Counter()
    sums = [0] * 5
    for row in tuples:
        sums[row["place"]] += row["id"]
        wanted[(row["place"], row["id"], sums[row["place"]])] += 1
    got = hr.split("places").results().toArrow().to_pylist()
    assert Counter((row["sub"], row["id"], row["total"]) for row in got) == wanted
    assert hr.splits()[0].sub_streams == 3
    told = [event.reason.split(" sub")[0] for event in hr.events() if event.kind is EventKind.RESIZED]
    assert told == ["from 2 to 5", "from 5 to 3"]
    for refused in (0, 20_000, "three"):
        with pytest.raises(CatalogError, match="cannot have"):
            hr.alter_split("places", refused)
    with pytest.raises(CatalogError, match=r"no split_state\(\)"):
        hr.execute("ALTER SPLIT fixed SET q = 4")
