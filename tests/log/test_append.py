"""append(): what fits, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.log.append import append
from headrace.log.convert import to_table
from headrace.model.errors import LogError
from headrace.model.query import Stream, StreamName
from headrace.model.types import TIMESTAMP, Column, SqlType
from log_samples import PURCHASES, Opened, open_log, rows_at

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


def stream_of(kind: str) -> Stream:
    return Stream(StreamName("s"), (Column("v", SqlType(kind)), Column("ts", TIMESTAMP)), "ts", 0)


def column(kind: str, values: Any) -> pa.ChunkedArray:
    data = pd.DataFrame({"v": values, "ts": NOON}) if isinstance(values, pd.Series) else None
    if isinstance(values, pa.Array):
        data = pa.table({"v": values, "ts": pa.array([NOON] * len(values))})
    if data is None:
        data = [{"v": value, "ts": NOON} for value in values]
    return to_table(data, stream_of(kind)).column("v")


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path)
    opened.catalog.create_stream(PURCHASES, None)
    return opened


GOOD: list[tuple[str, Any, list[Any]]] = [
    ("boolean", [True, None], [True, None]),
    ("tinyint", [-128, 127], [-128, 127]),
    ("smallint", [1], [1]),
    ("int", pa.array([1], pa.int8()), [1]),
    ("bigint", pa.array([1], pa.int32()), [1]),
    ("bigint", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
    ("bigint", [1.0, None, 3.0], [1, None, 3]),
    ("bigint", pd.Series([1, None]), [1, None]),
    ("bigint", pd.Series([1, None], dtype="Int64"), [1, None]),
    ("bigint", [np.int64(4)], [4]),
    ("bigint", [None, None], [None, None]),
    ("float", [0.1], [float(np.float32(0.1))]),
    ("float", [math.inf], [math.inf]),
    ("double", [1, 2.5], [1.0, 2.5]),
    ("double", pd.Series([1.5, math.nan]), [1.5, None]),
    ("decimal(10,2)", [Decimal("1.5"), Decimal("-12345678.12")], [Decimal("1.50"), Decimal("-12345678.12")]),
    ("decimal(5,2)", [1, Decimal("2.5")], [Decimal("1.00"), Decimal("2.50")]),
    ("decimal(38,0)", [10**18], [Decimal(10**18)]),
    ("string", ["a", None], ["a", None]),
    ("string", pa.array(["a"], pa.large_string()), ["a"]),
    ("string", pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
    ("string", pd.Series(["a", None], dtype="string"), ["a", None]),
    ("binary", [b"\x00\xff"], [b"\x00\xff"]),
    ("date", [dt.date(2024, 1, 2)], [dt.date(2024, 1, 2)]),
    ("timestamp", [dt.datetime(2024, 1, 2, 3)], [dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC)]),
    ("timestamp", [NOON.astimezone(dt.timezone(dt.timedelta(hours=2)))], [NOON]),
    ("timestamp", pd.Series(pd.to_datetime(["2024-05-01 12:00"])), [NOON]),
    ("timestamp", pd.Series(pd.to_datetime(["2024-05-01 14:00"])).dt.tz_localize("Europe/Berlin"), [NOON]),
    ("timestamp_ntz", [dt.datetime(2024, 1, 2, 3)], [dt.datetime(2024, 1, 2, 3)]),
    ("array<bigint>", [[1, 2], None, []], [[1, 2], None, []]),
    ("struct<a:int,b:string>", [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
    ("map<string,int>", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), [[("k", 1)]]),
]


@pytest.mark.parametrize(("kind", "values", "expected"), GOOD)
def test_what_fits(kind: str, values: Any, expected: list[Any]) -> None:
    found = column(kind, values)
    assert found.type == SqlType(kind).arrow
    assert found.to_pylist() == expected


BAD: list[tuple[str, Any, int, str]] = [
    ("bigint", [1, 2.5], 1, "2.5"),
    ("bigint", [1, math.nan], 1, "nan"),
    ("bigint", [1, "7"], 1, "'7'"),
    ("bigint", ["7"], 0, "'7'"),
    ("bigint", [True], 0, "True"),
    ("bigint", [1, 2**63], 1, str(2**63)),
    ("tinyint", [1, 127, 128, 129], 2, "128"),
    ("int", pa.array([0, 2**31]), 1, str(2**31)),
    ("boolean", [1], 0, "1"),
    ("double", ["1.5"], 0, "'1.5'"),
    ("double", [2**53 + 1], 0, str(2**53 + 1)),
    ("float", [1e300], 0, "1e+300"),
    ("decimal(5,2)", [Decimal("1.00"), Decimal("1.005")], 1, "1.005"),
    ("decimal(5,2)", [Decimal("1000.00")], 0, "1000.00"),
    ("decimal(5,2)", [1.5], 0, "1.5"),
    ("string", [1], 0, "1"),
    ("string", [b"raw"], 0, "b'raw'"),
    ("date", [dt.datetime(2024, 1, 2, 3)], 0, "2024"),
    ("date", ["2024-01-02"], 0, "'2024-01-02'"),
    ("timestamp", [None, "2024-01-02"], 1, "'2024-01-02'"),
    ("timestamp", [1704067200], 0, "1704067200"),
    ("timestamp", pa.array([0, 1001], pa.timestamp("ns")), 1, "1970"),
    ("timestamp", pa.array([0, 2**62], pa.timestamp("s")), 1, str(2**62)),
    ("timestamp_ntz", [NOON], 0, "2024"),
    ("array<int>", [[1], ["x"]], 1, "x"),
    ("array<int>", [[2**40]], 0, str(2**40)),
    ("struct<a:int,b:string>", [{"a": 1}], 0, "{'a': 1}"),
]


@pytest.mark.parametrize(("kind", "values", "row", "shown"), BAD)
def test_what_does_not_fit_is_named(kind: str, values: Any, row: int, shown: str) -> None:
    with pytest.raises(LogError) as caught:
        column(kind, values)
    assert caught.value.code == "APPEND_VALUE"
    assert f"row {row}, column `v`: " in caught.value.message
    assert shown in caught.value.message
    assert f"is no {kind.upper()}" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "value", "hint"),
    [
        ("timestamp", "2024-01-02", "pandas.to_datetime"),
        ("timestamp_ntz", NOON, "tz_localize"),
        ("decimal(5,2)", 1.5, "decimal.Decimal"),
    ],
)
def test_hints_say_what_to_do(kind: str, value: Any, hint: str) -> None:
    with pytest.raises(LogError) as caught:
        column(kind, [value])
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (lambda table: table.drop_columns(["price"]), "lacks column `price`", "use NULL"),
        (lambda table: table.select(["userID"]), "lacks columns `price`, `ts`", "use NULL"),
        (lambda table: table.append_column("prise", table["price"]), "no column `prise`", "`price`?"),
        (lambda table: table.rename_columns(["userid", "price", "ts"]), "no column `userid`", "`userID`?"),
        (lambda table: table.append_column("price", table["price"]), "`price` is given twice", ""),
    ],
)
def test_columns_must_match(log: Opened, change: Any, message: str, hint: str) -> None:
    with pytest.raises(LogError) as caught:
        append(log.warehouse, log.arrivals, PURCHASES, change(rows_at(1)))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("data", ["text", 7, None, {"userID": [1]}, [1, 2], [{"userID": 1}, None]])
def test_other_things_are_refused(log: Opened, data: Any) -> None:
    with pytest.raises(LogError):
        append(log.warehouse, log.arrivals, PURCHASES, data)
    assert log.arrivals.pending() == ()


def test_the_order_of_columns_is_free() -> None:
    table = rows_at(5, 6)
    assert to_table(table.select(["ts", "price", "userID"]), PURCHASES) == to_table(table, PURCHASES)
    assert to_table(table.to_pandas(), PURCHASES) == to_table(table, PURCHASES)
    assert to_table(table.to_pylist(), PURCHASES) == to_table(table, PURCHASES)
    assert to_table(table.to_batches()[0], PURCHASES) == to_table(table, PURCHASES)


def test_a_key_may_be_absent_from_some_rows() -> None:
    found = to_table([{"userID": 1, "price": 2.0, "ts": NOON}, {"ts": NOON}], PURCHASES)
    assert found.column("price").to_pylist() == [2.0, None]


def test_a_late_misfit_leaves_no_file_and_no_arrival(log: Opened) -> None:
    data = [{"userID": number, "price": 1.0, "ts": NOON} for number in range(10)]
    data.append({"userID": "eleven", "price": 1.0, "ts": NOON})
    with pytest.raises(LogError, match="row 10, column `userID`: 'eleven'"):
        append(log.warehouse, log.arrivals, PURCHASES, data, max_chunk_rows=2)
    assert log.arrivals.pending() == ()
    assert not list(log.warehouse.root.glob("log/purchases/*"))


def test_nothing_is_a_valid_input(log: Opened) -> None:
    assert append(log.warehouse, log.arrivals, PURCHASES, rows_at()) == 0
    assert append(log.warehouse, log.arrivals, PURCHASES, []) == 0
    assert log.arrivals.pending() == ()


def test_large_inputs_are_cut(log: Opened) -> None:
    assert log.append(*range(10), max_chunk_rows=4) == 10
    (arrival,) = log.arrivals.pending()
    assert [chunk.rows for chunk in arrival.chunks] == [4, 4, 2]
    assert [(chunk.min_us, chunk.max_us) for chunk in arrival.chunks] == [(0, 3), (4, 7), (8, 9)]
    tables = [pq.read_table(log.warehouse.path(chunk.path)) for chunk in arrival.chunks]
    assert pa.concat_tables(tables) == to_table(rows_at(*range(10)), PURCHASES)


def test_a_closed_stream_takes_nothing(log: Opened) -> None:
    log.arrivals.close(PURCHASES.name)
    with pytest.raises(LogError, match="stream `purchases` is closed"):
        log.append(1)
    assert not list(log.warehouse.root.glob("log/purchases/*"))
