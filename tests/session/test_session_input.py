"""Tuples come in: every form that append takes, every kind of source, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from session_samples import (
    PER_COUNTRY,
    SALES,
    at,
    eventually,
    files_below,
    info,
    rows,
    sale,
    stream_info,
    with_sales,
)

from headrace import sources
from headrace.model.errors import CatalogError, HeadraceError, LogError

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.int32()),
        ("price", pa.float64()),
        ("country", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
TUPLES = [sale(1, 1, 1.5), sale(2, None, None, None), sale(3, 3, float("inf"), "ü"), sale(11, 4, 0.0, "")]


def table(tuples: list[dict[str, Any]] = TUPLES) -> pa.Table:
    return pa.Table.from_pylist(tuples, SCHEMA)


# append


def as_dicts(spark: Any) -> Any:
    return TUPLES


def as_pandas(spark: Any) -> Any:
    return pd.DataFrame(
        {
            "ts": pd.to_datetime([t["ts"] for t in TUPLES]),
            "id": [t["id"] for t in TUPLES],
            "level": pd.array([t["level"] for t in TUPLES], dtype="Int32"),
            "price": [t["price"] for t in TUPLES],
            "country": [t["country"] for t in TUPLES],
        }
    )


def as_arrow(spark: Any) -> Any:
    return table()


def as_batch(spark: Any) -> Any:
    return table().to_batches()[0]


def as_spark(spark: Any) -> Any:
    return spark.createDataFrame([tuple(t.values()) for t in TUPLES], SALES)


@pytest.mark.parametrize("make", [as_dicts, as_pandas, as_arrow, as_batch, as_spark])
def test_append_takes(make: Callable[[Any], Any], open_session: Open, spark: Any) -> None:
    hr = with_sales(open_session())
    tuples = hr.create_query("SELECT * FROM sales", name="tuples")
    counts = hr.create_query(PER_COUNTRY, name="counts")
    assert hr.append("sales", make(spark)) == 4
    hr.run_available()
    assert rows(tuples) == sorted((tuple(t.values()) for t in TUPLES), key=repr)
    assert rows(counts) == [("DE", 1), ("ü", 1), (None, 1)]
    assert tuples.audit().ok and counts.audit().ok


@pytest.mark.parametrize(
    "data",
    [
        None,
        "rows",
        [1, 2],
        [{"id": 1}],
        [sale(1) | {"surplus": 1}],
        [sale(1), sale(2) | {"level": "three"}],
        [sale(1), sale(2) | {"level": 2**40}],
        [sale(1), sale(2) | {"ts": "noon"}],
        pd.DataFrame({"id": [1]}),
        table().drop_columns(["ts"]),
        table().set_column(1, "level", pa.array(["a", "b", "c", "d"])),
    ],
    ids=lambda data: str(data)[:40].replace("\n", " "),
)
def test_append_takes_all_or_nothing(data: Any, open_session: Open, tmp_path: Path) -> None:
    hr = with_sales(open_session())
    before = files_below(tmp_path)
    with pytest.raises(LogError):
        hr.append("sales", data)
    assert files_below(tmp_path) == before
    assert hr.run_available() == 0


def test_append_of_a_spark_frame_that_does_not_fit_changes_nothing(
    open_session: Open, spark: Any, tmp_path: Path
) -> None:
    hr = with_sales(open_session())
    before = files_below(tmp_path)
    for bad in (spark.range(3), spark.readStream.format("rate").load()):
        with pytest.raises(LogError):
            hr.append("sales", bad)
    failing = spark.createDataFrame([tuple(sale(1).values())], SALES).selectExpr(
        "id", "CAST(raise_error('boom') AS INT) AS level", "price", "country", "ts"
    )
    with pytest.raises(LogError, match="boom"):
        hr.append("sales", failing)
    assert files_below(tmp_path) == before


def test_appending_nothing_is_nothing(open_session: Open) -> None:
    hr = with_sales(open_session())
    assert hr.append("sales", []) == hr.append("sales", table([])) == 0
    assert hr.run_available() == 0


def test_tuples_without_event_time_count_where_no_window_does(open_session: Open) -> None:
    hr = with_sales(open_session())
    tuples = hr.create_query("SELECT id FROM sales", name="tuples")
    unknown = hr.create_query("SELECT id FROM sales WHERE ts IS NULL", name="unknown")
    counts = hr.create_query(PER_COUNTRY, name="counts")
    distinct = hr.create_query(PER_COUNTRY.replace("COUNT(*)", "COUNT(DISTINCT id)"), name="distinct")
    hr.append("sales", [sale(1), sale(2) | {"ts": None}])
    hr.append("sales", [sale(3) | {"ts": None}])
    hr.run_available()
    hr.append("sales", [sale(11)])
    hr.run_available()
    assert rows(tuples) == [(1,), (11,), (2,), (3,)]
    assert rows(unknown) == [(2,), (3,)]
    assert rows(counts) == rows(distinct) == [("DE", 1)]
    assert (stream_info(hr).rows, stream_info(hr).late_rows) == (4, 0)
    assert all(query.audit().ok for query in (tuples, unknown, counts, distinct))


def test_event_time_without_a_zone(open_session: Open) -> None:
    hr = open_session()
    hr.create_stream("s", "id BIGINT, ts TIMESTAMP_NTZ", event_time="ts")
    query = hr.create_query(
        "SELECT window.start AS since, COUNT(*) AS n FROM s GROUP BY window(ts, '10 seconds')", "q"
    )
    distinct = hr.create_query(
        "SELECT window.end, COUNT(DISTINCT id) FROM s GROUP BY window(ts, '10 seconds')", "d"
    )
    local = [at(second).replace(tzinfo=None) for second in (1, 2, 11)]
    hr.append("s", [{"id": i, "ts": moment} for i, moment in enumerate(local)])
    hr.run_available()
    assert rows(query) == [(at(0).replace(tzinfo=None), 2)]
    assert rows(distinct) == [(at(10).replace(tzinfo=None), 2)]
    assert query.audit().ok and distinct.audit().ok


# sources


def put(directory: Path, name: str, content: str | pa.Table) -> None:
    """A file that appears whole."""
    directory.mkdir(exist_ok=True)
    hidden = directory / f".{name}"
    if isinstance(content, str):
        hidden.write_text(content, encoding="utf-8")
    else:
        pq.write_table(content, hidden)
    hidden.rename(directory / name)


def as_json(tuples: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(t | {"ts": t["ts"].isoformat()}) + "\n" for t in tuples)


def as_csv(tuples: list[dict[str, Any]]) -> str:
    lines = [
        ",".join("" if v is None else str(v) for v in (t | {"ts": t["ts"].isoformat()}).values())
        for t in tuples
    ]
    return "\n".join(["id,level,price,country,ts", *lines]) + "\n"


FORMS: dict[str, tuple[Callable[[list[dict[str, Any]]], Any], dict[str, Any]]] = {
    "json": (as_json, {}),
    "csv": (as_csv, {"header": True}),
    "parquet": (table, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_files_are_read_once_each(form: str, open_session: Open, tmp_path: Path) -> None:
    write, options = FORMS[form]
    put(tmp_path / "in", f"a.{form}", write([sale(1), sale(2, None, None, None)]))
    hr = open_session()
    hr.create_stream("sales", SALES, event_time="ts", source=sources.files(tmp_path / "in", form, **options))
    query = hr.create_query("SELECT * FROM sales", name="q")
    assert hr.run_available() == 1
    put(tmp_path / "in", f"b.{form}", write([sale(3)]))
    hr.run_available()
    assert hr.run_available() == 0
    assert rows(query) == [tuple(sale(1).values()), (2, None, None, None, at(2)), tuple(sale(3).values())]
    assert query.audit().ok


def test_a_source_goes_on_after_a_restart_unless_the_stream_is_closed(
    open_session: Open, tmp_path: Path
) -> None:
    put(tmp_path / "in", "a.json", as_json([sale(1)]))
    hr = open_session()
    hr.create_stream("sales", SALES, event_time="ts", source=sources.files(tmp_path / "in", "json"))
    hr.create_query("SELECT id FROM sales", name="q")
    hr.run_available()
    hr.close()
    put(tmp_path / "in", "b.json", as_json([sale(2)]))
    again = open_session()
    again.run_available()
    assert rows(again.query("q")) == [(1,), (2,)]
    again.close_stream("sales")
    again.close()
    put(tmp_path / "in", "c.json", as_json([sale(3)]))
    last = open_session()
    last.run_available()
    assert (stream_info(last).rows, stream_info(last).closed) == (2, True), (
        "a closed stream reads nothing more"
    )


def test_parquet_that_fits_is_adopted_and_other_parquet_is_converted(
    open_session: Open, tmp_path: Path
) -> None:
    put(tmp_path / "in", "fits.parquet", table([sale(1)]))
    narrow = table([sale(2)]).set_column(0, "id", pa.array([2], pa.int32()))
    put(tmp_path / "in", "narrow.parquet", narrow)
    hr = open_session()
    hr.create_stream("sales", SALES, event_time="ts", source=sources.files(tmp_path / "in"))
    query = hr.create_query("SELECT id FROM sales WHERE price > 0", name="q")
    hr.run_available()
    assert rows(query) == [(1,), (2,)]
    assert query.audit().ok
    chunks = [chunk.path for chunk in hr._sealer.latest.of("sales").chunks]
    assert sorted(path.startswith("/") for path in chunks) == [False, True]


def test_a_streaming_dataframe_is_a_source(open_session: Open, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", "a.json", as_json([sale(1), sale(2, country="FR")]))

    def source() -> Any:
        raw = spark.readStream.schema("id BIGINT, price DOUBLE, country STRING, ts STRING").json(
            str(tmp_path / "in")
        )
        return raw.selectExpr("country", "CAST(ts AS TIMESTAMP) AS ts", "price", "id", "7 AS level").where(
            "id <> 2"
        )

    hr = open_session()
    hr.create_stream("sales", SALES, event_time="ts", source=source())
    query = hr.create_query("SELECT id, level, ts FROM sales", name="q")
    hr.run_available()
    assert rows(query) == [(1, 7, at(1))]
    hr.close()

    again = open_session()
    assert again.run_available() == 0, "the DataFrame is gone with its session"
    put(tmp_path / "in", "b.json", as_json([sale(3)]))
    again.attach_source("sales", source())
    again.run_available()
    assert rows(again.query("q")) == [(1, 7, at(1)), (3, 7, at(3))]
    assert again.query("q").audit().ok
    with pytest.raises(LogError, match="SOURCE_ATTACHED"):
        again.attach_source("sales", source())


def test_sources_are_read_in_the_background_too(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    hr = open_session(changelog_delay="10 milliseconds")
    hr.start(interval="100 milliseconds")
    hr.create_stream("sales", SALES, event_time="ts", source=sources.files(tmp_path / "in", "json"))
    query = hr.create_query("SELECT id FROM sales", name="q")
    eventually(lambda: info(hr, "q").first_epoch is not None)
    put(tmp_path / "in", "a.json", as_json([sale(1)]))
    eventually(lambda: rows(query) == [(1,)])
    hr.stop()
    put(tmp_path / "in", "b.json", as_json([sale(2)]))
    hr.run_available()
    assert rows(query) == [(1,), (2,)]


# refused


GOOD: dict[str, Any] = {"name": "s", "schema": SALES, "event_time": "ts"}
BAD_STREAMS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "BAD_NAME"),
    ({"name": "a/b"}, "BAD_NAME"),
    ({"name": "..\\s"}, "BAD_NAME"),
    ({"name": 'a"b'}, "BAD_NAME"),
    ({"name": "it's"}, "BAD_NAME"),
    ({"name": "`s`"}, "BAD_NAME"),
    ({"name": "__headrace_s"}, "BAD_NAME"),
    ({"name": None}, "BAD_NAME"),
    ({"name": "x" * 200}, "BAD_NAME"),
    ({"name": "TAKEN"}, "STREAM_EXISTS"),
    ({"schema": ""}, "BAD_SCHEMA|NO_EVENT_TIME"),
    ({"schema": "id BIGINT ts TIMESTAMP"}, "BAD_SCHEMA"),
    ({"schema": "id BIGGER, ts TIMESTAMP"}, "BAD_SCHEMA"),
    ({"schema": "BIGINT"}, "BAD_SCHEMA|NO_EVENT_TIME"),
    ({"schema": 5}, "NOT_TEXT"),
    ({"schema": "a INT, A INT, ts TIMESTAMP"}, "STREAM_INVALID"),
    ({"schema": "__headrace_x INT, ts TIMESTAMP"}, "STREAM_INVALID"),
    ({"schema": "v VOID, ts TIMESTAMP"}, "STREAM_INVALID"),
    ({"schema": "v VARIANT, ts TIMESTAMP"}, "STREAM_INVALID"),
    ({"schema": "v ARRAY<CHAR(5)>, ts TIMESTAMP"}, "STREAM_INVALID"),
    ({"schema": "v INTERVAL, ts TIMESTAMP"}, "STREAM_INVALID"),
    ({"event_time": "when"}, "NO_EVENT_TIME"),
    ({"event_time": None}, "NO_EVENT_TIME"),
    ({"event_time": "id"}, "EVENT_TIME_TYPE"),
    ({"event_time": "country"}, "EVENT_TIME_TYPE"),
    ({"watermark": "-5 seconds"}, "BAD_WATERMARK"),
    ({"watermark": "soon"}, "BAD_DURATION"),
    ({"watermark": "1 month"}, "BAD_DURATION"),
    ({"watermark": 5}, "BAD_DURATION"),
    ({"watermark": None}, "BAD_DURATION"),
    ({"source": 5}, "SOURCE_UNKNOWN"),
    ({"source": "batch"}, "SOURCE_BATCH"),
    ({"source": "rate"}, "APPEND_COLUMN"),
    ({"source": "nowhere"}, "SOURCE_MISSING"),
    ({"max_ahead": "-1 hour"}, "BAD_WATERMARK"),
    ({"max_ahead": "soon"}, "BAD_DURATION"),
]


def test_a_bad_stream_changes_nothing(open_session: Open, spark: Any, tmp_path: Path) -> None:
    hr = with_sales(open_session(), name="taken")
    made = {
        "batch": spark.range(3),
        "rate": spark.readStream.format("rate").load(),
        "nowhere": sources.files(tmp_path / "nowhere", "json"),
    }
    before, known = files_below(tmp_path), hr.streams()
    for change, code in BAD_STREAMS:
        arguments = GOOD | change
        arguments["source"] = made.get(arguments.get("source", ""), arguments.get("source"))
        with pytest.raises(HeadraceError, match=code) as caught:
            hr.create_stream(**arguments)
        assert len(caught.value.render()) < 1000, change
        assert files_below(tmp_path) == before, change
        assert hr.streams() == known, change
    with pytest.raises(LogError, match="SOURCE_FORMAT"):
        sources.files(tmp_path, "xml")
    hr.create_stream(**GOOD)
    with pytest.raises(CatalogError, match="STREAM_EXISTS"):
        hr.create_stream(**GOOD)


def test_zones_of_appended_times_do_not_matter(open_session: Open) -> None:
    from datetime import timedelta, timezone

    hr = with_sales(open_session())
    query = hr.create_query("SELECT ts FROM sales", name="q")
    tokyo = timezone(timedelta(hours=9))
    hr.append(
        "sales", [sale(1) | {"ts": at(1).astimezone(tokyo)}, sale(2) | {"ts": at(2).replace(tzinfo=None)}]
    )
    hr.run_available()
    assert [row[0].astimezone(UTC) for row in rows(query)] == [at(1), at(2)]
