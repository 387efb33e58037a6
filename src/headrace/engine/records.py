"""The commit record: the one file that makes an epoch's segments and results count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.model import codec
from headrace.model.metrics import NOBODY, OperatorMetrics, QueryCounts, read_counts
from headrace.model.state import SegmentFile
from headrace.model.statistics import NOTHING_KNOWN, Statistics
from headrace.model.strategy import DEFAULTS, Strategies


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A live result file with the epochs, and the queries, its rows are of.

    `max_us` is the latest window end in it (None: its rows have no window). `written_at` is when its youngest rows
    were committed, in seconds since 1970. `checksum` is the CRC-32 of the file, here and for segments; None when it was
    written before there were checksums.
    """

    signature: str
    path: str
    rows: int
    bytes: int
    first_epoch: int
    last_epoch: int
    min_query: int
    max_query: int
    max_us: int | None
    level: int = 0
    written_at: float = 0.0
    checksum: int | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """What one epoch cost. Seconds are wall-clock; those of map and reduce tasks add up over tasks.

    `own_worker` is 1 when its shared operators ran in the driver's own worker, without a Spark job. The last five are
    CPU seconds of all tasks: to read and filter tuples, to fold and join them, and to write rows. `read_cpu` is the
    part of the first that reads, and `closing_cpu` the part of the second in which aggregations close windows and make
    rows.
    """

    input_rows: int = 0
    late_rows: int = 0
    result_rows: int = 0
    active_queries: int = 0
    seconds: float = 0.0
    plan_seconds: float = 0.0
    map_seconds: float = 0.0
    reduce_seconds: float = 0.0
    fallback_seconds: float = 0.0
    bytes_read: int = 0
    bytes_shuffled: int = 0
    bytes_written: int = 0
    own_worker: int = 0
    map_cpu: float = 0.0
    reduce_cpu: float = 0.0
    finish_cpu: float = 0.0
    read_cpu: float = 0.0
    closing_cpu: float = 0.0

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all tasks."""
        return self.map_cpu + self.reduce_cpu + self.finish_cpu


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A query failed in `epoch`, whose rows are not among its results; its windows had closed up to `ended_us`."""

    epoch: int
    error: str
    ended_us: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The whole state of a sharing group after an epoch: reading its last commit is recovery.

    Nothing in it is about other groups: what holds for all of them is in the sealed epochs and in the catalog, or is
    added up over the commits of all groups. `rows` counts the result rows that each query got in this group,
    and `quarantined` are the queries that failed here (keys are query ids as text). `regrouping` is the number of the
    last regrouping that the group has taken in. Results of epochs up to `expired` may be gone. `lost` holds, for tables
    of joined rows, (epoch, end): windows that end by then may have lost rows of that epoch or before. `operators` says
    what each operator cost in this epoch, by its id. `strategies` are those that the segments were made with: the next
    epoch goes on with them. `statistics` are what was measured so far, for those who decide later. `inherited` are the
    transit groups whose results and rows are among its own, each with the epoch from which on: their own commits no
    longer count.
    """

    group: str
    epoch: int
    plan: str
    segments: tuple[SegmentFile, ...]
    results: tuple[ResultFile, ...]
    quarantined: dict[str, Quarantine] = field(default_factory=dict)
    rows: QueryCounts = NOBODY
    metrics: Metrics = Metrics()
    committed_at: float = 0.0
    regrouping: int = -1
    expired: int = -1
    lost: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    operators: dict[str, OperatorMetrics] = field(default_factory=dict)
    strategies: Strategies = DEFAULTS
    statistics: Statistics = NOTHING_KNOWN
    inherited: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read_counts(self, "rows")

    def files(self) -> Iterator[str]:
        """Every file that this commit makes count."""
        yield from (segment.path for segment in self.segments)
        yield from (result.path for result in self.results)


codec.register(ResultFile, Metrics, Quarantine, Commit)


def no_commit(group: str) -> Commit:
    """Where a group stands that has run nothing yet."""
    return Commit(group, -1, "", (), ())
