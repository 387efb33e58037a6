"""Messages between the driver and the tasks of a split: frozen values, with the codec of the warehouse's records."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.engine.messages import Piece, TaskError
from headrace.model import codec
from headrace.model.epoch import Chunk
from headrace.model.query import Stream
from headrace.model.splits import NOTHING, BundleFile, Counts, Split, SubStreamCost


@dataclass(frozen=True, slots=True)
class SplitEpoch:
    """What all tasks of a split's epoch know. Several epochs may run as one, and `epoch` is the last of them then.

    `folder` is for what does not outlive the epoch.
    """

    root: str
    split: Split
    stream: Stream
    epoch: int
    attempt: str
    closed_us: int
    watermark_us: int
    folder: str
    home: str
    """Where the split keeps its files, relative to the warehouse."""
    window_rows: int
    late_us: tuple[int, ...] = ()
    """For each chunk the time before which its tuples are late."""

    @property
    def version(self) -> str:
        """Names the state after it, of this attempt."""
        return f"{self.epoch}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class PlacedPiece:
    """A piece of a chunk, and the position of its first row in the epoch."""

    piece: Piece
    position: int


@dataclass(frozen=True, slots=True)
class SplitWork:
    """The physical windows of one splitter. The epoch is told apart, since it is the same for all of them."""

    number: int
    pieces: tuple[PlacedPiece, ...]


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What a splitter did: the tuples that are due and those that wait, what became of all, and its CPU seconds."""

    due: BundleFile | None = None
    waiting: BundleFile | None = None
    counts: Counts = NOTHING
    seconds: float = 0.0
    error: TaskError | None = None


@dataclass(frozen=True, slots=True)
class ProcessWork:
    """What the processors of an epoch have to do. Whoever comes first takes a sub-stream.

    `version` names the commit that the epoch follows, `state` and `chains` are those of that commit. There is such work
    only when the watermark moves. `cuts` says where the first batches of sub-streams end in which a worker was lost.
    """

    epoch: SplitEpoch
    version: str
    next_version: str
    due: tuple[BundleFile, ...]
    waiting: tuple[BundleFile, ...]
    state: dict[str, BundleFile]
    chains: dict[str, tuple[tuple[int, int], ...]]
    cuts: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedState:
    """An entry of the processor's state file: its bytes (none: nothing has changed), and whether it is a snapshot."""

    bytes: int
    snapshot: bool


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """What a processor did. The keys of `saved` and `costs` are the sub-streams that it took."""

    state: BundleFile | None = None
    saved: dict[str, SavedState] = field(default_factory=dict)
    costs: dict[str, SubStreamCost] = field(default_factory=dict)
    outputs: dict[str, tuple[Chunk, ...]] = field(default_factory=dict)
    seconds: float = 0.0
    reopened: int = 0
    error: TaskError | None = None


@dataclass(frozen=True, slots=True)
class ResizeWork:
    """What is to move to other sub-streams: the state and the waiting tuples of a commit. `epoch` has the new split.

    `watermark_us` is how far that commit came: earlier tuples were handed over.
    """

    epoch: SplitEpoch
    watermark_us: int
    waiting: tuple[BundleFile, ...]
    state: dict[str, BundleFile]
    chains: dict[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class ResizeReport:
    """The state by new sub-streams, in one file, with the bytes of each; and the waiting tuples, routed anew."""

    state: BundleFile | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    waiting: tuple[BundleFile, ...] = ()
    error: TaskError | None = None


codec.register(SplitEpoch, PlacedPiece, SplitWork, SplitReport, ProcessWork, SavedState, ProcessReport)
codec.register(ResizeWork, ResizeReport)
