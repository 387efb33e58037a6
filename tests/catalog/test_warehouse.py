"""The warehouse directory: atomic files, enveloped records, one writer, clear refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.epoch import Chunk
from headrace.model.errors import StorageError
from headrace.storage.warehouse import Warehouse, safe_name


def test_put_if_absent_writes_once(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "w")
    assert warehouse.put_if_absent("a/b.json", b"1")
    assert not warehouse.put_if_absent("a/b.json", b"2")
    assert warehouse.read("a/b.json") == b"1"
    assert os.listdir(tmp_path / "w" / "a") == ["b.json"]


def test_a_file_whose_name_could_not_be_synced_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(tmp_path)

    def fail(directory: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("headrace.storage.warehouse.sync_directory", fail)
        with pytest.raises(StorageError, match="cannot write"):
            warehouse.put_record("epochs", 0, Chunk("a", 1, 2, None, 3), kind="chunk")
    assert warehouse.records("epochs") == []
    assert warehouse.put_record("epochs", 0, Chunk("a", 1, 2, None, 3), kind="chunk")


def test_of_many_racing_writers_one_wins(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    won: list[int] = []

    def put(number: int) -> None:
        if warehouse.put_if_absent("x.json", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [warehouse.read("x.json")] == [str(number).encode() for number in won]


def test_replace_and_delete(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.replace("x", b"1")
    warehouse.replace("x", b"2")
    assert warehouse.read("x") == b"2"
    warehouse.delete("x")
    warehouse.delete("x")
    assert not warehouse.exists("x")


def test_records_come_back_typed_and_sorted(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    chunk = Chunk("log/a.parquet", 3, 100, None, 7)
    for number in (12, 3):
        warehouse.put_record("epochs", number, chunk, kind="chunk")
    (tmp_path / "epochs" / "notes.txt").write_text("not a record")
    assert warehouse.records("epochs") == [3, 12]
    assert warehouse.records("nowhere") == []
    assert warehouse.read_record("epochs", 12, kind="chunk") == chunk


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"format":"chu', "FILE_TORN"),
        (b"", "FILE_TORN"),
        (b"\xff\xfe", "FILE_TORN"),
        (b"[1]", "FILE_FOREIGN"),
        (b'{"format":"other","version":1,"value":1}', "FILE_FOREIGN"),
        (b'{"format":"chunk","version":1,"value":{"$":"Nobody"}}', "FILE_FOREIGN"),
        (b'{"format":"chunk","version":1,"value":{"$":"Chunk","path":"a"}}', "FILE_FOREIGN"),
        (b'{"format":"chunk","version":99,"value":1}', "FILE_VERSION"),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, content: bytes, code: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.replace("epochs/000000000005.json", content)
    with pytest.raises(StorageError) as caught:
        warehouse.read_record("epochs", 5, kind="chunk")
    assert caught.value.code == code
    assert "epochs/000000000005.json" in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"epochs/000000000007\.json is missing") as caught:
        Warehouse(tmp_path).read_record("epochs", 7)
    assert caught.value.code == "FILE_MISSING"
    assert caught.value.hint


@pytest.mark.parametrize(
    "root", ["s3://bucket/w", "hdfs://host:8020/w", "abfss://c@a.dfs.core.windows.net/w"]
)
def test_only_local_directories(root: str) -> None:
    with pytest.raises(StorageError, match="only local directories are supported so far"):
        Warehouse(root)


def test_a_file_uri_is_a_path(tmp_path: Path) -> None:
    assert Warehouse(f"file://{tmp_path}/a%20b").root == tmp_path / "a b"


def test_a_strange_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match="not empty and not a warehouse") as caught:
        Warehouse(tmp_path)
    assert "thesis.tex" in (caught.value.detail or "")
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(StorageError, match="is a file"):
        Warehouse(tmp_path / "f")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({"format": "headrace-warehouse", "version": 1}, "WAREHOUSE_VERSION"),
        ({"format": "iceberg"}, "NOT_A_WAREHOUSE"),
    ],
)
def test_another_format_is_refused(tmp_path: Path, content: object, code: str) -> None:
    (tmp_path / "format.json").write_text(json.dumps(content))
    with pytest.raises(StorageError) as caught:
        Warehouse(tmp_path)
    assert caught.value.code == code


def test_a_write_that_fails_names_the_file(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    (tmp_path / "epochs").write_text("a file where a directory should be")
    with pytest.raises(StorageError, match=r"cannot write .*epochs/000000000000\.json") as caught:
        warehouse.put_record("epochs", 0, 1)
    assert caught.value.code == "FILE_UNWRITABLE"


def test_readers_need_a_warehouse_and_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no warehouse"):
        Warehouse(tmp_path / "none", read_only=True)
    assert not (tmp_path / "none").exists()
    writer = Warehouse(tmp_path / "w")
    writer.acquire()
    reader = Warehouse(tmp_path / "w", read_only=True)
    with pytest.raises(StorageError, match="opened to read"):
        reader.put_if_absent("x", b"")
    with pytest.raises(StorageError, match="opened to read"):
        reader.acquire()


def test_a_second_writer_in_this_process_is_refused(tmp_path: Path) -> None:
    first, second = Warehouse(tmp_path), Warehouse(tmp_path)
    first.acquire()
    with pytest.raises(StorageError) as caught:
        second.acquire()
    assert caught.value.code == "WAREHOUSE_HELD"
    first.release()
    second.acquire()
    assert second.held
    second.release()


HOLDER = """
import sys
from headrace.storage.warehouse import Warehouse
warehouse = Warehouse(sys.argv[1])
warehouse.acquire(command="the holder")
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_is_named_and_its_death_frees_the_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StorageError) as caught:
            Warehouse(tmp_path).acquire()
        assert caught.value.code == "WAREHOUSE_HELD"
        assert f"process {holder.pid} on " in caught.value.message
        assert "since 20" in caught.value.message
        assert caught.value.detail == "command: the holder"
    finally:
        holder.kill()
        holder.communicate()
    warehouse = Warehouse(tmp_path)
    warehouse.acquire()
    assert warehouse.holder()["pid"] == os.getpid()
    warehouse.release()


def test_taking_the_lock_removes_what_a_dead_writer_left(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    (tmp_path / "epochs").mkdir()
    (tmp_path / "epochs" / ".tmp-1").write_bytes(b"half")
    warehouse.acquire()
    assert os.listdir(tmp_path / "epochs") == []
    warehouse.release()


@given(st.text(min_size=1), st.text(min_size=1))
def test_safe_names_are_file_names_one_to_one(a: str, b: str) -> None:
    try:
        names = safe_name(a), safe_name(b)
    except UnicodeEncodeError:
        return
    assert "/" not in names[0]
    assert not names[0].startswith(".")
    assert names[0] != "arrivals"
    assert (names[0] == names[1]) == (a == b)


def test_long_names_are_file_names_too(tmp_path: Path) -> None:
    names = [safe_name(char * 128) for char in ("é", "中", "😀")] + [safe_name("😀" * 127 + "é")]
    assert len(set(names)) == 4
    for name in names:
        (tmp_path / name).touch()


def test_a_forked_child_neither_holds_nor_frees_its_parents_lock(tmp_path: Path) -> None:
    """
    parent: acquire ── fork ──────────────────────── release ── (child lives) ── another writer acquires
    child:               └─ not held, release does nothing ─────────────────────────┘
    """
    parent = Warehouse(tmp_path / "w")
    parent.acquire("the parent")
    told, tell = os.pipe()
    wait, go_on = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            held = parent.held
            parent.release()
            os.write(tell, b"held" if held else b"free")
            os.read(wait, 1)
            code = 0
        finally:
            os._exit(code)
    try:
        assert os.read(told, 4) == b"free"
        with pytest.raises(StorageError) as caught:
            Warehouse(tmp_path / "w").acquire()
        assert "the parent" in str(caught.value), "the child must not wipe out who holds it"
        parent.release()
        Warehouse(tmp_path / "w").acquire()
    finally:
        os.write(go_on, b"x")
        assert os.waitpid(child, 0)[1] == 0
