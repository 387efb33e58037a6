"""The demo's script and screen, with a session without Spark and a clock that only moves when asked."""

import io
import tempfile

import pytest
from rich.console import Console

from cli_fakes import FakeClock, FakeSession, Info, Report
from headrace.cli.demo import (
    MARKER,
    WARM_S,
    DemoOptions,
    choose_sample,
    plan_visits,
    prepare_directory,
    run_demo,
)
from headrace.cli.live import LiveView, PlainView, Snapshot, render_line
from headrace.model.errors import StorageError
from headrace.storage.lock import WriterLock
from headrace.storage.warehouse import Warehouse

SHORT = DemoOptions(seconds=10, queries=60, rate=1_000, seed=3, audits=5)


def play(session, path, options=SHORT, clock=None):
    return run_demo(session.open, str(path), options, clock or FakeClock())


def test_visits_are_seeded_ordered_and_inside_the_time():
    visits = plan_visits(SHORT)
    assert visits == plan_visits(SHORT)
    assert [visit.arrives_s for visit in visits] == sorted(visit.arrives_s for visit in visits)
    leaving = [visit for visit in visits if visit.leaves_s is not None]
    assert 0.2 < len(leaving) / len(visits) < 0.8
    assert all(visit.arrives_s < visit.leaves_s < SHORT.seconds for visit in leaving)
    assert len({visit.query.name for visit in visits}) == SHORT.queries


def test_every_query_comes_and_the_leaving_ones_go(session, tmp_path, capsys):
    assert play(session, tmp_path / "w") is True
    visits = plan_visits(SHORT)
    created = [name for call, name in session.calls if call == "create_query"]
    dropped = [name for call, name in session.calls if call == "drop_query"]
    assert created == [visit.query.name for visit in visits]
    assert sorted(dropped) == sorted(visit.query.name for visit in visits if visit.leaves_s is not None)
    assert session.calls[0] == ("create_stream", "purchases")
    assert session.calls[-1] == ("run_available", "")
    assert session.closed == 1


def test_the_clock_starts_when_all_is_warm(session, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    clock = FakeClock()
    play(session, tmp_path / "w", clock=clock)
    assert session.warmed is not None
    warm = {call for call, _ in session.warmed.calls}
    assert {"create_stream", "create_query", "drop_query", "run_available"} <= warm
    assert sum(table.num_rows for table in session.warmed.appended) > 1_000
    first = session.appended[0]["ts"].to_pylist()[0]
    assert first.timestamp() >= clock.began + WARM_S
    assert not list(tmp_path.glob("headrace-warm-up-*"))


def test_purchases_keep_the_rate(session, tmp_path):
    play(session, tmp_path / "w")
    assert sum(table.num_rows for table in session.appended) == pytest.approx(10_000, abs=300)


def test_summary_has_verdict_rows_and_the_next_commands(session, tmp_path, capsys):
    play(session, tmp_path / "w")
    shown = capsys.readouterr().out
    assert "All 5 audited queries have exactly the rows that plain Spark gives" in shown
    assert shown.count(" equal") >= 5
    for command in ("queries --warehouse", "sql --warehouse", "explain ", "audit "):
        assert f"headrace {command}" in shown
    assert "country" in shown
    assert "active queries" in shown


def test_a_difference_makes_the_demo_fail(session, tmp_path, capsys):
    name = plan_visits(SHORT)[0].query.name
    session.reports = {
        visit.query.name: Report(ok=visit.query.name != name, missing=[{"n": 1}])
        for visit in plan_visits(SHORT)
    }
    assert play(session, tmp_path / "w", DemoOptions(10, 60, 1_000, 3, audits=60)) is False
    shown = capsys.readouterr().out
    assert "1 of 60 audited queries differ" in shown
    assert "DIFFERS" in shown


def test_a_refused_query_is_shown_and_the_rest_goes_on(tmp_path, capsys):
    refused = plan_visits(SHORT)[2].query.name
    session = FakeSession(refuse=frozenset({refused}))
    assert play(session, tmp_path / "w") is False
    assert len(session.infos) == SHORT.queries - 1
    assert f"{refused}: BAD_QUERY" in capsys.readouterr().out


def test_ctrl_c_skips_to_the_summary(session, tmp_path, capsys):
    assert play(session, tmp_path / "w", clock=FakeClock(stop_at=WARM_S + 4)) is True
    assert 0 < len(session.infos) < SHORT.queries
    assert not session.running
    shown = capsys.readouterr().out
    assert "Stopped early" in shown
    assert "audited queries have exactly" in shown


def test_the_demo_empties_only_its_own_directory(session, tmp_path):
    play(session, tmp_path / "w")
    (tmp_path / "w" / "old").touch()
    play(FakeSession(), tmp_path / "w")
    assert not (tmp_path / "w" / "old").exists()


def test_a_strange_directory_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StorageError) as caught:
        prepare_directory(str(tmp_path))
    assert caught.value.code == "NOT_A_DEMO"
    assert (tmp_path / "thesis.tex").exists()


def test_a_file_is_not_a_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        prepare_directory(str(tmp_path / "file"))


def test_a_demo_that_still_runs_is_left_alone(tmp_path):
    Warehouse(tmp_path / "w")
    (tmp_path / "w" / MARKER).touch()
    lock = WriterLock(tmp_path / "w" / "LOCK")
    lock.acquire()
    try:
        with pytest.raises(StorageError) as caught:
            prepare_directory(str(tmp_path / "w"))
    finally:
        lock.release()
    assert caught.value.code == "WAREHOUSE_HELD"
    assert (tmp_path / "w" / "format.json").exists()


def test_sample_takes_turns_over_kinds_and_prefers_queries_with_rows():
    infos = [Info(f"fraud_alert_{i:04d}", rows=i % 2) for i in range(20)]
    infos += [Info("esports_ranks_0100", rows=0), Info("pricing_bands_0101", rows=3)]
    sample = choose_sample(infos, 5, seed=1)
    assert sample == choose_sample(infos, 5, seed=1)
    assert {"esports_ranks_0100", "pricing_bands_0101"} < set(sample)
    alerts = [name for name in sample if name.startswith("fraud")]
    assert len(alerts) == 3
    assert all(int(name[-4:]) % 2 == 1 for name in alerts)
    assert choose_sample([], 5, seed=1) == ()


BUSY = Snapshot(
    elapsed_s=12,
    epoch=9,
    active=250,
    input_rate=20_000,
    event_time_latencies=(2.0, 3.0),
    deployment_latencies=(0.1,),
    rate_history=(1.0, 2.0),
    news=("+ fraud_alert_0001",),
    errors=("[bold]x: BAD",),
)


def test_the_overall_rate_counts_every_query():
    assert BUSY.overall_rate == 5_000_000
    assert "overall 5.00 M/s" in render_line(BUSY)


def test_plain_view_prints_a_line_every_few_seconds():
    buffer = io.StringIO()
    with PlainView(Console(file=buffer, width=300)) as view:
        for tenth in range(121):
            view.show(Snapshot(elapsed_s=tenth / 10))
    assert [line.split(" s ")[0].strip() for line in buffer.getvalue().splitlines()] == ["0", "5", "10"]


def test_live_view_draws_numbers_events_and_errors_as_they_are():
    buffer = io.StringIO()
    with LiveView(Console(file=buffer, width=120, force_terminal=True, color_system=None)) as view:
        view.show(Snapshot())
        view.show(BUSY)
    shown = buffer.getvalue()
    for part in ("5.00 M/s", "fraud_alert_0001", "[bold]x: BAD", "2.50 / 2.95 s"):
        assert part in shown
