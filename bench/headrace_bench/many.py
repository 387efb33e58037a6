"""Many live queries: what it takes to create them, also while epochs run, what a change of one costs, and to look.

Event times go on at the same rate, whatever an epoch takes. Queries are AStream's aggregations with random predicates.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

import click
from rich.table import Table

from headrace_bench import astream
from headrace_bench.epochs import Feed, create_streams, own_spark, run_timed, warehouse
from headrace_bench.spine import COUNT, note_memory, screen

WARM_UP = 6
THREADS = 8
PAUSE_S = 0.2
"""While queries are created, so often there are new tuples."""

Note = Callable[[str, str], None]
"""Takes what was done and what was seen."""


class Texts:
    """Random queries, each with a name of its own."""

    def __init__(self, seed: int = 1, window_max_s: int = 10) -> None:
        self._rng, self._window_max_s, self._number = Random(seed), window_max_s, 0

    def take(self, count: int) -> list[tuple[str, str]]:
        """So many more of them, as (name, text)."""
        found = []
        for _ in range(count):
            query = astream.aggregation(self._rng, self._window_max_s, mixed=True)
            found.append((f"q{self._number}", astream.aggregation_text(query, self._rng)))
            self._number += 1
        return found


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def epochs_running(hr: Any, feed: Feed, first: int) -> Iterator[None]:
    """Tuples come and epochs run in the block."""
    stopping, trouble = threading.Event(), []

    def append() -> None:
        number = first
        try:
            while not stopping.wait(PAUSE_S):
                hr.append(astream.STREAM, feed.table(number))
                number += 1
        except Exception as error:
            trouble.append(error)

    feeder = threading.Thread(target=append, daemon=True)
    hr.start(interval="100 milliseconds")
    feeder.start()
    try:
        yield
    finally:
        stopping.set()
        feeder.join()
        hr.stop()
    if trouble:
        raise trouble[0]


def one_by_one(hr: Any, texts: Sequence[tuple[str, str]]) -> None:
    for name, text in texts:
        hr.create_query(text, name)


def by_threads(hr: Any, texts: Sequence[tuple[str, str]]) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda pair: hr.create_query(pair[1], pair[0]), texts))


def by_statements(hr: Any, texts: Sequence[tuple[str, str]]) -> None:
    for name, text in texts:
        hr.execute(f"CREATE QUERY {name} AS {text}")


def at_once(hr: Any, texts: Sequence[tuple[str, str]]) -> None:
    hr.create_queries(texts)


WAYS: tuple[tuple[str, Callable[[Any, Sequence[tuple[str, str]]], None]], ...] = (
    ("one by one", one_by_one),
    (f"by {THREADS} threads", by_threads),
    ("as statements", by_statements),
    ("at once", at_once),
)


def create_them(hr: Any, texts: Texts, count: int, note: Note) -> list[str]:
    """So many queries, most of them in one go; their names."""
    single, rest = texts.take(min(count, 1_000)), texts.take(max(0, count - 1_000))
    note(
        f"create {len(single):,}, one by one, nothing else runs",
        f"{timed(lambda: one_by_one(hr, single)):.2f} s",
    )
    if rest:
        note(f"create {len(rest):,} more at once", f"{timed(lambda: at_once(hr, rest)):.2f} s")
    return [name for name, _ in (*single, *rest)]


def run_epochs(hr: Any, feed: Feed, texts: Texts, names: list[str], epochs: int, note: Note) -> int:
    """Epochs without and with a change of one query before each; the number of the next table."""
    number = 0
    for changing in (False, True):
        seen = []
        for epoch in range(WARM_UP + epochs):
            if changing:
                hr.drop_query(names.pop(0))
                ((name, text),) = texts.take(1)
                hr.create_query(text, name)
                names.append(name)
            found = run_timed(hr, {astream.STREAM: feed.table(number)}).seconds
            number += 1
            if epoch == 0 and not changing:
                note("the first epoch", f"{found:.2f} s")
            if epoch >= WARM_UP:
                seen.append(found * 1e3)
        what = "an epoch in which one query goes and one comes" if changing else "an epoch without a change"
        note(what, f"{statistics.median(seen):.0f} ms (most {max(seen):.0f})")
    return number


def create_while_running(hr: Any, feed: Feed, texts: Texts, count: int, first: int, note: Note) -> None:
    """The same number of queries in each way while epochs run; they are dropped in between."""
    for way, (what, create) in enumerate(WAYS):
        new = texts.take(count)
        with epochs_running(hr, feed, first + way * 100_000):
            time.sleep(1.0)
            seconds = timed(partial(create, hr, new))
        note(f"create {count:,} {what} while epochs run", f"{seconds:.2f} s")
        for name, _ in new:
            hr.drop_query(name)
        hr.run_available()


def look(hr: Any, names: Sequence[str], note: Note) -> None:
    """What people wait for when they look."""
    some = names[len(names) // 2]
    looks: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("hr.queries()", hr.queries),
        ("hr.groups()", hr.groups),
        ("hr.explain()", hr.explain),
        ("explain() of one query", lambda: hr.query(some).explain()),
        ("status() of one query", lambda: hr.query(some).status()),
        ("to_pandas() of one query", lambda: hr.query(some).to_pandas()),
    )
    for what, call in looks:
        times = [timed(call) * 1e3 for _ in range(3)]
        note(what, f"{times[0]:.0f} ms, then {min(times[1:]):.0f}")


@click.command()
@click.option("--queries", type=COUNT, default=10_000, show_default=True)
@click.option("--rows", type=COUNT, default=1_000, show_default=True, help="Events per epoch.")
@click.option("--epochs", type=COUNT, default=10, show_default=True, help="Measured epochs.")
@click.option("--keys", type=COUNT, default=10, show_default=True, help="Distinct keys.")
@click.option("--rate", type=COUNT, default=1_000, show_default=True, help="Events per second of event time.")
@click.option("--creations", type=COUNT, default=1_000, show_default=True, help="Created while epochs run.")
def many(queries: int, rows: int, epochs: int, keys: int, rate: int, creations: int) -> None:
    """What many live queries cost: to create, to change and to look at."""
    console, table = screen(), Table(f"{queries:,} queries", "seen")
    peak: dict[str, float] = {}
    feed, texts = Feed(rows, keys, rate), Texts()

    def note(what: str, seen: str) -> None:
        note_memory(peak)
        click.echo(f"{what}: {seen}", err=True)
        table.add_row(what, seen)

    with own_spark() as spark, warehouse(spark) as hr:
        create_streams(hr)
        names = create_them(hr, texts, queries, note)
        number = run_epochs(hr, feed, texts, names, epochs, note)
        look(hr, names, note)
        create_while_running(hr, feed, texts, creations, number, note)
    note("most memory", ", ".join(f"{kind} {mb:,.0f} MB" for kind, mb in sorted(peak.items())))
    console.print(table)


if __name__ == "__main__":
    many()
