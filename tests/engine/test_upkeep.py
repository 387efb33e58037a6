"""Upkeep over several groups, without Spark: what one of them needs stays, and what none needs goes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.engine.delivered import Delivered
from headrace.engine.options import UpkeepOptions
from headrace.engine.paths import commits_dir, segments_dir
from headrace.engine.records import Commit, ResultFile
from headrace.engine.result_files import write_results
from headrace.engine.upkeep import Upkeep
from headrace.model.grouping import MAIN, Regrouping, Relocation
from headrace.model.query import QueryId
from headrace.model.state import SegmentFile
from headrace.storage.checksums import written
from log_samples import PLAN, PURCHASES, FakeClock, Opened, open_log

DAY = 86_400.0


class House:
    """A warehouse whose groups commit by hand, and whose clock can be set."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock(time.time())
        self.log: Opened = open_log(path, self.clock)
        self.log.catalog.create_stream(PURCHASES, None)
        self.delivered = Delivered(self.log.catalog, self.log.sealer, {})
        options = UpkeepOptions(
            retention_us=int(7 * DAY * 1e6),
            log_retention_us=int(DAY * 1e6),
            grace_seconds=0.0,
            keep_commits=1,
            every=1,
        )
        self.upkeep = Upkeep(
            self.log.warehouse, self.log.catalog, self.log.sealer, self.delivered, options, self.clock.now
        )

    def seal(self, *times: int) -> int:
        self.log.catalog.flush()
        if times:
            self.log.append(*times)
        epoch = self.log.sealer.seal() or self.log.sealer._seal(100, even_empty=True)
        assert epoch is not None
        return int(epoch.id)

    def file(self, group: str, name: str) -> str:
        rel = f"{segments_dir(group)}/{name}"
        path = self.log.warehouse.path(rel)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"state")
        return rel

    def result(self, group: str, epoch: int, query: int) -> ResultFile:
        rel = f"results/t/{group}-{epoch}.parquet"
        path = self.log.warehouse.path(rel)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rows")
        return ResultFile("t", rel, 1, 4, epoch, epoch, query, query, None, written_at=self.clock.time)

    def rows(self, group: str, number: int, query: int) -> ResultFile:
        """A result file with one row that can be read."""
        rel = f"results/t/{group}-{number}.parquet"
        path = self.log.warehouse.path(rel)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_results(pa.table({"query": [query], "a0": [number]}), path)
        size, crc = written(path)
        return ResultFile(
            "t", rel, 1, size, 0, 0, query, query, None, written_at=self.clock.time, checksum=crc
        )

    def commit(self, group: str, epoch: int, **values: Any) -> Commit:
        before = self.delivered.commit_of(group)
        commit = replace(before, epoch=epoch, committed_at=self.clock.time, **values)
        self.log.warehouse.put_record(commits_dir(group), epoch, commit, kind="commit")
        self.delivered.replace(commit)
        self.upkeep.after(before, commit)
        return commit

    def exists(self, rel: str) -> bool:
        return self.log.warehouse.path(rel).exists()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "warehouse")


def moved(house: House, query: int, source: str, target: str, epoch: int, state: str) -> None:
    homes = house.log.catalog.homes
    files = (SegmentFile("o", state, 5, 0, 10**15, only=(query,)),)
    moves = (Relocation(QueryId(query), source, target),)
    homes.regroup(Regrouping(homes.last_regrouping + 1, epoch, moves, state={target: files}))


def test_state_that_a_group_has_yet_to_take_in_stays(house: House) -> None:
    """Main is an epoch behind the one that the query comes with, and looks after everything meanwhile."""
    house.log.catalog.request_create("a", PLAN, group="alerts")
    for second in range(4):
        house.seal(second)
    state = house.file("alerts", "brought.arrow")
    house.commit("alerts", 2, segments=(SegmentFile("o", state, 5, 0, 10**15),))
    moved(house, 1, "alerts", MAIN, 3, state)
    for epoch in range(3):
        house.commit(MAIN, epoch)
        assert house.exists(state), f"after epoch {epoch}"
        assert house.log.catalog.homes.regroupings(MAIN, -1, 3), "the record is there"
    house.commit(MAIN, 3, regrouping=house.log.catalog.homes.last_regrouping)
    house.commit(MAIN, house.seal())
    assert not house.exists(state), "main did not keep it, and nobody else needs it"


def test_results_of_a_group_outlive_the_log_and_expire_when_their_time_has_come(house: House) -> None:
    house.log.catalog.request_create("a", PLAN, group="alerts")
    house.seal(1)
    rows = house.result("alerts", 0, 1)
    house.commit("alerts", 0, results=(rows,))
    house.commit(MAIN, 0)
    house.log.catalog.request_drop("a")
    house.commit(MAIN, house.seal(2))
    for day in range(1, 7):
        house.clock.time += DAY
        house.commit(MAIN, house.seal(day + 2))
    assert house.log.sealer.first > 0, "the log is forgotten, so upkeep goes on"
    assert house.exists(rows.path) and house.delivered.commit_of("alerts").results == (rows,)
    for day in range(7, 10):
        house.clock.time += DAY
        house.commit(MAIN, house.seal(day + 2))
    assert not house.exists(rows.path)
    assert "alerts" not in house.delivered.commits and not house.exists("groups/alerts")


def test_what_was_merged_for_a_group_counts_when_the_group_has_ended(house: House) -> None:
    """Its last commit began a merge, and no later one takes it in."""
    house.log.catalog.request_create("a", PLAN, group="alerts")
    house.seal(1)
    files = tuple(house.rows("alerts", number, 1) for number in range(house.upkeep.options.fan_in))
    compaction = house.upkeep.compaction("alerts")
    rewritten = compaction.rewrite(replace(house.delivered.commit_of("alerts"), epoch=0, results=files))
    assert rewritten.results == files, "merged files come with the next commit"
    house.commit("alerts", 0, results=rewritten.results)
    house.upkeep._beside.submit(int).result()  # the merge before it is done
    house.commit(MAIN, 0)
    house.log.catalog.request_drop("a")
    house.commit(MAIN, house.seal(2))
    (merged,) = house.delivered.commit_of("alerts").results
    assert merged.rows == len(files) and merged.level == 1 and house.exists(merged.path)
    house.commit(MAIN, house.seal(3))
    assert house.delivered.commit_of("alerts").results == (merged,) and house.exists(merged.path)
    assert not any(house.exists(file.path) for file in files)
