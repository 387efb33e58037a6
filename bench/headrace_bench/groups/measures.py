"""The measurements: a move, a backfill, unshared queries beside shared ones, and another number of partitions.

Each opens a warehouse of its own and uses the public API alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from headrace_bench import astream
from headrace_bench.epochs import Feed, create_streams, run_timed, warehouse
from headrace_bench.groups.figures import Backfill, Beside, Event, Sizes
from headrace_bench.spine import WARM_UP, create_queries

APART = "apart"
INTERVAL = "20 milliseconds"
POLL_S = 0.02
PATIENCE_S = 300.0
MOST_EPOCHS = 5
"""So many epochs are run until an event has taken effect; then it is said that it has not."""

SHARED = 42
BESIDE_EPOCHS = 4
"""So many times as many epochs are run beside unshared queries as alone: these run now and then."""

WINDOW = "window(ts, '4 seconds', '2 seconds')"
UNSHARED = (
    f"SELECT key, collect_list(field1) AS v FROM a GROUP BY key, {WINDOW}",
    f"SELECT key, collect_list(field2) AS v FROM a WHERE field3 > 500 GROUP BY key, {WINDOW}",
    f"SELECT key, sort_array(collect_list(field3)) AS v FROM a GROUP BY key, {WINDOW}",
    f"SELECT key, array_max(collect_list(field4)) AS v FROM a GROUP BY key, {WINDOW}",
    f"SELECT key, size(collect_list(field1)) AS v FROM a GROUP BY key, {WINDOW}",
    f"SELECT key, collect_list(field3) AS v FROM a WHERE field5 < 300 GROUP BY key, {WINDOW}",
    f"SELECT key, size(collect_list(field5)) AS v, percentile(field1, 0.9) AS p FROM a GROUP BY key, {WINDOW}",
    f"SELECT key, collect_list(field1) AS v, COUNT(DISTINCT field2) AS n FROM a GROUP BY key, {WINDOW}",
)
"""Each keeps a list or sets of pairs, which no shared operator merges slice by slice."""


class Tape:
    """Feeds a session one epoch after the other, and tells how long each took."""

    def __init__(self, hr: Any, feed: Feed) -> None:
        self._hr, self._feed, self._numbers = hr, feed, count()

    def append(self) -> None:
        self._hr.append(astream.STREAM, self._feed.table(next(self._numbers)))

    def run(self, epochs: int) -> tuple[float, ...]:
        return tuple(
            run_timed(self._hr, {astream.STREAM: self._feed.table(next(self._numbers))}).seconds
            for _ in range(epochs)
        )


def group_of(hr: Any, query: str) -> Any:
    """The group that a query lives in, as `hr.groups()` tells it."""
    return next(group for group in hr.groups() if query in group.members)


def measure_move(spark: Any, sizes: Sizes) -> Event:
    """Some of many queries move to a group of their own between two epochs."""
    with warehouse(spark) as hr:
        create_streams(hr)
        names = create_queries(hr, sizes.queries, sizes.seed)
        moved = names[:: max(1, sizes.queries // sizes.moved)][: sizes.moved]
        stayed = [name for name in names if name not in set(moved)]

        def move() -> None:
            for name in moved:
                hr.move_query(name, APART)

        def moved_all() -> bool:
            groups = {group.name: group for group in hr.groups()}
            apart = groups.get(APART)
            if apart is None or set(apart.members) != set(moved):
                return False
            return bool(apart.cursor == group_of(hr, stayed[0]).cursor)

        what = f"{len(moved)} of {sizes.queries:,} queries move"
        return measure_event(hr, what, sizes, move, moved_all, moved[0])


def measure_repartition(spark: Any, sizes: Sizes) -> Event:
    """The keys of many queries are spread over another number of partitions between two epochs."""
    first, second = sizes.partitions
    with warehouse(spark, partitions=first) as hr:
        create_streams(hr)
        names = create_queries(hr, sizes.queries, sizes.seed)
        what = f"{first} partitions become {second}"
        event = measure_event(hr, what, sizes, lambda: hr.repartition(second), None, names[0])
        if group_of(hr, names[0]).partitions != second:
            raise ValueError(f"keys were not spread over {second} partitions, so nothing was measured")
        return event


def measure_event(
    hr: Any, what: str, sizes: Sizes, act: Callable[[], None], acted: Callable[[], bool] | None, audited: str
) -> Event:
    """Epochs before and after an act, and with which of them it took effect, if that can be seen."""
    tape = Tape(hr, sizes.feed)
    tape.run(WARM_UP)
    before = tape.run(sizes.epochs)
    started = time.perf_counter()
    act()
    asked_s = time.perf_counter() - started
    effect, after = None, tape.run(1)
    if acted is not None:
        while not acted() and len(after) < MOST_EPOCHS:
            after += tape.run(1)
        effect = len(after) if acted() else 0
    after += tape.run(sizes.epochs)
    return Event(what, before, after[0], after[1:], asked_s, effect, exact=bool(hr.query(audited).audit().ok))


def measure_backfill(spark: Any, sizes: Sizes) -> Backfill:
    """One query over so many tuples, live and then once more from the earliest of them on."""
    feed = sizes.feed
    files = max(1, sizes.backfill_rows // feed.rows - WARM_UP)
    options = {} if sizes.backfill_tasks is None else {"backfill_tasks": sizes.backfill_tasks}
    text = f"SELECT key, SUM(field1) AS v FROM a WHERE field2 > 300 GROUP BY key, {WINDOW}"
    with warehouse(spark, max_epoch_rows=feed.rows, **options) as hr:
        create_streams(hr)
        hr.create_query(text, "live")
        tape = Tape(hr, feed)
        tape.run(WARM_UP)
        for _ in range(files):
            tape.append()
        live_s = timed(hr.run_available)
        hr.create_query(text, "late", start="earliest")
        seconds = timed(hr.run_available)
        live, late = (hr.query(name).results().count() for name in ("live", "late"))
    return Backfill(files * feed.rows, live_s, live, (files + WARM_UP) * feed.rows, seconds, late)


def timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def measure_beside(spark: Any, sizes: Sizes, unshared: Iterable[str] = UNSHARED) -> Beside:
    """Shared queries while epochs run in the background: alone, then beside some that run as plain Spark."""
    feed = Feed(sizes.beside_rows, sizes.feed.keys, sizes.feed.rate)
    with warehouse(spark) as hr:
        create_streams(hr)
        names = create_queries(hr, SHARED, sizes.seed)
        tape = Tape(hr, feed)
        tape.run(WARM_UP)
        alone = run_live(hr, tape, names[0], sizes.epochs)
        others = [hr.create_query(text, f"apart{number}").name for number, text in enumerate(unshared)]
        tape.run(1)
        check_sharing(hr, others)
        before = sum(group_of(hr, name).cursor for name in others)
        beside = run_live(hr, tape, names[0], BESIDE_EPOCHS * sizes.epochs)
        progress = sum(group_of(hr, name).cursor for name in others) - before
        lag = max(group_of(hr, name).lag_epochs for name in others)
    return Beside(SHARED, len(others), alone, beside, progress, lag)


def run_live(hr: Any, tape: Tape, query: str, epochs: int) -> tuple[float, ...]:
    """Seconds from an append until the query's group has run it, again and again, while all groups run."""
    hr.start(INTERVAL)
    try:
        found = []
        for _ in range(epochs):
            cursor, started = group_of(hr, query).cursor, time.perf_counter()
            tape.append()
            while group_of(hr, query).cursor == cursor:
                if time.perf_counter() - started > PATIENCE_S:
                    raise TimeoutError(f"the group of {query} did not run an epoch in {PATIENCE_S:.0f} s")
                time.sleep(POLL_S)
            found.append(time.perf_counter() - started)
        return tuple(found)
    finally:
        hr.stop()


def check_sharing(hr: Any, unshared: Iterable[str]) -> None:
    """Figures mean nothing if the queries that should run as plain Spark are shared, or the others are not."""
    apart = set(unshared)
    wrong = [info.name for info in hr.queries() if info.shared == (info.name in apart)]
    if wrong:
        raise ValueError(f"these queries do not run as this benchmark takes for granted: {', '.join(wrong)}")
