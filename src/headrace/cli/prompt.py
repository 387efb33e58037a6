"""The prompt of `headrace sql`: editing, history and completion by readline, errors shown and survived."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from headrace.cli import console, statements
from headrace.cli.face import Served
from headrace.model.errors import HeadraceError

HISTORY_LINES = 2_000
NAMES_FRESH_S = 2.0

STARTS = (
    "ALTER",
    "CLOSE",
    "CREATE",
    "DESCRIBE",
    "DROP",
    "EXPLAIN",
    "HELP",
    "INSERT",
    "QUIT",
    "SELECT",
    "SHOW",
    "WITH",
)

BEFORE_NAMES = frozenset(
    {"FROM", "JOIN", "INTO", "QUERY", "STREAM", "EXPLAIN", "DESCRIBE", "DESC", "VERBOSE"}
)

FOLLOWS = {
    "ALTER": ("QUERY", "WAREHOUSE"),
    "SHOW": ("FUNCTIONS", "GROUPS", "QUERIES", "STREAMS"),
    "CREATE": ("QUERY", "STREAM"),
    "DROP": ("QUERY", "STREAM"),
    "CLOSE": ("STREAM",),
    "SET": ("GROUP", "PARTITIONS"),
    "GROUP": ("BY",),
    "ORDER": ("BY",),
    "EVENT": ("TIME",),
}
"""After these words few others make sense, and if none of them fits, all are offered."""

_WORDS = """
ALL ALTER AND AS AVG BETWEEN BIGINT BOOLEAN BY CASE COUNT CREATE DATE DECIMAL DESCRIBE DISTINCT DOUBLE DROP
ELSE END EVENT EXISTS EXPLAIN FORMAT FROM FULL GAP GROUP GROUPS HAVING HELP HOURS IF IN INNER INSERT INT
INTERVAL INTO IS JOIN LEFT LIKE LIMIT MAX MIN MINUTES NOT NULL ON OR ORDER PARTITIONS QUERIES QUERY RANGE
REPLACE RIGHT SECONDS SELECT SESSION SESSION_WINDOW SET SHOW SLIDE START STREAM STREAMS STRING SUM THEN TIME
TIMESTAMP VALUES VERBOSE WAREHOUSE WATERMARK WHEN WHERE WINDOW WITH
"""
KEYWORDS = tuple(_WORDS.split())

DELIMITERS = " \t\n,;()[]{}=<>+-*/%|&^!'\"."


def prompt(session: Served, execute: Callable[[str], None], where: str) -> None:
    """Read and run statements until somebody leaves; `execute` runs one and shows what came of it."""
    screen = console.err()
    screen.print(where, style="dim", markup=False)
    screen.print(
        "Statements end with a semicolon. Tab completes, `help` lists the statements, Ctrl-D or quit leaves.",
        style="dim",
    )

    def run(text: str) -> None:
        try:
            execute(text)
        except HeadraceError as error:
            console.print_error(error)
        except Exception as error:  # a prompt outlives what nobody foresaw
            console.print_unexpected(error)
        except KeyboardInterrupt:
            console.err().print("Stopped waiting for the statement.", style="yellow")

    def cleared() -> None:
        console.err().print("\n(Ctrl-D or quit leaves.)", style="dim")

    with edited_lines(Completer(Names(session))):
        statements.read_prompt(input, run, cleared)


@contextlib.contextmanager
def edited_lines(completer: Completer) -> Iterator[None]:
    """Let `input` have a history that is kept, and Tab; without readline it is what it is."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    readline.set_completer_delims(DELIMITERS)
    readline.set_completer(lambda prefix, i: completer.candidate(readline, prefix, i))
    readline.parse_and_bind("bind ^I rl_complete" if _is_libedit(readline) else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        _keep_history(readline, path)


def _is_libedit(readline: ModuleType) -> bool:
    return "libedit" in (readline.__doc__ or "")


def history_file() -> Path:
    """Where the prompt's history is kept: the user's directory for state, by the XDG convention."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "headrace" / "history"


def _keep_history(readline: ModuleType, path: Path) -> None:
    """Nobody's work should fail because a history cannot be written; only its owner may read it."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        readline.write_history_file(path)
        path.chmod(0o600)


class Names:
    """Streams, their columns and queries, asked for at most every few seconds."""

    def __init__(self, session: Served, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._known: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._until = 0.0

    def __call__(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What stands for rows (streams and queries), and the columns of streams."""
        if self._clock() >= self._until:
            with contextlib.suppress(HeadraceError, OSError):
                streams = self._session.streams()
                tables = {info.name for info in streams} | {info.name for info in self._session.queries()}
                columns = {column.name for info in streams for column in info.columns}
                self._known = tuple(sorted(tables)), tuple(sorted(columns))
            self._until = self._clock() + NAMES_FRESH_S
        return self._known


class Completer:
    """What Tab offers. `complete` is pure; `candidate` is readline's way to ask for it one by one."""

    def __init__(self, names: Callable[[], tuple[Sequence[str], Sequence[str]]]) -> None:
        self._names = names
        self._found: list[str] = []

    def candidate(self, readline: ModuleType, prefix: str, i: int) -> str | None:
        if i == 0:
            before = readline.get_line_buffer()[: readline.get_begidx()]
            self._found = self.complete(prefix, before)
        return self._found[i] if i < len(self._found) else None

    def complete(self, prefix: str, before: str) -> list[str]:
        """What the word that begins with `prefix` may become, after the text `before` it on the line.

        >>> Completer(lambda: (("spend",), ("price",))).complete("sp", "SELECT * FROM ")
        ['spend ']
        """
        words = before.replace("(", " ( ").split()
        tables, columns = self._names()
        names = [_quoted(name) for name in tables]
        if [word.upper() for word in words[-2:]] in (["IN", "GROUP"], ["SET", "GROUP"]):
            return []  # the name of a group, which may be a new one
        if words and (few := _matching(prefix, FOLLOWS.get(words[-1].upper(), ()))):
            return few
        if words and words[-1].upper() in BEFORE_NAMES:
            return _matching(prefix, names) or _matching(prefix, KEYWORDS)
        if not words:
            return _matching(prefix, STARTS) or _matching(prefix, KEYWORDS)
        if not prefix:
            return _matching(prefix, names) + _matching(prefix, map(_quoted, columns))
        return [
            *_matching(prefix, names),
            *_matching(prefix, map(_quoted, columns)),
            *_matching(prefix, KEYWORDS),
        ]


def _matching(prefix: str, words: Sequence[str] | map[str]) -> list[str]:
    """Words that begin with `prefix` in any case; keywords follow the case that was typed."""
    found = []
    for word in words:
        if word.lower().startswith(prefix.lower()):
            lower = word in KEYWORDS and prefix[:1].islower()
            found.append(f"{word.lower() if lower else word} ")
    return found


def _quoted(name: str) -> str:
    plain = name.replace("_", "").isalnum() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"
