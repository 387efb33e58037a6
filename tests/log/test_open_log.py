"""Readers beside a live writer."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.log.open import open_log
from headrace.model.errors import StorageError
from headrace.storage.warehouse import Warehouse
from log_samples import PLAN, PURCHASES
from log_samples import open_log as open_writer


def test_a_reader_sees_what_is_sealed_and_writes_nothing(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.catalog.create_stream(PURCHASES, None)
    writer.append(5)
    writer.catalog.request_create("a", PLAN)
    writer.catalog.flush()
    writer.sealer.seal()
    before = sorted(path for path in tmp_path.rglob("*"))
    reader = open_log(Warehouse(tmp_path, read_only=True))
    assert reader.catalog.entries() == writer.catalog.entries()
    assert list(reader.sealer.epochs()) == list(writer.sealer.epochs())
    assert sorted(path for path in tmp_path.rglob("*")) == before
    reader.catalog.request_create("b", PLAN)
    with pytest.raises(StorageError, match="opened to read"):
        reader.catalog.flush()


def test_readers_beside_a_busy_writer(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    writer.catalog.create_stream(PURCHASES, None)
    done = threading.Event()

    def write() -> None:
        for time in range(30):
            writer.append(time)
            writer.catalog.request_create(None, PLAN)
            writer.catalog.flush()
            writer.sealer.seal()
            writer.catalog.checkpoint()
            writer.sealer._log.pack(time - 2, more_than=3)
            writer.sealer.expire(time - 10)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while not done.is_set():
        entries = open_log(Warehouse(tmp_path, read_only=True)).catalog.entries()
        assert [entry.query.id for entry in entries] == list(range(1, len(entries) + 1))
        seen.append(len(entries))
    thread.join()
    assert seen == sorted(seen)
    assert len(open_log(Warehouse(tmp_path, read_only=True)).catalog.entries()) == 30
