"""What one measurement is of, and what came of it: plain data that goes to worker processes and reports as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace_bench import astream, predicates
from headrace_bench.astream_joins import STREAMS
from headrace_bench.workload import Query, Workload, draw

RAMPED = 1_000
START = datetime(2026, 1, 1, tzinfo=UTC)
COMPARED_KEYS = 1_000
"""Of joined rows, those of about so many keys are compared: there are millions."""


PHASES = ("reading", "matching", "closing", "writing")
"""What the tasks of an epoch do: read tuples, find their queries and update partials, close windows and make rows of
them, and write these.
"""


@lru_cache
def _streams_of(trial: Trial) -> tuple[str, ...]:
    """Kept, because reports ask for it again and again, and thousands of queries are drawn to find it out."""
    read = {stream for query in trial.drawn() for stream in query.streams}
    return tuple(stream for stream in STREAMS if stream in read)


@dataclass(frozen=True, slots=True)
class Trial:
    """One system, one set of queries of a workload, and streams of the workload's tuples: those that the queries read.

    `warm_up` files of each stream are fed before the clock starts, `files` after it; each has `rows` tuples. `rate` is
    a stream's density: events per second of event time. `probes` rates are tried afterwards, `probe_s` seconds each, to
    find the highest one that is sustainable. With `latency` there is one probe, at half the throughput. With `ramp`
    that many queries come every second (SC1), until there are RAMPED.
    """

    system: str
    queries: int
    rows: int = 500_000
    files: int = 6
    warm_up: int = 2
    rate: int = 50_000
    keys: int = 1_000
    skew: float = 0.0
    columns: int = 1
    window_max_s: int = 10
    mixed: bool = True
    seed: int = 1
    sample: int = 5
    limit_s: float = 120.0
    probes: int = 0
    probe_s: float = 15.0
    latency: bool = False
    ramp: int = 0
    workload: Workload = Workload.AGGREGATION

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that any of the queries reads."""
        return _streams_of(self)

    @property
    def products(self) -> int:
        """How many products there are. For rare predicates, as many as queries: any number of these matches alike."""
        return self.queries if self.workload is Workload.RARE else predicates.PRODUCTS

    @property
    def fed(self) -> int:
        """Tuples of all streams that are fed while the clock runs."""
        return self.files * self.rows * len(self.streams)

    @classmethod
    def of(cls, found: dict[str, Any]) -> Trial:
        """From its JSON."""
        return cls(**found | {"workload": Workload(found.get("workload", Workload.AGGREGATION))})

    @property
    def probing_s(self) -> float:
        """How long the probes feed tuples."""
        probes = self.probes + 3 if self.probes else int(self.latency)
        return probes * self.probe_s + (self.ramp_s if self.ramp else 0.0)

    @property
    def ramp_s(self) -> float:
        return RAMPED / self.ramp + 6.0

    def drawn(self) -> list[Query]:
        rng = Random(self.seed)
        return [
            draw(
                self.workload,
                rng,
                self.window_max_s,
                mixed=self.mixed,
                columns=self.columns,
                number=number,
                queries=self.queries,
            )
            for number in range(self.queries)
        ]

    def sampled(self) -> list[int]:
        """The queries whose rows are compared across systems: drawn evenly, the same for everybody."""
        step = max(1, self.queries // self.sample)
        return list(range(0, self.queries, step))[: self.sample]

    def compares(self, key: int) -> bool:
        """Whether rows of a key are compared across systems: all of an aggregation, evenly chosen ones of a join."""
        return not self.workload.joins or key % max(1, self.keys // COMPARED_KEYS) == 0

    def table(self, number: int, stream: str = astream.STREAM) -> pa.Table:
        """File `number` of a stream. Streams have the same keys at the same times, and other fields."""
        seed, first = self.seed + 1_000 * STREAMS.index(stream), number * self.rows
        if self.workload.written:
            return predicates.tuples(
                self.rows, START, self.rate, self.keys, seed=seed, first=first, products=self.products
            )
        return astream.tuples(self.rows, START, self.rate, self.keys, seed=seed, first=first, skew=self.skew)

    def write_files(self, place: Path) -> list[list[Path]]:
        """All files of the trial, written where no system looks; `feed` puts them before one. Trials share them.

        A list has a file of each stream, in a folder of the stream's name.
        """
        kind = f"predicates-{self.products}" if self.workload.written else "astream"
        folder = place / f"{kind}-{self.rows}-{self.rate}-{self.keys}-{self.skew}-{self.seed}"
        streams = self.streams
        return [
            [self._written(number, stream, folder / stream) for stream in streams]
            for number in range(self.warm_up + self.files)
        ]

    def _written(self, number: int, stream: str, folder: Path) -> Path:
        path = folder / f"{number:06}.parquet"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                self.table(number, stream), path, compression="zstd", row_group_size=self.rows // 2
            )
        return path

    def last_closed_us(self) -> int:
        """Windows that end by then are closed when the stream has been read: the watermark has no delay."""
        last = (self.warm_up + self.files) * self.rows - 1
        return int(START.timestamp() * 1_000_000) + last * 1_000_000 // self.rate


@dataclass(slots=True)
class Probe:
    """What was seen at one rate. Ages and latencies are seconds."""

    rate: int
    seconds: float = 0.0
    fed_rows: int = 0
    done_rows: int = 0
    growth: float = 0.0
    sustained: bool = False
    latencies: dict[str, float] = field(default_factory=dict)
    deployments: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    acknowledged: int = 0
    most_queries: int = 0
    ages: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What a system did in one trial. A failed one says why and has no figures.

    `epochs` are (tuples, seconds) of each epoch that was run while the clock ran, and `tasks_s` the CPU seconds of
    their tasks by `PHASES`, as the system tells them. `progress` is (seconds since the clock started, tuples done) as
    they were seen; `sample` is the number and the rows of some queries, (window end in microseconds, key, value or
    values); windows that close later than the stream are left out. `visited` are the matches of an event that were gone
    through one by one. `closed_us` says up to which end a system has closed the windows of such a query, where it is
    not the end of the stream. `half` is a probe at half the sustainable rate, `churn` one with queries that come and go
    (SC2), `burst` one with 1,000 queries that come at once, `ramp` one with queries that come steadily (SC1).
    """

    trial: Trial
    seconds: float = 0.0
    setup_s: float = 0.0
    deploy_s: float = 0.0
    progress: list[tuple[float, int]] = field(default_factory=list)
    result_rows: int = 0
    matches: int | None = None
    visited: float | None = None
    bytes_read: int | None = None
    bytes_shuffled: int | None = None
    bytes_written: int | None = None
    cpu_s: float = 0.0
    peak_mb: dict[str, float] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)
    epochs: list[tuple[int, float]] = field(default_factory=list)
    tasks_s: dict[str, float] = field(default_factory=dict)
    sample: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    closed_us: dict[int, int] = field(default_factory=dict)
    probes: list[Probe] = field(default_factory=list)
    half: Probe | None = None
    churn: Probe | None = None
    burst: Probe | None = None
    ramp: Probe | None = None
    failure: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def sustainable(self) -> int:
        """The highest rate that was sustained; 0 when none was, or none was tried."""
        return max((probe.rate for probe in self.probes if probe.sustained), default=0)

    @property
    def too_slow(self) -> bool:
        """Whether its time was over before it had done everything."""
        return (self.failure or "").startswith("TooSlow")

    @property
    def throughput(self) -> float:
        """Tuples of all streams per second: what the slowest query sees."""
        return self.trial.fed / self.seconds if self.seconds else 0.0

    @property
    def overall(self) -> float:
        """Tuples per second, summed over the queries."""
        return self.throughput * self.trial.queries

    @classmethod
    def read(cls, path: Path) -> Outcome:
        found = json.loads(path.read_text())
        return cls.of(found)

    @classmethod
    def of(cls, found: dict[str, Any]) -> Outcome:
        """From its JSON."""
        plain = found | {"trial": Trial.of(found["trial"])}
        plain["epochs"] = [(rows, seconds) for rows, seconds in found.get("epochs", ())]
        plain["sample"] = {int(n): [tuple(row) for row in rows] for n, rows in found["sample"].items()}
        plain["closed_us"] = {int(n): end for n, end in found.get("closed_us", {}).items()}
        plain["probes"] = [Probe(**probe) for probe in found["probes"]]
        for name in ("half", "churn", "burst", "ramp"):
            plain[name] = Probe(**found[name]) if found.get(name) else None
        return cls(**plain)


def feed(files: Iterable[list[Path]], folder: Path) -> None:
    """Put files before a system: they appear whole, under their own names, in a folder of their stream's."""
    for path in (path for paths in files for path in paths):
        place = folder / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        (place / path.name).hardlink_to(path)
