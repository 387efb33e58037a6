"""A small stream of sales, and how tests look at a session from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SALES = "id BIGINT, level INT, price DOUBLE, country STRING, ts TIMESTAMP"

PER_COUNTRY = "SELECT country, COUNT(*) AS n FROM sales GROUP BY country, window(ts, '10 seconds')"


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def sale(
    second: float, level: int | None = 1, price: float | None = 1.0, country: str | None = "DE"
) -> dict[str, Any]:
    """A sale some seconds after noon; its id is the second."""
    return {"id": int(second), "level": level, "price": price, "country": country, "ts": at(second)}


def with_sales(session: Any, *, watermark: str = "0 seconds", name: str = "sales") -> Any:
    session.create_stream(name, SALES, event_time="ts", watermark=watermark)
    return session


def rows(query: Any) -> list[tuple[Any, ...]]:
    """A query's rows in some order that does not change."""
    table = query.results().toArrow()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def info(session: Any, name: str) -> Any:
    """The newest query of that name as `queries()` lists it."""
    return [found for found in session.queries() if found.name == name][-1]


def stream_info(session: Any, name: str = "sales") -> Any:
    (found,) = (found for found in session.streams() if found.name == name)
    return found


def files_below(path: Path) -> dict[str, bytes]:
    """Every file of a warehouse and what is in it."""
    return {
        str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()
    }


def eventually(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until the condition holds; what it said then."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found
