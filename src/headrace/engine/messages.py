"""Messages between the driver and its tasks: frozen values, with the one codec of the warehouse's records.

The driver gives every map task a list of `Work`. Map tasks pass a `Control` on to each reduce partition. All tasks send
`Report`s back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.engine.handover import LARGE_BYTES, Handover
from headrace.engine.records import ResultFile
from headrace.model import codec
from headrace.model.epoch import NEVER_US, Chunk
from headrace.model.errors import HeadraceError
from headrace.model.functions import FunctionFile
from headrace.model.metrics import OperatorMetrics
from headrace.model.partitioning import Partitioning
from headrace.model.plan import Operator
from headrace.model.state import SegmentFile
from headrace.model.statistics import JoinCount, KeyStatistics, SideCount
from headrace.model.ways import FamilyWay, Finding


@dataclass(frozen=True, slots=True)
class EpochTask:
    """What every task of an epoch job knows. `closed` and `watermark` are per stream.

    `plan` and `handover` are paths in the warehouse. A job that rebuilds state delivers nothing. Blobs from
    `large_bytes` on are handed over as files. `functions` are those that may be called.
    """

    root: str
    group: str
    plan: str
    epoch: int
    partitioning: Partitioning
    closed: dict[str, int]
    watermark: dict[str, int]
    attempt: str
    handover: str
    rebuilds: bool = False
    large_bytes: int = LARGE_BYTES
    functions: tuple[FunctionFile, ...] = ()

    @property
    def handing(self) -> Handover:
        return Handover(self.root, self.handover)

    def closed_us(self, operator: Operator) -> int:
        """W(e-1) for an operator: the least of its streams'."""
        return min(self.closed.get(stream, NEVER_US) for stream in operator.clock)

    def watermark_us(self, operator: Operator) -> int:
        return min(self.watermark.get(stream, NEVER_US) for stream in operator.clock)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of a chunk (None: all). With `whole`, (size, checksum), the task checks the whole file first."""

    path: str
    row_groups: tuple[int, ...] | None
    whole: tuple[int, int | None] | None


@dataclass(frozen=True, slots=True)
class Scan:
    """Read pieces of a stream's chunks and run the operators of its fast path over them."""

    task: EpochTask
    stream: str
    number: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Look at a chunk that Spark reads by itself: it would take changed bytes for tuples."""

    root: str
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Control:
    """What one reduce partition does: which operators it runs in each stage, over which state."""

    task: EpochTask
    partition: int
    stages: tuple[tuple[str, ...], ...]
    segments: tuple[SegmentFile, ...]


Work = Control | Scan | Check
Message = TypeVar("Message")


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """What tasks cost, added up: wall-clock seconds of tasks, CPU seconds of them, and bytes.

    `map_cpu` is what map tasks took to read and filter tuples, `reduce_cpu` what reduce tasks took to fold and join
    them, and `finish_cpu` what both took to write rows of results. `read_cpu` is the part of `map_cpu` in which tuples
    were read, and `closing_cpu` the part of `reduce_cpu` in which windows were closed and their rows made.
    """

    map_seconds: float = 0.0
    reduce_seconds: float = 0.0
    bytes_read: int = 0
    bytes_shuffled: int = 0
    map_cpu: float = 0.0
    reduce_cpu: float = 0.0
    finish_cpu: float = 0.0
    read_cpu: float = 0.0
    closing_cpu: float = 0.0

    def __add__(self, other: TaskMetrics) -> TaskMetrics:
        return TaskMetrics(
            self.map_seconds + other.map_seconds,
            self.reduce_seconds + other.reduce_seconds,
            self.bytes_read + other.bytes_read,
            self.bytes_shuffled + other.bytes_shuffled,
            self.map_cpu + other.map_cpu,
            self.reduce_cpu + other.reduce_cpu,
            self.finish_cpu + other.finish_cpu,
            self.read_cpu + other.read_cpu,
            self.closing_cpu + other.closing_cpu,
        )


@dataclass(frozen=True, slots=True)
class TaskError:
    """An error of ours, in parts: it becomes the same error again in the driver."""

    phase: str
    code: str
    message: str
    detail: str | None
    hint: str | None

    @classmethod
    def of(cls, error: HeadraceError) -> TaskError:
        return cls(error.phase, error.code, error.message, error.detail, error.hint)


@dataclass(frozen=True, slots=True)
class Report:
    """What a task did: files it wrote, queries that failed with the reason, what it cost, keys that it sampled, what it
    counted of joins, how tuples found their queries, and the CPU seconds of key groups.

    The keys of `failures` are query ids as text, those of `operators` ids of operators and products, and those of
    `key_seconds` are key groups as text.
    """

    segments: tuple[SegmentFile, ...] = ()
    results: tuple[ResultFile, ...] = ()
    failures: dict[str, str] = field(default_factory=dict)
    metrics: TaskMetrics = TaskMetrics()
    operators: dict[str, OperatorMetrics] = field(default_factory=dict)
    keys: tuple[KeyStatistics, ...] = ()
    joins: tuple[JoinCount, ...] = ()
    ways: tuple[FamilyWay, ...] = ()
    key_seconds: dict[str, float] = field(default_factory=dict)
    error: TaskError | None = None


codec.register(
    KeyStatistics,
    JoinCount,
    SideCount,
    FamilyWay,
    Finding,
    EpochTask,
    Piece,
    Scan,
    Check,
    Control,
    TaskMetrics,
    TaskError,
    Report,
)


def encode_work(work: Sequence[Work]) -> bytes:
    """The work of one map task."""
    return codec.dumps(tuple(work))


def decode_work(data: bytes) -> tuple[Work, ...]:
    found: tuple[Work, ...] = codec.loads(data)
    return found


def encode_control(control: Control) -> bytes:
    return codec.dumps(control)


def decode_control(data: bytes) -> Control:
    return _decoded(data, Control)


def encode_report(report: Report) -> bytes:
    return codec.dumps(report)


def decode_report(data: bytes) -> Report:
    return _decoded(data, Report)


def _decoded(data: bytes, kind: type[Message]) -> Message:
    found = codec.loads(data)
    if not isinstance(found, kind):
        raise TypeError(f"a {type(found).__name__}, where a {kind.__name__} was expected")
    return found
