"""Blobs from map to reduce tasks: small ones travel, large ones are files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine import reduce
from headrace.engine.handover import (
    LARGE_BYTES,
    Handover,
    clear_handover,
    hand_over,
    shipped_bytes,
    take_over,
)
from headrace.engine.messages import Control, EpochTask
from headrace.engine.paths import handover_dir
from headrace.engine.result_files import ResultWriter
from headrace.model.partitioning import even_partitioning
from headrace.operators.protocol import Shipment

FOLDER = handover_dir("main", "job1")


def place(root: Path, folder: str = FOLDER) -> Handover:
    return Handover(str(root), folder)


def test_small_blobs_travel(tmp_path: Path) -> None:
    blob = b"x" * (LARGE_BYTES - 1)
    shipped = hand_over(place(tmp_path), LARGE_BYTES, 1, "joins-1", blob)
    assert shipped == (1, ("tuples", "joins-1", blob))
    assert shipped_bytes(shipped) == len(blob)
    assert not (tmp_path / FOLDER).exists()


def test_large_blobs_are_files_of_their_own_until_they_are_cleared(tmp_path: Path) -> None:
    blobs = [bytes([n]) * LARGE_BYTES for n in range(2)]
    shipped = [hand_over(place(tmp_path), LARGE_BYTES, 0, "joins-1", blob) for blob in blobs]
    taken = [take_over(str(tmp_path), blob) for _, (_, _, blob) in shipped]
    assert taken == blobs and list(map(shipped_bytes, shipped)) == [LARGE_BYTES] * 2
    clear_handover(tmp_path, FOLDER)
    assert not (tmp_path / FOLDER).exists()
    assert taken == blobs, "what is mapped stays readable"
    clear_handover(tmp_path, FOLDER)


def test_a_job_clears_its_own_files_only(tmp_path: Path) -> None:
    folders = [FOLDER, handover_dir("main", "job2"), handover_dir("alerts", "job1")]
    shipped = [hand_over(place(tmp_path, f), LARGE_BYTES, 0, "joins-1", b"x" * LARGE_BYTES) for f in folders]
    clear_handover(tmp_path, FOLDER)
    for _, (_, _, blob) in shipped[1:]:
        assert len(take_over(str(tmp_path), blob)) == LARGE_BYTES
    clear_handover(tmp_path, handover_dir("main"))
    assert not (tmp_path / folders[1]).exists() and (tmp_path / folders[2]).exists()


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    _, (_, _, blob) = hand_over(place(tmp_path), LARGE_BYTES, 0, "joins-1", b"x" * LARGE_BYTES)
    (path,) = (tmp_path / FOLDER).iterdir()
    path.write_bytes(b"x")
    with pytest.raises(OSError, match=path.name):
        take_over(str(tmp_path), blob)


def test_small_blobs_of_a_task_do_not_fill_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduce, "WAITING_BYTES", 250)
    task = EpochTask(str(tmp_path), "main", "plan", 0, even_partitioning(2), {}, {}, "attempt", FOLDER)
    work = reduce.Partition(Control(task, 0, (), ()), 0, ResultWriter(str(tmp_path), "name", 0))
    work.send("joins-1", "joins-1", [Shipment(n % 2, bytes(100)) for n in range(9)])
    assert {name for _, (_, name, _) in work.sent} == {"joins-1-to-1"}
    assert [kind for _, (kind, _, _) in work.sent] == ["tuples"] * 3 + ["file"] * 6
    assert work.bytes_sent == sum(map(shipped_bytes, work.sent)) == 900
