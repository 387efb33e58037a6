"""Why a query is empty: every reason, from facts alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headrace.catalog.queries import QueryState
from headrace.health import RunState, SourceState
from headrace.looking.status import (
    GroupFacts,
    QueryFacts,
    StreamFacts,
    first_end,
    next_end,
    status_of,
    why_empty,
)
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.window import SessionWindow, Window

SECOND = 1_000_000
NOON = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()) * SECOND


def at(second: float) -> int:
    return NOON + int(second * SECOND)


TEN = Window(10 * SECOND, 10 * SECOND)
SALES = StreamFacts(
    "sales", SourceState.APPEND, watermark_us=at(1), rows=100, since=100, first_us=at(3), late=0
)
ACTIVE = QueryFacts("spend", QueryState.ACTIVE, (SALES,), window=TEN, first_epoch=4, epoch=9)


def over(*streams: StreamFacts, **others: object) -> QueryFacts:
    return replace(ACTIVE, streams=streams, **others)  # type: ignore[arg-type]


CASES = [
    (
        replace(ACTIVE, state=QueryState.PENDING, first_epoch=None, epoch=-1),
        "no epoch has run: `headrace run`, run_available() or start() runs epochs",
    ),
    (
        replace(ACTIVE, state=QueryState.PENDING, first_epoch=None, run=RunState.RUNNING),
        "no epoch has run since the query was created: it begins with the next one",
    ),
    (
        replace(ACTIVE, state=QueryState.PENDING, first_epoch=None, run=RunState.RETRYING),
        "no epoch has run since the query was created: the run has trouble and tries again; health() says why",
    ),
    (
        replace(ACTIVE, state=QueryState.QUARANTINED, error="[DIVIDE_BY_ZERO] Division by zero"),
        "the query failed and was taken out: [DIVIDE_BY_ZERO] Division by zero",
    ),
    (
        replace(ACTIVE, state=QueryState.DROPPED, last_epoch=4),
        "the query was dropped before an epoch had tuples for it",
    ),
    (
        ACTIVE,
        "the watermark is at 2026-01-01 12:00:01 and the first window closes at 2026-01-01 12:00:10: "
        "newer tuples, or CLOSE STREAM, move it",
    ),
    (
        replace(ACTIVE, window=SessionWindow(5 * SECOND)),
        "the watermark is at 2026-01-01 12:00:01 and the first session can close at 2026-01-01 12:00:08: "
        "newer tuples, or CLOSE STREAM, move it",
    ),
    (
        over(replace(SALES, source=SourceState.UNATTENDED, rows=0, since=0, first_us=None)),
        "no tuple of stream sales has been taken in yet: `headrace run` reads its source",
    ),
    (
        over(replace(SALES, source=SourceState.DETACHED, rows=0, since=0, first_us=None)),
        "stream sales has no source attached: attach_source('sales', ...) gives it one again",
    ),
    (
        over(replace(SALES, rows=0, since=0, first_us=None)),
        "stream sales has had no tuples: append() and INSERT INTO feed it",
    ),
    (
        over(replace(SALES, source=SourceState.READING, rows=0, since=0, first_us=None)),
        "the source of stream sales has brought no tuples yet",
    ),
    (
        over(replace(SALES, source=SourceState.RETRYING, rows=0, since=0, error="no such folder")),
        "the source of stream sales cannot be read at the moment: no such folder",
    ),
    (
        over(replace(SALES, since=0, first_us=None, waiting=7)),
        "7 tuples of stream sales wait for the next epoch",
    ),
    (
        over(replace(SALES, since=0, first_us=None)),
        "the query began after the data: it sees tuples from epoch 4 on, and the 100 tuples of stream sales "
        "came before",
    ),
    (
        over(replace(SALES, since=0, first_us=None, kept=100)),
        "the query began after the data: it sees tuples from epoch 4 on, and the 100 tuples of stream sales "
        "came before: start='earliest' (START 'earliest' in SQL) lets a query see them that the log has",
    ),
    (
        replace(
            ACTIVE, state=QueryState.PENDING, first_epoch=None, group=GroupFacts("alerts", error="disk full")
        ),
        "epoch 0 of its group alerts is tried again: disk full",
    ),
    (
        over(replace(SALES, watermark_us=at(30))),
        "100 tuples came since the query began, and none of them made a row: its conditions let nothing pass",
    ),
    (
        replace(ACTIVE, window=None),
        "100 tuples came since the query began, and none of them made a row: its conditions let nothing pass",
    ),
    (
        over(SALES, replace(SALES, name="ads", watermark_us=at(-5))),
        "the watermark of stream ads is at 2026-01-01 11:59:55 and the first window closes at 2026-01-01 12:00:10: "
        "newer tuples, or CLOSE STREAM, move it",
    ),
    (
        over(replace(SALES, watermark_us=NEVER_US)),
        "all tuples of stream sales are dated too far ahead of the clock to move its watermark, so that no window "
        "closes: its max_ahead bounds that",
    ),
    (
        over(replace(SALES, first_us=None)),
        "no tuple of stream sales has an event time, so that none is in a window",
    ),
]


@pytest.mark.parametrize(("facts", "said"), CASES, ids=[said[:60] for _, said in CASES])
def test_every_empty_result_has_its_reason(facts: QueryFacts, said: str) -> None:
    assert why_empty(facts) == (said,)
    assert said in str(status_of(facts))


BACKFILL = GroupFacts("backfill-7", since=4, cursor=9, newest=103, catching_up=True, target="main")


def test_a_query_that_catches_up_says_how_far_it_is_with_rows_and_without() -> None:
    way = "catching up: epoch 9 of 103 (6 %), then it joins group main"
    assert why_empty(replace(ACTIVE, group=BACKFILL))[0] == way
    status = status_of(replace(ACTIVE, rows=3, group=BACKFILL))
    assert str(status) == f"query spend is active and has 3 rows: {way}"
    assert (status.reasons, status.standing, status.group) == ((), (way,), "backfill-7")
    begins = replace(ACTIVE, epoch=3, group=replace(BACKFILL, cursor=3))
    assert why_empty(begins) == ("catching up: epoch 3 of 103 (0 %), then it joins group main",)
    silent = over(replace(SALES, since=0, first_us=None, waiting=7), group=BACKFILL)
    assert why_empty(silent)[1] == "7 tuples of stream sales wait until its group has come to them"


def test_a_group_that_lags_or_fails_is_named_and_one_epoch_under_way_is_not() -> None:
    lagging = GroupFacts("alerts", cursor=9, newest=14, lag_seconds=12.0)
    assert status_of(replace(ACTIVE, rows=1, group=lagging)).standing == (
        "its group alerts is 5 epochs (12.0 s) behind",
    )
    failing = replace(lagging, error="disk full")
    assert (
        why_empty(replace(ACTIVE, group=failing))[0]
        == "epoch 10 of its group alerts is tried again: disk full"
    )
    assert status_of(replace(ACTIVE, rows=1, group=replace(lagging, newest=10))).standing == ()
    for state in (QueryState.QUARANTINED, QueryState.DROPPED):
        gone = replace(ACTIVE, rows=1, state=state, last_epoch=9, group=failing)
        assert status_of(gone).standing == (), "it is no longer there"


def test_only_what_the_log_still_has_is_promised() -> None:
    (said,) = why_empty(over(replace(SALES, since=0, first_us=None, kept=40)))
    assert said.endswith("lets a query see the 40 of them that the log has")


def test_a_join_names_each_stream_that_brought_nothing() -> None:
    silent = replace(SALES, name="ads", source=SourceState.DETACHED, rows=0, since=0, first_us=None)
    (said,) = why_empty(over(SALES, silent))
    assert said.startswith("stream ads has no source attached")
    both = why_empty(over(replace(SALES, since=0), silent))
    assert len(both) == 2 and "began after the data" in both[0]


def test_a_pending_query_also_says_what_will_be_missing_then() -> None:
    pending = replace(ACTIVE, state=QueryState.PENDING, first_epoch=None)
    detached = replace(SALES, source=SourceState.DETACHED, rows=0, since=0)
    assert [said.split(":")[0] for said in why_empty(replace(pending, streams=(detached,)))] == [
        "no epoch has run since the query was created",
        "stream sales has no source attached",
    ]


def test_windows_that_were_closed_when_the_query_began_do_not_count() -> None:
    late = replace(ACTIVE, began_us=at(15), streams=(replace(SALES, watermark_us=at(16)),))
    assert "the first window closes at 2026-01-01 12:00:20" in why_empty(late)[0]


def test_a_query_with_rows_needs_no_reason() -> None:
    status = status_of(replace(ACTIVE, rows=3))
    assert status.reasons == ()
    assert str(status) == "query spend is active and has 3 rows"
    assert status.watermark == datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
    assert status.next_window_end == datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)
    assert status_of(over(replace(SALES, watermark_us=FOREVER_US))).next_window_end is None


def test_ends_of_windows_are_found_whatever_the_ratio() -> None:
    for window in (Window(7, 3, 1), Window(10, 5), Window(10, 10), Window(13, 4, 2)):
        for moment in range(-30, 30):
            starts = window.starts_of(moment)
            assert first_end(window, moment) == starts[0] + window.range_us
            ends = [start + window.range_us for start in range(-60, 60) if start == window.last_start(start)]
            assert next_end(window, moment) == min(end for end in ends if end > moment)
    assert first_end(Window(86_400 * SECOND, 1), NOON) == NOON + 1


def test_a_query_that_waits_for_a_function_says_so() -> None:
    waiting = replace(ACTIVE, missing=("similar",))
    assert "it waits for similar(): register the function again" in status_of(waiting).standing
    assert "similar()" in str(status_of(waiting))
