"""Spark's chatter goes to a file; people see only what is said to them."""

import inspect
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

import headrace
from headrace.cli.face import Opener
from headrace.cli.main import cli
from headrace.cli.opening import check_is_warehouse, open_warehouse
from headrace.cli.stopping import stop_signals
from headrace.model.errors import StorageError
from headrace.storage.warehouse import Warehouse


class Noisy:
    """A session that writes to the process's stderr as a JVM does, and to Python's as we do."""

    def __init__(self):
        self.closed = False
        os.write(2, b"WARN NativeCodeLoader\n")

    def queries(self):
        os.write(2, b"WARN TaskSetManager\n")
        print("said to people", file=sys.stderr)
        return []

    def close(self):
        self.closed = True


@pytest.fixture
def noisy(monkeypatch, tmp_path):
    sessions = []
    monkeypatch.setattr(
        headrace, "open", lambda path, **options: sessions.append(Noisy()) or sessions[-1], raising=False
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return sessions


def logs(tmp_path):
    return list(tmp_path.glob("headrace-spark-*.log"))


def test_chatter_is_kept_off_the_screen_and_its_file_removed(noisy, capfd, tmp_path):
    with open_warehouse("w") as session:
        session.queries()
        assert "NativeCodeLoader" in logs(tmp_path)[0].read_text()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "said to people\nafter\n"
    assert noisy[0].closed
    assert logs(tmp_path) == []


def test_it_takes_all_options_of_an_opener():
    taken, asked = (inspect.signature(call).parameters for call in (open_warehouse, Opener.__call__))
    assert {name: option.default for name, option in taken.items()} == {
        name: option.default for name, option in asked.items() if name != "self"
    }


def test_an_unexpected_error_names_the_log(noisy, capfd, tmp_path):
    with pytest.raises(RuntimeError) as caught, open_warehouse("w"):
        raise RuntimeError("the JVM is gone")
    (log,) = logs(tmp_path)
    assert str(log) in caught.value.__notes__[0]
    assert noisy[0].closed


def test_an_expected_error_leaves_no_file(noisy, tmp_path):
    with pytest.raises(StorageError), open_warehouse("w"):
        raise StorageError("X", "y")
    assert logs(tmp_path) == []


def test_the_command_line_opens_with_the_real_opener(noisy, tmp_path):
    Warehouse(tmp_path / "w")
    result = CliRunner().invoke(cli, ["queries", "--warehouse", str(tmp_path / "w")])
    assert result.exit_code == 0, result.output
    assert "No queries" in result.stdout
    assert noisy[0].closed


def test_a_warehouse_of_another_version_is_refused_before_spark_starts(tmp_path):
    Warehouse(tmp_path / "w")
    Path(tmp_path / "w" / "format.json").write_text('{"format": "headrace-warehouse", "version": 999}')
    with pytest.raises(StorageError) as caught:
        check_is_warehouse(str(tmp_path / "w"))
    assert caught.value.code == "WAREHOUSE_VERSION"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_interrupts(number):
    before, event = signal.getsignal(number), threading.Event()
    with stop_signals(event):
        signal.raise_signal(number)
        assert event.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before
