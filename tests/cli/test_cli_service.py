"""`headrace run` and `headrace serve`, and the other commands while one of them is up; without Spark."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from cli_fakes import WELL, FakeClock, FakeSession, Info
from headrace.cli.main import cli
from headrace.cli.registering import find_registers
from headrace.cli.service_commands import RunOptions, keep_running
from headrace.health import Health, Problem, RunState
from headrace.model.errors import EngineError, SqlError
from headrace.service.client import connect
from headrace.service.server import published
from processes import start

SERVE = RunOptions("serve", "1 second", 0, live=False)


class Steps(FakeClock):
    """A clock that does something in each of its pauses, and stops after the last."""

    def __init__(self, *steps) -> None:
        super().__init__()
        self.steps = list(steps)

    def pause(self, seconds: float) -> bool:
        super().pause(6.0)
        self.steps.pop(0)()
        if not self.steps:
            self.stopped.set()
        return self.stopped.is_set()


def elsewhere(*arguments: str, warehouse: str):
    """Another terminal: its own opener would fail, so only the service can answer."""

    def no_session(path: str, *, read_only: bool = False):
        raise AssertionError("the service is up")

    return CliRunner().invoke(cli, [*arguments, "--warehouse", warehouse], obj=no_session)


def test_all_commands_reach_the_session_that_runs(session, warehouse):
    session.answers["SELECT 1"] = pa.table({"n": [41]})
    session.answers["SELECT x"] = SqlError("UNKNOWN_COLUMN", "no column `x`", hint="did you mean y?")
    session.infos = {"spend": Info("spend", rows=12)}
    seen = []

    def others() -> None:
        assert session.running
        for arguments, words in (
            (("queries",), "spend"),
            (("explain", "spend"), "plan of spend"),
            (("explain", "--all"), "the whole plan"),
            (("audit", "spend"), "equal"),
            (("sql", "-e", "SELECT 1"), "41"),
            (("sql", "-e", "CREATE QUERY q AS SELECT 1"), "ok"),
        ):
            result = elsewhere(*arguments, warehouse=warehouse)
            assert result.exit_code == 0, result.output
            assert words in result.stdout
        failed = elsewhere("sql", "-e", "SELECT x", warehouse=warehouse)
        assert failed.exit_code == 2
        assert "UNKNOWN_COLUMN: no column `x`\n  hint: did you mean y?" in failed.stderr
        seen.append(connect(warehouse).hello.command)

    keep_running(session.open, warehouse, SERVE, Steps(others))
    assert seen == ["serve"]
    assert not session.running and session.closed == 1
    assert not (Path(warehouse) / "service.json").exists()


def test_serve_logs_epochs_statements_and_problems(session, warehouse, capsys):
    trouble = Problem("stream `s`", "cannot read a.json", "look at it", 1.0)

    def epoch() -> None:
        session.epoch = 3
        connect(warehouse).execute("CREATE QUERY q AS\nSELECT 1")
        connect(warehouse).execute("SELECT 1")

    def ill() -> None:
        session.found_health = Health(False, RunState.RUNNING, None, (trouble,), (), ())

    def well() -> None:
        session.found_health = WELL

    keep_running(session.open, warehouse, SERVE, Steps(epoch, ill, well, lambda: None))
    shown = capsys.readouterr().out
    assert "the API is at http://127.0.0.1:" in shown
    assert "statement: CREATE QUERY q AS SELECT 1" in shown and shown.count("statement:") == 1
    assert "epoch 3: 0 active queries" in shown
    assert "PROBLEM stream `s`: cannot read a.json (look at it)" in shown
    assert "over: stream `s`: cannot read a.json" in shown
    assert "Stopped after epoch 3." in shown


def test_run_creates_the_warehouse_and_says_so(session, tmp_path, capsys):
    where = str(tmp_path / "new")
    keep_running(session.open, where, SERVE, Steps(lambda: None))
    shown = capsys.readouterr().out
    assert f"Created the warehouse {where}." in shown.replace("\n", "")
    assert "Stopped; no epoch has run." in shown


def test_what_stops_the_run_ends_the_command(session, warehouse):
    def fail() -> None:
        session.metrics = broken

    def broken():
        raise EngineError("EPOCH_FAILED", "epoch 4 failed")

    with pytest.raises(EngineError):
        keep_running(session.open, warehouse, SERVE, Steps(fail, lambda: None))
    assert not session.running and session.closed == 1
    assert connect(warehouse) is None


@pytest.mark.parametrize("command", ["run", "serve"])
def test_bad_options_are_refused_before_spark_starts(run, session, warehouse, command, tmp_path):
    for arguments, words in (
        (("--interval", "often"), "often"),
        (("--interval", "0 seconds"), "BAD_OPTION"),
        (("--port", "70000"), "70000"),
    ):
        result = run(command, *arguments)
        assert result.exit_code == 2, result.output
        assert words in result.stderr
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "a.tex").touch()
    result = run(command, "--warehouse", str(tmp_path / "thesis"))
    assert result.exit_code == 2 and "NOT_A_WAREHOUSE" in result.stderr
    assert session.opened == 0


def test_a_warehouse_is_run_once(run, session, warehouse):
    with published(warehouse, "serve") as service:
        service.start(session)
        result = run("run")
        assert result.exit_code == 2
        assert "ALREADY_RUNNING" in result.stderr and "headrace serve" in result.stderr
        assert session.opened == 0
        assert connect(warehouse) is not None


# as people call it


def command(arguments: list[str]) -> None:
    """A command with 500 queries to show."""
    session = FakeSession(infos={f"query_{i}": Info(f"query_{i}") for i in range(500)})
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
    cli(arguments, obj=session.open, prog_name="headrace")


def command_without_reader(arguments: list[str]) -> None:
    """The same with an output that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)
    command(arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_serve_cleanly(warehouse, number):
    serving = start(command, ["serve", "--warehouse", warehouse])
    try:
        while "running" not in (line := serving.output.readline()):
            assert line, "it ended before it was running"
        assert (Path(warehouse) / "service.json").exists()
        assert len(connect(warehouse).queries()) == 500
        os.kill(serving.process.pid, number)
        done = serving.finish()
    finally:
        serving.process.kill()
    assert done.returncode == 0, done.output
    assert "Stopped" in done.output and "Traceback" not in done.output
    assert not (Path(warehouse) / "service.json").exists()


def test_a_reader_that_went_away_gets_no_traceback(warehouse):
    for arguments in (["queries"], ["explain", "query_1"], ["sql", "-e", "SHOW STREAMS"]):
        done = start(command_without_reader, [*arguments, "--warehouse", warehouse]).finish()
        assert done.returncode == 141, done.output
        assert not any(word in done.output for word in ("Broken", "Traceback", "UNEXPECTED"))


def test_looking_needs_no_pandas_and_no_spark(session, warehouse):
    with published(warehouse, "serve") as service:
        service.start(session)
        code = (
            "import sys; from headrace.cli.main import cli\n"
            f"cli(['queries', '--warehouse', {warehouse!r}], standalone_mode=False)\n"
            "print([m for m in ('pyspark', 'pandas', 'fastapi', 'sqlglot') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_the_width_is_given_to_the_session(session, warehouse):
    wide = RunOptions("serve", "1 second", 0, live=False, partitions=6, backfill_tasks=2)
    keep_running(session.open, warehouse, wide, Steps(lambda: None))
    assert session.width == (6, 2)


def test_a_bad_width_is_refused_before_anything_is_opened(run, session):
    assert run("run", "--partitions", "0").exit_code == 2
    assert run("serve", "--backfill-tasks", "none").exit_code == 2
    assert session.opened == 0


def test_modules_register_what_they_have_before_the_first_epoch(session, warehouse, tmp_path):
    module = tmp_path / "mine.py"
    module.write_text("def register(session):\n    session.calls.append(('told', str(session.running)))\n")
    options = RunOptions("serve", "1 second", 0, live=False, modules=(str(module),))
    keep_running(session.open, warehouse, options, Steps(lambda: None))
    assert ("told", "False") in session.calls


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (None, "there is no file"),
        ("1 / 0", "division by zero"),
        ("x = 1", "no function register(session)"),
    ],
)
def test_a_module_that_is_none_is_refused_before_anything_is_opened(run, session, tmp_path, code, said):
    module = tmp_path / "bad.py"
    if code is not None:
        module.write_text(code)
    result = run("serve", "--register", str(module))
    assert result.exit_code != 0
    assert said in " ".join(result.output.split())
    assert session.opened == 0


def test_a_file_hides_no_module_of_its_name(tmp_path):
    module = tmp_path / "queue.py"
    module.write_text("def register(session):\n    session.append(1)\n")
    (register,) = find_registers([str(module)])
    called: list[int] = []
    register(called)
    assert called == [1] and sys.modules["queue"] is queue


def test_a_module_that_fails_names_itself(session, warehouse, tmp_path):
    module = tmp_path / "failing.py"
    module.write_text("def register(session):\n    raise ValueError('no such model')\n")
    with pytest.raises(EngineError, match=r"failing of .* failed") as caught:
        keep_running(
            session.open,
            warehouse,
            RunOptions("serve", "1 second", 0, False, modules=(str(module),)),
            Steps(),
        )
    assert "no such model" in str(caught.value)
