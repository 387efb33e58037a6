"""`headrace demo`: a stream of purchases, queries that come and go, and an audit of a sample at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.syntax import Syntax

from headrace.cli import console as consoles
from headrace.cli import tables
from headrace.cli.face import AuditReport, Opener, QueryInfo, Session
from headrace.cli.live import Snapshot, View, view_for
from headrace.cli.monitor import Monitor
from headrace.cli.opening import opened
from headrace.cli.stopping import Clock, WallClock, stop_signals
from headrace.model.errors import HeadraceError, StorageError
from headrace.storage.lock import WriterLock
from headrace.storage.warehouse import local_directory
from headrace.workloads import gaming

TICK_S = 0.25
APPEND_EVERY_S = 0.5
MARKER = ".headrace-demo"
WARM_S, WARM_QUERIES, WARM_PREFIX = 8, 60, "headrace-warm-up-"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    seconds: int = 60
    queries: int = 300
    rate: int = 20_000
    seed: int = 7
    audits: int = 12


@dataclass(frozen=True, slots=True)
class Visit:
    """One query's stay: when it is created, and when it is dropped, or None when it stays to the end."""

    query: gaming.AdHocQuery
    arrives_s: float
    leaves_s: float | None


def plan_visits(options: DemoOptions) -> tuple[Visit, ...]:
    """Who comes when, in order of arrival: a quarter at the start, the rest over time; many leave again.

    >>> visits = plan_visits(DemoOptions(seconds=60, queries=200))
    >>> len(visits), sum(visit.arrives_s < 6 for visit in visits) >= 50
    (200, True)
    """
    rng = Random(options.seed)
    visits = []
    for i in range(options.queries):
        query = gaming.random_query(rng, i)
        early = i < options.queries / 4
        arrives_s = options.seconds * (rng.uniform(0.0, 0.08) if early else rng.uniform(0.08, 0.85))
        leaves_s = arrives_s + options.seconds * rng.uniform(0.15, 0.6)
        stays = rng.random() < 0.4 or leaves_s > 0.97 * options.seconds
        visits.append(Visit(query, arrives_s, None if stays else leaves_s))
    return tuple(sorted(visits, key=lambda visit: visit.arrives_s))


class Demo:
    """Plays the visits against a session and keeps the numbers the view shows."""

    def __init__(self, session: Session, options: DemoOptions, clock: Clock) -> None:
        self._session, self._options, self._clock = session, options, clock
        visits = plan_visits(options)
        self._arrivals = deque(visits)
        self._departures = deque(
            sorted((v for v in visits if v.leaves_s is not None), key=lambda v: v.leaves_s or 0.0)
        )
        self._purchases = gaming.Purchases(options.rate, options.seed)
        self._created: set[str] = set()
        self._dropped: set[str] = set()
        self._events: deque[str] = deque(maxlen=8)
        self._errors: list[str] = []
        self._monitor = Monitor()

    @property
    def created(self) -> frozenset[str]:
        return frozenset(self._created)

    def play(self, view: View) -> Snapshot:
        """Run to the end, or until the clock says stop; returns the last picture."""
        session, clock = self._session, self._clock
        session.create_stream(
            gaming.STREAM, gaming.DDL, event_time=gaming.EVENT_TIME, watermark=gaming.WATERMARK
        )
        session.start(interval="1 second")
        try:
            began = fed = clock.now()
            while True:
                now = clock.now()
                elapsed = now - began
                ended = elapsed >= self._options.seconds
                if ended or now - fed >= APPEND_EVERY_S:
                    session.append(gaming.STREAM, self._purchases.between(_us(fed), _us(now)))
                    fed = now
                self._come_and_go(elapsed, until=now + TICK_S)
                view.show(self._snapshot(elapsed))
                if ended or clock.pause(TICK_S - (clock.now() - now)):
                    break
        finally:
            session.stop()
        session.run_available()
        last = self._snapshot(clock.now() - began)
        view.show(last)
        return last

    def _come_and_go(self, elapsed: float, until: float) -> None:
        """Create and drop what is due; stop when the tick is used up, the rest is due in the next one."""
        while self._arrivals and self._arrivals[0].arrives_s <= elapsed and self._clock.now() < until:
            self._create(self._arrivals.popleft().query)
        while self._departures and (self._departures[0].leaves_s or 0.0) <= elapsed:
            if self._departures[0].query.name not in self._created and self._is_coming(self._departures[0]):
                break
            self._drop(self._departures.popleft().query)

    def _is_coming(self, visit: Visit) -> bool:
        return any(waiting is visit for waiting in self._arrivals)

    def _create(self, query: gaming.AdHocQuery) -> None:
        try:
            self._session.create_query(query.sql, name=query.name)
        except HeadraceError as error:
            self._errors.append(f"{query.name}: {error.code}: {error.message}")
            return
        self._created.add(query.name)
        self._events.append(f"+ {query.name}")

    def _drop(self, query: gaming.AdHocQuery) -> None:
        if query.name not in self._created:
            return
        try:
            self._session.drop_query(query.name)
        except HeadraceError as error:
            self._errors.append(f"{query.name}: {error.code}: {error.message}")
            return
        self._dropped.add(query.name)
        self._events.append(f"- {query.name}")

    def _snapshot(self, elapsed: float) -> Snapshot:
        numbers, total = self._monitor.numbers(self._session.metrics(), elapsed), self._options.seconds
        return replace(
            numbers,
            total_s=total,
            title=f"One stream, {numbers.active:,} queries · {elapsed:.0f} of {total} s · Ctrl-C ends it",
            created=len(self._created),
            dropped=len(self._dropped),
            news=tuple(reversed(self._events)),
            errors=tuple(self._errors),
            groups=tuple(self._session.groups()),
        )


def run_demo(opener: Opener, warehouse: str, options: DemoOptions, clock: Clock | None = None) -> bool:
    """The whole demo on a fresh warehouse; False when a query failed or an audit found a difference."""
    clock = clock or WallClock()
    screen = consoles.out()
    directory = prepare_directory(warehouse)
    with opened(opener, warehouse) as session:
        (directory / MARKER).write_text("`headrace demo` empties this directory when it starts again.\n")
        warm_up(opener, session, options, clock)
        screen.print(
            f"Playing {options.seconds} s: {options.rate:,} purchases/s and {options.queries:,} ad-hoc "
            f"queries of {len(gaming.TEAMS)} teams that come and go.",
            soft_wrap=True,
        )
        demo = Demo(session, options, clock)
        with stop_signals(clock.stopped), view_for(screen) as view:
            last = demo.play(view)
        if clock.stopped.is_set():
            screen.print("Stopped early. (Ctrl-C again leaves at once.)", style="yellow")
        for error in last.errors:
            screen.print(error, style="red", markup=False)
        infos = [info for info in session.queries() if info.name in demo.created]
        audits = _audit_sample(session, screen, choose_sample(infos, options.audits, options.seed))
        _print_summary(session, screen, warehouse, infos, audits)
        return all(report.ok for _, report in audits) and not _quarantined(infos) and not last.errors


def warm_up(opener: Opener, session: Session, options: DemoOptions, clock: Clock) -> None:
    """Play a few seconds on a warehouse that is thrown away, before the clock of the demo starts.

    The first epochs wait for Python's workers and for the JVM to compile what they run. That happens once per start,
    and says nothing about how long a query waits for its rows.
    """
    with consoles.spinner("Starting Spark's workers"):
        session.warm_up()
    short = replace(options, seconds=WARM_S, queries=min(options.queries, WARM_QUERIES))
    with (
        consoles.spinner(f"Warming up on a warehouse that is thrown away (about {2 * WARM_S} s)"),
        tempfile.TemporaryDirectory(prefix=WARM_PREFIX) as directory,
        opener(directory) as trial,
        stop_signals(clock.stopped),
    ):
        Demo(trial, short, clock).play(Unseen())


class Unseen:
    """A view that shows nothing."""

    def show(self, snapshot: Snapshot) -> None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def prepare_directory(warehouse: str) -> Path:
    """A directory without a warehouse in it. Only what an earlier demo left, and nobody holds, is removed."""
    directory = local_directory(warehouse)
    if directory.exists() and not directory.is_dir():
        raise StorageError("NOT_A_WAREHOUSE", f"{directory} is a file", hint="name a directory")
    if not directory.exists() or not any(directory.iterdir()):
        return directory
    if not (directory / MARKER).is_file():
        raise StorageError(
            "NOT_A_DEMO",
            f"{directory} exists and was not made by the demo",
            hint="name another directory with --warehouse DIR",
        )
    lock = WriterLock(directory / "LOCK")
    lock.acquire()
    try:
        shutil.rmtree(directory)
    finally:
        lock.release()
    return directory


def choose_sample(infos: Sequence[QueryInfo], count: int, seed: int) -> tuple[str, ...]:
    """Up to `count` names, taking turns over the kinds of question; queries with rows come first."""
    rng = Random(seed)
    kinds: dict[str, list[QueryInfo]] = defaultdict(list)
    for info in sorted(infos, key=lambda info: info.name):
        kinds[info.name.rpartition("_")[0]].append(info)
    ordered = []
    for members in kinds.values():
        rng.shuffle(members)
        members.sort(key=lambda info: info.rows == 0)
        ordered.append([info.name for info in members])
    rng.shuffle(ordered)
    turns = [
        names[i] for i in range(max(map(len, ordered), default=0)) for names in ordered if i < len(names)
    ]
    return tuple(turns[:count])


def _quarantined(infos: Sequence[QueryInfo]) -> list[QueryInfo]:
    return [info for info in infos if info.error]


def _audit_sample(session: Session, screen: Console, names: Sequence[str]) -> list[tuple[str, AuditReport]]:
    audits: list[tuple[str, AuditReport]] = []
    columns = (
        TextColumn("Auditing against plain Spark"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            audits.append((name, session.query(name).audit()))
            progress.advance(task)
            if not screen.is_terminal:
                screen.print(f"audited {name}: {'equal' if audits[-1][1].ok else 'DIFFERS'}", markup=False)
    return audits


def _print_summary(
    session: Session,
    screen: Console,
    warehouse: str,
    infos: Sequence[QueryInfo],
    audits: Sequence[tuple[str, AuditReport]],
) -> None:
    screen.print()
    if audits:
        screen.print(tables.render_audits(audits))
        wrong = [name for name, report in audits if not report.ok]
        if wrong:
            screen.print(
                f"{len(wrong)} of {len(audits)} audited queries differ from plain Spark.", style="bold red"
            )
            for name, report in audits:
                if not report.ok:
                    screen.print(tables.render_difference(name, report, limit=3))
        else:
            screen.print(
                f"All {len(audits)} audited queries have exactly the rows that plain Spark gives.",
                style="bold green",
            )
    for info in _quarantined(infos):
        screen.print(
            f"{info.name} is {tables.state_name(info.state)}: {info.error}", style="red", markup=False
        )
    by_name = {info.name: info for info in infos}
    shown = next((name for name, _ in audits if by_name[name].rows), audits[0][0] if audits else None)
    if shown:
        screen.print(f"\nOne of them, {shown}:", markup=False)
        screen.print(Syntax(by_name[shown].text, "sql", word_wrap=True, background_color="default"))
        screen.print(tables.render_rows(session.query(shown).to_pandas(), 8))
    example = shown or "NAME"
    program = consoles.program_name()
    screen.print("\nLook further:")
    for arguments in (
        f"queries --warehouse {warehouse}",
        f'sql --warehouse {warehouse} -e "SELECT * FROM {example} LIMIT 10"',
        f"explain {example} --warehouse {warehouse}",
        f"audit {example} --warehouse {warehouse}",
    ):
        screen.print(f"  {program} {arguments}", style="cyan", markup=False, soft_wrap=True)


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)
