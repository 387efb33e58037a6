"""Upkeep over several groups, without Spark: what one of them needs stays, and what none needs goes."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.catalog.catalog import Catalog
from headrace.engine.delivered import Delivered
from headrace.engine.heirs import inherit, still_inherited
from headrace.engine.options import UpkeepOptions
from headrace.engine.paths import commits_dir, plan_path, segments_dir
from headrace.engine.records import Commit, ResultFile
from headrace.engine.recovery import last_commits
from headrace.engine.result_files import write_results
from headrace.engine.upkeep import Upkeep
from headrace.model.grouping import MAIN, GroupKind, Regrouping, Relocation, kind_of
from headrace.model.metrics import QueryCounts
from headrace.model.query import QueryId
from headrace.model.state import SegmentFile
from headrace.planner.shared import query_signature
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


def test_nobody_moves_into_a_group_while_it_is_removed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = house.log.catalog
    catalog.request_create("a", PLAN, group="alerts")
    catalog.request_create("b", PLAN)
    house.seal(1)
    house.commit("alerts", 0)
    house.commit(MAIN, 0)
    catalog.request_drop("a")
    house.commit(MAIN, house.seal(2))
    joins = threading.Thread(target=moved, args=(house, 2, MAIN, "alerts", 99, ""))
    remove, seen = house.upkeep._remove_group, []

    def removing(group: str) -> None:
        joins.start()
        joins.join(0.1)
        seen.append((group, joins.is_alive(), catalog.homes.groups()))
        remove(group)

    monkeypatch.setattr(house.upkeep, "_remove_group", removing)
    for day in range(1, 12):
        if not seen:
            house.clock.time += DAY
            house.commit(MAIN, house.seal(day + 2))
    joins.join(20)
    assert seen == [("alerts", True, (MAIN,))] and "alerts" in catalog.homes.groups()


def test_a_plan_that_an_epoch_under_way_has_written_again_stays(house: House) -> None:
    """A query comes and goes again: the plan without it is garbage, and a moment later it is needed."""
    path = plan_path(MAIN, "a")
    house.upkeep.discard([path])
    house.log.warehouse.replace(path, b"plan")
    house.commit(MAIN, house.seal(1), plan="b")
    assert house.exists(path)
    long_ago = time.time() - 60
    os.utime(house.log.warehouse.path(path), (long_ago, long_ago))
    house.commit(MAIN, house.seal(2), plan="b")
    assert not house.exists(path), "the epoch failed, and nobody has written it since"


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


def arrived(house: House, heir: str = MAIN) -> str:
    """A query began in the past: it ran epochs 0 to 2 on its way, and lives in another group from epoch 3 on."""
    for second in range(2):
        house.commit(MAIN, house.seal(second))
    house.log.catalog.request_create("a", PLAN, start=0)
    house.commit(MAIN, house.seal(2))
    (entry,) = house.log.catalog.current()
    group = entry.group
    assert kind_of(group) is GroupKind.TRANSIT
    rows: tuple[ResultFile, ...] = ()
    for epoch in range(3):
        file = house.result(group, epoch, int(entry.query.id))
        rows = (*rows, replace(file, signature=query_signature(entry.query)))
        house.commit(group, epoch, results=rows, rows=QueryCounts.of((entry.query.id,), (epoch + 1,)))
    moved(house, int(entry.query.id), group, heir, 3, house.file(group, "brought.arrow"))
    return group


def main_runs(house: House, second: int, state: str | None = None) -> None:
    """The next epoch of the main group, which takes over what ended groups have left, and may name a state file."""
    runs(house, MAIN, house.seal(second), state)


def runs(house: House, group: str, epoch: int, state: str | None = None) -> None:
    """An epoch of a group."""
    before = house.delivered.commit_of(group)
    left = house.upkeep.claim_legacies(before)
    made = inherit(
        replace(
            before,
            epoch=epoch,
            segments=() if state is None else (SegmentFile("o", state, 5, 0, 10**15),),
            regrouping=house.log.catalog.homes.last_regrouping,
            inherited=still_inherited(before, house.delivered.commits),
        ),
        left,
    )
    names = ("segments", "results", "rows", "regrouping", "inherited")
    house.commit(group, epoch, **{name: getattr(made, name) for name in names})
    house.upkeep.release(left)


def seen(delivered: Delivered, catalog: Catalog) -> tuple[int, list[str], int]:
    """What readers of the only query are told: rows, files, and how far it is."""
    (entry,) = catalog.current()
    view = delivered.view(entry)
    return view.stored_rows, sorted(file.path for file in view.files), view.cursor


def test_what_a_transit_group_has_left_goes_to_its_heir_and_counts_once(house: House, tmp_path: Path) -> None:
    """Whoever opens the warehouse after any epoch is told the same rows."""
    group = arrived(house)
    rows, files, _ = seen(house.delivered, house.log.catalog)
    assert rows == 3 and len(files) == 3
    for second in range(3, 8):
        main_runs(house, second)
        assert seen(house.delivered, house.log.catalog) == (rows, files, second), second
        copy = tmp_path / f"copy{second}"
        shutil.copytree(house.log.warehouse.root, copy)
        again = open_log(copy)
        delivered = Delivered(again.catalog, again.sealer, last_commits(again.warehouse))
        assert seen(delivered, again.catalog) == (rows, files, second), second
    (entry,) = house.log.catalog.current()
    assert [stay.group for stay in entry.stays] == [MAIN] and entry.stays[0].epoch == 0
    assert group not in house.delivered.commits and not house.exists(f"groups/{group}")
    assert house.delivered.main.inherited == {} and house.log.catalog.homes.groups() == (MAIN,)
    assert all(house.exists(path) for path in files)


def test_the_folder_of_a_transit_group_stays_while_somebody_needs_state_in_it(house: House) -> None:
    group = arrived(house)
    state = house.file(group, "brought.arrow")
    for second in range(3, 8):
        main_runs(house, second, state)
        assert house.exists(state), second
    main_runs(house, 8)
    main_runs(house, 9)
    assert not house.exists(f"groups/{group}")


def test_results_of_a_transit_group_stay_its_own_while_its_queries_are_apart(house: House) -> None:
    group = arrived(house)
    (entry,) = house.log.catalog.current()
    moved(house, int(entry.query.id), MAIN, "transit-1-3", 4, house.file(MAIN, "more.arrow"))
    for second in range(3, 6):
        main_runs(house, second)
    assert house.delivered.main.inherited == {}, "its query is on its way again"
    assert house.delivered.commit_of(group).results and house.exists(f"groups/{group}")


def test_what_may_hold_rows_of_archived_queries_is_left_where_they_look_for_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = arrived(house)
    (entry,) = house.log.catalog.current()
    archived = [(int(entry.query.id), 0, 2)]
    monkeypatch.setattr(house.log.catalog, "archived_lifetimes", lambda: archived)
    assert house.upkeep.claim_legacies(house.delivered.main) == []
    archived[0] = (int(entry.query.id), 3, 4)  # it lived when the group had ended
    (left,) = house.upkeep.claim_legacies(house.delivered.main)
    assert left.group == group
    assert house.upkeep.claim_legacies(house.delivered.main) == [], "nobody else takes it meanwhile"


def test_a_group_has_one_heir_wherever_its_queries_go_later(house: House) -> None:
    group = arrived(house)
    main_runs(house, 3)
    assert [*house.delivered.main.inherited] == [group]
    (entry,) = house.log.catalog.current()
    moved(house, int(entry.query.id), MAIN, "alerts", 4, house.file(MAIN, "more.arrow"))
    house.seal(4)
    assert house.upkeep.claim_legacies(house.commit("alerts", 4)) == []
    (entry,) = house.log.catalog.current()
    assert house.delivered.stored_rows(entry) == 3


def test_an_heir_that_ends_at_once_keeps_no_folder_of_a_transit_group_longer_than_the_log(
    house: House, tmp_path: Path
) -> None:
    """Its old commits would stay for ever, because no new one comes. The log does not go on from them any more."""
    house.upkeep.options = replace(house.upkeep.options, keep_commits=3)
    group = arrived(house, "alerts")
    main_runs(house, 3)
    house.commit("alerts", 3)
    main_runs(house, 4)
    runs(house, "alerts", 4)
    assert [*house.delivered.commit_of("alerts").inherited] == [group]
    (entry,) = house.log.catalog.current()
    moved(house, int(entry.query.id), "alerts", MAIN, 5, house.file("alerts", "more.arrow"))
    for second in range(5, 12):
        main_runs(house, second)
    assert house.log.warehouse.records(commits_dir("alerts")) == [3, 4], "it could go back to epoch 3"
    assert house.exists(f"groups/{group}")
    rows, files, _ = seen(house.delivered, house.log.catalog)
    assert rows == 3 and len(files) == 3
    house.clock.time += 2 * DAY
    for second in range(12, 16):
        main_runs(house, second)
        assert seen(house.delivered, house.log.catalog) == (rows, files, second)
        copy = tmp_path / f"copy{second}"
        shutil.copytree(house.log.warehouse.root, copy)
        again = open_log(copy)
        delivered = Delivered(again.catalog, again.sealer, last_commits(again.warehouse))
        assert seen(delivered, again.catalog) == (rows, files, second), second
    assert house.log.sealer.first > 4 and house.log.warehouse.records(commits_dir("alerts")) == [4]
    assert group not in house.delivered.commits and not house.exists(f"groups/{group}")
    (entry,) = house.log.catalog.current()
    assert [stay.group for stay in entry.stays] == ["alerts", MAIN]
