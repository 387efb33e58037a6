"""Bundles: what is written is what is read, and damage is named."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.engine.splits.bundles import open_bundle, write_bundle
from headrace.model.errors import StorageError
from headrace.storage.checksums import checksum

ENTRIES = {3: (b"three", 1), 700: (pa.py_buffer(b"x" * 100_000), 5), 0: (b"", 0)}


@pytest.mark.parametrize("durable", [True, False])
def test_entries_are_read_as_they_were_written(tmp_path: Path, durable: bool) -> None:
    file = write_bundle(tmp_path, "a/b", 7, ENTRIES, durable=durable, span_us=(1, 2))
    assert (file.bytes, file.rows, file.epoch, file.min_us, file.max_us) == (
        (tmp_path / "a/b").stat().st_size, 6, 7, 1, 2,
    )  # fmt: skip
    assert file.checksum == (checksum(tmp_path / "a/b") if durable else 0)
    bundle = open_bundle(tmp_path, file, durable=durable)
    assert {key: bytes(bundle.entry(key) or b"") for key in ENTRIES} == {
        k: bytes(blob) for k, (blob, _) in ENTRIES.items()
    }
    assert bundle.entry(4) is None


@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_damage_is_named(tmp_path: Path, how: str) -> None:
    file = write_bundle(tmp_path, "a", 7, ENTRIES, durable=True)
    path = tmp_path / "a"
    if how == "gone":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-1] if how == "cut" else data.replace(b"three", b"thref"))
        os.utime(path, ns=(1, 1))  # a file's time has steps of some milliseconds
    with pytest.raises(StorageError, match=r"/a is (missing|damaged)") as caught:
        open_bundle(tmp_path, file, durable=True)
    assert caught.value.code == "SPLIT_STATE_DAMAGED" and "copy" in (caught.value.hint or "")
