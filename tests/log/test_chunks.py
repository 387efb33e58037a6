"""Chunks: their footers, what may be adopted, and damaged files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.log.chunks import (
    ROW_GROUP_ROWS,
    arrow_schema,
    count_before,
    describe_chunk,
    misfit,
    open_chunk,
    write_chunk,
)
from headrace.log.convert import to_table
from headrace.model.epoch import NEVER_US, Chunk
from headrace.model.errors import LogError
from headrace.model.query import Stream, StreamName
from headrace.model.types import TIMESTAMP, Column, SqlType
from headrace.storage.warehouse import Warehouse
from log_samples import PURCHASES, rows_at


def write(warehouse: Warehouse, *times: int | None) -> Chunk:
    table = to_table(rows_at(*times), PURCHASES)
    return write_chunk(warehouse.root, "log/purchases", table, "ts", 7)


def test_what_is_written_describes_itself(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    chunk = write(warehouse, 5, None, -3)
    assert chunk.path.startswith("log/purchases/000000000007-")
    assert (chunk.rows, chunk.min_us, chunk.max_us) == (3, -3, 5)
    described = describe_chunk(warehouse.path(chunk.path), PURCHASES)
    assert described == dataclasses.replace(chunk, path=str(warehouse.path(chunk.path)))
    with open_chunk(warehouse, chunk) as file:
        assert file.schema_arrow == arrow_schema(PURCHASES)


def test_only_nulls_have_no_bounds(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    chunk = write(warehouse, None, None)
    assert (chunk.min_us, chunk.max_us) == (None, None)
    described = describe_chunk(warehouse.path(chunk.path), PURCHASES)
    assert (described.min_us, described.max_us) == (None, None)


def test_row_groups_are_small(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    chunk = write(warehouse, *range(ROW_GROUP_ROWS + 1))
    with open_chunk(warehouse, chunk) as file:
        assert file.metadata.num_row_groups == 2


def test_a_dictionary_only_where_text_repeats(tmp_path: Path) -> None:
    table = pa.table({"few": ["a"] * 100, "many": [str(i) for i in range(100)], "ts": pa.array(range(100))})
    chunk = write_chunk(tmp_path, "log/s", table, "ts", 0)
    group = pq.ParquetFile(tmp_path / chunk.path).metadata.row_group(0)
    used = ["RLE_DICTIONARY" in group.column(i).encodings for i in range(3)]
    assert used == [True, False, False]


def test_texts_that_are_missing_do_not_repeat(tmp_path: Path) -> None:
    """A tenth is NULL, and the others are all different, or nine."""
    texts = [None if n % 10 == 0 else f"{n}" for n in range(60_000)]
    repeating = [text and text[-1:] for text in texts]
    table = pa.table({"ts": pa.array(range(60_000), pa.timestamp("us")), "id": texts, "kind": repeating})
    chunk = write_chunk(tmp_path, "log/s", table, "ts", 0)
    with pq.ParquetFile(tmp_path / chunk.path) as file:
        group = file.metadata.row_group(0)
        used = ["RLE_DICTIONARY" in group.column(i).encodings for i in (1, 2)]
    assert used == [False, True]


def test_whole_numbers_and_moments_are_packed_and_come_back(tmp_path: Path) -> None:
    ends = [-(2**63), 2**63 - 1, None, 0, 2**63 - 1, -(2**63)]
    columns = {
        "id": pa.array(ends, pa.int64()),
        "level": pa.array([None, -(2**31), 2**31 - 1, 0, -1, 7], pa.int32()),
        "a.b": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "ts": pa.array([-1, None, 2**53, 0, 1, -(10**15)], pa.timestamp("us", "UTC")),
        "price": pa.array([0.5, None, -0.0, 1.0, 2.0, 3.0]),
    }
    table = pa.table(columns)
    chunk = write_chunk(tmp_path, "log/s", table, "ts", 0)
    with pq.ParquetFile(tmp_path / chunk.path) as file:
        assert file.read().equals(table)
        group = file.metadata.row_group(0)
        packed = ["DELTA_BINARY_PACKED" in group.column(i).encodings for i in range(5)]
    assert packed == [True, True, True, True, False]


@pytest.mark.parametrize("options", [{"write_statistics": False}, {"write_statistics": ["price"]}, {}])
def test_bounds_without_statistics_come_from_the_column(tmp_path: Path, options: dict[str, Any]) -> None:
    pq.write_table(rows_at(4, 9, None), tmp_path / "a.parquet", **options)
    chunk = describe_chunk(tmp_path / "a.parquet", PURCHASES)
    assert (chunk.min_us, chunk.max_us, chunk.rows) == (4, 9, 3)


def retyped(name: str, kind: pa.DataType) -> pa.Table:
    table = rows_at(1000, 2000)
    index = table.column_names.index(name)
    return table.set_column(index, name, table.column(name).cast(kind))


MISFITS: list[tuple[pa.Table, dict[str, Any], str]] = [
    (rows_at(1).drop_columns(["price"]), {}, "`price` is missing"),
    (rows_at(1).append_column("x", pa.array([1])), {}, "`x` is not of the stream"),
    (rows_at(1).rename_columns(["userid", "price", "ts"]), {}, "`userID` is missing"),
    (retyped("userID", pa.int32()), {}, "`userID` is int32"),
    (retyped("price", pa.float32()), {}, "`price` is float"),
    (retyped("ts", pa.timestamp("ms", "UTC")), {}, "`ts` is timestamp[ms"),
    (retyped("ts", pa.timestamp("ns", "UTC")), {}, "`ts` is timestamp[ns"),
    (retyped("ts", pa.timestamp("us")), {}, "`ts` is timestamp[us]"),
    (rows_at(1), {"use_deprecated_int96_timestamps": True}, "`ts` is timestamp[ns"),
    (
        rows_at(1).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}),
        {},
        "legacy calendar",
    ),
]


@pytest.mark.parametrize(("table", "options", "why"), MISFITS)
def test_what_may_not_be_adopted(tmp_path: Path, table: pa.Table, options: dict[str, Any], why: str) -> None:
    pq.write_table(table, tmp_path / "a.parquet", **options)
    assert why in (misfit(tmp_path / "a.parquet", PURCHASES) or "fits")
    with pytest.raises(LogError, match="does not fit stream `purchases`"):
        describe_chunk(tmp_path / "a.parquet", PURCHASES)


def test_the_order_of_columns_does_not_matter_for_adoption(tmp_path: Path) -> None:
    pq.write_table(rows_at(1).select(["ts", "userID", "price"]), tmp_path / "a.parquet")
    assert misfit(tmp_path / "a.parquet", PURCHASES) is None


def test_nested_columns_fit_whatever_their_item_is_called(tmp_path: Path) -> None:
    stream = Stream(StreamName("n"), (Column("a", SqlType("array<int>")), Column("ts", TIMESTAMP)), "ts", 0)
    times = pa.array([1], pa.timestamp("us", "UTC"))
    for name in ("item", "element"):
        kind = pa.list_(pa.field(name, pa.int32(), nullable=False))
        pq.write_table(pa.table({"a": pa.array([[1]], kind), "ts": times}), tmp_path / f"{name}.parquet")
        assert misfit(tmp_path / f"{name}.parquet", stream) is None


def test_late_rows_are_counted(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    chunk = write(warehouse, 5, 10, None, 7, 20)
    counts = [count_before(warehouse, chunk, PURCHASES, closed) for closed in (NEVER_US, 5, 6, 10, 11, 100)]
    assert counts == [0, 0, 1, 2, 3, 4]


def test_a_chunk_that_cannot_hold_late_rows_is_not_read(tmp_path: Path) -> None:
    gone = Chunk("log/gone.parquet", 1, 1, 50, 60)
    assert count_before(Warehouse(tmp_path), gone, PURCHASES, 50) == 0


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda path: path.unlink(), "CHUNK_MISSING"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "CHUNK_TORN"),
        (lambda path: path.write_bytes(b""), "CHUNK_TORN"),
        (lambda path: pq.write_table(rows_at(1, 2, 3), path), "CHUNK_CHANGED"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, damage: Any, code: str) -> None:
    warehouse = Warehouse(tmp_path)
    chunk = write(warehouse, 1, 2)
    damage(warehouse.path(chunk.path))
    with pytest.raises(LogError) as caught:
        open_chunk(warehouse, chunk)
    assert caught.value.code == code
    assert chunk.path in caught.value.message
