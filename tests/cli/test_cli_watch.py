"""`headrace watch`, against sessions without Spark: through the service, and by reading again and again."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pyarrow as pa
import pytest
from rich.console import Console

from cli_fakes import FakeClock, Info, group_line
from headrace.cli.live import LiveView, LogView, Snapshot, render_line, render_snapshot
from headrace.cli.monitor import Board
from headrace.cli.tables import Format
from headrace.cli.watching import Looks, Tail, render_tail, watch_all, watch_query
from headrace.health import Health, Problem, RunState, SourceHealth, SourceState
from headrace.model.errors import CatalogError
from headrace.model.grouping import GroupState
from headrace.service.server import published


class Steps(FakeClock):
    """A clock that does something in each of its pauses, and stops after the last."""

    def __init__(self, *steps) -> None:
        super().__init__()
        self.steps = list(steps)

    def pause(self, seconds: float) -> bool:
        super().pause(seconds)
        if not self.steps:
            self.stopped.set()
            return True
        self.steps.pop(0)()
        return False


def rows(*pairs) -> pa.Table:
    return pa.table({"country": [c for c, _ in pairs], "n": pa.array([n for _, n in pairs], pa.int64())})


def drawn(renderable, width: int = 120) -> str:
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None).print(renderable)
    return buffer.getvalue()


@pytest.fixture
def fed(session):
    """A query that has delivered in epoch 3, and what the next epoch brings."""
    session.infos = {"spend": Info("spend", rows=2)}
    session.epoch, session.delivered = 3, {3: rows(("DE", 1), ("FR", 2))}

    def next_epoch() -> None:
        session.epoch = 4
        session.delivered[4] = rows(("JP", 3))

    return session, next_epoch


def test_rows_are_printed_once_as_they_come(fed, warehouse, capsys):
    session, next_epoch = fed
    with Looks(session.open, warehouse) as looks:
        watch_query(looks, "spend", 20, Format.JSON, Steps(next_epoch, lambda: None))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found == [{"country": "DE", "n": 1}, {"country": "FR", "n": 2}, {"country": "JP", "n": 3}]


def test_csv_names_its_columns_once_also_while_there_are_no_rows(fed, warehouse, capsys):
    session, next_epoch = fed
    session.delivered = {}
    with Looks(session.open, warehouse) as looks:
        watch_query(looks, "spend", 20, None, Steps(next_epoch, lambda: None))
    assert capsys.readouterr().out == "country,n\nJP,3\n"


def test_a_watch_goes_over_to_the_service_and_back_without_losing_rows(fed, warehouse, capsys):
    session, next_epoch = fed
    found = {}

    def comes_up() -> None:
        found["service"] = published(warehouse, "run")
        found["service"].__enter__().start(session)
        next_epoch()
        session.opened = 0

    def goes_away() -> None:
        assert session.opened == 0, "the service was asked"
        found["service"].__exit__(None, None, None)
        session.epoch = 5
        session.delivered[5] = rows(("SE", 9))

    with Looks(session.open, warehouse) as looks:
        watch_query(looks, "spend", 20, None, Steps(comes_up, goes_away, lambda: None))
    assert capsys.readouterr().out.splitlines() == ["country,n", "DE,1", "FR,2", "JP,3", "SE,9"]
    assert session.opened >= 1


def test_every_session_that_reads_is_closed_and_the_first_stays_to_the_end(fed, warehouse):
    session, _ = fed
    open_at = []
    with Looks(session.open, warehouse) as looks:
        for _ in range(4):
            looks.now()
            open_at.append(session.opened - session.closed)
    assert open_at == [1, 2, 2, 2]
    assert session.opened == session.closed == 4


def test_the_newest_rows_stay_in_the_picture(fed, session):
    _, next_epoch = fed
    tail = Tail("spend", 2)
    tail.look(session)
    assert tail.look(session) is None, "no epoch has passed"
    next_epoch()
    assert tail.look(session).to_pylist() == [{"country": "JP", "n": 3}]
    assert tail.rows["country"].to_pylist() == ["FR", "JP"]
    shown = drawn(render_tail(tail))
    assert "spend · active · 2 rows by epoch 4" in shown
    assert "FR" in shown and "JP" in shown and "DE" not in shown


def test_an_empty_picture_says_why(fed, session):
    session.delivered = {}
    tail = Tail("spend", 2)
    tail.look(session)
    assert "no epoch has run" in drawn(render_tail(tail))


def test_an_unknown_query_is_refused_with_a_hint(fed, warehouse):
    session, _ = fed
    with pytest.raises(CatalogError) as caught, Looks(session.open, warehouse) as looks:
        watch_query(looks, "spent", 20, None, Steps())
    assert caught.value.hint == "did you mean `spend`?"


def test_the_whole_warehouse_is_watched(fed, warehouse, capsys):
    session, next_epoch = fed
    with Looks(session.open, warehouse) as looks:
        watch_all(looks, warehouse, Steps(next_epoch))
    assert "epoch 3" in capsys.readouterr().out


# the picture of any warehouse

ILL = Health(
    False,
    RunState.RETRYING,
    "disk full",
    (Problem("the run", "disk full", "make room", 1.0),),
    (
        SourceHealth(
            "sales", SourceState.READING, files_taken=12, files_waiting=3, files_aside=1, rows_taken=9000
        ),
        SourceHealth("ads", SourceState.STOPPED, "gone", null_times=4),
        SourceHealth("typed", SourceState.APPEND),
    ),
    (),
)


def test_the_picture_has_sources_problems_and_what_queries_do(session):
    session.infos = {"spend": Info("spend", rows=2_000), "[bold]odd": Info("[bold]odd")}
    session.found_health = ILL
    clock = FakeClock()
    board = Board(clock.now)
    buffer = io.StringIO()
    screen = Console(file=buffer, width=140, force_terminal=True, color_system=None)
    with LiveView(screen) as view:
        view.show(board.snapshot(session, 0.0, "w · every 1 second", "In another terminal: headrace sql"))
    shown = buffer.getvalue()
    for part in (
        "w · every 1 second",
        "2 queries",
        "2,000 rows",
        "[bold]odd",
        "the run is retrying",
        "the run: disk full (make room)",
        "sales",
        "9,000",
        "set aside",
        "4 without event time",
        "fed by append",
        "In another terminal: headrace sql",
    ):
        assert part in shown, part


def test_queries_that_changed_last_come_first_and_are_asked_for_once_a_second(session):
    session.infos = {f"q{i}": Info(f"q{i}") for i in range(20)}
    clock = FakeClock()
    board = Board(clock.now)
    board.snapshot(session, 0.0, "")
    session.infos["q3"].rows = 5
    assert not any("5 rows" in line for line in board.snapshot(session, 0.5, "").news)
    clock.pause(1.0)
    picture = board.snapshot(session, 1.0, "")
    assert picture.news[0].split() == ["q3", "active", "5", "rows"]
    assert len(picture.news) == 8 and picture.news_title == "20 queries"


def test_a_log_has_a_line_for_epochs_now_and_then():
    buffer = io.StringIO()
    log = LogView(Console(file=buffer, width=300), every_s=5)
    for second in range(12):
        log.show(Snapshot(elapsed_s=second, epoch=second // 2))
    assert [line.split("epoch ")[1][0] for line in buffer.getvalue().splitlines()] == ["0", "2", "5"]


BACKFILL = group_line(
    "backfill-7",
    119,
    state=GroupState.CATCHING_UP,
    lag_epochs=680,
    lag_seconds=70.0,
    target="main",
    members=("past",),
)


def test_the_picture_shows_groups_when_there_are_more_than_the_main_one(session):
    session.infos, session.epoch = {"spend": Info("spend")}, 799
    board = Board(FakeClock().now)
    assert "backfill" not in drawn(render_snapshot(board.snapshot(session, 0.0, "")), 160)
    assert "members" not in drawn(render_snapshot(board.snapshot(session, 0.0, "")), 160)
    session.other_groups = [BACKFILL, *(group_line(f"plain-{i}", 799) for i in range(20))]
    picture = Board(FakeClock().now).snapshot(session, 0.0, "")
    shown = drawn(render_snapshot(picture), 160)
    assert "catching up: epoch 119 of 799 (15 %), then to main" in shown
    assert "and 14 more groups" in shown
    assert shown.index("main ") < shown.index("backfill-7") < shown.index("plain-0"), (
        "those that lag come first"
    )
    line = "; group backfill-7 is catching up: epoch 119 of 799 (15 %), then to main"
    assert render_line(picture).endswith(line)


def test_a_log_tells_of_groups_that_catch_up_though_the_main_one_stands_still(session):
    buffer = io.StringIO()
    log = LogView(Console(file=buffer, width=300), every_s=5)
    for second in range(12):
        backfill = replace(BACKFILL, cursor=119 + second, lag_epochs=680 - second)
        log.show(Snapshot(elapsed_s=second, epoch=799, groups=(group_line(cursor=799), backfill)))
    found = [line.split("catching up: epoch ")[1].split(" of")[0] for line in buffer.getvalue().splitlines()]
    assert found == ["119", "124", "129"]


def test_rows_of_a_group_ahead_of_the_main_one_are_shown(fed):
    session, _ = fed
    session.other_groups = [group_line("alerts", 3)]
    tail = Tail("spend", 20)
    assert tail.look(session).num_rows == 2
    assert tail.look(session) is None
    session.delivered[4] = rows(("JP", 3))
    session.other_groups = [group_line("alerts", 4)]
    assert tail.look(session).num_rows == 1


def test_a_tail_says_that_its_query_catches_up(fed):
    session, _ = fed
    session.standing = ("catching up: epoch 3 of 799 (1 %), then it joins group main",)
    tail = Tail("spend", 20)
    tail.look(session)
    assert session.standing[0] in drawn(render_tail(tail))
