"""Where a query begins that is to begin in the past, from an epoch log without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from headrace.asking.starting import Start, start_epoch
from headrace.model.errors import CatalogError
from log_samples import PURCHASES, FakeClock, Opened, open_log

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    """Five epochs, sealed at noon and every minute after it."""
    clock = FakeClock(NOON.timestamp())
    opened = open_log(tmp_path, clock)
    opened.sealer.create_stream(PURCHASES)
    for minute in range(5):
        clock.time = NOON.timestamp() + 60 * minute
        opened.append(minute)
        opened.sealer.seal()
    return opened


@pytest.mark.parametrize(
    ("start", "epoch"),
    [
        ("earliest", 0),
        (" Earliest ", 0),
        ("2026-01-01 12:02:00", 2),
        ("2026-01-01T13:01:30+01:00", 2),
        (NOON.replace(tzinfo=None) + timedelta(minutes=3), 3),
        (datetime(2026, 1, 1, 14, 1, tzinfo=timezone(timedelta(hours=2))), 1),
        ("6 minutes ago", 4),
        ("1 hour ago", 0),
        ("1 minute ago", None),
        ("2026-01-01 12:10:30", None),
    ],
)
def test_a_moment_is_the_first_epoch_that_was_sealed_since(
    log: Opened, start: Start, epoch: int | None
) -> None:
    assert start_epoch(start, log.sealer, 0, NOON.timestamp() + 600) == epoch


def test_a_stream_that_had_another_life_before_begins_with_this_one(log: Opened) -> None:
    assert start_epoch("earliest", log.sealer, 3, NOON.timestamp()) == 3
    assert start_epoch("2026-01-01 11:00:00", log.sealer, 3, NOON.timestamp()) == 3
    assert start_epoch("earliest", log.sealer, 9, NOON.timestamp()) is None


def test_a_moment_that_the_log_no_longer_has_is_refused_with_both_times(log: Opened) -> None:
    log.sealer.expire(2)
    assert start_epoch("earliest", log.sealer, 0, NOON.timestamp()) == 2
    with pytest.raises(CatalogError) as caught:
        start_epoch("2026-01-01 12:01:00", log.sealer, 0, NOON.timestamp())
    assert caught.value.code == "START_EXPIRED"
    assert "2026-01-01 12:02:00" in caught.value.message and "2026-01-01 12:01:00" in caught.value.message
    assert "earliest" in str(caught.value.hint)
    assert caught.value.page == "docs/sql.md#start"


@pytest.mark.parametrize("start", ["soon", "", "5 ago", "yesterday", "5 months ago", 7, None])
def test_what_is_no_moment_is_refused(log: Opened, tmp_path: Path, start: Start) -> None:
    for sealer in (log.sealer, open_log(tmp_path / "empty").sealer):
        with pytest.raises(CatalogError) as caught:
            start_epoch(start, sealer, 0, NOON.timestamp())
        assert caught.value.code == "BAD_START" and caught.value.hint


def test_a_moment_in_the_future_is_refused_with_the_time_of_now(log: Opened) -> None:
    """Mostly it is a local time, and the query would begin now without the hours that were meant."""
    with pytest.raises(CatalogError) as caught:
        start_epoch("2026-01-01 14:00:00", log.sealer, 0, NOON.timestamp() + 600)
    assert caught.value.code == "BAD_START"
    assert "2026-01-01 14:00:00" in caught.value.message and "12:10:00" in str(caught.value.detail)


def test_an_empty_log_has_no_past(tmp_path: Path) -> None:
    assert start_epoch("earliest", open_log(tmp_path).sealer, 0, NOON.timestamp()) is None
