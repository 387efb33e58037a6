"""What is written comes back: bundles of arrays and tables, grouping keys with NULL and NaN."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.common.bundle import pack_bundle, read_bundle, write_bundle
from headrace.operators.common.keys import encode_keys, unify_keys

DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.float64]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    raw = draw(
        st.binary(
            min_size=int(np.prod(shape)) * dtype.itemsize, max_size=int(np.prod(shape)) * dtype.itemsize
        )
    )
    return np.frombuffer(raw, dtype).reshape(shape)


KEY_TYPES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [None, 0, -1, 2**63 - 1, -(2**63)],
    pa.int8(): [None, -128, 127],
    pa.bool_(): [None, True, False],
    pa.float64(): [None, 0.0, -0.0, math.nan, math.inf, 0.1],
    pa.float32(): [None, 0.0, -0.0, math.nan, 1.5],
    pa.string(): [None, "", "a", "é", "\U0001f642", "null"],
    pa.binary(): [None, b"", b"\0", b"\xff"],
    pa.date32(): [None, dt.date(1, 1, 1), dt.date(1970, 1, 1)],
    pa.timestamp("us", "UTC"): [
        None,
        dt.datetime(1969, 12, 31, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    ],
    pa.timestamp("us"): [None, dt.datetime(2024, 1, 1)],
    pa.decimal128(30, 6): [None, Decimal("0.000001"), Decimal("-123456789012345678901234.5")],
    pa.duration("us"): [None, dt.timedelta(0), dt.timedelta(microseconds=-7)],
}


@st.composite
def key_tables(draw: st.DrawFn, columns: int | None = None) -> list[pa.Array]:
    types = draw(st.lists(st.sampled_from(list(KEY_TYPES)), min_size=1, max_size=3))
    rows = draw(st.integers(1, 12))
    return [
        pa.array(draw(st.lists(st.sampled_from(KEY_TYPES[t]), min_size=rows, max_size=rows)), t)
        for t in types
    ]


def canonical(value: Any) -> Any:
    """What makes two keys the same group in Spark."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def tuples_of(columns: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(map(canonical, row)) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.one_of(arrays(), key_tables()), max_size=4))
def test_bundles_come_back(tmp_path_factory: Any, items: dict[str, Any]) -> None:
    given_ = {
        n: pa.table({f"c{i}": c for i, c in enumerate(item)}) if isinstance(item, list) else item
        for n, item in items.items()
    }
    path = Path(tmp_path_factory.getbasetemp(), "bundle.arrow")
    with pa.OSFile(str(path), "wb") as sink:
        write_bundle(given_, sink)
    with pa.memory_map(str(path)) as source:
        for found in (read_bundle(source), read_bundle(pack_bundle(given_))):
            assert list(found) == list(given_)
            for name, item in given_.items():
                if isinstance(item, pa.Table):
                    assert found[name].schema == item.schema
                    assert tuples_of(found[name].columns) == tuples_of(item.columns)
                else:
                    assert found[name].dtype == item.dtype and found[name].shape == item.shape
                    assert found[name].tobytes() == item.tobytes()


def test_a_bundle_holds_an_array_once_whatever_its_names() -> None:
    values = np.arange(1000)
    once, twice = pack_bundle({"a": values}), pack_bundle({"a": values, "b": values, "empty": values[:0]})
    assert len(twice) < len(once) + 500
    found = read_bundle(twice)
    assert found["a"] is found["b"] and len(found["empty"]) == 0


@pytest.mark.parametrize("keep", [0, 10, 24, 100, -1])
def test_a_torn_bundle_is_refused(keep: int) -> None:
    with pytest.raises(ValueError):
        read_bundle(pack_bundle({"a": np.arange(1000)})[:keep])


@given(key_tables())
def test_keys_come_back_and_are_distinct(columns: list[pa.Array]) -> None:
    keys = encode_keys(columns, len(columns[0]))
    distinct = tuples_of(keys.table.columns)
    assert len(set(distinct)) == len(distinct) == len(set(tuples_of(columns)))
    assert [distinct[i] for i in keys.ids.tolist()] == tuples_of(columns)
    assert [column.type for column in keys.table.columns] == [column.type for column in columns]


@given(key_tables(), st.data())
def test_keys_of_several_batches_meet(columns: list[pa.Array], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(columns[0])))
    parts = [[c.slice(0, cut) for c in columns], [c.slice(cut) for c in columns]]
    encoded = [encode_keys(part, len(part[0])) for part in parts]
    table, ids = unify_keys([keys.table for keys in encoded])
    distinct = tuples_of(table.columns)
    assert len(set(distinct)) == len(distinct) == len(set(tuples_of(columns)))
    found = [distinct[i] for part, keys in zip(ids, encoded, strict=True) for i in part[keys.ids].tolist()]
    assert found == tuples_of(columns)
