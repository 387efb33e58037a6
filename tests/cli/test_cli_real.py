"""The command line on real warehouses: most of it in this process on the run's Spark, the rest as people call it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import cli
from tampering import rewrite, set_value
from waiting import until

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

CREATE_STREAM = "CREATE STREAM sales (id BIGINT, country STRING, ts TIMESTAMP) EVENT TIME ts"
CREATE_QUERY = (
    "CREATE QUERY per_country AS SELECT country, COUNT(*) n FROM sales [RANGE 10 SECONDS] GROUP BY country"
)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def headrace_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The installed command in a process of its own."""
    program = Path(sys.executable).with_name("headrace")
    return subprocess.run(
        [str(program), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )


def quiet(stderr: str) -> bool:
    """Whether only we said something, and nothing of Spark's chatter came through."""
    ours = ("Starting Spark", "Warming up", "Nobody runs")
    return all(line.startswith(ours) for line in stderr.splitlines())


def feed(session: Any) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    rows = [(1, "DE"), (2, "DE"), (3, "FR"), (30, "DE")]
    session.append("sales", [{"id": s, "country": c, "ts": noon + timedelta(seconds=s)} for s, c in rows])
    session.run_available()


@pytest.fixture
def warehouse(open_session: Open, tmp_path: Path) -> Path:
    """A warehouse made with `headrace sql`, with rows that a session delivered."""
    where = tmp_path / "warehouse"
    made = invoke("sql", "--warehouse", str(where), "-e", CREATE_STREAM, "-e", CREATE_QUERY)
    assert made.exit_code == 0, made.output
    assert "stream sales exists" in made.stdout
    assert "query per_country is active from the next epoch on" in made.stdout
    session = open_session()
    session.create_query("SELECT id FROM sales WHERE country = 'FR'", name="french")
    feed(session)
    session.close()
    return where


def test_looking_at_a_warehouse(warehouse: Path, spark: Any) -> None:
    where = ("--warehouse", str(warehouse))
    listed = invoke("queries", *where)
    assert listed.exit_code == 0, listed.output
    assert "per_country" in listed.stdout and "french" in listed.stdout and "active" in listed.stdout
    assert "french" not in invoke("queries", "--state", "dropped", *where).stdout

    explained = invoke("explain", "per_country", *where)
    assert explained.exit_code == 0, explained.output
    assert "window(ts, '10 seconds')" in explained.stdout
    assert invoke("explain", "--all", *where).stdout.startswith("shared plan")

    rows = invoke(
        "sql", *where, "--format", "json", "-e", "SELECT country, n FROM per_country ORDER BY country"
    )
    assert rows.exit_code == 0, rows.output
    found = [json.loads(line) for line in rows.stdout.splitlines()]
    assert found == [{"country": "DE", "n": 2}, {"country": "FR", "n": 1}]
    assert "(2 rows)" in invoke("sql", *where, "-e", "SELECT * FROM per_country").stdout

    audited = invoke("audit", "--all", *where)
    assert audited.exit_code == 0, audited.output
    assert audited.stdout.count("equal") >= 2
    assert spark.range(1).count() == 1, "the command line stops no Spark that was there before"


def test_an_audit_that_finds_a_difference_shows_it_and_exits_with_1(
    warehouse: Path, open_session: Open
) -> None:
    session = open_session(read_only=True)
    (file,) = session._delivered.results(session.query("french")._entry())
    session.close()
    rewrite(warehouse / file.path, lambda table: set_value(table, table.column_names[0], 0, 4))
    audited = invoke("audit", "french", "--warehouse", str(warehouse))
    assert audited.exit_code == 1, audited.output
    assert "differs" in audited.stdout.lower()
    assert "3" in audited.stdout and "4" in audited.stdout
    assert invoke("audit", "per_country", "--warehouse", str(warehouse)).exit_code == 0


def test_errors_exit_with_2_and_say_why(warehouse: Path) -> None:
    where = ("--warehouse", str(warehouse))
    for arguments, words in (
        (("sql", *where, "-e", "CREATE QUERY q AS SELECT cuntry FROM sales"), "did you mean `country`?"),
        (("sql", *where, "-e", "SELECT 1 / 0"), "DIVIDE_BY_ZERO"),
        (("sql", *where, "-e", CREATE_STREAM), "STREAM_EXISTS"),
        (("explain", "per_contry", *where), "did you mean `per_country`?"),
        (("audit", "nothing", *where), "QUERY_NOT_FOUND"),
        (("queries", "--warehouse", str(warehouse / "nowhere")), "NO_WAREHOUSE"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert words in result.stderr, (arguments, result.stderr)
        assert "Traceback" not in result.output and "\tat " not in result.output


def test_a_held_warehouse_says_who_holds_it(warehouse: Path, open_session: Open) -> None:
    open_session()
    result = invoke("sql", "--warehouse", str(warehouse), "-e", CREATE_QUERY.replace("per_country", "q"))
    assert result.exit_code == 2
    assert "WAREHOUSE_HELD" in result.stderr


def test_sql_as_people_call_it(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(f"-- a stream and a query\n{CREATE_STREAM};\n{CREATE_QUERY};\nSHOW QUERIES;\n")
    done = headrace_command("sql", "--warehouse", "w", "script.sql", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "per_country" in done.stdout and "pending" in done.stdout
    assert quiet(done.stderr)
    listed = invoke("queries", "--warehouse", str(tmp_path / "w"))
    assert "per_country" in listed.stdout


def test_the_demo_plays_and_audits_clean(tmp_path: Path) -> None:
    options = ("--seconds", "5", "--queries", "20", "--rate", "2000", "--audits", "6")
    done = headrace_command("demo", *options, "--warehouse", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 6 audited queries have exactly the rows that plain Spark gives" in done.stdout
    assert quiet(done.stderr)
    where = ("--warehouse", str(tmp_path / "demo"))
    listed = invoke("queries", *where)
    assert listed.exit_code == 0 and "active" in listed.stdout
    name = next(word for word in done.stdout.split() if word.endswith(":") and "_" in word).rstrip(":")
    audited = invoke("audit", name, *where)
    assert audited.exit_code == 0, audited.output


def put_json(folder: Path, name: str, seconds: range) -> None:
    """A file of sales, moved into the folder when it is whole."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    lines = [
        json.dumps({"id": s, "country": ("DE", "FR")[s % 2], "ts": (noon + timedelta(seconds=s)).isoformat()})
        for s in seconds
    ]
    (folder.parent / name).write_text("\n".join(lines) + "\n")
    (folder.parent / name).rename(folder / name)


def test_two_terminals_and_a_folder_of_json_files(tmp_path: Path) -> None:
    """What the first page of docs/command-line.md promises: live rows from the command line alone."""
    folder, where = tmp_path / "sales", ("--warehouse", str(tmp_path / "w"))
    folder.mkdir()
    program = str(Path(sys.executable).with_name("headrace"))
    running = subprocess.Popen(
        [program, "run", *where], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    watching = None
    try:
        until(while_running(running, (tmp_path / "w" / "service.json").exists), 90)
        source = f"{CREATE_STREAM} WITH (path='{folder}', format='json')"
        made = invoke("sql", *where, "-e", source, "-e", CREATE_QUERY)
        assert made.exit_code == 0, made.output
        assert "Nobody runs" not in made.stderr
        put_json(folder, "1.json", range(15))
        until(while_running(running, lambda: rows_shown(where) >= 2), 90)

        watching = subprocess.Popen(
            [program, "watch", "per_country", *where, "--format", "json"], stdout=subprocess.PIPE, text=True
        )
        assert watching.stdout is not None
        first = sorted(json.loads(watching.stdout.readline())["country"] for _ in range(2))
        put_json(folder, "2.json", range(15, 35))
        later = [json.loads(watching.stdout.readline()) for _ in range(4)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0
        assert first == ["DE", "FR"] and {row["n"] for row in later} == {5}

        audited = invoke("audit", "per_country", *where)
        assert audited.exit_code == 0 and "equal" in audited.stdout, audited.output
        other = invoke("sql", *where, "-e", "CREATE QUERY q AS SELECT cuntry FROM sales")
        assert other.exit_code == 2 and "did you mean `country`?" in other.stderr
        assert invoke("sql", *where, "-e", "DROP QUERY per_country").exit_code == 0
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=60)
    finally:
        for process in (running, watching):
            if process is not None:
                process.kill()
    assert running.returncode == 0, said
    assert "Created the warehouse" in said and "Stopped after epoch" in said
    assert "Traceback" not in said and "WARN" not in said
    assert rows_shown(where) == 6, "without the service the warehouse is read"


def rows_shown(where: tuple[str, str]) -> int:
    """The rows of the one query, as SHOW QUERIES counts them."""
    listed = invoke("sql", *where, "--format", "json", "-e", "SHOW QUERIES")
    assert listed.exit_code == 0, listed.output
    return sum(json.loads(line)["rows"] for line in listed.stdout.splitlines())


def while_running(running: subprocess.Popen[str], condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, as long as that process lives."""

    def holds() -> bool:
        assert running.poll() is None, running.communicate()[0]
        return condition()

    return holds
