"""The commands other than demo, against a session without Spark."""

import json
import warnings

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

from cli_fakes import Info, Report, group_line
from headrace.catalog.queries import QueryState
from headrace.cli import tables
from headrace.cli.main import COMMANDS, cli
from headrace.health import Health, Problem, RunState, SourceHealth, SourceState
from headrace.model.errors import HeadraceWarning, SqlError
from headrace.model.grouping import GroupState
from headrace.notes import with_note

ROWS = pa.table({"country": ["US", None], "spend": [1.5, 20.0]})


def test_help_lists_exactly_the_commands_there_are():
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    looking = ["queries", "groups", "health", "events", "explain", "audit"]
    assert list(COMMANDS) == ["demo", "run", "serve", "sql", "watch", *looking, "bench"]
    assert all(f"\n  {name} " in result.output for name in COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command):
    result = CliRunner().invoke(cli, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output


def test_unknown_commands_and_options_are_refused_with_the_list(run, session):
    result = CliRunner().invoke(cli, ["quries"])
    assert result.exit_code == 2
    assert all(name in result.stderr for name in COMMANDS)
    result = run("sql", "--zzz")
    assert result.exit_code == 2
    assert all(name in result.stderr for name in ("--warehouse", "--execute", "--format", "--max-rows"))
    assert session.opened == 0


def test_bench_refuses_what_it_does_not_know(run, monkeypatch):
    monkeypatch.setattr("headrace_bench.command.run_bench", lambda options: pytest.fail("a benchmark ran"))
    for arguments, words in (
        (("bench", "--systems", "headrace,sparc"), "sparc is not one of headrace, spark"),
        (("bench", "--curves", "moon"), "moon is not one of queries, keys"),
        (("bench", "--with", "storm"), "storm"),
        (("bench", "--workload", "moon"), "moon"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert words in result.output


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        ((), ("aggregation", "join", "complex")),
        (("--quick",), ("aggregation",)),
        (("--quick", "--workload", "join"), ("join",)),
        (("--workload", "complex", "--workload", "join"), ("complex", "join")),
        (("--workload", "predicates"), ("predicates",)),
    ],
)
def test_bench_measures_all_kinds_unless_told_or_in_a_hurry(run, monkeypatch, arguments, kinds):
    asked = []
    monkeypatch.setattr("headrace_bench.command.run_bench", lambda options: asked.append(options) or True)
    assert run("bench", *arguments).exit_code == 0
    assert [options.workloads for options in asked] == [kinds]


def test_sql_runs_each_statement_and_prints_rows(run, session):
    session.answers["SELECT * FROM spend"] = ROWS
    result = run("sql", "-e", "SHOW STREAMS", "-e", "SELECT * FROM spend;")
    assert result.exit_code == 0, result.output
    assert session.executed == ["SHOW STREAMS", "SELECT * FROM spend"]
    assert "ok" in result.stdout
    assert "NULL" in result.stdout
    assert "(2 rows)" in result.stdout
    assert session.closed == 1


def test_sql_reads_a_file(run, session, tmp_path):
    script = tmp_path / "script.sql"
    script.write_text("-- streams first; then the rest\nSHOW STREAMS;\n\nSHOW QUERIES")
    assert run("sql", str(script)).exit_code == 0
    assert session.executed == ["SHOW STREAMS", "SHOW QUERIES"]


def test_sql_reads_standard_input(run, session):
    assert run("sql", "-", input="SHOW QUERIES;").exit_code == 0
    assert run("sql", input="SHOW STREAMS;").exit_code == 0
    assert session.executed == ["SHOW QUERIES", "SHOW STREAMS"]


def test_sql_creates_the_warehouse(run, session, tmp_path):
    result = run("sql", "-e", "CREATE STREAM s (ts TIMESTAMP)", "--warehouse", str(tmp_path / "new"))
    assert result.exit_code == 0
    assert (tmp_path / "new" / "format.json").exists()
    assert session.read_only is False
    assert f"headrace run --warehouse {tmp_path / 'new'}" in result.stderr.replace("\n", "")


def test_sql_that_only_reads_needs_a_warehouse_and_no_lock(run, session, tmp_path):
    result = run("sql", "-e", "SHOW STREAMS", "--warehouse", str(tmp_path / "typo"))
    assert result.exit_code == 2
    assert "NO_WAREHOUSE" in result.stderr
    assert not (tmp_path / "typo").exists()
    assert run("sql", "-e", "SHOW STREAMS", "-e", "SELECT 1").exit_code == 0
    assert session.read_only is True


def test_sql_prints_csv_and_json(run, session):
    session.answers["SELECT 1"] = ROWS
    assert run("sql", "-e", "SELECT 1", "--format", "csv").stdout == "country,spend\nUS,1.5\n,20.0\n"
    lines = run("sql", "-e", "SELECT 1", "--format", "json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == ROWS.to_pylist()


def test_help_needs_no_warehouse(run, session, tmp_path):
    result = run("sql", "-e", "help", "--warehouse", str(tmp_path / "none"))
    assert result.exit_code == 0, result.output
    assert "CREATE STREAM" in result.stdout
    assert session.opened == 0 and not (tmp_path / "none").exists()


def test_sql_says_how_many_rows_it_left_out(run, session):
    session.answers["SELECT 1"] = pa.table({"n": list(range(500))})
    result = run("sql", "-e", "SELECT 1", "--max-rows", "3")
    assert "(500 rows, the first 3 shown)" in result.stdout
    assert "499" not in result.stdout


def test_sql_error_has_code_place_detail_and_hint_but_no_traceback(run, session):
    session.answers["SELECT x"] = SqlError(
        "UNKNOWN_COLUMN",
        "no column `x`",
        detail="purchases has 7 columns",
        hint="did you mean y?",
        span=(1, 8),
    )
    result = run("sql", "-e", "SELECT x")
    assert result.exit_code == 2
    for part in (
        "UNKNOWN_COLUMN: no column `x` (line 1, column 8)",
        "detail: purchases has 7 columns",
        "hint: did you mean y?",
    ):
        assert part in result.stderr
    assert "Traceback" not in result.output
    assert session.closed == 1


def test_sql_script_stops_at_its_first_error_and_says_where(run, session):
    session.answers["SELECT x"] = SqlError("UNKNOWN_COLUMN", "no column `x`")
    result = run("sql", "-", input="SHOW STREAMS;\n\nSELECT x;\nSHOW QUERIES;")
    assert result.exit_code == 2
    assert "Statement 2 of 3, at line 3, failed" in result.stderr
    assert session.executed == ["SHOW STREAMS", "SELECT x"]


@pytest.mark.parametrize("text", ["", "  ;; ", "-- nothing\n"])
def test_sql_without_a_statement_is_refused_before_spark_starts(run, session, text):
    result = run("sql", "-e", text)
    assert result.exit_code == 2
    assert "no statement" in result.stderr
    assert session.opened == 0


def test_sql_with_an_open_quote_is_refused_before_spark_starts(run, session):
    result = run("sql", "-e", "SELECT 'x")
    assert result.exit_code == 2
    assert "SYNTAX_ERROR" in result.stderr
    assert session.opened == 0


def test_sql_takes_statements_or_a_file_but_not_both(run, tmp_path):
    (tmp_path / "a.sql").write_text("SHOW STREAMS")
    result = run("sql", "-e", "SHOW STREAMS", str(tmp_path / "a.sql"))
    assert result.exit_code == 2
    assert "not both" in result.stderr


def test_sql_with_a_missing_or_binary_file(run, session, tmp_path):
    assert run("sql", str(tmp_path / "gone.sql")).exit_code == 2
    (tmp_path / "binary.sql").write_bytes(b"\xff\xfe\x00")
    result = run("sql", str(tmp_path / "binary.sql"))
    assert result.exit_code == 2
    assert "UTF-8" in result.stderr
    assert session.opened == 0


# how commands end


def test_ctrl_c_ends_with_130_and_closes_the_session(run, session):
    session.answers["SELECT 1"] = KeyboardInterrupt()
    result = run("sql", "-e", "SELECT 1")
    assert result.exit_code == 130
    assert "Stopped." in result.stderr
    assert session.closed == 1


def test_an_unexpected_error_is_one_line_unless_debug(session, warehouse):
    session.answers["SELECT 1"] = RuntimeError("the JVM is gone\n  at java.lang.Thread")
    arguments = ["sql", "-e", "SELECT 1", "--warehouse", warehouse]
    result = CliRunner().invoke(cli, arguments, obj=session.open)
    assert result.exit_code == 2
    assert "RuntimeError: the JVM is gone\n" in result.stderr
    assert "java.lang" not in result.stderr
    assert "--debug" in result.stderr
    result = CliRunner().invoke(cli, ["--debug", *arguments], obj=session.open)
    assert isinstance(result.exception, RuntimeError)


@pytest.mark.parametrize(
    "arguments", [("queries",), ("groups",), ("health",), ("explain", "--all"), ("audit", "--all")]
)
def test_commands_that_read_need_a_warehouse(run, session, tmp_path, arguments):
    result = run(*arguments, "--warehouse", str(tmp_path / "typo"))
    assert result.exit_code == 2
    assert "NO_WAREHOUSE" in result.stderr
    assert not (tmp_path / "typo").exists()
    assert session.opened == 0


# queries


def test_queries_lists_name_state_rows_and_error(run, session):
    session.infos = {
        "spend": Info("spend", rows=12_345),
        "bad": Info("bad", state=QueryState.QUARANTINED, error="ARITHMETIC_OVERFLOW: in epoch 4\nstack"),
        "new": Info("new", state=QueryState.PENDING, first_epoch=None),
    }
    result = run("queries", env={"COLUMNS": "140"})
    assert result.exit_code == 0, result.output
    for part in ("spend", "12,345", "quarantined", "ARITHMETIC_OVERFLOW", "pending", "3 in all"):
        assert part in result.stdout
    assert "stack" not in result.stdout


def test_queries_says_what_keeps_input_from_them(run, session):
    session.infos = {"spend": Info("spend", trouble="stream `s`: 1 file set aside that could not be read")}
    assert "1 file set aside" in run("queries", env={"COLUMNS": "140"}).stdout


def test_warnings_are_one_line_on_stderr(run, session, monkeypatch):
    def warn() -> list[Info]:
        warnings.warn("stream `s`: 1 file set aside", HeadraceWarning, stacklevel=1)
        return []

    monkeypatch.setattr(session, "queries", warn)
    result = run("queries")
    assert result.stderr.splitlines()[-1] == "warning: stream `s`: 1 file set aside"


def test_queries_by_state(run, session):
    session.infos = {"a": Info("kept"), "b": Info("gone", state=QueryState.DROPPED)}
    result = run("queries", "--state", "dropped")
    assert "gone" in result.stdout
    assert "kept" not in result.stdout


def test_queries_by_group(run, session):
    session.infos = {
        "a": Info("calm"),
        "b": Info("loud", group="alerts"),
        "c": Info("past", group="backfill-7", target="main"),
    }
    shown = run("queries", env={"COLUMNS": "140"}).stdout
    assert "alerts" in shown and "backfill-7, then main" in shown
    result = run("queries", "--group", "Alerts")
    assert "loud" in result.stdout and "calm" not in result.stdout


def test_health_shows_inputs_and_problems_and_exits_with_1(run, session):
    result = run("health")
    assert result.exit_code == 0 and "ok; the run is" in result.stdout
    source = SourceHealth("s", SourceState.READING, files_taken=2, rows_taken=1200, files_waiting=None)
    trouble = Problem("stream `s`", "1 file set aside", "put it under another name", 0.0)
    session.found_health = Health(False, RunState.RUNNING, None, (trouble,), (source,), ())
    result = run("health", env={"COLUMNS": "160"})
    assert result.exit_code == 1
    for part in (
        "1,200",
        "?",
        "1 problem; the run is running",
        "- stream `s`: 1 file set aside",
        "another name",
    ):
        assert part in result.stdout, part
    assert session.read_only


def test_groups_say_who_lives_where_and_who_lags(run, session):
    session.infos, session.epoch = {"spend": Info("spend")}, 799
    session.other_groups = [
        group_line(
            "alerts", 780, lag_epochs=19, lag_seconds=42.5, members=tuple("abcdefgh"), error="disk full"
        ),
        group_line("backfill-7", 119, state=GroupState.CATCHING_UP, lag_epochs=680, target="main"),
        group_line("auto-3", saves=0.4153, reason="merged with 2 queries: cost 0.31, saves 1 task"),
    ]
    result = run("groups", env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    for part in (
        "a, b, c, d, e and 3 more",
        "42.5 s",
        "alerts: disk full",
        "catching up: epoch 119 of 799 (15 %), then to main",
        "0.42 cores",
        "auto-3: merged with 2 queries: cost 0.31, saves 1 task",
    ):
        assert part in result.stdout, part
    assert session.read_only


def test_groups_tell_what_was_predicted_when_they_are_asked_for_more(run, session):
    session.answers["SHOW PREDICTIONS"] = pa.table(
        {"group": ["main"], "epoch": [7], "predicted_seconds": [4.5]}
    )
    result = run("groups", "--verbose")
    assert result.exit_code == 0, result.output
    assert session.executed == ["SHOW PREDICTIONS"]
    assert "4.5" in result.stdout, "the rows of the table"


def test_the_newest_predictions_of_every_group_are_listed(run, session):
    names = [name for name in ("auto-1", "auto-2", "main") for _ in range(100)]
    session.answers["SHOW PREDICTIONS"] = pa.table({"group": names, "epoch": [*range(100)] * 3})
    lines = run("groups", "--verbose", "--max-rows", "7").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["group", "epoch"])
    assert [line.split() for line in lines[start + 1 : start + 7]] == [
        [name, str(epoch)] for name in ("auto-1", "auto-2", "main") for epoch in (98, 99)
    ]
    session.answers["SHOW PREDICTIONS"] = pa.table({"group": names[:0], "epoch": pa.array([], pa.int64())})
    assert run("groups", "--verbose").exit_code == 0, "nothing was predicted yet"


def test_queries_of_an_unknown_state_are_refused_with_the_list(run, session):
    result = run("queries", "--state", "foo")
    assert result.exit_code == 2
    assert all(state.value in result.stderr for state in QueryState)
    assert set(tables.STATE_STYLES) == {state.value for state in QueryState}
    assert session.opened == 0


def test_queries_of_an_empty_warehouse(run):
    assert "No queries" in run("queries").stdout


# explain


def test_explain_by_name_and_all(run, session):
    session.infos = {"spend": Info("spend")}
    assert run("explain", "spend").stdout == "plan of spend\n"
    assert run("explain", "--all").stdout == "the whole plan\n"
    session.answers = {"EXPLAIN VERBOSE `spend`": "all of it", "EXPLAIN VERBOSE": "lanes"}
    assert run("explain", "--verbose", "spend").stdout == "all of it\n"
    assert run("explain", "--verbose", "--all").stdout == "lanes\n"


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_an_empty_table_says_why_beside_its_rows(run, session, form):
    session.answers = {"SELECT 1": with_note(pa.table({"n": pa.array([], pa.int64())}), "no epoch has run")}
    result = run("sql", "--format", form, "-e", "SELECT 1")
    assert result.stderr.splitlines()[-1] == "no epoch has run"
    assert "no epoch" not in result.stdout
    session.answers = {"SELECT 1": pa.table({"n": [1]})}
    assert "no epoch" not in run("sql", "--format", form, "-e", "SELECT 1").stderr


@pytest.mark.parametrize("command", ["explain", "audit"])
@pytest.mark.parametrize("arguments", [(), ("spend", "--all")])
def test_name_or_all_but_not_both_nor_neither(run, session, command, arguments):
    session.infos = {"spend": Info("spend")}
    result = run(command, *arguments)
    assert result.exit_code == 2
    assert "--all" in result.stderr
    assert session.opened == 0


@pytest.mark.parametrize("command", ["explain", "audit"])
def test_an_unknown_name_gets_a_hint(run, session, command):
    session.infos = {"spend": Info("spend")}
    result = run(command, "spent")
    assert result.exit_code == 2
    assert "QUERY_NOT_FOUND" in result.stderr
    assert "did you mean `spend`?" in result.stderr


# audit


def test_audit_of_equal_queries(run, session):
    session.infos = {"a": Info("a"), "b": Info("b")}
    result = run("audit", "--all")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("equal") == 2


def test_audit_tells_what_was_taken_in(run, session):
    session.infos = {"a": Info("a"), "b": Info("b")}
    taken = SourceHealth(
        "s", SourceState.READING, files_taken=2, rows_taken=1200, files_waiting=1, files_aside=1
    )
    session.reports = {name: Report(inputs=(taken,)) for name in ("a", "b")}
    line = "input of stream s: 1,200 rows and 2 files taken, 1 file waiting, 1 file set aside"
    assert run("audit", "--all", env={"COLUMNS": "140"}).stdout.count(line) == 1


@pytest.mark.parametrize(
    "missing", [[{"country": "NZ", "n": 41}], pd.DataFrame({"country": ["NZ"], "n": [41]}), [("NZ", 41)]]
)
def test_audit_that_differs_prints_the_rows_and_exits_with_1(run, session, missing):
    session.infos = {"a": Info("a"), "b": Info("b")}
    session.reports["b"] = Report(
        False, missing, pa.table({"country": ["SE"]}), expected_rows=7, actual_rows=6
    )
    result = run("audit", "a", "b")
    assert result.exit_code == 1
    for part in ("DIFFERS", "missing", "NZ", "41", "unexpected", "SE"):
        assert part in result.stdout


def test_audit_of_a_quarantined_query_says_why_and_exits_with_1(run, session):
    session.infos = {"a": Info("a")}
    session.reports["a"] = Report(False, error="[DIVIDE_BY_ZERO] Division by zero")
    result = run("audit", "a")
    assert result.exit_code == 1
    assert "QUARANTINED" in result.stdout and "Division by zero" in result.stdout
