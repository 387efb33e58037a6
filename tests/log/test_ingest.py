"""Ingest through Structured Streaming: formats, adoption, exactly once, failures that surface."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import sources
from headrace.log.append import append
from headrace.log.convert import to_table
from headrace.log.ingest import Ingest, open_ingest
from headrace.log.reader_options import check_options
from headrace.log.sources import FrameSource, Source, as_source, source_from
from headrace.model.errors import LogError
from headrace.model.query import Stream, StreamName
from headrace.model.types import TIMESTAMP, Column, SqlType
from log_samples import PURCHASES, Opened, open_log, rows_at, run_script
from thorough import THOROUGH
from waiting import until

pytestmark = pytest.mark.spark

Make = Callable[[Source], Any]


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path / "w")
    opened.catalog.create_stream(PURCHASES, None)
    return opened


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    directory = tmp_path / "land ing%20"
    directory.mkdir()
    return directory


@pytest.fixture
def make(spark: Any, log: Opened) -> Make:
    def ingest(source: Source) -> Any:
        return open_ingest(spark, log.warehouse, log.arrivals, PURCHASES, source)

    return ingest


def times(log: Opened) -> list[int]:
    tables = [
        pq.read_table(log.warehouse.path(chunk.path))
        for arrival in log.arrivals.pending()
        for chunk in arrival.chunks
    ]
    assert all(table.schema.equals(to_table(rows_at(), PURCHASES).schema) for table in tables)
    return sorted(time for table in tables for time in table["ts"].cast(pa.int64()).to_pylist())


def put_json(directory: Path, name: str, *times: int) -> None:
    rows = [{"userID": 1, "price": 2.5, "ts": f"1970-01-01T00:00:00.{time:06d}Z"} for time in times]
    temporary = directory.parent / f"{name}.tmp"
    temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
    temporary.rename(directory / name)


def test_json_files_are_read_once(log: Opened, landing: Path, make: Make) -> None:
    ingest = make(sources.files(landing, "json"))
    put_json(landing, "a.json", 5, 7)
    ingest.run_available()
    assert times(log) == [5, 7]
    ingest.run_available()
    put_json(landing, "b.json", 9)
    ingest.run_available()
    assert times(log) == [5, 7, 9]
    assert len(log.arrivals.pending()) == 2


def test_csv_files_with_a_header(log: Opened, landing: Path, make: Make) -> None:
    (landing / "a.csv").write_text("userID,price,ts\n1,2.5,1970-01-01T00:00:00.000005Z\n,,\n")
    make(sources.files(landing, "csv", header=True)).run_available()
    (arrival,) = log.arrivals.pending()
    rows = pq.read_table(log.warehouse.path(arrival.chunks[0].path)).to_pylist()
    assert rows[1] == {"userID": None, "price": None, "ts": None}
    assert arrival.chunks[0].min_us == 5


def test_csv_files_with_columns_in_another_order_are_set_aside(
    log: Opened, landing: Path, make: Make
) -> None:
    """Spark would take the columns by their position and put prices where users belong."""
    (landing / "a.csv").write_text("UserId,price,ts\n1,2.5,1970-01-01T00:00:00.000005Z\n")
    (landing / "b.csv").write_text("price,userID,ts\n2,1,1970-01-01T00:00:00.000007Z\n")
    ingest = make(sources.files(landing, "csv", header=True))
    ingest.run_available()
    assert times(log) == [5]
    (aside,) = ingest.report().aside
    assert aside.path.endswith("b.csv") and "header" in aside.reason
    (landing / "by_position").mkdir()
    (landing / "by_position" / "c.csv").write_text("a,b,c\n1,2.5,1970-01-01T00:00:00.000009Z\n")
    make(sources.files(landing / "by_position", "csv", header=True, enforceSchema=True)).run_available()
    assert times(log) == [5, 9]


@pytest.mark.parametrize("pattern", ["", "/*.parquet"])
def test_parquet_that_fits_is_adopted_where_it_lies(
    log: Opened, landing: Path, make: Make, pattern: str
) -> None:
    pq.write_table(to_table(rows_at(5, 6), PURCHASES), landing / "a b%41.parquet")
    pq.write_table(to_table(rows_at(1), PURCHASES), landing / "c.parquet")
    make(sources.files(f"{landing}{pattern}")).run_available()
    (arrival,) = log.arrivals.pending()
    assert [chunk.path for chunk in arrival.chunks] == [
        str(landing / "a b%41.parquet"),
        str(landing / "c.parquet"),
    ]
    assert [chunk.rows for chunk in arrival.chunks] == [2, 1]
    assert not list(log.warehouse.path("log/purchases").glob("*.parquet"))
    log.sealer.seal()
    log.append(99)
    log.sealer.seal()
    log.sealer.expire(1)
    assert (landing / "c.parquet").exists()


def test_parquet_that_does_not_fit_is_rewritten(spark: Any, log: Opened, landing: Path, make: Make) -> None:
    pq.write_table(rows_at(5), landing / "int96.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(to_table(rows_at(6), PURCHASES), landing / "fits.parquet")
    narrow = rows_at(7).set_column(0, "userID", pa.array([3], pa.int32()))
    pq.write_table(narrow, landing / "[narrow].parquet")
    make(sources.files(landing)).run_available()
    (arrival,) = log.arrivals.pending()
    assert [chunk.path.startswith("/") for chunk in arrival.chunks][:2] == [True, False]
    assert times(log) == [5, 6, 7]


def test_a_streaming_dataframe_is_a_source(spark: Any, log: Opened, landing: Path, make: Make) -> None:
    put_json(landing, "a.json", 5)
    frame = spark.readStream.schema("userID INT, price FLOAT, ts TIMESTAMP").json(str(landing))
    make(as_source(frame)).run_available()
    assert times(log) == [5]
    put_json(landing, "b.json", 8)
    log.sealer.seal()
    make(FrameSource(frame)).run_available()
    assert times(log) == [8]


def test_a_dataframe_that_cannot_fit_is_refused(spark: Any, landing: Path, make: Make) -> None:
    frame = spark.readStream.schema("userID STRING, price DOUBLE, ts TIMESTAMP").json(str(landing))
    with pytest.raises(LogError, match="column `userID` is STRING; stream `purchases` has BIGINT"):
        make(as_source(frame))
    with pytest.raises(LogError, match="not streaming"):
        as_source(spark.range(1))
    with pytest.raises(LogError, match="is no source"):
        as_source("kafka")


def test_a_replayed_batch_is_skipped(log: Opened, landing: Path, make: Make) -> None:
    put_json(landing, "a.json", 5)
    streaming = sources.files(landing, "json", maxFilesPerTrigger=10)
    make(streaming).run_available()
    # Spark forgets that it finished the batch, as when it dies after foreachBatch and before its own commit.
    shutil.rmtree(log.warehouse.path("log/purchases/checkpoint/commits"))
    make(streaming).run_available()
    assert times(log) == [5]
    log.sealer.seal()
    log.close()
    again = open_log(log.warehouse.root)
    shutil.rmtree(log.warehouse.path("log/purchases/checkpoint/commits"))
    ingest = make(streaming)
    ingest._arrivals = again.arrivals
    ingest.run_available()
    assert again.arrivals.pending() == ()
    put_json(landing, "b.json", 6)
    ingest.run_available()
    assert times(again) == [6]


def test_a_bad_file_of_a_pattern_is_set_aside_or_stops_the_source(
    log: Opened, landing: Path, make: Make
) -> None:
    pq.write_table(to_table(rows_at(5), PURCHASES), landing / "good.parquet")
    (landing / "a.parquet").write_bytes(b"PAR1 not really")
    stopping = make(sources.files(f"{landing}/*.parquet", on_bad_file="stop"))
    with pytest.raises(LogError, match=r"(?s)SOURCE_STOPPED.*a\.parquet"):
        stopping.run_available()
    assert log.arrivals.pending() == ()
    ingest = make(sources.files(f"{landing}/*.parquet"))
    ingest.run_available()
    assert times(log) == [5]
    assert [Path(file.path).name for file in ingest.report().aside] == ["a.parquet"]


def test_files_of_a_pattern_are_counted_and_bad_texts_are_set_aside(
    log: Opened, landing: Path, make: Make
) -> None:
    put_json(landing, "good.json", 5)
    (landing / "zipped.json.gz").write_bytes(b"this is no gzip")
    ingest = make(sources.files(f"{landing}/*.json*", "json"))
    assert isinstance(ingest, Ingest)
    ingest.run_available()
    assert times(log) == [5]
    (file,) = ingest.report().aside
    assert file.path == str(landing / "zipped.json.gz") and file.reason
    assert ingest.report().files_taken == 1
    put_json(landing, "more.json", 6)
    ingest.run_available()
    assert (times(log), ingest.report().files_taken) == ([5, 6], 2)
    assert make(sources.files(f"{landing}/*.json*", "json")).report().files_taken == 2
    stopping = sources.files(f"{landing}/*.json*", "json", on_bad_file="stop")
    (landing / "again.json.gz").write_bytes(b"this is no gzip")
    with pytest.raises(LogError, match=r"(?s)SOURCE_STOPPED.*again\.json"):
        make(stopping).run_available()


def test_spark_blames_the_right_files(log: Opened, landing: Path, make: Make) -> None:
    """Files that only Spark can read: the bad ones are found by halves, the others are taken."""
    for i in range(4):
        wide = rows_at(i).append_column("extra", pa.array([0]))
        pq.write_table(wide, landing / f"wide{i}.parquet")
    pq.write_table(pa.table({"userID": ["x"], "ts": pa.array([1], pa.int64())}), landing / "types.parquet")
    ingest = make(sources.files(landing))
    ingest.run_available()
    assert times(log) == [0, 1, 2, 3]
    ((file,),) = [ingest.report().aside]
    assert file.path.endswith("types.parquet") and len(file.reason) < 501 and "\n" not in file.reason
    assert not list(log.warehouse.path("log/purchases").glob("*.writing"))


def test_records_that_cannot_be_read_are_counted(spark: Any, log: Opened, landing: Path, make: Make) -> None:
    good = '{"userID": 1, "price": 2.5, "ts": "1970-01-01T00:00:00.000005Z"}'
    (landing / "a.json").write_text(f'{good}\n{{"userID": \n{good}\n{{"price": "x", "userID": 7}}\n')
    make(sources.files(landing, "json")).run_available()
    chunks = [chunk for arrival in log.arrivals.pending() for chunk in arrival.chunks]
    assert (sum(c.rows for c in chunks), sum(c.corrupt for c in chunks)) == (4, 2)
    assert sum(c.null_times for c in chunks) == 2
    log.sealer.seal()
    (landing / "csv").mkdir()
    (landing / "csv" / "a.csv").write_text("1,2.5,1970-01-01T00:00:00.000005Z\nx,y,z\n")
    stream = Stream(StreamName("own"), (*PURCHASES.columns, Column("broken", SqlType("string"))), "ts", 0)
    own = sources.files(landing / "csv", "csv", columnNameOfCorruptRecord="broken", maxFilesPerTrigger=9)
    log.catalog.create_stream(stream, None)
    open_ingest(spark, log.warehouse, log.arrivals, stream, own).run_available()
    ((chunk,),) = [arrival.chunks for arrival in log.arrivals.pending()]
    rows = pq.read_table(log.warehouse.path(chunk.path)).to_pylist()
    assert (chunk.rows, chunk.corrupt, rows[1]["broken"]) == (2, 1, "x,y,z")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_directories_with_brackets_are_read_by_structured_streaming_too(
    log: Opened, tmp_path: Path, make: Make, form: str
) -> None:
    landing = tmp_path / "in{1,2}[x]"
    landing.mkdir()
    if form == "json":
        put_json(landing, "a.json", 5)
    else:
        (landing / "a.csv").write_text("1,2.5,1970-01-01T00:00:00.000005Z\n")
    make(sources.files(landing, form, maxFilesPerTrigger=10)).run_available()
    assert times(log) == [5]


def test_a_value_that_does_not_fit_surfaces(spark: Any, log: Opened, landing: Path, make: Make) -> None:
    put_json(landing, "a.json", 5)
    frame = spark.readStream.schema("userID BIGINT, price DOUBLE, ts TIMESTAMP").json(str(landing))
    ingest = make(FrameSource(frame.selectExpr("userID + 0.5D AS userID", "price", "ts")))
    with pytest.raises(LogError, match=r"column `userID`: 1\.5"):
        ingest.run_available()
    error = ingest.health()
    assert error is not None
    assert error.code == "APPEND_VALUE"
    ingest.start(0.1)
    for _ in range(3):  # it fails and is started again, and is not said to be well in between
        until(lambda: not ingest.running)
        with pytest.raises(LogError, match="APPEND_VALUE"):
            ingest.tick()
    ingest.stop()
    assert log.arrivals.pending() == ()


def test_in_the_background(log: Opened, landing: Path, make: Make) -> None:
    ingest = make(sources.files(landing, "json"))
    put_json(landing, "a.json", 5)
    ingest.start(0.1)
    assert ingest.running
    ingest.start(0.1)
    ingest.run_available()
    assert times(log) == [5]
    put_json(landing, "b.json", 6)
    ingest.run_available()
    assert times(log) == [5, 6]
    ingest.stop()
    assert not ingest.running
    ingest.stop()


def test_structured_streaming_in_the_background(log: Opened, landing: Path, make: Make) -> None:
    ingest = make(sources.files(landing, "json", maxFilesPerTrigger=10))
    put_json(landing, "a.json", 5)
    ingest.start(0.1)
    ingest.tick()
    ingest.run_available()
    put_json(landing, "b.json", 6)
    ingest.drain()
    assert times(log) == [5, 6]
    assert not ingest.running and ingest.health() is None
    ingest.tick()
    assert not ingest.running, "it was stopped"


def test_appending_a_spark_dataframe(spark: Any, log: Opened) -> None:
    frame = spark.range(10, numPartitions=2).selectExpr(
        "timestamp_micros(id) AS ts", "cast(id AS int) AS userID", "id / 2 AS price"
    )
    assert append(log.warehouse, log.arrivals, PURCHASES, frame, max_chunk_rows=3) == 10
    (arrival,) = log.arrivals.pending()
    assert [chunk.rows for chunk in arrival.chunks] == [3, 2, 3, 2]
    assert times(log) == list(range(10))


def test_appending_a_spark_dataframe_with_odd_column_names(spark: Any, log: Opened) -> None:
    names = ("dot", "dot.ted", "tick`ed", "a b", "größe")
    columns = tuple(Column(name, SqlType("bigint")) for name in names)
    stream = Stream(StreamName("odd"), (*columns, Column("ts", SqlType("timestamp"))), "ts", 0)
    log.catalog.create_stream(stream, None)
    quoted = ", ".join(f"id + {i} AS `{name.replace('`', '``')}`" for i, name in enumerate(names))
    frame = spark.sql(f"SELECT timestamp_micros(id) AS ts, {quoted} FROM range(0, 3, 1, 1)")
    assert append(log.warehouse, log.arrivals, stream, frame) == 3
    (chunk,) = log.arrivals.pending()[0].chunks
    back = pq.read_table(log.warehouse.path(chunk.path))
    assert back.column_names == [*names, "ts"]
    assert [back.column(name).to_pylist() for name in names] == [[i, i + 1, i + 2] for i in range(5)]


def test_a_spark_dataframe_that_does_not_fit(spark: Any, log: Opened) -> None:
    good = spark.range(10).selectExpr("timestamp_micros(id) AS ts", "id AS userID", "1.5D AS price")
    for frame, message in [
        (good.selectExpr("ts", "userID"), "lacks column `price`"),
        (good.selectExpr("ts", "userID", "string(price) AS price"), "column `price` is STRING"),
        (good.selectExpr("ts", "userID", "price", "1 AS x"), "no column `x`"),
        (good.selectExpr("ts", "if(userID = 9, 0.5D, userID) AS userID", "price"), "column `userID`: 0.5"),
        (good.selectExpr("ts", "raise_error('boom') AS userID", "price"), "cannot write to the log"),
    ]:
        with pytest.raises(LogError, match=message):
            append(log.warehouse, log.arrivals, PURCHASES, frame)
    assert log.arrivals.pending() == ()
    assert not list(log.warehouse.root.glob("log/purchases/*.parquet"))


ALL_TYPES = {
    "b": "boolean", "i8": "tinyint", "i16": "smallint", "i32": "int", "i64": "bigint",
    "f": "float", "d": "double", "dec": "decimal(20,3)", "s": "string", "bin": "binary",
    "day": "date", "ntz": "timestamp_ntz",
    "arr": "array<int>", "st": "struct<a:int,b:array<string>>", "m": "map<string,bigint>",
}  # fmt: skip


def test_spark_reads_back_what_it_appended_in_all_types(spark: Any, log: Opened) -> None:
    columns = (*(Column(name, SqlType(kind)) for name, kind in ALL_TYPES.items()), Column("ts", TIMESTAMP))
    stream = Stream(StreamName("all"), columns, "ts", 0)
    log.catalog.create_stream(stream, None)
    values = (
        "true b, 1Y i8, 2S i16, 3 i32, 4L i64, 1.5F f, 'NaN'::double d, 1.125::decimal(20,3) dec, "
        "'x' s, X'00ff' bin, date'1582-01-01' day, timestamp_ntz'1700-01-01 00:00:00' ntz, "
        "array(1, null) arr, named_struct('a', 1, 'b', array('q')) st, map('k', 1L) m, "
        "timestamp'1800-01-01 00:00:00.123456' ts"
    )
    nulls = ", ".join(f"CAST(NULL AS {column.type.name}) {column.name}" for column in columns)
    frame = spark.sql(f"SELECT {values} UNION ALL SELECT {nulls}").coalesce(1)
    assert append(log.warehouse, log.arrivals, stream, frame) == 2
    (chunk,) = log.arrivals.pending()[-1].chunks
    back = spark.read.schema(sources_ddl(stream)).parquet(str(log.warehouse.path(chunk.path)))
    shown = [str(row) for row in back.select(*frame.columns).collect()]
    assert shown == [str(row) for row in frame.collect()]


def sources_ddl(stream: Stream) -> str:
    return ", ".join(f"{column.name} {column.type.name}" for column in stream.columns)


def test_every_option_of_sparks_readers_is_known(spark: Any) -> None:
    jvm = spark._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    for format, name in (
        ("csv", "catalyst.csv.CSVOptions"),
        ("json", "catalyst.json.JSONOptions"),
        ("parquet", "execution.datasources.parquet.ParquetOptions"),
    ):
        found = jvm.java.lang.Class.forName(f"org.apache.spark.sql.{name}$", True, loader)
        options = found.getField("MODULE$").get(None).getAllOptions().mkString(",").split(",")
        check_options(format, options)
        assert "compression" in options


def test_descriptions_build_the_same_source(landing: Path) -> None:
    for source in (
        sources.files(landing, "csv", header=True),
        sources.kafka(bootstrap_servers="h:1", subscribe="t"),
    ):
        assert source_from(json.loads(json.dumps(source.describe()))) == source
    with pytest.raises(LogError, match="another session"):
        source_from({"kind": "dataframe"})


KILLED = """
import os, sys
from log_samples import PURCHASES, open_log
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from headrace import sources
from headrace.log.ingest import Ingest
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
log = open_log(sys.argv[1])
Ingest(spark, log.warehouse, log.arrivals, PURCHASES, sources.files(sys.argv[2], "json")).run_available()
"""


@pytest.mark.crash
@pytest.mark.parametrize("point", ["ingest.written", pytest.param("ingest.after", marks=THOROUGH)])
def test_a_killed_ingest_goes_on(spark: Any, log: Opened, landing: Path, point: str) -> None:
    put_json(landing, "a.json", 5, 6)
    log.close()
    died = run_script(KILLED, log.warehouse.root, landing, kill_at=point)
    assert died.returncode == -signal.SIGKILL, died.output
    again = open_log(log.warehouse.root)
    source = sources.files(landing, "json")
    put_json(landing, "b.json", 7)
    Ingest(spark, again.warehouse, again.arrivals, PURCHASES, source).run_available()
    assert times(again) == [5, 6, 7]
    assert len(list(again.warehouse.path("log/purchases").glob("*.parquet"))) == 2
    again.close()
