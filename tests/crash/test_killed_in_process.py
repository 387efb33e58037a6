"""Death at every commit-relevant point, inside one process: the session is abandoned, the warehouse opened again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scenario import BUSY, FAST, Dies, delivered, files_of, lifetimes, named_by, outlive, play

import headrace

pytestmark = [pytest.mark.crash, pytest.mark.spark]

BEFORE = [
    f"{name}.{when}"
    for name in ("arrival", "changelog", "seal", "job", "compact", "commit")
    for when in ("before", "after")
]
"""Points up to the commit: a recovery that died there comes by them again."""

AFTER = [
    "commit.after",
    "snapshot.before",
    "snapshot.after",
    "pack.before",
    "pack.after",
    "expire.before",
    "expire.noted",
    "expire.chunks",
    "upkeep.after",
]
"""Points after it: whoever dies at one never comes to the next ones of that epoch."""


def live_and_die(spark: Any, path: Path, dies: Dies, **options: Any) -> tuple[Any, int]:
    """Play the scenario to its end; (last session, lives)."""

    def opens() -> Any:
        return headrace.open(path, spark=spark, progress=False, upkeep=BUSY, **options)

    return outlive(opens, lambda hr: play(hr, FAST), dies)


@pytest.fixture(scope="module")
def undisturbed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    hr, lives = live_and_die(spark, tmp_path_factory.mktemp("undisturbed"), lambda point, epoch: False)
    assert lives == 1
    yield hr
    hr.close()


def check_equal(hr: Any, undisturbed: Any) -> None:
    """Same rows, same lifetimes and slots, and the next writer leaves no file that nothing names."""
    assert delivered(hr) == delivered(undisturbed)
    assert lifetimes(hr) == lifetimes(undisturbed)
    hr.close()
    with headrace.open(hr._warehouse.root, spark=hr.spark, upkeep=BUSY) as again:
        assert files_of(again) == named_by(again)


def test_killed_at_every_point_up_to_the_commit(spark: Any, tmp_path: Path, undisturbed: Any) -> None:
    """One death per point and epoch, one after the other, each followed by a recovery."""
    met: set[tuple[str, int]] = set()

    def dies(point: str, epoch: int) -> bool:
        first_time = point in BEFORE and (point, epoch) not in met
        met.add((point, epoch))
        return first_time

    hr, lives = live_and_die(spark, tmp_path / "warehouse", dies)
    assert {point for point, _ in met} >= set(BEFORE)
    assert lives > 6 * 11
    check_equal(hr, undisturbed)


@pytest.mark.parametrize("point", AFTER)
def test_killed_in_upkeep(spark: Any, tmp_path: Path, undisturbed: Any, point: str) -> None:
    """A death at this point in every epoch that comes to it."""
    met: set[int] = set()

    def dies(reached: str, epoch: int) -> bool:
        first_time = reached == point and epoch not in met
        met.update([epoch] if first_time else [])
        return first_time

    retention = "1 millisecond" if point.startswith("expire") else None
    hr, lives = live_and_die(spark, tmp_path / "warehouse", dies, log_retention=retention)
    assert lives > 1
    check_equal(hr, undisturbed)


@pytest.mark.parametrize("seed", range(6 if os.environ.get("HEADRACE_THOROUGH") else 1))
def test_killed_at_random_points(spark: Any, tmp_path: Path, undisturbed: Any, seed: int) -> None:
    """Some deaths with long undisturbed stretches between them."""
    chance = random.Random(seed)

    def dies(point: str, epoch: int) -> bool:
        return chance.random() < 0.05

    hr, lives = live_and_die(spark, tmp_path / "warehouse", dies, log_retention="500 milliseconds")
    assert lives > 1
    check_equal(hr, undisturbed)
