"""Where keys are placed: every type, the same in every process and for ever."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shelf import random_partitioning
from test_formats import KEY_TYPES, key_tables, tuples_of

from headrace.engine.references import ordered_references, owned_references
from headrace.model.partitioning import (
    ALL_KEY_GROUPS,
    KEY_GROUPS,
    even_partitioning,
    intersect_ranges,
    ranges_of,
)
from headrace.model.predicate import Operand
from headrace.model.state import SegmentFile
from headrace.model.types import SqlType
from headrace.operators.common.keys import empty_key, encode_keys
from headrace.operators.common.placing import (
    EVERYTHING,
    Portion,
    hash_keys,
    key_groups_of,
    key_groups_of_integers,
    partitions_of,
    route_keys,
)
from headrace.operators.join.keys import encode_row_keys, partition_rows, sort_keys


def group_of(type_: pa.DataType, value: Any) -> int:
    return int(key_groups_of(pa.table({"k0": pa.array([value], type_)}), "any")[0])


def test_the_hash_is_part_of_the_format() -> None:
    """Segments of older epochs are where these numbers say. Whoever changes them cannot read a warehouse any more."""
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    found = {
        "ints": [group_of(pa.int64(), value) for value in (0, 1, -1, 2**63 - 1, None)],
        "floats": [group_of(pa.float64(), value) for value in (0.0, -0.0, 1.5, math.nan, math.inf)],
        "booleans": [group_of(pa.bool_(), value) for value in (False, True)],
        "texts": [group_of(pa.string(), value) for value in ("", "a", "é", "just eight", "x" * 100)],
        "binary": [group_of(pa.binary(), value) for value in (b"a", b"\0", b"\0\0")],
        "dates": [group_of(pa.date32(), dt.date(2024, 1, 1))],
        "moments": [group_of(pa.timestamp("us", "UTC"), moment)],
        "spans": [group_of(pa.duration("us"), dt.timedelta(days=1)), group_of(pa.time64("us"), dt.time(12))],
        "decimals": [group_of(pa.decimal128(38, 2), Decimal(text)) for text in ("1.00", "-1.00", "1e30")],
        "several": key_groups_of(pa.table({"k0": [1, 2], "k1": ["a", None]}), "any").tolist(),
        "none": [int(key_groups_of(empty_key(1), id_)[0]) for id_ in ("windows-1", "windows-2")],
    }
    assert found == {
        "ints": [0, 204, 48, 152, 74],
        "floats": [0, 0, 241, 152, 235],
        "booleans": [0, 204],
        "texts": [0, 81, 14, 106, 111],
        "binary": [81, 48, 20],
        "dates": [210],
        "moments": [223],
        "spans": [13, 130],
        "decimals": [155, 140, 56],
        "several": [100, 19],
        "none": [179, 9],
    }


@given(key_tables(), st.integers(1, 7), st.randoms(use_true_random=False))
def test_a_key_has_one_place_wherever_it_comes_from(
    columns: list[pa.Array], partitions: int, rng: random.Random
) -> None:
    partitioning = even_partitioning(partitions)
    places: dict[tuple[Any, ...], int] = {}
    for _ in range(2):
        order = list(range(len(columns[0])))
        rng.shuffle(order)
        cut = rng.randint(0, len(order))
        for part in (order[:cut], order[cut:]):
            keys = encode_keys([c.take(pa.array(part, pa.int64())) for c in columns], len(part))
            groups = key_groups_of(keys.table, rng.choice(["o1", "o2"]))
            assert ((groups >= 0) & (groups < KEY_GROUPS)).all()
            homes = partitions_of(groups, partitioning).tolist()
            for key, home in zip(tuples_of(keys.table.columns), homes, strict=True):
                assert places.setdefault(key, home) == home


@given(st.sampled_from(list(KEY_TYPES)), st.data())
def test_a_join_finds_its_partners_where_aggregations_have_the_key(
    type_: pa.DataType, data: st.DataObject
) -> None:
    """The sides of a product, and whatever else has the same key, are placed alike."""
    names = {"int64": "bigint", "int8": "tinyint", "bool": "boolean", "float": "float", "double": "double"}
    names |= {"date32[day]": "date", "timestamp[us, tz=UTC]": "timestamp", "timestamp[us]": "timestamp_ntz"}
    names |= {"decimal128(30, 6)": "decimal(30,6)", "duration[us]": "interval day to second"}
    sql = SqlType(names.get(str(type_), str(type_)))
    known = [value for value in KEY_TYPES[type_] if value is not None]
    values = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=9))
    array, partitioning = pa.array(values, type_), even_partitioning(5)
    joined = partition_rows(encode_row_keys([array], [Operand("k", sql)]), partitioning, "joins").tolist()
    keys = encode_keys([array], len(values))
    grouped = partitions_of(key_groups_of(keys.table, "windows"), partitioning)[keys.ids].tolist()
    assert joined == grouped


def test_integers_of_all_widths_and_values_of_all_representations_meet() -> None:
    for type_ in (pa.int8(), pa.int16(), pa.int32()):
        assert group_of(type_, 7) == group_of(pa.int64(), 7)
    assert group_of(pa.float32(), 1.5) == group_of(pa.float64(), 1.5)
    assert group_of(pa.float32(), math.nan) == group_of(pa.float64(), -math.nan)
    assert group_of(pa.large_string(), "abc") == group_of(pa.string(), "abc")
    assert group_of(pa.dictionary(pa.int32(), pa.string()), "abc") == group_of(pa.string(), "abc")
    assert group_of(pa.decimal128(38, 2), Decimal("7.25")) == group_of(pa.decimal128(9, 2), Decimal("7.25"))
    assert group_of(pa.decimal128(9, 2), Decimal("7.25")) == int(key_groups_of_integers(np.array([725]))[0])
    with pytest.raises(TypeError, match="no type of keys"):
        group_of(pa.list_(pa.int64()), [1])


def test_slices_of_arrays_hash_as_their_values_do() -> None:
    for type_, values in KEY_TYPES.items():
        array = pa.array([*values, *values], type_)
        part = array.slice(1, len(values))
        copied = pa.array(part.to_pylist(), type_)
        assert hash_keys(pa.table({"k": part})).tolist() == hash_keys(pa.table({"k": copied})).tolist()


def texts_one_by_one(data: bytes) -> int:
    """The plain reference of the compiled hash."""

    def mix(word: int) -> int:
        word = (word ^ (word >> 31)) * 0x7FB5D329728EA185 % 2**64
        word = (word ^ (word >> 27)) * 0x81DADEF4BC2DD44D % 2**64
        return word ^ (word >> 33)

    mixed = mix(len(data))
    for at in range(0, len(data), 8):
        mixed = mix(mixed ^ int.from_bytes(data[at : at + 8], "little"))
    return mix(mixed)  # a key's hash mixes the words of its columns


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=8))
def test_the_compiled_hash_of_texts_equals_its_reference(texts: list[bytes]) -> None:
    found = hash_keys(pa.table({"k": pa.array(texts, pa.binary())})).view(np.uint64)
    assert found.tolist() == [texts_one_by_one(text) for text in texts]


def test_keys_are_spread_evenly() -> None:
    numbers = np.arange(100_000)
    texts = pa.table({"k": [f"user {i}" for i in range(100_000)]})
    for groups in (key_groups_of_integers(numbers), key_groups_of_integers(numbers * 1_000_000)):
        sizes = np.bincount(groups, minlength=KEY_GROUPS)
        assert sizes.min() > 300 and sizes.max() < 500
    sizes = np.bincount(key_groups_of(texts, ""), minlength=KEY_GROUPS)
    assert sizes.min() > 300 and sizes.max() < 500
    alone = {int(key_groups_of(empty_key(1), f"windows-{i}")[0]) for i in range(100)}
    assert len(alone) > 60


def test_every_tuple_is_routed_once() -> None:
    values = np.arange(500) % 37
    keys = encode_keys([pa.array(values)], len(values))
    routed = list(route_keys(keys, even_partitioning(4), "o"))
    rows = np.concatenate([np.arange(len(values))[rows] for _, rows, _ in routed])
    assert sorted(rows.tolist()) == list(range(500))
    assert sum(home for _, _, home in routed).tolist() == [1] * 37


def test_join_segments_keep_keys_in_the_order_of_key_groups() -> None:
    keys = encode_row_keys([pa.array(["a", "b", "c", "d", "a"])], [Operand("k", SqlType("string"))])
    _, table = sort_keys(keys, np.arange(5))
    assert table.table is not None
    unsigned = table.hashes.view(np.uint64) >> np.uint64(56)
    assert unsigned.tolist() == key_groups_of(table.table, "joins").tolist()


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_file_are_shared_out_and_come_together_again(seed: int) -> None:
    """Whatever partitionings and moves follow each other: every key group of every query counts once."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    references = [SegmentFile("o", f"f{i}", 1, rng.randint(0, 3), 9) for i in range(3)]
    groups: list[list[SegmentFile]] = [references, []]
    for _ in range(5):
        moving = rng.sample(range(6), rng.randint(0, 3))
        old = rng.randrange(2)
        given_ = [part for r in groups[old] if (part := r.of_queries(moving)) is not None]
        left = [part for r in groups[old] if (part := r.but(moving)) is not None]
        groups[old], groups[1 - old] = left, groups[1 - old] + given_
        partitioning = random_partitioning(rng)
        for number, held in enumerate(groups):
            ordered = ordered_references(held)
            assert [r.level for r in ordered] == sorted((r.level for r in ordered), reverse=True)
            parts = [owned_references(ordered, partitioning, p) for p in range(partitioning.partitions)]
            groups[number] = [part for mine in parts for part in mine]
        for query in range(6):
            found = sorted(
                (r.path, group)
                for held in groups
                for r in held
                if query not in r.without and (r.only is None or query in r.only)
                for low, high in r.key_groups
                for group in range(low, high)
            )
            assert found == [(f"f{i}", group) for i in range(3) for group in range(KEY_GROUPS)]


def test_a_portion_says_which_keys_and_queries_count() -> None:
    assert EVERYTHING.whole and not Portion(ALL_KEY_GROUPS).whole
    portion = Portion(((0, 2), (5, 6)), frozenset({1, 2}), frozenset({2}))
    assert portion.keys(np.array([0, 1, 2, 5])).tolist() == [True, True, False, True]
    assert portion.queries(np.array([1, 2, 3])).tolist() == [True, False, False]
    assert [portion.has(query) for query in (1, 2, 3)] == [True, False, False]


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_ranges_intersect_as_sets_do(left: set[int], right: set[int]) -> None:
    assert intersect_ranges(ranges_of(left), ranges_of(right)) == ranges_of(left & right)
