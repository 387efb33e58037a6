"""One process compiles at a time, and whatever lies in the place of the lock keeps nobody from it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.operators.compiled import compiling


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"headrace-kernels-{os.getuid()}.lock"


def test_others_wait_until_one_has_compiled(lock: Path) -> None:
    with compiling._alone(), open(lock) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock.stat().st_mode & 0o077 == 0, "nobody else can hold it"
    with open(lock) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_link_that_somebody_has_put_there_is_not_followed(lock: Path) -> None:
    elsewhere = lock.with_name("elsewhere")
    lock.symlink_to(elsewhere)
    with compiling._alone():
        assert not elsewhere.exists()


def test_where_files_cannot_be_locked_everybody_compiles(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(compiling.fcntl, "flock", fails)
    with compiling._alone():
        assert lock.exists()
