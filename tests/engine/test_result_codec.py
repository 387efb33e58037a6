"""Spark reads what is written, whatever the size of a dictionary, and the LZ4 files of older versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from headrace.engine import result_files
from headrace.engine.records import ResultFile
from headrace.engine.result_files import ResultWriter, parquet_options, write_results
from headrace.log.chunks import write_chunk
from headrace.log.convert import to_table
from headrace.model.tables import JoinedTable, WindowTable
from headrace.model.types import BIGINT, DOUBLE, STRING, SqlType
from headrace.storage.warehouse import Warehouse
from log_samples import PURCHASES, rows_at

SIZES = [128, 600, 1_100, 10_000, 131_000]
"""How many queries: dictionary pages of 1 kB to 1 MB."""

TABLE = WindowTable((STRING, BIGINT, SqlType("int")), (DOUBLE,))


def stored(queries: int) -> pa.Table:
    """Result rows, one per query; each query and each key once, so that both dictionaries are large."""
    numbers = np.arange(queries, dtype=np.int64)
    return pa.table(
        {
            "query": numbers + 1,
            "window_end": pa.array(numbers % 3, pa.timestamp("us", "UTC")),
            "k0": pa.array([f"{n * 7919 % 1000003}" for n in range(queries)]),
            "k1": pa.array(numbers * 10**8, mask=numbers % 5 == 1),
            "k2": pa.array((numbers % 7 - 3).astype(np.int32)),
            "a0": numbers.astype(float),
        }
    )


def codecs(path: Path) -> set[str]:
    found = pq.read_metadata(path)
    groups = [found.row_group(i) for i in range(found.num_row_groups)]
    return {group.column(i).compression for group in groups for i in range(group.num_columns)}


def test_nothing_that_spark_reads_is_written_with_lz4(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    chunk = write_chunk(warehouse.root, "log/purchases", to_table(rows_at(1, 2), PURCHASES), "ts", 0)
    writer = ResultWriter(str(tmp_path), "one", 0)
    writer.add("sig", stored(10), range(10))
    (file,) = writer.finish()
    write_results(stored(10), tmp_path / "merged.parquet")
    paths = [tmp_path / chunk.path, tmp_path / file.path, tmp_path / "merged.parquet"]
    assert set.union(*map(codecs, paths)) <= {"SNAPPY", "UNCOMPRESSED"}


@pytest.mark.parametrize("merged", [False, True])
def test_query_sets_of_joined_rows_are_in_a_dictionary_where_they_repeat(
    tmp_path: Path, merged: bool
) -> None:
    rows, table = 50_000, JoinedTable((), (0, 1, 2))
    sets = [np.arange(rows) // 100, np.arange(rows) % 200, np.arange(rows) * 7919]
    numbers = pa.array(np.zeros(rows, np.int64))
    found = table.rows([numbers, numbers, *map(pa.array, sets)])
    path = tmp_path / "merged.parquet"
    if merged:
        write_results(found, path)
    else:
        writer = ResultWriter(str(tmp_path), "one", 0)
        writer.add("sig", found, [1])
        path = tmp_path / writer.finish()[0].path
    group = pq.read_metadata(path).row_group(0)
    encodings = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    repeats = {name: "RLE_DICTIONARY" in encodings[name] for name in ("qs0", "qs1", "qs2")}
    assert repeats == {"qs0": True, "qs1": True, "qs2": False}
    assert pq.read_table(path).cast(table.schema).equals(found.cast(table.schema))


def test_columns_without_a_null_say_so_and_a_late_null_begins_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_files, "FLUSH_ROWS", 4)
    writer = ResultWriter(str(tmp_path), "one", 7)

    def add(query: int, keys: list[int | None], latest_us: int) -> None:
        ends = pa.array([latest_us] * len(keys), pa.timestamp("us", "UTC"))
        columns = {"query": [query] * len(keys), "window_end": ends, "k0": pa.array(keys, pa.int64())}
        writer.add("sig", pa.table(columns), [query], latest_us)

    add(5, [1, 2, 3], 10)
    add(3, [4], 20)
    add(9, [5, 6, None, 8], 30)
    add(4, [9], 40)
    first, second = writer.finish()
    assert (first.rows, first.min_query, first.max_query, first.max_us) == (4, 3, 5, 20)
    assert (second.rows, second.min_query, second.max_query, second.max_us) == (5, 4, 9, 40)
    tables = [pq.read_table(tmp_path / file.path) for file in (first, second)]
    assert [table.schema.field("k0").nullable for table in tables] == [False, True]
    assert not tables[1].schema.field("query").nullable
    merged = pa.concat_tables(tables, promote_options="default")
    assert merged.column("k0").to_pylist() == [1, 2, 3, 4, 5, 6, None, 8, 9]


def test_nulls_that_come_and_go_in_two_columns_do_not_make_a_file_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_files, "FLUSH_ROWS", 1)
    writer = ResultWriter(str(tmp_path), "one", 7)
    for row in range(10):
        keys = (pa.array([None if row % 3 == column else row], pa.int64()) for column in (1, 2))
        writer.add("sig", pa.table({"query": [1], **dict(zip(("k0", "k1"), keys, strict=True))}), [1])
    files = writer.finish()
    assert [file.rows for file in files] == [1, 1, 8]
    tables = [pq.read_table(tmp_path / file.path) for file in files]
    merged = pa.concat_tables(tables, promote_options="default")
    for column in (1, 2):
        expected = [None if row % 3 == column else row for row in range(10)]
        assert merged.column(f"k{column - 1}").to_pylist() == expected


@pytest.mark.spark
def test_spark_reads_dictionaries_of_any_size(spark: Any, tmp_path: Path) -> None:
    """LZ4 first, and filters first: a decompressor that has met a larger page before does not fail."""
    from pyspark.sql import functions as F

    from headrace.engine.spark import READING, child_session
    from headrace.engine.stored import ResultReader

    reader = ResultReader(child_session(spark, READING), tmp_path, {})
    for codec in ("lz4", "current"):
        for queries in SIZES:
            table = stored(queries)
            name = f"{codec}-{queries}.parquet"
            if codec == "lz4":
                options = parquet_options(table.schema)
                options["compression"] = dict.fromkeys(table.column_names, "lz4")
                pq.write_table(table, tmp_path / name, **options)
            else:
                write_results(table, tmp_path / name)
            file = ResultFile("sig", name, queries, (tmp_path / name).stat().st_size, 0, 0, 1, queries, None)
            rows = reader.rows(TABLE, [file])
            last = rows.where(F.col("query") == queries).where(F.col("k0") == table["k0"][-1].as_py())
            assert [row.a0 for row in last.collect()] == [queries - 1.0], name
            assert rows.where(F.col("query") == 10**9).count() == 0
            found = rows.selectExpr("count(*) n", "sum(a0) s", "count(DISTINCT k0) k").collect()[0]
            assert tuple(found) == (queries, queries * (queries - 1) / 2, queries), name
            numbers = rows.selectExpr("sum(k1)", "count(k1)", "sum(k2)").collect()[0]
            whole = [table["k1"].combine_chunks(), table["k2"].combine_chunks()]
            sums = [pc.sum(column).as_py() for column in whole]
            assert tuple(numbers) == (sums[0], queries - whole[0].null_count, sums[1]), name
