"""Tuples that are kept in place of partials: against the slow evaluator, beside the other ways, and in segments."""

from __future__ import annotations

import random
import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import test_aggregation
from test_aggregation import OPERANDS, STREAM, bagless_aggregate, check_against_slow_evaluator
from test_compiled_windows import rng_of

from forced import force_pools
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.plan import AggregationOperator
from headrace.model.predicate import TRUE, Compare, Op
from headrace.model.query import Aggregate, AggregateFunction, Aggregation, Query, QueryId, QueryPlan
from headrace.model.types import SqlType
from headrace.model.window import Window
from headrace.operators.common import cells
from headrace.operators.common.bitrows import pack_words
from headrace.operators.common.bundle import pack_bundle, read_bundle
from headrace.operators.common.ordered import KeyOrder
from headrace.operators.common.placing import Portion
from headrace.operators.windows import aggregation, pool, pool_steps, pooling
from headrace.operators.windows.aggregation import Reduced, reduce_aggregation
from headrace.operators.windows.lanes import sums
from headrace.operators.windows.lifted import lift_tuples
from headrace.operators.windows.pool import Pool, PoolLane, move_bits
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.slices import last_ends
from headrace.operators.windows.stored_pools import pool_from, pool_items, portion_of_pool
from headrace.planner.group import Member, plan_group
from thorough import seeds


@pytest.fixture
def pooled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done is noted."""
    monkeypatch.setattr(sums, "WIDE", 3)  # some sums have a float shadow, and some have none
    monkeypatch.setattr(test_aggregation, "random_aggregate", bagless_aggregate)
    done: list[str] = []
    for name in ("close_pooled", "expand_pooled", "fold_block"):
        step: Any = getattr(aggregation, name)

        def noted(*args: Any, step: Any = step, name: str = name) -> Any:
            done.append(name)
            return step(*args)

        monkeypatch.setattr(aggregation, name, noted)
    return done


@pytest.mark.parametrize("seed", seeds(2, 200))
def test_matches_slow_evaluator_where_tuples_are_kept(
    seed: int, monkeypatch: pytest.MonkeyPatch, pooled: list[str]
) -> None:
    rng = random.Random(seed)
    force_pools(monkeypatch, lambda: True)
    monkeypatch.setattr(pool_steps, "TURN_ELEMENTS", rng.choice([3, 40, 1 << 20]))
    if rng.random() < 0.5:  # words of query-sets by cells, or by matches
        monkeypatch.setattr(cells, "DENSE_CELLS", 2)
    check_against_slow_evaluator(seed, changes=rng.random() < 0.6)
    assert set(pooled) == {"close_pooled"}


@pytest.mark.parametrize("seed", seeds(2, 300))
def test_matches_slow_evaluator_where_the_way_changes(
    seed: int, monkeypatch: pytest.MonkeyPatch, pooled: list[str]
) -> None:
    """Stored tuples and stored partials meet, as grids and as listed rows."""
    rng = random.Random(-seed)
    force_pools(monkeypatch, lambda: rng.random() < 0.5)
    monkeypatch.setattr(aggregation, "_is_sparse", lambda *_: rng.random() < 0.5)
    monkeypatch.setattr(aggregation, "KEY_ELEMENTS", rng.choice([100, 1_000, 1 << 20]))
    check_against_slow_evaluator(seed, changes=rng.random() < 0.6)
    assert "expand_pooled" in pooled and "fold_block" in pooled


def aggregated(number: int, function: AggregateFunction, above: int) -> Member:
    result = SqlType("double" if function is AggregateFunction.AVG else "bigint")
    one = Aggregate(function, OPERANDS["i"], TRUE, result)
    where = Compare(OPERANDS["i"], Op.GT, above)
    body = Aggregation(Window(10, 5), where, (OPERANDS["k"],), (one,), (), None)
    return Member(
        Query(QueryId(number), f"q{number}", QueryPlan("", (STREAM.name,), body, (), "", "")), number - 1
    )


WITH_OVERFLOW = [
    aggregated(1, AggregateFunction.SUM, 0),
    aggregated(2, AggregateFunction.MAX, 0),
    aggregated(3, AggregateFunction.SUM, 2**60),
    aggregated(4, AggregateFunction.AVG, -9),
]


def reduced(members: list[Member], rows: list[dict[str, int]]) -> tuple[Reduced[Any], dict[str, pa.Table]]:
    """One epoch of some tuples, and its rows in order, by where they land."""
    (operator,) = plan_group(members, {STREAM.name: STREAM}).operators
    assert isinstance(operator, AggregationOperator)
    schema = pa.schema([(c.name, c.type.arrow) for c in STREAM.columns])
    table = pa.Table.from_pylist(rows, schema=schema)
    lifted = lift_tuples(operator, {o: table.column(o.sql) for o in operator.scanned}, NEVER_US)
    found: dict[str, list[pa.Table]] = {}

    def keep(signature: str, table: pa.Table, queries: Any, latest: int) -> None:
        found.setdefault(signature, []).append(table)

    done = reduce_aggregation(AggregationLogic(operator), lifted, [], [], NEVER_US, FOREVER_US, keep)
    order = [(name, "ascending") for name in ("query", "window_end", "k0")]
    return done, {name: pa.concat_tables(some).sort_by(order) for name, some in found.items()}


def test_all_that_a_task_tells_is_as_with_partials(
    monkeypatch: pytest.MonkeyPatch, pooled: list[str]
) -> None:
    tuples = [{"k": k % 30, "i": 2**62 if k % 30 == 0 else k, "ts": k % 17} for k in range(300)]
    force_pools(monkeypatch, lambda: True)
    one, rows = reduced(WITH_OVERFLOW, tuples)
    force_pools(monkeypatch, lambda: False)
    other, same = reduced(WITH_OVERFLOW, tuples)
    assert pooled == ["close_pooled", "fold_block"]
    assert rows == same and rows
    assert one.failures == other.failures and set(one.failures) == {1, 3}
    assert one.segment is None and other.segment is None
    for mine, theirs in ((one.rows, other.rows), (one.matched, other.matched)):
        assert mine.queries.tolist() == theirs.queries.tolist()
        assert mine.counts.tolist() == theirs.counts.tolist()
    assert all(way.pooled for way in one.ways) and not any(way.pooled for way in other.ways)


def test_tuples_are_kept_where_keys_are_many_and_queries_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is forced here. With few tuples for each key they are kept, with many partials are."""
    members = [aggregated(n, AggregateFunction.SUM, n % 7) for n in range(1, 41)]
    tuples = [{"k": k, "i": k % 10, "ts": k % 13} for k in range(5_000)]
    one, rows = reduced(members, tuples)
    assert one.ways and all(way.pooled for way in one.ways)
    assert "tuples are kept in place of partials" in str(one.ways[0])
    crowd, _ = reduced(members[:2], tuples * 6)
    assert crowd.ways and not any(way.pooled for way in crowd.ways)
    for done, pooled in ((one, True), (crowd, False)):
        for way in done.ways:
            assert way.pool_ms is not None and way.partials_ms is not None
            assert (way.pool_ms < way.partials_ms) == pooled and (way.listed is None) == pooled
    monkeypatch.setattr(pooling, "FEW_KEYS", 10**9)
    other, same = reduced(members, tuples)
    assert rows == same and not any(way.pooled for way in other.ways)


def test_bits_move_with_their_columns() -> None:
    rng = rng_of()
    for before, after in ((1, 1), (64, 64), (65, 130), (200, 70), (130, 131)):
        ids = np.sort(rng.choice(300, before, replace=False))
        wanted = rng.permutation(np.append(ids, np.arange(300, 400)))[:after]
        if before == after:
            wanted = np.sort(wanted)
        words = rng.integers(0, 2**63, (-(-before // 64), 20)).astype(np.uint64)
        moved = move_bits(words, ids, wanted)
        places = {one: b for b, one in enumerate(ids.tolist())}
        for b, one in enumerate(wanted.tolist()):
            old = places.get(one)
            bits = (words[old // 64] >> np.uint64(old % 64)) & np.uint64(1) if old is not None else 0
            assert ((moved[b // 64] >> np.uint64(b % 64)) & np.uint64(1) == bits).all()


def drawn_pool(rng: np.random.Generator, rows: int) -> Pool:
    values = rng.integers(-128, 128, rows)
    lanes: dict[str, dict[str, Any]] = {
        "rows:int": {"v": np.ones(rows, np.int64)},
        "sum:int:i": {"v": values, "f": values.astype(np.float64)},
        "min:int:i": {"v": values},
        "max:int:i": {"v": np.where(values > 100, -(2**63), values)},
        "min:words:t": {"v": np.where(values > 0, values, 2**63 - 1)},
    }
    return Pool(
        np.arange(70) * 1024,  # of queries 0 to 69
        np.sort(rng.integers(0, 9, rows)),
        np.array([5, 10**15]),
        rng.integers(0, 2, rows),
        rng.integers(1, 2**6, (2, rows)).astype(np.uint64),
        {name: PoolLane(partials) for name, partials in lanes.items()},
        77,
    )


def test_stored_pools_come_back_and_are_small() -> None:
    pool = drawn_pool(rng_of(), 1_000)
    items, described = pool_items(pool)
    packed = pack_bundle(items)
    assert (
        len(packed) < 1_000 * (1 + 1 + 16 + 1 + 1 + 8 + 2 + 2) + 6_000
    )  # keys, slots, words, and what they bring
    same = pool_from(read_bundle(packed), described)
    assert same.last_end_us == 77
    for name in ("ids", "keys", "starts", "slots", "sets"):
        assert (getattr(same, name) == getattr(pool, name)).all()
    assert list(same.lanes) == list(pool.lanes)
    for name, lane in pool.lanes.items():
        for part, array in lane.partials.items():
            assert (same.lanes[name].partials[part] == array).all(), name


def test_portions_of_pools_have_their_keys_and_queries() -> None:
    pool = drawn_pool(rng_of(), 500)
    order = KeyOrder(np.minimum(np.arange(257), 9))  # key k is in key group k
    portion = Portion(((2, 4), (6, 7)), only=frozenset({1, 3, 66}))
    found = portion_of_pool(pool, order.sections(portion), portion)
    assert found is not None
    masks = np.array([0b1010, 0b100], np.uint64)[:, None]
    kept = np.flatnonzero(np.isin(pool.keys, [2, 3, 6]) & ((pool.sets & masks) != 0).any(axis=0))
    assert np.array([2, 3, 6])[found.keys].tolist() == pool.keys[kept].tolist()
    assert (found.sets == (pool.sets & masks)[:, kept]).all() and (found.slots == pool.slots[kept]).all()
    nobody = Portion(only=frozenset({99}))
    assert portion_of_pool(pool, order.sections(nobody), nobody) is None


def test_no_array_has_columns_and_slices() -> None:
    """What later epochs need is found window by window: with many columns and slices, memory stays small."""
    rng, columns, slices = np.random.default_rng(3), 1_500, 2_000
    windows = tuple(Window(1_000 * size, 500 * size, 7) for size in range(1, 6))
    starts, words = 100 * np.arange(slices), -(-columns // 64)
    of_column = rng.integers(0, len(windows), columns)
    logic: Any = SimpleNamespace(
        operator=SimpleNamespace(windows=windows),
        column_windows=of_column,
        column_ids=np.arange(columns),
        words=words,
        pack=lambda membership: pack_words(membership).T,
    )
    bits = rng.random((400, words * 64)) < 0.001
    bits[:, columns:] = False
    bits[:, 0] = True
    slots = rng.integers(0, slices, 400)
    pooled: Any = SimpleNamespace(starts=starts, slots=slots, sets=pack_words(bits).T, size=400)
    watermark = 100 * slices - 2_000
    tracemalloc.start()
    try:
        still = pool.still_asked(logic, pooled, watermark)
        last = pool.last_end_of(logic, pooled, np.flatnonzero(still))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    ends = np.array([last_ends(windows[w], starts[slots]) for w in of_column]).T
    wanted = bits[:, :columns] & (ends > watermark)
    assert still.tolist() == wanted.any(axis=1).tolist() and 0 < still.sum() < 400
    assert last == ends[still][bits[still, :columns]].max()
    assert peak < columns * slices, "not even a byte for each column and slice"
