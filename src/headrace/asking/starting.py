"""Where a query begins that is to begin in the past: from words to the epoch of the log.

A query that starts at some moment sees what it would have seen if somebody had created it then: all tuples of the
epochs that were sealed since.
"""

from __future__ import annotations

from datetime import UTC, datetime

from headrace import sql
from headrace.log.seal import Sealer
from headrace.looking.showing import show_time
from headrace.model.errors import CatalogError, SqlError

EARLIEST = "earliest"

SKEW_SECONDS = 60.0
"""Clocks of two machines may differ by so much."""

Start = str | datetime


def start_epoch(start: Start, sealer: Sealer, since: int, now: float) -> int | None:
    """The epoch that a query begins with; None when that is the next one to be sealed.

    `since` is the first epoch that has the query's streams. CatalogError when the log no longer holds that moment.
    """
    earliest = isinstance(start, str) and start.strip().lower() == EARLIEST
    moment = (
        0.0 if earliest else _moment(start, now)
    )  # what is no moment is refused, also when the log is empty
    if moment > now + SKEW_SECONDS:
        raise CatalogError(
            "BAD_START",
            f"the moment to start at lies in the future: {show_time(int(moment * 1e6))}",
            detail=f"in UTC it is {show_time(int(now * 1e6))} now",
            hint="write the time in UTC or with its zone, such as '2026-01-01T14:00:00+02:00'; a query that is to "
            "begin now needs no start",
        )
    latest = sealer.latest
    first = max(sealer.first, since)
    if latest is None or latest.id < first:
        return None
    if earliest:
        return first
    kept = sealer.head(first).sealed_at
    if moment < kept and sealer.first > since:
        raise CatalogError(
            "START_EXPIRED",
            f"the log begins at {show_time(int(kept * 1e6))}, and the query was to start at "
            f"{show_time(int(moment * 1e6))}",
            detail=f"what came before epoch {first} is no longer kept",
            hint="say start='earliest' to begin where the log does; a longer log_retention keeps more from now on",
        )
    low, high = first, int(latest.id) + 1
    while low < high:
        middle = (low + high) // 2
        if sealer.head(middle).sealed_at >= moment:
            high = middle
        else:
            low = middle + 1
    return low if low <= latest.id else None


def _moment(start: Start, now: float) -> float:
    """Seconds since 1970; texts without a time zone are in UTC.

    >>> _moment("2 minutes ago", 1000.0), _moment("1970-01-01T00:01:00Z", 1000.0)
    (880.0, 60.0)
    """
    if isinstance(start, datetime):
        return (start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp()
    if not isinstance(start, str):
        raise _bad_start(repr(start))
    words = start.strip()
    try:
        if words.lower().endswith(" ago"):
            return now - sql.parse_duration(words[: -len(" ago")]) / 1e6
        moment = datetime.fromisoformat(words)
    except (SqlError, ValueError) as error:
        raise _bad_start(repr(start)) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _bad_start(text: str) -> CatalogError:
    return CatalogError(
        "BAD_START",
        f"{text} is no moment to start at",
        hint="say 'earliest', a time such as '2026-01-01 12:00:00' (UTC), or '2 hours ago'",
    )
