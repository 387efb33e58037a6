"""Segments lie in the order of key groups: a partition reads the keys and rows that it owns, and no others."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import test_aggregation
import test_sessions
from shelf import Shelf, random_partitioning
from test_aggregation import OPERANDS, STREAM, random_query, random_value

from headrace.model.epoch import NEVER_US
from headrace.model.partitioning import ALL_KEY_GROUPS, even_partitioning, ranges_of
from headrace.model.plan import AggregationOperator, SessionOperator
from headrace.model.predicate import TRUE
from headrace.model.query import Aggregate, AggregateFunction, Aggregation, Query, QueryId, QueryPlan
from headrace.model.types import SqlType
from headrace.model.window import SessionWindow, Window
from headrace.operators.common.bundle import read_bundle
from headrace.operators.common.ordered import KeyOrder, order_keys
from headrace.operators.common.placing import Portion, key_groups_of
from headrace.operators.windows.segment import Segment
from headrace.planner.group import Member, plan_group

KEYS = 3000
SCHEMA = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])


class Watched(np.ndarray):
    """An array that counts the values it gives away. A slice is watched on; conversion counts all of it."""

    seen = 0

    def __getitem__(self, index: Any) -> Any:
        found = np.asarray(self)[index]
        if isinstance(index, slice):
            return found.view(Watched)
        Watched.seen += np.size(found)
        return found

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        Watched.seen += self.size
        return np.asarray(self).astype(*args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        Watched.seen += sum(one.size for one in inputs if isinstance(one, Watched))
        return getattr(ufunc, method)(*(np.asarray(one) for one in inputs), **kwargs)


def watched(items: dict[str, Any]) -> dict[str, Any]:
    """The items with everything that has a value for each row of a block watched."""
    rows = {len(items[name]) for name in items if name.endswith(".key")}
    return {
        name: item.view(Watched) if isinstance(item, np.ndarray) and rows & {*item.shape[-1:]} else item
        for name, item in items.items()
    }


def a_segment(seed: int, sessions: bool) -> tuple[str, dict[str, Any]]:
    """(the operator's id, the items of its segment), of one partition with many keys."""
    rng = random.Random(seed)
    members = []
    for number in range(1, 6):
        query = random_query(rng, number)
        body = query.plan.body
        assert isinstance(body, Aggregation)
        window = SessionWindow(50) if sessions else Window(90, 90)
        kept = test_sessions.COUNT_ALL if sessions else body.aggregates
        body = replace(body, keys=(OPERANDS["k"],), where=TRUE, window=window, aggregates=kept)
        members.append(Member(replace(query, plan=replace(query.plan, body=body)), number))
    operator, *_ = plan_group(members, {STREAM.name: STREAM}).operators
    rows = [
        {c.name: random_value(rng, c.name) for c in STREAM.columns} | {"k": k, "ts": 1} for k in range(KEYS)
    ]
    table, shelf = pa.Table.from_pylist(rows, schema=SCHEMA), Shelf(partitions=1)
    if isinstance(operator, SessionOperator):
        test_sessions.run_epoch(operator, [table], shelf, NEVER_US, 2, {})
    else:
        assert isinstance(operator, AggregationOperator)
        test_aggregation.run_epoch(operator, [table], shelf, NEVER_US, 2, rng)
    (file,) = shelf.references
    return operator.id, read_bundle(shelf.files[file.path])


@pytest.mark.parametrize("sessions", [False, True])
def test_a_partition_reads_its_own_rows_and_no_others(sessions: bool) -> None:
    read: Callable[..., Any] = test_sessions.read_state if sessions else test_aggregation.read_state
    operator, items = a_segment(11, sessions)
    Watched.seen = 0
    every = read(watched(items), operator, Portion(ALL_KEY_GROUPS))
    whole = Watched.seen
    parts, seen = [], []
    for partition in range(4):
        owned = even_partitioning(4).owned(partition)
        Watched.seen = 0
        parts.append(read(watched(items), operator, Portion(owned)))
        seen.append(Watched.seen)
        share = parts[-1].keys.num_rows / KEYS
        assert 0.2 < share < 0.3
        assert seen[-1] <= whole * share + 50  # some for each search
        groups = key_groups_of(parts[-1].keys, operator)
        assert {g for low, high in owned for g in range(low, high)} >= set(groups.tolist())
    assert pa.concat_tables([part.keys for part in parts]).equals(every.keys)
    for i, block in enumerate(every.blocks):
        assert sum(len(part.blocks[i].keys) for part in parts) == len(block.keys)


def test_what_others_own_may_be_anything() -> None:
    """Rows of other key groups are overwritten: nobody notices."""
    operator, items = a_segment(12, sessions=False)
    spoiled = {name: item.copy() if isinstance(item, np.ndarray) else item for name, item in items.items()}
    owned = ((32, 64), (100, 101), (255, 256))
    first = items["first"]
    mine = np.zeros(KEYS, bool)
    for low, high in owned:
        mine[first[low] : first[high]] = True
    keys = items["keys"].column("k0").to_numpy()
    spoiled["keys"] = pa.table({"k0": np.where(mine, keys, keys[mine][0])})
    for name, item in spoiled.items():
        block = name.partition(".")[0]
        if (
            f"{block}.key" in items
            and name != f"{block}.key"
            and item.shape[-1:] == items[f"{block}.key"].shape
        ):
            item[..., ~mine[items[f"{block}.key"]]] = 77
    portion = Portion(owned, only=frozenset({1, 3}))
    expected, found = (test_aggregation.read_state(i, operator, portion) for i in (items, spoiled))
    assert isinstance(expected, Segment) and isinstance(found, Segment)
    assert found.keys.equals(expected.keys) and 0 < found.keys.num_rows < KEYS
    for one, other in zip(found.blocks, expected.blocks, strict=True):
        assert one.keys.tolist() == other.keys.tolist() and one.slices.tolist() == other.slices.tolist()
        for name, lane in other.lanes.items():
            for letter, values in lane.partials.items():
                np.testing.assert_array_equal(one.lanes[name].partials[letter], values)


@pytest.mark.parametrize("seed", range(20))
def test_sections_equal_filters(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    keys = pa.table({"k0": rng.integers(0, 10**9, rng.integers(1, 400))})
    order, sequence = order_keys(keys, "o")
    sorted_keys = keys.take(pa.array(sequence))
    groups = key_groups_of(sorted_keys, "o")
    assert (np.diff(groups) >= 0).all() and order.keys == keys.num_rows
    owned = random_partitioning(random.Random(seed)).owned(0)
    portion = Portion(ranges_of(g for low, high in owned for g in range(low, high)))
    wanted = portion.keys(groups)
    sections = order.sections(portion)
    assert sections.numbers.tolist() == np.flatnonzero(wanted).tolist() and bool(sections) == wanted.any()
    if not sections:
        return
    assert sections.slice_table(sorted_keys).equals(sorted_keys.filter(pa.array(wanted)))
    rows = np.sort(rng.integers(0, keys.num_rows, 500)).astype(("i2", "i4", "i8")[seed % 3])
    found = sections.rows_of(rows)
    assert found.numbers.tolist() == np.flatnonzero(wanted[rows]).tolist()
    low_only = np.sort(rng.integers(0, min(keys.num_rows, 128), 50)).astype(
        np.int8
    )  # sections may be beyond them
    assert sections.rows_of(low_only).numbers.tolist() == np.flatnonzero(wanted[low_only]).tolist()
    places = np.cumsum(wanted) - 1
    assert sections.renumber(rows[wanted[rows]]).tolist() == places[rows[wanted[rows]]].tolist()


@pytest.mark.parametrize("sessions", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_few_values_of_many_keys_survive_a_repartitioning(seed: int, sessions: bool) -> None:
    """Values are stored with the numbers of their keys, in the type of the greatest of these."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    having = {rng.randrange(301)}
    counted = Aggregate(AggregateFunction.COUNT_DISTINCT, OPERANDS["i"], TRUE, SqlType("bigint"))
    window = SessionWindow(50) if sessions else Window(90, 90)
    body = Aggregation(window, TRUE, (OPERANDS["k"],), (counted,), (), None)
    query = Query(QueryId(1), "q", QueryPlan("", (STREAM.name,), body, (), "", ""))
    operator, *_ = plan_group([Member(query, 0)], {STREAM.name: STREAM}).operators
    rows = [{"k": key, "i": 7 if key in having else None, "ts": 1} for key in range(301)]
    table, shelf = pa.Table.from_pylist(rows, schema=SCHEMA), Shelf(partitions=1)
    found: dict[int, int] = {}
    for closed, watermark, partitions in ((NEVER_US, 2, 1), (2, 1000, 2)):
        shelf.partitioning, tuples = even_partitioning(partitions), table if closed == NEVER_US else table[:0]
        if isinstance(operator, SessionOperator):
            results: test_sessions.Found = defaultdict(list)
            test_sessions.run_epoch(operator, [tuples], shelf, closed, watermark, results)
            found |= {key[2]: counts[0] for key, counts in results[1]}
        else:
            assert isinstance(operator, AggregationOperator)
            for part in test_aggregation.run_epoch(operator, [tuples], shelf, closed, watermark, rng):
                found |= dict(zip(part.column("k0").to_pylist(), part.column("a0").to_pylist(), strict=True))
    assert found == {key: int(key in having) for key in range(301)}


def test_an_order_of_nothing_has_no_sections() -> None:
    assert not KeyOrder(np.zeros(257, np.int64)).sections(Portion(ALL_KEY_GROUPS))
