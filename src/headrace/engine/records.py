"""The commit record: the one file that makes an epoch's segments and results count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from headrace.model import codec
from headrace.model.partitioning import ALL_KEY_GROUPS, Ranges, intersect_ranges, ranges_of

COMMITS = "groups/main/commits"
SEGMENTS = "groups/main/segments"
PLANS = "groups/main/plans"
SEARCH = "groups/main/search.json"
"""What is known of an epoch that fails; there only while one does."""
RESULTS = "results"


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """What a commit takes from a segment file: the state of some key groups and some queries of one operator.

    A file is immutable and may be named by several commits, of several groups, each for a part of it. `key_groups` are
    those that count; `narrowed` says that the file has others too. Of its queries, those in `only` count (None: all)
    that are not in `without`. `level` counts merges; `last_end_us` is when the last window that needs it ends.
    """

    operator: str
    path: str
    bytes: int
    level: int
    last_end_us: int
    checksum: int | None = None
    key_groups: Ranges = ALL_KEY_GROUPS
    narrowed: bool = False
    only: tuple[int, ...] | None = None
    without: tuple[int, ...] = ()

    def of_key_groups(self, wanted: Ranges) -> SegmentFile | None:
        """The same for fewer key groups; None when none of them is left."""
        left = intersect_ranges(self.key_groups, wanted)
        if left == self.key_groups:
            return self
        return replace(self, key_groups=left, narrowed=True) if left else None

    def with_key_groups(self, other: SegmentFile) -> SegmentFile:
        """The same for the key groups of both; the other one differs from this one in key groups alone."""
        both = (g for low, high in (*self.key_groups, *other.key_groups) for g in range(low, high))
        return replace(self, key_groups=ranges_of(both), narrowed=self.narrowed or other.narrowed)

    def of_queries(self, queries: Iterable[int]) -> SegmentFile | None:
        """The same for some queries alone; None when none of them counts here."""
        wanted = {int(query) for query in queries} - set(self.without)
        if self.only is not None:
            wanted &= set(self.only)
        return replace(self, only=tuple(sorted(wanted)), without=()) if wanted else None

    def but(self, queries: Iterable[int]) -> SegmentFile | None:
        """The same without some queries; None when no other one counts here."""
        gone = {int(query) for query in queries}
        if self.only is None:
            return replace(self, without=tuple(sorted({*self.without, *gone})))
        left = tuple(query for query in self.only if query not in gone)
        return replace(self, only=left) if left else None


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
    """What one epoch cost. Seconds are wall-clock on the driver; `task_seconds` add up over tasks."""

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


@dataclass(frozen=True, slots=True)
class Commit:
    """The whole state of a group after an epoch: reading the last commit is recovery.

    `rows` counts each query's result rows so far (keys are query ids as text). `quarantined` holds the queries that
    failed, with the epoch and the reason; rows of that epoch are not among the results. `stream_rows` counts each
    stream's tuples so far, and how many of them were late. Keys are spread over `partitions`, which stays while
    segments live. Results of epochs up to `expired` may be gone. `ended` holds, for join queries that are no longer
    active, the watermark up to which their windows have closed, and `lost`, for tables of joined rows, (epoch, end):
    windows that end by then may have lost rows of that epoch or before.
    """

    epoch: int
    plan: str
    segments: tuple[SegmentFile, ...]
    results: tuple[ResultFile, ...]
    quarantined: dict[str, tuple[int, str]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    stream_rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    metrics: Metrics = Metrics()
    committed_at: float = 0.0
    partitions: int = 0
    expired: int = -1
    ended: dict[str, int] = field(default_factory=dict)
    lost: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def files(self) -> Iterator[str]:
        """Every file that this commit makes count."""
        yield from (segment.path for segment in self.segments)
        yield from (result.path for result in self.results)


codec.register(SegmentFile, ResultFile, Metrics, Commit)

NOTHING = Commit(-1, "", (), ())
