"""Splits as the warehouse keeps them: what was asked for, and what an epoch of a split left behind.

The operator of a split, and routes that are functions, are code. They are in no record: whoever opens the warehouse
gives them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headrace.model import codec
from headrace.model.epoch import NEVER_US, Chunk
from headrace.model.query import Stream

FUNCTION = "<function>"
"""Stands for a route or broadcast that is a function of the user's."""

ALL = -1
"""The place of broadcast tuples among those of the sub-streams: they are kept once, and every sub-stream reads them."""


@dataclass(frozen=True, slots=True)
class Split:
    """A split that was asked for. `outputs` are its output streams by the kind of their rows.

    `route`, `broadcast` and `wants` are SQL over the columns of the stream, FUNCTION, or None where there is none. It
    reads the epochs from `first_epoch` on. `call_us` is how long one call of the operator may take; None: for ever.
    """

    id: int
    name: str
    stream: str
    sub_streams: int
    route: str | None
    broadcast: str | None
    wants: str | None
    order_by: tuple[str, ...]
    outputs: dict[str, Stream]
    first_epoch: int
    call_us: int | None = None
    requested_at: float = 0.0
    layout: int = 0
    """How many times it got another route. State and waiting tuples lie as one route says."""

    def same_as(self, other: Split) -> bool:
        """Whether both ask for the same thing."""
        same = replace(
            self,
            id=other.id,
            name=other.name,
            first_epoch=other.first_epoch,
            requested_at=other.requested_at,
            layout=other.layout,
        )
        return same == other and self.name.lower() == other.name.lower()

    @property
    def expressions(self) -> tuple[str, ...]:
        """What is SQL of route, broadcast and wants."""
        found = (self.route, self.broadcast, self.wants)
        return tuple(text for text in found if text is not None and text != FUNCTION)


@dataclass(frozen=True, slots=True)
class SplitDrop:
    """The end of a split. Its output streams are closed."""

    id: int


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file with entries of many sub-streams (`engine/splits/bundles.py`). Tuples in it lie between the two times."""

    path: str
    epoch: int
    bytes: int
    checksum: int
    rows: int = 0
    min_us: int = NEVER_US
    max_us: int = NEVER_US


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of tuples, as numbers of tuples. `late` ones came after the watermark had passed them."""

    read: int = 0
    routed: int = 0
    broadcast: int = 0
    omitted: int = 0
    late: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.read + other.read,
            self.routed + other.routed,
            self.broadcast + other.broadcast,
            self.omitted + other.omitted,
            self.late + other.late,
        )


NOTHING = Counts()


@dataclass(frozen=True, slots=True)
class SubStreamCost:
    """What a sub-stream has cost so far: tuples, rows that came of them, seconds in the operator, bytes of state."""

    tuples: int = 0
    rows: int = 0
    seconds: float = 0.0
    state_bytes: int = 0

    def then(self, later: SubStreamCost) -> SubStreamCost:
        """With what it cost later; the state is the later one."""
        return SubStreamCost(
            self.tuples + later.tuples,
            self.rows + later.rows,
            self.seconds + later.seconds,
            later.state_bytes,
        )


@dataclass(frozen=True, slots=True)
class SplitCost:
    """What one epoch of a split cost: splitters and processors in CPU seconds of tasks, and the whole in seconds."""

    counts: Counts = Counts()
    rows: int = 0
    splitters: int = 0
    window_rows: int = 0
    split_seconds: float = 0.0
    process_seconds: float = 0.0
    seconds: float = 0.0
    reopened: int = 0
    """Instances that had to be made anew from their state."""
    split_wall: float = 0.0
    """How long the splitters took, in seconds of the clock."""
    process_wall: float = 0.0
    """And the processors."""
    desired_rate: float | None = None
    predicted_rate: float | None = None
    own_workers: int = 0
    """How many workers of the driver ran the operators; 0 when Spark's did."""


@dataclass(frozen=True, slots=True)
class SplitCommit:
    """Everything of a split up to an epoch. Nothing counts that no commit names.

    `watermark_us` says up to where tuples were handed to the operator; `waiting` are the tuples from there on. The
    state of a sub-stream is a chain of (number of a `state` file, bytes in it): a snapshot, and the changes after it.
    `outputs` are the chunks of this epoch by kind. They arrive after the commit, as batch number `epoch`.
    """

    split: int
    epoch: int
    version: str
    """Names the state; epochs in which nothing happened leave it as it is."""
    watermark_us: int = NEVER_US
    waiting: tuple[BundleFile, ...] = ()
    state: dict[str, BundleFile] = field(default_factory=dict)
    chains: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    outputs: dict[str, tuple[Chunk, ...]] = field(default_factory=dict)
    counts: Counts = Counts()
    ticked: bool = False
    """Whether the watermark moved in this epoch."""
    rows: int = 0
    sub_streams: dict[str, SubStreamCost] = field(default_factory=dict)
    sub_stream_count: int = 0
    """How many sub-streams the state and the waiting tuples are for; 0 when nobody said."""
    layout: int = 0
    """The layout of the split that these lie by."""
    cost: SplitCost = SplitCost()
    committed_at: float = 0.0

    def files(self) -> set[str]:
        """The bundles that it names."""
        return {file.path for file in (*self.waiting, *self.state.values())}


@dataclass(frozen=True, slots=True)
class SplitTrouble:
    """Why a split is quarantined: the epoch that it cannot run, and what its code did there."""

    epoch: int
    code: str
    message: str
    detail: str | None
    hint: str | None
    since: float


codec.register(Split, SplitDrop, BundleFile, Counts, SubStreamCost, SplitCost, SplitCommit, SplitTrouble)


def no_split_commit(split: Split) -> SplitCommit:
    """Where a split begins."""
    return SplitCommit(
        split.id, split.first_epoch - 1, "", sub_stream_count=split.sub_streams, layout=split.layout
    )
