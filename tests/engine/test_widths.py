"""How wide groups run, without Spark: who decides it, for whom, and from which epoch on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_spark import LocalSpark

from headrace.engine.delivered import Delivered
from headrace.engine.groups import Groups
from headrace.engine.house import House
from headrace.engine.options import GroupOptions
from headrace.engine.upkeep import Upkeep
from headrace.model.grouping import MAIN
from log_samples import PURCHASES, Opened, open_log

Opening = Callable[..., tuple[Opened, Groups]]


@pytest.fixture
def opening(tmp_path: Path) -> Opening:
    def opened(partitions: int | None = None) -> tuple[Opened, Groups]:
        log, options = open_log(tmp_path), GroupOptions(partitions)
        delivered = Delivered(log.catalog, log.sealer, {})
        upkeep = Upkeep(log.warehouse, log.catalog, log.sealer, delivered, options.upkeep)
        house = House(log.warehouse, log.catalog, log.sealer, delivered, upkeep, options)
        session: Any = LocalSpark()
        return log, Groups(house, lambda name: session)

    return opened


def tasks(log: Opened, *groups: str, epoch: int = 99) -> list[int]:
    specs = (log.catalog.homes.spec(group, epoch) for group in groups)
    return [spec.tasks for spec in specs if spec is not None]


def test_what_a_person_chose_holds_for_all_groups_whatever_was_decided_for_them_before(
    opening: Opening,
) -> None:
    log, groups = opening()
    assert tasks(log, MAIN, "auto-0") == [2, 2], "as Spark has cores"
    groups.resize("auto-0", 1)
    groups.resize(MAIN, 3)
    assert tasks(log, MAIN, "auto-0", "alerts") == [3, 1, 3]
    groups.repartition(4)
    groups.resize(MAIN, 3)
    assert tasks(log, MAIN, "auto-0", "alerts") == [4, 4, 4]
    groups.resize("auto-0", 1)
    assert tasks(log, MAIN, "auto-0") == [4, 1], "the groups of a policy are its own again"
    log.close()
    log, _ = opening()
    assert tasks(log, MAIN, "auto-0") == [4, 1], "and it stays so"
    log.close()
    log, _ = opening(300)
    last = log.catalog.homes.last_regrouping
    assert tasks(log, MAIN, "auto-0") == [300, 300], "more tasks than there are key groups"
    log.close()
    log, _ = opening(300)
    assert log.catalog.homes.last_regrouping == last, "nothing has changed"


def test_the_epoch_from_which_a_width_is_in_force_is_not_sealed_before_it_is_written(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group could run the epoch with another width else, and replay it with this one."""
    log, groups = opening()
    log.sealer.create_stream(PURCHASES)
    log.append(1)
    homes, regroup = log.catalog.homes, log.catalog.homes.regroup
    sealing = threading.Thread(target=log.sealer.seal)

    def slow(record: Any) -> None:
        sealing.start()
        sealing.join(0.2)
        assert log.sealer.latest is None and record.epoch == 0
        regroup(record)

    monkeypatch.setattr(homes, "regroup", slow)
    groups.repartition(5)
    sealing.join(20)
    assert log.sealer.latest is not None and tasks(log, MAIN, epoch=0) == [5]
    log.close()
