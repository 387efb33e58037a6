"""A record that was written and is gone is an error that names it, before anything is removed on its account."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import StorageError
from headrace.storage.marks import Marks
from headrace.storage.warehouse import VERSION, Warehouse
from log_samples import PLAN, PURCHASES, Opened, open_log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two epochs, then three arrivals and two changelogs that no epoch has."""
    log: Opened = open_log(tmp_path)
    log.catalog.create_stream(PURCHASES, None)
    for step in range(2):
        log.catalog.request_create(None, PLAN)
        log.catalog.flush()
        log.append(10 * step)
        log.sealer.seal()
    for step in range(3):
        log.append(100 + step)
    for _ in range(2):
        log.catalog.request_create(None, PLAN)
        log.catalog.flush()
    log.close()
    return tmp_path


RECORDS = [
    *(f"log/arrivals/00000000000{n}.json" for n in (2, 3, 4)),
    *(f"catalog/changelog/00000000000{n}.json" for n in (1, 2, 3)),
    "catalog/streams/000000000000.json",
    "epochs/000000000001.json",
]


@pytest.mark.parametrize("name", RECORDS)
def test_a_missing_record_is_named_and_nothing_is_removed(root: Path, name: str) -> None:
    kept = (root / name).read_bytes()
    (root / name).unlink()
    chunks = sorted((root / "log/purchases").iterdir())
    with pytest.raises(StorageError) as raised:
        open_log(root)
    assert str(root / name) in str(raised.value)
    assert raised.value.hint
    assert sorted((root / "log/purchases").iterdir()) == chunks
    (root / name).write_bytes(kept)
    log = open_log(root)
    assert log.sealer.seal() is not None
    assert len(log.catalog.entries()) == 4


@pytest.mark.parametrize("name", RECORDS)
def test_a_flipped_bit_in_a_record_is_noticed(root: Path, name: str) -> None:
    """Whatever the bit: also one that leaves valid JSON of the right kind."""
    path = root / name
    whole = path.read_bytes()
    for place in range(0, len(whole), 17):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(StorageError) as raised:
            open_log(root)
        assert str(path) in str(raised.value), place
    path.write_bytes(whole)
    open_log(root).close()


def test_a_warehouse_of_an_older_version_is_refused(root: Path) -> None:
    """Its state is placed by another hash, and its commits know no groups."""
    older = f'{{"format": "headrace-warehouse", "version": {VERSION - 1}}}'
    (root / "format.json").write_text(older)
    with pytest.raises(StorageError, match="WAREHOUSE_VERSION"):
        Warehouse(root)
    assert (root / "format.json").read_text() == older


def test_marks_are_never_too_high_and_a_cut_file_is_none(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    marks.reach("a", 5)
    marks.reach("a", 3)
    marks.reach("b", 0)
    again = Marks(tmp_path / "marks")
    again.load()
    assert (again.get("a"), again.get("b"), again.get("c")) == (5, 0, -1)
    data = bytearray((tmp_path / "marks").read_bytes())
    data[7] ^= 1
    (tmp_path / "marks").write_bytes(bytes(data))
    torn = Marks(tmp_path / "marks")
    torn.load()
    assert torn.get("a") == -1


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log = open_log(tmp_path / "sub" / "warehouse")
        log.catalog.create_stream(PURCHASES, None)
        log.append(1)
        log.catalog.request_create(None, PLAN)
        log.catalog.flush()
        log.sealer.seal()
        log.catalog.checkpoint()
        log.close()
    finally:
        os.umask(before)
    root = tmp_path / "sub"
    for path in (root, *root.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))


def test_what_the_system_says_is_told_in_our_words(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 300)
    with pytest.raises(StorageError) as raised:
        Warehouse(long)
    assert str(long) in raised.value.message
    warehouse = Warehouse(tmp_path / "warehouse")
    for call in (
        lambda: warehouse.put_if_absent("x" * 300, b""),
        lambda: warehouse.replace("x" * 300, b""),
        lambda: warehouse.read("x" * 300),
        lambda: warehouse.delete("x" * 300),
        lambda: warehouse.records("x" * 300),
    ):
        with pytest.raises(StorageError) as raised:
            call()
        assert "x" * 300 in raised.value.message


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"$": "StreamRecord", "stream": {"$": "Stream", "name": "purchases"}, "source": None},
        {"$": "StreamRecord", "stream": 5, "source": None},
        {"$": "Chunk", "path": "a", "rows": 1, "bytes": 1, "min_us": 0, "max_us": 0},
    ],
)
def test_a_stream_record_that_holds_something_else_is_named(root: Path, value: Any) -> None:
    path = root / "catalog/streams/000000000000.json"
    path.write_text(json.dumps({"format": "stream", "version": 1, "value": value}))
    with pytest.raises(StorageError) as raised:
        open_log(root)
    assert str(path) in raised.value.message
