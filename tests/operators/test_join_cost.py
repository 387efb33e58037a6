"""What a shared join costs: each tuple is kept once, a hot key needs no memory, and pruning looks at few candidates."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join_cases import COLUMNS, NUMBER, TS, Ask, Schema, Side, plan_join

from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.partitioning import even_partitioning
from headrace.model.predicate import TRUE, Compare, Op
from headrace.model.ways import Finding
from headrace.model.window import Window
from headrace.operators.common.bitrows import count_bits
from headrace.operators.common.bundle import pack_bundle, read_bundle
from headrace.operators.join import partners
from headrace.operators.join.block import JoinedBlock
from headrace.operators.join.keys import KeyTable, encode_row_keys, match_keys, sort_keys
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.probing import Candidates
from headrace.operators.join.reduce import JoinReduced, Outlet, reduce_join, resume_join
from headrace.operators.join.state import JoinSegment, join_items
from headrace.operators.join.tuples import prepare_join, receive_join, ship_join
from headrace.operators.protocol import Shipment

SCHEMA = Schema((("k",),), (True, True))
ALONE = even_partitioning(1)
NOWHERE = Outlet(lambda chain, block: None, lambda shipment: None, ALONE)


def ask(number: int, inputs: tuple[int, ...], range_us: int, bar: float | None = None) -> Ask:
    sides = []
    for stream in inputs:
        predicate = TRUE if bar is None else Compare(COLUMNS["x"], Op.GT, bar)
        sides.append(Side(stream, Window(range_us, range_us), predicate))
    hub = tuple((i, ("k",)) for i in range(len(inputs)))
    return Ask(number, number, tuple(sides), (hub,), (), tuple((i, NUMBER) for i in range(len(inputs))))


def batch(keys: Any, times: Any) -> dict[Any, pa.ChunkedArray]:
    rows = len(keys)
    arrays = {
        COLUMNS["k"]: pa.array(keys, pa.int64()),
        COLUMNS["j"]: pa.array(keys, pa.int64()),
        COLUMNS["x"]: pa.array(np.arange(rows) / rows),
        NUMBER: pa.array(np.arange(rows)),
        TS: pa.array(times, pa.int64()).cast(TS.type.arrow),
    }
    return {operand: pa.chunked_array([array]) for operand, array in arrays.items()}


def run(
    logic: JoinLogic, batches: list[dict[Any, pa.ChunkedArray]], held: list[JoinSegment], consume: Any = None
) -> JoinReduced:
    blobs = []
    for number, columns in enumerate(batches):
        tuples = prepare_join(logic, number, columns, NEVER_US, [])
        assert tuples is not None
        blobs += [shipment.blob for shipment in ship_join(logic, tuples, ALONE)]
    outlet = NOWHERE if consume is None else replace(NOWHERE, consume=consume)
    return reduce_join(logic, receive_join(logic, blobs), held, [], NEVER_US, NEVER_US, outlet)


def test_state_holds_each_tuple_once_for_all_queries_and_roles() -> None:
    rng = np.random.default_rng(1)
    rows = 20_000
    one = batch(rng.integers(0, 10**6, rows), rng.integers(0, 1000, rows))

    def size(asks: list[Ask]) -> int:
        segment = run(JoinLogic(plan_join(SCHEMA, asks)), [one, one], []).segment
        assert segment is not None
        assert [s.rows.content.rows for s in segment.inputs.values()] == [rows, rows]
        return len(pack_bundle(join_items(segment)))

    alone = size([ask(1, (0, 1), 1000)])
    many = size([ask(i, (0, 1), 1000 + 100 * i) for i in range(1, 60)])
    assert many - alone < 2 * rows * 2
    with_roles = size([ask(1, (0, 1), 1000), ask(2, (0, 0, 1), 1000), ask(3, (0, 1, 1), 1000)])
    assert with_roles - alone <= 2 * rows * 8 + 1000
    far = replace(ask(1, (0, 1), 1000), slot=1000)
    assert size([far]) - alone < 1000


def test_a_hot_key_costs_time_and_not_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "BLOCK_ROWS", 1 << 14)
    logic = JoinLogic(plan_join(SCHEMA, [ask(1, (0, 1), 1000)]))
    rows = 1500
    hot = batch(np.zeros(rows, np.int64), np.arange(rows) % 1000)
    found, peaks = 0, []

    def consume(chain: int, block: JoinedBlock) -> None:
        nonlocal found
        assert block.rows <= 1 << 14
        found += block.rows
        peaks.append(tracemalloc.get_traced_memory()[1])

    tracemalloc.start()
    try:
        reduced = run(logic, [hot, hot], [], consume)
    finally:
        tracemalloc.stop()
    assert found == rows * rows == reduced.rows.get(1)
    assert len(peaks) > 100
    assert max(peaks) < 8 << 20
    (way,) = reduced.ways
    assert way.finding is Finding.GROUPS and (way.tuples, way.candidates) == (rows, rows * rows)
    assert way.cells_ms is not None and way.matches_ms is not None and way.cells_ms < way.matches_ms
    few = batch(np.arange(10), np.arange(10))
    (way,) = run(logic, [few, few], []).ways
    assert way.finding is Finding.LIST and "too few for groups" in str(way)


def test_a_hot_key_costs_no_memory_on_the_way_to_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """a and b on k, b and c on j: c is there when a and b come, a million rows leave, and each meets 50 tuples."""
    block, rows = 1 << 12, 1000
    monkeypatch.setattr(partners, "BLOCK_ROWS", block)
    window = Window(1000, 1000)
    hubs = (((0, ("k",)), (1, ("k",))), ((1, ("j",)), (2, ("j",))))
    one = Ask(1, 1, (Side(0, window, TRUE), Side(1, window, TRUE), Side(2, window, TRUE)), hubs, (), ())
    logic = JoinLogic(plan_join(Schema((("k",),), (True, True, True)), [one]))
    assert logic.operator.levels == 2
    hot = batch(np.zeros(rows, np.int64), np.arange(rows))
    few = batch(np.zeros(50, np.int64), np.arange(50))

    def shipped(streams: set[str], columns: Any) -> list[bytes]:
        numbers = [n for n, input_ in enumerate(logic.operator.inputs) if input_.stream in streams]
        found = [prepare_join(logic, number, columns, NEVER_US, []) for number in numbers]
        return [s.blob for tuples in found if tuples is not None for s in ship_join(logic, tuples, ALONE)]

    old = receive_join(logic, shipped({"s2"}, few))
    held = reduce_join(logic, old, [], [], NEVER_US, NEVER_US, NOWHERE).segment
    assert held is not None
    blobs = shipped({"s0", "s1"}, hot)
    leaving, found, peaks, kept = 0, 0, [], []

    def send(shipment: Shipment) -> None:
        nonlocal leaving
        count = len(read_bundle(shipment.blob)["key"])
        assert count <= 2 * block
        leaving += count
        if len(kept) < 10:
            kept.append(shipment.blob)
        peaks.append(tracemalloc.get_traced_memory()[1])

    def consume(chain: int, joined: JoinedBlock) -> None:
        nonlocal found
        assert joined.rows <= block
        found += joined.rows
        peaks.append(tracemalloc.get_traced_memory()[1])

    outlet = Outlet(consume, send, ALONE)
    tracemalloc.start()
    try:
        reduce_join(logic, receive_join(logic, blobs), [held], [], NEVER_US, NEVER_US, outlet)
        arrived = sum(len(read_bundle(blob)["key"]) for blob in kept)
        counts = resume_join(logic, [*blobs, *kept], [held], [], NEVER_US, outlet)
    finally:
        tracemalloc.stop()
    assert leaving == rows * rows and len(peaks) > 100
    assert found == counts.get(1) == arrived * 50
    assert max(peaks) < 4 << 20


def test_partners_out_of_reach_are_not_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    logic = JoinLogic(plan_join(SCHEMA, [ask(1, (0, 1), 10)]))
    rows = 4000
    tried, probe = 0, partners.probe

    def counted(candidates: Candidates, *others: Any) -> Any:
        nonlocal tried
        tried += candidates.pairs
        return probe(candidates, *others)

    monkeypatch.setattr(partners, "probe", counted)
    hot = batch(np.zeros(rows, np.int64), np.arange(rows))
    reduced = run(logic, [hot, hot], [])
    assert reduced.rows.get(1) == rows * 10
    assert 0 < tried < rows * 20


def test_nothing_is_left_when_all_windows_have_ended() -> None:
    logic = JoinLogic(plan_join(SCHEMA, [ask(1, (0, 1), 10)]))
    one = batch([1, 2, 3], [1, 2, 3])
    held = run(logic, [one, one], []).segment
    assert held is not None and held.last_end_us == 10
    closed = reduce_join(logic, [None, None], [held], [], NEVER_US, 10, NOWHERE)
    assert closed.segment is None and not closed.rows
    held = run(logic, [one, one], []).segment
    assert held is not None
    open_ = reduce_join(logic, [None, None], [held], [], NEVER_US, 9, NOWHERE)
    assert open_.segment is not None
    forever = reduce_join(logic, [None, None], [held], [], 9, FOREVER_US, NOWHERE)
    assert forever.segment is None


@pytest.mark.parametrize("spread", [1, 10**3, 2**40, 2**61])
def test_keys_and_times_of_any_spread_are_sorted_and_matched(spread: int) -> None:
    rng = np.random.default_rng(spread % 1000)
    tables: list[KeyTable] = []
    for _ in range(2):
        keys = np.append(rng.integers(-20, 20, 200) * spread, [2**63 - 1, -(2**63)])
        times = rng.integers(0, 50, len(keys)) * spread
        operand = COLUMNS["k"]
        order, table = sort_keys(encode_row_keys([pa.array(keys)], [operand]), times)
        pairs = list(zip(keys[order].tolist(), times[order].tolist(), strict=True))
        assert pairs == sorted(pairs)
        assert table.hashes.tolist() == sorted(set(keys.tolist()))
        tables.append(table)
    found = match_keys(tables[0], tables[1])
    at = {key: i for i, key in enumerate(tables[1].hashes.tolist())}
    assert found.tolist() == [at.get(key, -1) for key in tables[0].hashes.tolist()]


@pytest.mark.parametrize("rows", [0, 1, 191, 192, 193, 1000, 12345])
@pytest.mark.parametrize("run", [1, 100])
def test_bits_are_counted(rows: int, run: int) -> None:
    rng = np.random.default_rng(rows)
    sets = rng.integers(0, 2**63, (2, rows)).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    sets = np.repeat(sets[:, : -(-rows // run)], run, axis=1)[:, :rows]
    bits = np.unpackbits(sets.view(np.uint8).reshape(2, rows, 8), axis=2, bitorder="little")
    assert count_bits(sets).tolist() == bits.sum(axis=1).ravel().tolist()


def test_groups_of_a_part_that_two_plans_have_sliced() -> None:
    """Slices of older plans begin in another order than their tuples: t=7 in [0, 10) and t=4 in [3, 6)."""
    old = ask(1, (0, 1), 10)
    young = ask(2, (0, 1), 3)
    first, both = JoinLogic(plan_join(SCHEMA, [old])), JoinLogic(plan_join(SCHEMA, [old, young]))

    def right(logic: JoinLogic, moment: int, held: list[JoinSegment]) -> list[JoinSegment]:
        tuples = prepare_join(logic, 1, batch(np.zeros(600, int), np.full(600, moment)), NEVER_US, [])
        assert tuples is not None
        blobs = [shipment.blob for shipment in ship_join(logic, tuples, ALONE)]
        found = reduce_join(logic, receive_join(logic, blobs), held, [], NEVER_US, NEVER_US, NOWHERE)
        assert found.segment is not None
        return [found.segment]

    held = right(both, 4, right(first, 7, []))
    tuples = prepare_join(both, 0, batch(np.zeros(600, int), np.full(600, 8)), NEVER_US, [])
    assert tuples is not None
    blobs = [shipment.blob for shipment in ship_join(both, tuples, ALONE)]
    rows: dict[int, int] = {}

    def count(chain: int, block: JoinedBlock) -> None:
        rows[chain] = rows.get(chain, 0) + block.rows

    outlet = replace(NOWHERE, consume=count)
    found = reduce_join(both, receive_join(both, blobs), held, [], NEVER_US, NEVER_US, outlet)
    assert found.rows.get(1) == 600 * 1200
    assert rows == {0: 600 * 1200}
