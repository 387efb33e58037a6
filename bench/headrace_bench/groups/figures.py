"""What each measurement of this benchmark saw, and the sizes it was made with: plain data for tables and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from headrace_bench.epochs import Feed


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run.

    `feed` is what every epoch brings. `queries` queries are there, of which `moved` move. `epochs` epochs are measured
    before and after each event, and `rounds` processes of each checkout in turns. A backfill reads `backfill_rows`
    tuples, with `backfill_tasks` tasks (None: as many as Headrace takes by itself). Keys are spread over
    `partitions[0]` partitions, then over `partitions[1]`.
    """

    feed: Feed = field(default_factory=Feed)
    queries: int = 1_000
    moved: int = 100
    epochs: int = 6
    rounds: int = 3
    backfill_rows: int = 10_000_000
    backfill_tasks: int | None = None
    beside_rows: int = 200_000
    partitions: tuple[int, int] = (2, 4)
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Against:
    """Seconds per epoch at a number of queries, a median per process: of this checkout and of an older one."""

    queries: int
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.theirs)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened between two epochs: seconds per epoch before it, of the next one, and of those after.

    `asked_s` is how long the calls that asked for it took. It took effect with epoch number `effect` after it, 1 being
    the next. 0 says that it never did, None that nobody can see it from outside. `exact` says whether a query that was
    concerned has the rows of plain Spark.
    """

    what: str
    before: tuple[float, ...]
    next: float
    after: tuple[float, ...]
    asked_s: float
    effect: int | None
    exact: bool

    @property
    def added_s(self) -> float:
        return self.next - median(self.before)


@dataclass(frozen=True, slots=True)
class Backfill:
    """A query that ran live over some tuples, and the same query from the earliest tuple on: tuples, seconds, results.

    The backfill also reads the tuples that came before the clock started, while everything warmed up.
    """

    live_rows: int
    live_s: float
    live_results: int
    rows: int
    seconds: float
    results: int

    @property
    def live_rate(self) -> float:
        return self.live_rows / self.live_s

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


@dataclass(frozen=True, slots=True)
class Beside:
    """Seconds from an append until shared queries had run it, alone and beside queries that run as plain Spark.

    The latter had `progress` epochs behind them by the end, all together, and were `lag_epochs` behind at most.
    """

    shared: int
    unshared: int
    alone: tuple[float, ...]
    beside: tuple[float, ...]
    progress: int
    lag_epochs: int

    @property
    def ratio(self) -> float:
        return median(self.beside) / median(self.alone)


@dataclass(slots=True)
class Seen:
    """All that a run saw. What was not asked for is None or empty."""

    sizes: Sizes
    against: list[Against] = field(default_factory=list)
    move: Event | None = None
    backfill: Backfill | None = None
    beside: Beside | None = None
    repartition: Event | None = None
