"""A session behind the API on loopback: the same answers and errors as without it, and nobody else gets in."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from cli_fakes import Column, Report, StreamLine, group_line
from headrace.health import Health, Problem, RunState, SetAside, SourceHealth, SourceState
from headrace.model.errors import CatalogError, EngineError, SqlError
from headrace.model.grouping import GroupState
from headrace.notes import note_of, with_note
from headrace.service import endpoint
from headrace.service.client import connect
from headrace.service.endpoint import Endpoint
from headrace.service.server import published

ROWS = pa.table(
    {
        "n": pa.array([1, None], pa.int64()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "tags": pa.array([["a"], []], pa.list_(pa.string())),
        "ratio": pa.array([float("nan"), 0.1], pa.float64()),
    }
)


def ask(
    service, path: str, *, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, dict]:
    """A request as curl would send it; `headers` replace those of an honest one."""
    sent = {"Authorization": f"Bearer {service.endpoint.token}", "Content-Type": "application/json"}
    sent.update({name.title(): value for name, value in headers.items()})
    connection = http.client.HTTPConnection("127.0.0.1", service.endpoint.port, timeout=30)
    try:
        connection.request(method, path, body, {name: value for name, value in sent.items() if value})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# the same answers


def test_tables_travel_exactly(remote, session):
    session.answers["SELECT 1"] = ROWS
    found = remote.execute("SELECT 1")
    assert found.schema == ROWS.schema
    assert found.drop_columns("ratio").equals(ROWS.drop_columns("ratio"))
    assert str(found["ratio"]) == str(ROWS["ratio"])
    assert remote.execute("SHOW STREAMS") == "ok"
    assert session.executed == ["SELECT 1", "SHOW STREAMS"]


def test_people_with_curl_get_json(service, session):
    session.answers["SELECT 1"] = ROWS
    status, found = ask(service, "/v1/statements", method="POST", body='{"statement": "SELECT 1"}')
    assert status == 200
    assert [column["name"] for column in found["columns"]] == ["n", "price", "tags", "ratio"]
    assert found["rows"] == [[1, "1.50", ["a"], "nan"], [None, None, [], 0.1]]


def test_notes_and_reasons_travel(remote, service, session):
    session.answers["SELECT 1"] = with_note(ROWS.slice(0, 0), "no epoch has run")
    assert note_of(remote.execute("SELECT 1")) == "no epoch has run"
    _, found = ask(service, "/v1/statements", method="POST", body='{"statement": "SELECT 1"}')
    assert (found["note"], found["rows"]) == ("no epoch has run", [])
    assert remote.query("spend").status().why == "no epoch has run"


def test_newest_rows_say_where_to_go_on(remote, session):
    session.epoch, session.delivered = 4, {3: ROWS.slice(0, 1), 4: ROWS.slice(1, 1)}
    both = remote.query("spend").newest(10, None)
    assert (both.rows.num_rows, both.epoch) == (2, 4)
    assert both.rows.schema == ROWS.schema
    assert remote.query("spend").newest(10, 3).rows["tags"].to_pylist() == [[]]
    assert remote.query("spend").newest(1, None).rows.num_rows == 1


def test_queries_streams_metrics_and_plans(remote, session):
    session.stream_lines = [StreamLine("purchases", (Column("ts", "timestamp"),), rows=5)]
    (info,) = remote.queries()
    assert (info.name, info.state, info.rows, info.error) == ("spend", "active", 7, None)
    (stream,) = remote.streams()
    assert (stream.name, stream.columns[0].name, stream.columns[0].type) == ("purchases", "ts", "timestamp")
    assert remote.metrics().deployment_latencies == session.metrics().deployment_latencies
    assert remote.query("spend").explain() == "plan of spend"
    assert remote.explain() == "the whole plan"


def test_groups_travel_with_their_way_in_words(remote, service, session):
    session.other_groups = [
        group_line(
            "backfill-7",
            119,
            state=GroupState.CATCHING_UP,
            lag_epochs=680,
            lag_seconds=70.5,
            target="main",
            seconds=None,
            error="disk full",
        )
    ]
    assert remote.groups() == session.groups()
    _, backfill = remote.groups()
    assert backfill.doing == "catching up: epoch 119 of 799 (15 %), then to main"
    status, (main, other) = ask(service, "/v1/groups")
    assert status == 200 and (main["kind"], main["state"], main["lag_seconds"]) == ("shared", "running", 0.0)
    assert (other["kind"], other["error"], other["doing"]) == ("transit", "disk full", backfill.doing)


def test_a_query_travels_with_its_group_and_how_that_does(remote, session):
    session.infos["spend"].group, session.infos["spend"].target = "alerts", "main"
    session.standing = ("its group alerts is 5 epochs (12 s) behind",)
    (info,) = remote.queries()
    assert (info.group, info.target) == ("alerts", "main")
    assert remote.query("spend").status().standing == session.standing


def test_health_travels_whole(remote, session):
    session.found_health = Health(
        False,
        RunState.RETRYING,
        "disk full",
        (Problem("the run", "disk full", "make room", 1.5),),
        (SourceHealth("s", SourceState.RETRYING, "gone", 2.5, 3, 4, 5, 6, 7, 8, 9),),
        (SetAside("s", "a.json", "torn", 3.5),),
    )
    assert remote.health() == session.found_health


def test_an_audit_brings_its_verdict_and_the_rows(remote, session):
    session.reports["spend"] = Report(False, [{"n": Decimal("1.5")}], pa.table({"n": [2]}), 7, 6)
    report = remote.query("spend").audit()
    assert (report.ok, report.expected_rows, report.actual_rows) == (False, 7, 6)
    assert (report.missing, report.unexpected) == (({"n": "1.5"},), ({"n": 2},))


def test_any_name_of_a_query_can_be_asked_for(remote, session):
    session.create_query("SELECT 1", name="a/b c?%é")
    assert remote.query("a/b c?%é").explain() == "plan of a/b c?%é"


def test_errors_come_out_as_what_they_were(remote, session):
    raised = SqlError("UNKNOWN_COLUMN", "no column `x`", detail="d", hint="did you mean y?", span=(1, 8))
    session.answers["SELECT x"] = raised
    with pytest.raises(SqlError) as caught:
        remote.execute("SELECT x")
    assert vars(caught.value) == vars(raised)
    with pytest.raises(CatalogError) as missing:
        remote.query("spent").explain()
    assert missing.value.code == "QUERY_NOT_FOUND"


def test_a_foreign_error_is_answered_in_one_line(remote, session):
    session.answers["SELECT x"] = RuntimeError("the JVM is gone\n  at java.lang.Thread")
    with pytest.raises(EngineError) as caught:
        remote.execute("SELECT x")
    assert caught.value.code == "UNEXPECTED"
    assert "RuntimeError: the JVM is gone" in caught.value.message
    assert "java.lang" not in str(caught.value)


def test_health_is_answered_while_statements_take_their_time(remote, session):
    entered, leave = threading.Barrier(9), threading.Event()

    def slow(statement: str) -> str:
        entered.wait(30)
        leave.wait(30)
        return "done"

    session.execute = slow
    askers = [threading.Thread(target=remote.execute, args=("SELECT 1",)) for _ in range(8)]
    for asker in askers:
        asker.start()
    entered.wait(30)
    assert remote.health().ok
    leave.set()
    for asker in askers:
        asker.join(30)


# who gets in


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:x"])
def test_a_host_that_is_not_this_machine_is_refused(service, session, host):
    status, found = ask(service, "/v1/queries", host=host)
    assert (status, found["error"]["code"]) == (403, "BAD_HOST")


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer wrong", "Basic x"])
@pytest.mark.parametrize("path", ["/v1/hello", "/v1/queries", "/openapi.json", "/nothing"])
def test_nothing_is_said_without_the_token(service, session, path, sent):
    status, found = ask(service, path, authorization=sent)
    assert (status, found["error"]["code"]) == (401, "NO_TOKEN")


def test_the_service_listens_on_loopback_only(service):
    assert service.endpoint.host == "127.0.0.1"
    assert service._socket.getsockname()[0] == "127.0.0.1"


def test_wrong_requests_are_answered_in_our_words(service):
    status, found = ask(service, "/v1/statements", method="POST", body="{}")
    assert (status, found["error"]["code"]) == (422, "BAD_REQUEST")
    assert "statement" in found["error"]["detail"]
    status, found = ask(service, "/v2/queries")
    assert (status, found["error"]["code"]) == (404, "NO_ROUTE")


# how it is found


def test_the_endpoint_file_is_private_and_goes_with_the_service(session, warehouse):
    file = Path(warehouse) / "service.json"
    with published(warehouse, "run") as service:
        service.start(session)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        content = json.loads(file.read_text())
        assert (content["pid"], content["port"]) == (os.getpid(), service.endpoint.port)
        assert connect(warehouse).hello.command == "run"
    assert not file.exists()
    assert connect(warehouse) is None


def test_a_command_waits_for_a_service_that_is_starting(session, warehouse):
    found = []
    with published(warehouse, "run") as service:
        asker = threading.Thread(target=lambda: found.append(connect(warehouse).explain()))
        asker.start()
        assert not found
        service.start(session)
        asker.join(30)
    assert found == ["the whole plan"]


def test_a_service_that_fails_to_start_lets_those_who_wait_go_on(warehouse):
    found = []
    with published(warehouse, "run") as service:
        probe = socket.create_connection(("127.0.0.1", service.endpoint.port))
        asker = threading.Thread(target=lambda: found.append(connect(warehouse)))
        asker.start()
        probe.close()
    asker.join(30)
    assert found == [None]


def dead_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_files_that_were_left_behind_are_no_service(service, warehouse, tmp_path):
    good = service.endpoint
    for stale in (
        Endpoint("127.0.0.1", good.port, dead_process(), good.token, "run"),
        Endpoint("127.0.0.1", free_port(), os.getpid(), good.token, "run"),
        Endpoint("127.0.0.1", good.port, os.getpid(), "the token of another one", "run"),
    ):
        endpoint.publish(warehouse, stale)
        assert connect(warehouse) is None
    for text in ("", "{", "[]", '{"port": "x"}'):
        (Path(warehouse) / "service.json").write_text(text)
        assert connect(warehouse) is None
    assert connect(tmp_path / "no warehouse") is None


def test_stopping_leaves_the_file_of_another_service(session, warehouse):
    with published(warehouse, "run"):
        other = Endpoint("127.0.0.1", 1, os.getpid(), "other", "run")
        endpoint.publish(warehouse, other)
    assert endpoint.find(warehouse) == other


def test_a_service_that_went_away_says_so(session, warehouse):
    with published(warehouse, "run") as service:
        service.start(session)
        remote = connect(warehouse)
    with pytest.raises(EngineError) as caught:
        remote.queries()
    assert caught.value.code == "SERVICE_GONE"
    assert "headrace run" in caught.value.hint


def test_a_prompt_follows_a_service_that_was_started_again(session, warehouse, service):
    with published(warehouse, "run") as before:
        before.start(session)
        remote = connect(warehouse)
        assert not remote.follow(warehouse)
    assert not remote.follow(warehouse), "nobody runs it"
    endpoint.publish(warehouse, endpoint.find(service.warehouse))
    assert remote.follow(warehouse)
    assert [query.name for query in remote.queries()] == ["spend"]


def test_a_taken_port_is_refused_with_a_hint(service, warehouse):
    with pytest.raises(EngineError) as caught, published(warehouse, "run", service.endpoint.port):
        pass
    assert caught.value.code == "PORT_TAKEN"
    assert "--port" in caught.value.hint
