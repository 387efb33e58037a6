"""Files that are missing, cut off, emptied or changed by one bit: a HeadraceError that names the file, and everything
else goes on. State is made anew from the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from scenario import BUSY, FAST, batch, delivered, lifetimes, play

import headrace
from headrace.catalog.queries import QueryState
from headrace.engine.options import UpkeepOptions
from headrace.model.errors import HeadraceError
from headrace.storage.envelope import envelope
from tampering import flip
from thorough import THOROUGH

pytestmark = [pytest.mark.crash, pytest.mark.spark]

Damage = Callable[[Path], None]


def missing(path: Path) -> None:
    path.unlink()


def cut_off(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def scrambled(path: Path) -> None:
    """Same length, other content."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3 :] = bytes(len(data) - len(data) // 3)
    path.write_bytes(bytes(data))


DAMAGES: list[Damage] = [missing, cut_off, emptied]


def damage_all(paths: list[Path], damages: list[Damage]) -> None:
    """Every file, by each kind of damage in turn."""
    assert len(paths) >= len(damages)
    for path, damage in zip(paths, cycle(damages)):
        damage(path)


@pytest.fixture(scope="module")
def played(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse after four of the seven steps, with state, open windows and files on several levels."""
    path = tmp_path_factory.mktemp("played")
    with headrace.open(path, spark=spark, upkeep=BUSY, progress=False) as hr:
        play(hr, steps=4)
    return path


@pytest.fixture(scope="module")
def undisturbed(spark: Any, played: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("undisturbed") / "warehouse"
    shutil.copytree(played, path)
    with headrace.open(path, spark=spark, upkeep=BUSY, progress=False) as hr:
        play(hr)
        yield hr


@pytest.fixture
def warehouse(played: Path, tmp_path: Path) -> Path:
    return shutil.copytree(played, tmp_path / "warehouse")


def newest(warehouse: Path, pattern: str) -> Path:
    return sorted(warehouse.glob(pattern))[-1]


def segments(warehouse: Path) -> list[Path]:
    return sorted((warehouse / "groups/main/segments").iterdir())


def check_named(raised: pytest.ExceptionInfo[HeadraceError], path: Path) -> None:
    """The message names the file, tells what to do, and is no page of Java."""
    assert str(path) in raised.value.message
    assert raised.value.hint
    assert "\tat " not in str(raised.value) and "Py4J" not in str(raised.value)


# the log


def test_chunk_of_the_next_epoch(spark: Any, warehouse: Path) -> None:
    with headrace.open(warehouse, spark=spark, upkeep=BUSY, progress=False) as hr:
        hr.append("purchases", batch(4))
        chunk = warehouse / hr._arrivals.pending()[-1].chunks[0].path
        kept = chunk.read_bytes()
        for damage in (*DAMAGES, scrambled, flip):
            chunk.write_bytes(kept)
            damage(chunk)
            with pytest.raises(HeadraceError) as raised:
                hr.run_available()
            check_named(raised, chunk)
            assert all(info.error is None for info in hr.queries())
            assert len(hr.query("spend").to_pandas())

        chunk.write_bytes(kept)
        hr.run_available()
        for name in ("spend", "odd", "uniq"):
            assert hr.query(name).audit().ok


@pytest.mark.parametrize("damage", [missing, flip], ids=lambda damage: damage.__name__)
def test_chunk_of_an_older_epoch(spark: Any, warehouse: Path, damage: Damage) -> None:
    """Only the query that reads the log again is hit: it is quarantined with the reason, the others deliver."""
    with headrace.open(warehouse, spark=spark, upkeep=BUSY, progress=False) as hr:
        epoch = hr._sealer.epoch(3)
        chunk = warehouse / epoch.streams[0].chunks[0].path
        damage(chunk)
        hr.append("purchases", batch(4))
        hr.append("purchases", batch(5))
        hr.run_available()
        states = {info.name: info for info in hr.queries()}
        assert states["uniq"].state is QueryState.QUARANTINED
        assert str(chunk) in str(states["uniq"].error)
        assert states["spend"].state is QueryState.ACTIVE and states["spend"].rows
        with pytest.raises(HeadraceError) as raised:
            hr.query("spend").audit()
        check_named(raised, chunk)


@pytest.mark.parametrize("damage", [missing, cut_off, emptied, scrambled], ids=lambda damage: damage.__name__)
def test_epoch_record(warehouse: Path, damage: Damage) -> None:
    """Nothing is removed for it: what the epoch sealed would be taken for orphans."""
    record = newest(warehouse, "epochs/0*.json")
    chunks = sorted((warehouse / "log/purchases").iterdir())
    damage(record)
    with pytest.raises(HeadraceError) as raised:
        headrace.open(warehouse)
    check_named(raised, record)
    assert sorted((warehouse / "log/purchases").iterdir()) == chunks


@pytest.mark.parametrize(
    "damage",
    [missing, cut_off, pytest.param(emptied, marks=THOROUGH), pytest.param(scrambled, marks=THOROUGH)],
    ids=lambda damage: damage.__name__,
)
def test_pack_of_old_epochs(
    spark: Any, undisturbed: Any, tmp_path: Path, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever needs the old epochs is told, upkeep as well, but it does not keep new epochs from running."""
    shutil.copytree(undisturbed._warehouse.root, tmp_path / "warehouse")
    pack = newest(tmp_path / "warehouse", "epochs/pack-*.json")
    damage(pack)
    with headrace.open(tmp_path / "warehouse", spark=spark, upkeep=BUSY, progress=False) as hr:
        hr.append("purchases", batch(7))
        hr.run_available()
        assert hr._delivered.main.epoch == 7
        with pytest.raises(HeadraceError) as raised:
            hr.query("spend").audit()
        named = pack if damage is not missing else tmp_path / "warehouse/epochs/000000000000.json"
        check_named(raised, named)
        assert str(named) in caplog.text


@pytest.mark.parametrize(
    "name", ["catalog/snapshot.json", "catalog/streams/000000000000.json", "format.json"]
)
@pytest.mark.parametrize("damage", [cut_off, emptied], ids=lambda damage: damage.__name__)
def test_catalog_record(warehouse: Path, name: str, damage: Damage) -> None:
    damage(warehouse / name)
    with pytest.raises(HeadraceError) as raised:
        headrace.open(warehouse)
    check_named(raised, warehouse / name)


# results


def flipped_at(place: float) -> Damage:
    return lambda path: flip(path, place)


def test_result_file(spark: Any, warehouse: Path, undisturbed: Any) -> None:
    """Its queries cannot be read, the others can; epochs, and the merging of other files, go on."""
    with headrace.open(warehouse, spark=spark, upkeep=BUSY, progress=False) as hr:
        file = max(hr._delivered.results(hr._catalog.entry("users")), key=lambda file: file.rows)
        path = warehouse / file.path
        kept = path.read_bytes()
        for damage in (*map(flipped_at, (0.1, 0.5, 0.98)), *DAMAGES):
            path.write_bytes(kept)
            damage(path)
            for look in (lambda q: q.results(), lambda q: q.to_pandas(), lambda q: q.audit()):
                with pytest.raises(HeadraceError) as raised:
                    look(hr.query("users"))
                check_named(raised, path)
        high = len(hr.query("high").to_pandas())
        play(hr)
        assert len(hr.query("high").to_pandas()) > high
        assert hr.query("high").audit().ok
        with pytest.raises(HeadraceError) as raised:
            hr.query("users").results()
        check_named(raised, path)
        path.write_bytes(kept)
        assert delivered(hr) == delivered(undisturbed)


# the commit


@pytest.mark.parametrize(
    "damage", [missing, cut_off, emptied, scrambled, flip], ids=lambda damage: damage.__name__
)
def test_commit_record(spark: Any, warehouse: Path, undisturbed: Any, damage: Damage) -> None:
    commit = newest(warehouse, "groups/main/commits/*.json")
    damage(commit)
    with pytest.raises(HeadraceError) as raised:
        headrace.open(warehouse, spark=spark)
    check_named(raised, commit)
    assert "rebuild=True" in str(raised.value.hint)


def test_torn_commit_after_a_crash(spark: Any, tmp_path: Path, undisturbed: Any) -> None:
    """The files of the commit before are still there: rebuild=True goes back to it and runs the epoch again."""
    path = tmp_path / "warehouse"
    hr = headrace.open(path, spark=spark, upkeep=UpkeepOptions(every=2, fan_in=2), progress=False)
    play(hr, steps=4)
    hr._warehouse._lock._forget()
    cut_off(newest(path, "groups/main/commits/*.json"))
    with headrace.open(path, spark=spark, upkeep=BUSY, rebuild=True, progress=False) as again:
        play(again)
        assert delivered(again) == delivered(undisturbed)
        assert lifetimes(again) == lifetimes(undisturbed)
    assert list(path.glob("groups/main/commits/*.torn"))


def test_all_commits_gone(spark: Any, tmp_path: Path) -> None:
    """Nothing is swept when the log no longer reaches back to where it would have to start."""
    path = tmp_path / "warehouse"
    with headrace.open(path, spark=spark, upkeep=BUSY, log_retention="1 millisecond", progress=False) as hr:
        play(hr, FAST, steps=5)
        assert hr._sealer.first > 0
    results = sorted((path / "results").rglob("*.parquet"))
    shutil.rmtree(path / "groups/main/commits")
    with pytest.raises(HeadraceError, match="COMMIT_MISSING"):
        headrace.open(path, spark=spark)
    assert sorted((path / "results").rglob("*.parquet")) == results


# state


def test_segment(spark: Any, warehouse: Path, undisturbed: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The state is made anew from the log, and a warning names the file."""
    damage_all(segments(warehouse), [missing, emptied, flip])
    with headrace.open(warehouse, spark=spark, upkeep=BUSY, progress=False) as hr:
        named = [str(warehouse / segment.path) for segment in hr._delivered.main.segments]
        play(hr)
        assert any(path in caplog.text for path in named)
        assert delivered(hr) == delivered(undisturbed)
        assert lifetimes(hr) == lifetimes(undisturbed)


def test_rebuild(spark: Any, warehouse: Path, undisturbed: Any) -> None:
    damage_all(segments(warehouse), [missing, cut_off, scrambled])
    with headrace.open(warehouse, spark=spark, upkeep=BUSY, rebuild=True, progress=False) as hr:
        play(hr)
        assert delivered(hr) == delivered(undisturbed)
        assert lifetimes(hr) == lifetimes(undisturbed)


def test_rebuild_after_every_step(spark: Any, tmp_path: Path, undisturbed: Any) -> None:
    """State that was rebuilt is as good as state that grew, whatever queries came and went."""
    path = tmp_path / "warehouse"
    for steps in range(1, 8):
        with headrace.open(path, spark=spark, upkeep=BUSY, rebuild=True, progress=False) as hr:
            play(hr, steps=steps)
    with headrace.open(path, spark=spark, upkeep=BUSY) as hr:
        assert delivered(hr) == delivered(undisturbed)
        assert lifetimes(hr) == lifetimes(undisturbed)


def test_rebuild_when_the_log_has_expired(spark: Any, tmp_path: Path) -> None:
    """Whole segments stay in use; damaged ones cannot be rebuilt, and the message says whose."""
    path = tmp_path / "warehouse"
    with headrace.open(path, spark=spark, upkeep=BUSY, log_retention="1 millisecond", progress=False) as hr:
        play(hr, FAST, steps=4)
        assert hr._sealer.first > 1
    whole, broken = shutil.copytree(path, tmp_path / "whole"), shutil.copytree(path, tmp_path / "broken")
    rows = []
    for root, rebuild in ((path, False), (whole, True)):
        with headrace.open(root, spark=spark, upkeep=BUSY, rebuild=rebuild, progress=False) as hr:
            play(hr, FAST)
            rows.append(delivered(hr))
    assert rows[0] == rows[1]
    for segment in segments(broken):
        segment.unlink()
    with pytest.raises(HeadraceError, match="REBUILD_LOG_EXPIRED") as raised:
        headrace.open(broken, spark=spark, rebuild=True)
    assert "query `" in raised.value.message
    assert raised.value.hint


def test_plan_file(spark: Any, warehouse: Path, undisturbed: Any) -> None:
    """Plans are a cache: a torn one is written anew."""
    for path in (warehouse / "groups/main/plans").iterdir():
        cut_off(path)
    with headrace.open(warehouse, spark=spark, upkeep=BUSY, progress=False) as hr:
        play(hr)
        assert delivered(hr) == delivered(undisturbed)


def test_commit_is_what_the_codec_knows(warehouse: Path) -> None:
    """Damage of the third kind: valid JSON that is something else."""
    commit = newest(warehouse, "groups/main/commits/*.json")
    commit.write_bytes(envelope("commit", {"$": "Nonsense"}))
    with pytest.raises(HeadraceError) as raised:
        headrace.open(warehouse)
    check_named(raised, commit)
