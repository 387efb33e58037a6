"""Keys as numbers against a plain dict, by values that are near and far, with NULL, NaN, -0.0, no row and one row."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from brute import canonical

from headrace.operators.common.keys import encode_keys, unify_keys
from headrace.operators.compiled.keys import number_far
from thorough import seeds

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "near": (pa.int64(), [-3, -2, 0, 1, 7]),
    "far": (pa.int64(), [-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 1]),
    "narrow": (pa.int8(), [-128, 0, 127]),
    "days": (pa.date32(), [date(1, 1, 1), date(2026, 1, 1), date(9999, 12, 31)]),
    "moments": (
        pa.timestamp("us", "UTC"),
        [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    ),
    "floats": (pa.float64(), [0.0, -0.0, float("nan"), float("inf"), 1.5]),
    "texts": (pa.string(), ["", "a", "b"]),
    "flags": (pa.bool_(), [True, False]),
}


def column_of(rng: random.Random, rows: int) -> pa.Array:
    type_, pool = POOLS[rng.choice(list(POOLS))]
    pool = pool + [None] * rng.choice([0, 1])
    if rng.random() < 0.3:  # codes and a dictionary, of which not all is used
        codes = pa.array([rng.choice([0, len(pool) - 1]) for _ in range(rows)], pa.int32())
        return pa.DictionaryArray.from_arrays(codes, pa.array(pool, type_))
    spare = rng.randint(0, 3)
    return pa.array([rng.choice(pool) for _ in range(rows + spare)], type_).slice(spare)


@pytest.mark.parametrize("seed", seeds(6))
def test_keys_are_numbered_as_they_first_occur(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    rows = rng.choice([0, 1, 2, 60])
    columns = [column_of(rng, rows) for _ in range(rng.randint(1, 3))]
    keys = encode_keys(columns, rows)
    tuples = [tuple(map(canonical, row)) for row in zip(*(c.to_pylist() for c in columns), strict=True)]
    known: dict[Any, int] = {}
    assert keys.ids.tolist() == [known.setdefault(key, len(known)) for key in tuples]
    found = zip(*(column.to_pylist() for column in keys.table.columns), strict=True)
    assert [tuple(map(canonical, row)) for row in found] == list(known)


@pytest.mark.parametrize("seed", seeds(4))
def test_equal_keys_of_several_tables_become_one(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    type_, pool = POOLS[rng.choice(["near", "far", "moments", "texts"])]
    tables = [
        pa.table({"k0": pa.array(rng.sample(pool, rng.randint(0, len(pool))), type_)}) for _ in range(3)
    ]
    merged, ids = unify_keys(tables)
    assert len(set(merged.column(0).to_pylist())) == merged.num_rows
    for table, mine in zip(tables, ids, strict=True):
        assert merged.column(0).take(pa.array(mine)).to_pylist() == table.column(0).to_pylist()


@pytest.mark.parametrize("shift", [0, 20, 32, 40, 48])
def test_keys_that_differ_in_few_bits_do_not_crowd_one_part_of_the_table(shift: int) -> None:
    """A key is looked for from its place to the next free one, so the longest run of keys bounds that."""
    values = np.arange(-(1 << 14), 1 << 14) << shift
    table, rows = np.full((1 << 17, 2), -1), len(values)
    ids, first, count = np.empty(rows, np.int64), np.empty(rows, np.int64), np.zeros(1, np.int64)
    number_far(values, table, ids, first, count)
    assert ids.tolist() == first.tolist() == list(range(rows)) and count[0] == rows
    free = np.flatnonzero(table[:, 1] < 0)
    assert np.diff(free).max() < 100
