"""Strategies that change between epochs, with windows open, in whole jobs without a JVM.

The same tuples and queries are played twice: once as products all the time, and once with products and joined groups
that turn into each other. Every epoch has to deliver the same rows.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from local_spark import LocalSpark

from headrace.catalog.queries import QueryEntry
from headrace.engine import job
from headrace.engine.rebuild import Beginning, Ground, rebuild_commit
from headrace.engine.records import Commit, no_commit
from headrace.log.chunks import write_chunk
from headrace.model.epoch import NEVER_US, Epoch, StreamEpoch
from headrace.model.grouping import MAIN, GroupSpec
from headrace.model.partitioning import even_partitioning
from headrace.model.query import EpochId, QueryId, Stream
from headrace.model.strategy import DEFAULTS, Strategies, Strategy
from headrace.planner.group import Member, plan_group
from headrace.storage.envelope import envelope

sys.path.append(str(Path(__file__).parents[1] / "operators"))

from test_product_lives import STREAMS, random_query
from test_tasks import result_rows, run_epoch

from forced import forced_choice
from thorough import seeds

BOTH = (Strategy.PRODUCT, Strategy.JOINED_GROUPS)
EPOCHS = 8


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "unwrap_spark_exception", nullcontext)


@dataclass
class World:
    """What a rebuild asks of the warehouse, the catalog and the sealed epochs."""

    root: Path
    entries: list[QueryEntry]
    sealed: list[Epoch] = field(default_factory=list)
    first: int = 0

    def replace_value(self, path: str, kind: str, value: Any) -> None:
        self.replace(path, envelope(kind, value))

    def replace(self, path: str, data: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def streams(self, epoch: int) -> list[Stream]:
        return list(STREAMS.values())

    def active_entries(self, epoch: int, group: str) -> list[QueryEntry]:
        return [entry for entry in self.entries if entry.active_in(epoch)]

    @property
    def homes(self) -> World:
        return self

    @property
    def functions(self) -> Any:
        return SimpleNamespace(check=lambda queries: None, files=lambda: ())

    def regroupings(self, group: str, after: int, until: int) -> list[Any]:
        return []

    def epoch(self, number: int) -> Epoch:
        return self.sealed[number]

    def epochs(self, first: int, last: int) -> list[Epoch]:
        return self.sealed[first:last]

    def change(self, commit: Commit, strategies: Strategies, moved: frozenset[QueryId]) -> Commit:
        """The commit with other strategies of some queries."""
        spec = GroupSpec(MAIN, 2, even_partitioning(2))
        held, following = commit.segments, len(self.sealed)
        world: Any = self
        spark: Any = LocalSpark()
        ground = Ground(spark, world, world, world)
        return rebuild_commit(ground, commit, Beginning(following, held, spec, strategies), moved)


def play(root: Path, seed: int, *, changes: bool) -> tuple[list[Counter[Any]], Counter[Strategy]]:
    """(the rows of each epoch, how often a query changed to each strategy)."""
    rng, choosing = random.Random(seed), random.Random(seed + 1)
    entries = []
    for number in range(1, 13):
        first = rng.choice([0, 0, 1, 3])
        last = rng.choice([None, None, first + 3])
        epochs = (EpochId(first), None if last is None else EpochId(last))
        entries.append(
            QueryEntry(random_query(rng, number), slot=number, first_epoch=epochs[0], last_epoch=epochs[1])
        )
    world, commit, moved, found = World(root, entries), no_commit(MAIN), Counter[Strategy](), []
    closed, strategies = NEVER_US, DEFAULTS
    for number in range(EPOCHS):
        if changes and number:
            commit, strategies = changed(world, commit, strategies, choosing, moved)
        epoch, closed = arriving(root, rng, number, closed)
        world.sealed.append(epoch)
        active = world.active_entries(number, MAIN)
        plan = plan_group([Member(e.query, e.slot or 0) for e in active], STREAMS, strategies=strategies)
        result = run_epoch(root, MAIN, even_partitioning(2), plan, epoch, list(commit.segments))
        assert not result.failures
        found.append(result_rows(root, result, {}))
        commit = Commit(MAIN, number, plan.version, tuple(result.segments), ())
    return found, moved


def changed(
    world: World, commit: Commit, strategies: Strategies, rng: random.Random, moved: Counter[Strategy]
) -> tuple[Commit, Strategies]:
    """Some of the queries that go on turn to the other strategy."""
    before, choices = strategies.by_query(), {}
    for entry in world.active_entries(commit.epoch, MAIN):
        if rng.random() < 0.4:
            now = before[entry.query.id].strategy if entry.query.id in before else Strategy.PRODUCT
            choices[entry.query.id] = forced_choice(entry.query, BOTH[1 - BOTH.index(now)])
            moved[choices[entry.query.id].strategy] += 1
    strategies = strategies.with_changes(choices)
    commit = world.change(commit, strategies, frozenset(choices))
    assert commit.strategies == strategies
    return commit, strategies


def arriving(root: Path, rng: random.Random, number: int, closed: int) -> tuple[Epoch, int]:
    """An epoch with tuples of both streams, some of them late; and its watermark."""
    parts, times = [], [closed]
    for name, stream in STREAMS.items():
        rows = [
            {
                "k": rng.choice([0, 1, -1, 7, None]),
                "v": rng.choice([*range(6), None]),
                "ts": 3 * number - rng.choice([0, 0, 3, 9]) + rng.randrange(6),
            }
            for _ in range(rng.randrange(15))
        ]
        times += [row["ts"] for row in rows if row["ts"] is not None]
        schema = pa.schema([(c.name, c.type.arrow) for c in stream.columns])
        table = pa.Table.from_pylist(rows, schema=schema)
        chunks = (write_chunk(root, f"log/{name}", table, "ts", number),) if rows else ()
        parts.append((name, chunks))
    watermark = max(closed, max(times) - 3) if max(times) > NEVER_US else NEVER_US
    streams = tuple(StreamEpoch(name, chunks, closed, watermark) for name, chunks in parts)
    return Epoch(EpochId(number), streams), watermark


@pytest.mark.parametrize("seed", seeds(1))
def test_rows_are_the_same_whenever_strategies_change(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    steady, _ = play(tmp_path / "steady", seed, changes=False)
    turning, moved = play(tmp_path / "turning", seed, changes=True)
    assert turning == steady
    assert sum(map(len, steady)) > 30 and min(moved[strategy] for strategy in BOTH) > 3
