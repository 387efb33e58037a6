"""The shared join kernel against a slow evaluator: random queries that come and go, late tuples, reused slots."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from join_cases import (
    KEYS,
    NUMBER,
    Arrived,
    Ask,
    Row,
    Schema,
    as_columns,
    joined,
    leaves_of,
    plan_joins,
    random_ask,
    random_rows,
)
from shelf import Groups, Shelf

from headrace.model.epoch import NEVER_US
from headrace.model.state import SegmentFile
from headrace.model.tables import joined_column
from headrace.operators.common import cells
from headrace.operators.common.placing import Portion
from headrace.operators.join import keys as join_keys
from headrace.operators.join import partners, windows
from headrace.operators.join.block import JoinedBlock, stored_rows
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.reduce import Outlet, reduce_join, resume_join
from headrace.operators.join.state import JoinSegment, join_from, join_items, portion_of_join
from headrace.operators.join.tuples import prepare_join, receive_join, ship_join
from headrace.optimizer.layout import Layout

SEEDS = int(os.environ.get("HEADRACE_EXAMPLES", "1"))
PARTITIONS = 2


class Case:
    """One random life of a join operator: every epoch is checked as it ends."""

    def __init__(self, seed: int, keys: int, changes: bool = False) -> None:
        self.rng = rng = random.Random(seed)
        wide = tuple(rng.random() < 0.7 for _ in range(rng.choice([1, 2, 2, 3])))
        self.schema = Schema(tuple(rng.choice(KEYS) for _ in range(keys)), wide)
        self.asks: list[Ask] = []
        self.next_id = 1
        self.seen: dict[int, list[list[Arrived]]] = {}
        self.groups = Groups(rng, changes, PARTITIONS)
        # with changes, state lives long enough to come back, and there is less of it
        self.step, self.stay, self.most = (2, 0.95, 8) if changes else (6, 0.8, 10 + 2 * keys)
        self.rows: dict[int, dict[str, Any]] = {}
        self.closed = NEVER_US
        self.found = 0
        self.hops = 0

    def change_queries(self) -> None:
        rng = self.rng
        self.asks = [ask for ask in self.asks if rng.random() < self.stay]
        for _ in range(rng.choice([0, 1, 2, 3]) if self.asks else 3):
            taken = {ask.slot for ask in self.asks}
            slot = rng.choice([s for s in (0, 1, 2, 63, 64, 70, 200) if s not in taken] or [max(taken) + 1])
            self.asks.append(random_ask(rng, self.schema, self.next_id, slot))
            self.seen[self.next_id] = [[] for _ in self.schema.wide]
            self.next_id += 1
        moved = self.groups.change(ask.id for ask in self.asks)
        for i, ask in enumerate(self.asks):
            if ask.id in moved and rng.random() < 0.5:  # a query may get another slot on its way
                self.asks[i] = replace(ask, slot=max(other.slot for other in self.asks) + rng.choice([1, 70]))

    def run_epoch(self, epoch: int) -> None:
        rng, schema = self.rng, self.schema
        self.change_queries()
        latest = [self.closed]
        batches: list[tuple[int, list[Row]]] = []
        for stream in range(len(schema.wide)):
            for _ in range(rng.choice([0, 1, 1, 2])):
                count = rng.randrange(1, self.most)
                batch = random_rows(rng, schema, count, self.step * epoch, len(self.rows))
                self.rows |= {row["n"]: row for row in batch}
                latest += [row["ts"] for row in batch if row["ts"] is not None]
                batches.append((stream, batch))
                for ask in self.asks:
                    self.seen[ask.id][stream] += [(row, self.closed, epoch) for row in batch]
        watermark = max(self.closed, max(latest) - 5) if max(latest) > NEVER_US else NEVER_US
        for group, shelf in enumerate(self.groups.shelves):
            asks = [ask for ask in self.asks if self.groups.home(ask.id) == group]
            planned = plan_joins(self.schema, asks)
            living = {operator.id for operator in planned}
            shelf.references = [file for file in shelf.references if file.operator in living]
            for operator in planned:
                mine = [ask for ask in asks if ask.id in operator.queries]
                self._run_operator(shelf, mine, JoinLogic(operator), batches, epoch, watermark)
        self.closed = watermark

    def _run_operator(
        self,
        shelf: Shelf,
        asks: list[Ask],
        logic: JoinLogic,
        batches: list[tuple[int, list[Row]]],
        epoch: int,
        watermark: int,
    ) -> None:
        blobs = shelf.blobs()
        for stream, batch in batches:
            reading = (i for i in enumerate(logic.operator.inputs) if i[1].stream == f"s{stream}")
            for number, input_ in reading:
                tuples = prepare_join(logic, number, as_columns(batch, input_.scanned), self.closed, [])
                for shipment in [] if tuples is None else ship_join(logic, tuples, shelf.partitioning):
                    blobs[shipment.partition].append(shipment.blob)
        stored, counts = self._reduce(shelf, logic, blobs, epoch, watermark)
        self._check(asks, logic, stored, counts, epoch)

    def _reduce(
        self, shelf: Shelf, logic: JoinLogic, blobs: dict[int, list[bytes]], epoch: int, watermark: int
    ) -> tuple[list[tuple[int, pa.Table]], Counter[int]]:
        stored: list[tuple[int, pa.Table]] = []
        counts: Counter[int] = Counter()

        def consume(chain: int, block: JoinedBlock) -> None:
            assert block.rows and block.sets.any(axis=0).all()
            stored.append((chain, stored_rows(logic, chain, block, epoch)))
            leaves = logic.operator.chains[chain].leaves
            numbers = [block.column(i, NUMBER).to_pylist() for i in range(len(leaves))]
            for i, mine in enumerate(numbers):
                assert block.times(i).tolist() == [self.rows[n]["ts"] for n in mine]

        sent, id_ = shelf.blobs(), logic.operator.id
        outlet = Outlet(consume, lambda one: sent[one.partition].append(one.blob), shelf.partitioning)
        before = [self._chosen(shelf.held(id_, partition)) for partition in blobs]
        left: list[SegmentFile] = []
        for partition, (absorbed, kept) in enumerate(before):
            received = receive_join(logic, blobs[partition])
            old, stay = shelf.load(absorbed, read_state), shelf.load(kept, read_state)
            reduced = reduce_join(logic, received, old, stay, self.closed, watermark, outlet)
            counts.update(dict(reduced.rows.items()))
            left += kept
            if reduced.segment is not None:
                assert reduced.segment.last_end_us > watermark
                items, end = join_items(reduced.segment), reduced.segment.last_end_us
                left.append(shelf.write(id_, partition, items, end))
        for _ in range(1, logic.operator.levels):
            arrived, sent = sent, shelf.blobs()
            self.hops += sum(map(len, arrived.values()))
            for partition, (absorbed, kept) in enumerate(before):
                both = [*arrived[partition], *blobs[partition]]
                old, stay = shelf.load(absorbed, read_state), shelf.load(kept, read_state)
                found = resume_join(logic, both, old, stay, self.closed, outlet)
                counts.update(dict(found.items()))
        assert not any(sent.values())
        shelf.settle(id_, left)
        return stored, counts

    def _chosen(self, held: list[SegmentFile]) -> tuple[list[SegmentFile], list[SegmentFile]]:
        """Live segments to absorb, and to keep."""
        live = [s for s in held if s.last_end_us > self.closed or self.rng.random() < 0.5]
        chosen = [self.rng.random() < 0.5 for _ in live]
        absorbed = [s for s, taken in zip(live, chosen, strict=True) if taken]
        return absorbed, [s for s, taken in zip(live, chosen, strict=True) if not taken]

    def _check(
        self,
        asks: list[Ask],
        logic: JoinLogic,
        stored: list[tuple[int, pa.Table]],
        counts: Counter[int],
        epoch: int,
    ) -> None:
        for ask in asks:
            expected = joined(ask, self.seen[ask.id], epoch)
            found: Counter[tuple[Any, ...]] = Counter()
            for chain, table in stored:
                if any(q.query == ask.id for q in logic.operator.chains[chain].queries):
                    found += self._rows_of(ask, table, epoch)
            assert found == expected, ask
            assert counts[ask.id] == expected.total()
            self.found += expected.total()

    def _rows_of(self, ask: Ask, table: pa.Table, epoch: int) -> Counter[tuple[Any, ...]]:
        word = table.column(f"qs{ask.slot // 64}").to_numpy().view(np.uint64)
        mine = table.filter(pa.array((word >> np.uint64(ask.slot % 64)) & np.uint64(1) == 1))
        assert set(mine.column("epoch").to_pylist()) <= {epoch}

        leaves = leaves_of(self.schema, ask)

        def column(side: int, operand: Any) -> list[Any]:
            array = mine.column(joined_column(*leaves[side], operand))
            assert array.type == operand.type.arrow
            return (array.cast(pa.int64()) if operand.sql == "ts" else array).to_pylist()

        numbers = [column(i, NUMBER) for i in range(len(ask.sides))]
        for position, operand in ask.outputs:
            for number, value in zip(numbers[position], column(position, operand), strict=True):
                assert same(value, self.rows[number][operand.sql])
        return Counter(zip(*numbers, mine.column("late_us").to_pylist(), strict=True))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return left == right


def run_cases(seeds: range, keys: int, changes: bool = False) -> None:
    """Play a life per seed; lives with more keys have more tuples, and fewer of them are played."""
    seeds = seeds[: max(1, len(seeds) // keys**2)]
    found = hops = 0
    for seed in seeds:
        print("seed", seed)
        case = Case(seed, keys, changes)
        for epoch in range(5):
            case.run_epoch(epoch)
        found += case.found
        hops += case.hops
    assert found > 2 * len(seeds)
    assert hops > 2 * len(seeds) if keys > 1 else hops == 0


def read_state(items: Any, operator: str, portion: Portion) -> JoinSegment | None:
    return portion_of_join(join_from(items), operator, portion)


several_keys = pytest.mark.parametrize("keys", [1, 2, 3])


@several_keys
def test_equals_the_slow_evaluator(keys: int) -> None:
    run_cases(range(2 * SEEDS), keys)


@several_keys
def test_nothing_changes_when_keys_and_queries_move(keys: int) -> None:
    run_cases(range(5000, 5000 + SEEDS), keys, changes=True)


@several_keys
def test_blocks_searches_and_windows_pair_by_pair_change_nothing(
    monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    monkeypatch.setattr(partners, "BLOCK_ROWS", 3)
    monkeypatch.setattr(partners, "SCAN_ROWS", 0)
    monkeypatch.setattr(windows, "TABLE_ELEMENTS", 0)
    monkeypatch.setattr(cells, "DENSE_CELLS", 0)  # query-sets are found by matches
    run_cases(range(1001, 1001 + SEEDS), keys)


@several_keys
def test_keys_whose_hashes_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    monkeypatch.setattr(join_keys, "hash_keys", lambda table: np.zeros(table.num_rows, np.int64))
    run_cases(range(2000, 2000 + SEEDS), keys)


@several_keys
def test_groups_find_the_same_rows_as_lists(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    monkeypatch.setattr(partners.Meeting, "_layout", lambda *args: Layout.GROUPS)
    run_cases(range(3000, 3000 + SEEDS), keys)
    monkeypatch.setattr(partners, "BLOCK_ROWS", 3)
    run_cases(range(4000, 4000 + SEEDS), keys)
