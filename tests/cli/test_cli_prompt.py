"""The prompt of `headrace sql`: what Tab offers, and a real terminal with a session without Spark."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli_fakes import FakeSession, Info, StreamLine
from headrace.cli.prompt import Completer, Names
from headrace.model.errors import EngineError


def offered(prefix: str, before: str = "") -> list[str]:
    names = (("purchases", "spend", "spend per user"), ("price", "userID"))
    return [word.strip() for word in Completer(lambda: names).complete(prefix, before)]


@pytest.mark.parametrize(
    ("prefix", "before", "expected"),
    [
        (
            "",
            "",
            [
                *("ALTER", "CLOSE", "CREATE", "DESCRIBE", "DROP", "EXPLAIN", "HELP"),
                *("INSERT", "QUIT", "SELECT", "SHOW", "WITH"),
            ],
        ),
        ("sh", "", ["show"]),
        ("SH", "", ["SHOW"]),
        ("sp", "SELECT * FROM ", ["spend"]),
        ("`sp", "SELECT * FROM ", ["`spend per user`"]),
        ("", "DROP QUERY ", ["purchases", "spend", "`spend per user`"]),
        ("str", "CREATE ", ["stream"]),
        ("", "show ", ["FUNCTIONS", "GROUPS", "QUERIES", "STREAMS"]),
        ("", "alter query spend set ", ["GROUP", "PARTITIONS"]),
        ("", "alter query spend set group ", []),
        ("", "SELECT 1 FROM spend GROUP ", ["BY"]),
        ("rep", "CREATE OR ", ["replace"]),
        ("pr", "SELECT SUM(", ["price"]),
        ("gr", "SELECT 1 FROM spend ", ["group", "groups"]),
        ("xyz", "SELECT ", []),
    ],
)
def test_tab_offers_names_and_keywords(prefix, before, expected):
    assert offered(prefix, before) == expected


def test_names_are_asked_for_now_and_then_and_survive_a_service_that_is_gone(monkeypatch):
    session, now = FakeSession(infos={"q": Info("q")}, stream_lines=[StreamLine("s")]), [0.0]
    names = Names(session, lambda: now[0])
    assert names() == (("q", "s"), ("price", "userID"))
    session.create_query("SELECT 1", name="r")
    assert names()[0] == ("q", "s")
    now[0] = 3.0
    assert names()[0] == ("q", "r", "s")

    def gone() -> list[Info]:
        raise EngineError("SERVICE_GONE", "gone")

    monkeypatch.setattr(session, "queries", gone)
    now[0] = 6.0
    assert names()[0] == ("q", "r", "s")


# a real terminal

PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from cli_fakes import FakeSession, Info, StreamLine
from headrace.cli.main import cli
from headrace.model.errors import SqlError
session = FakeSession(infos={{"spend": Info("spend")}}, stream_lines=[StreamLine("purchases")])
session.answers = {{"HELP": "the statements are ...", "SELECT nonsense": SqlError("BAD", "what is nonsense"),
                   "SELECT slow": KeyboardInterrupt()}}
execute = session.execute
session.execute = lambda text: "ran <" + text + ">" if execute(text) == "ok" else execute(text)
cli(["sql", "--warehouse", {warehouse!r}], obj=session.open, prog_name="headrace")
"""


class Terminal:
    """A prompt in a pseudo-terminal: type keys, wait for words."""

    def __init__(self, warehouse: str, home: Path) -> None:
        tests = str(Path(__file__).parents[1])
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # who runs the tests may ignore it
            os.environ.update(XDG_STATE_HOME=str(home), TERM="dumb", COLUMNS="200", INPUTRC=os.devnull)
            code = PROGRAM.format(tests=tests, warehouse=warehouse)
            os.execv(sys.executable, [sys.executable, "-c", code])
        self.seen = self.all = ""

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def until(self, words: str, press: str = "") -> str:
        """What was shown up to these words; the rest is left for the next call.

        `press` is pressed until they come: Python may notice a Ctrl-C only with the next key when it comes just as
        the prompt does.
        """
        deadline = time.monotonic() + 60
        self.type(press)
        while words not in self.seen:
            ready, _, _ = select.select([self.master], [], [], 1.0)
            if ready:
                text = os.read(self.master, 4096).decode()
                self.seen, self.all = self.seen + text, self.all + text
            else:
                self.type(press)
            assert time.monotonic() < deadline, f"{words!r} did not come after:\n{self.all}"
        shown, _, self.seen = self.seen.partition(words)
        return shown

    def leave(self) -> int:
        """Press Ctrl-D until it is gone; its exit code."""
        deadline = time.monotonic() + 60
        with contextlib.suppress(OSError):  # the other side is closed
            while time.monotonic() < deadline:
                self.type("\x04")
                while select.select([self.master], [], [], 1.0)[0]:
                    os.read(self.master, 4096)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal(warehouse: str, tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    opened: list[Terminal] = []

    def start() -> Terminal:
        opened.append(Terminal(warehouse, tmp_path / "state"))
        opened[-1].until("headrace> ")
        return opened[-1]

    yield start
    for one in opened:
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)


def test_a_session_at_the_prompt(terminal, tmp_path):
    first = terminal()
    first.type("help\n")
    first.until("the statements are ...")
    first.until("headrace> ")

    first.type("SELECT half a li")
    first.until("half a li")
    first.until("headrace> ", press="\x03")  # Ctrl-C clears the line, and does not leave
    first.type("SELECT 1;\n")
    assert "half" not in first.until("ran <SELECT 1>")
    first.until("headrace> ")

    first.type("SELECT 1\n+ 2")
    first.until("...> ")
    first.until("+ 2")
    first.until("headrace> ", press="\x03")  # ... nor do lines before it come back

    first.type("sho\tque\t;\n")
    first.until("ran <show queries")
    first.until("headrace> ")
    first.type("DROP QUERY sp\t;\n")
    first.until("ran <DROP QUERY spend")
    first.until("headrace> ")

    first.type("SELECT nonsense;\n")
    first.until("BAD: what is nonsense")
    first.until("headrace> ")
    first.type("SELECT slow;\n")  # Ctrl-C while a statement runs
    first.until("Stopped waiting")
    first.until("headrace> ")
    assert first.leave() == 0

    history = tmp_path / "state" / "headrace" / "history"
    assert "SELECT nonsense;" in history.read_text().splitlines()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    second = terminal()
    second.type("\x10\x10\n")  # two lines up: history is kept
    second.until("BAD: what is nonsense")
    assert second.leave() == 0
