"""What groups are told when a warehouse is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.log.seal import DEFAULT_MAX_EPOCH_ROWS


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    """How long things stay (None: for ever) and how often upkeep looks. The defaults suit epochs of a second or so.

    `every` is the number of epochs between the slower steps, `pack` how many epoch records are left single.
    """

    retention_us: int | None = None
    log_retention_us: int | None = None
    grace_seconds: float = 60.0
    keep_commits: int = 8
    every: int = 32
    fan_in: int = 8
    pack: int = 256


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """`partitions` None: as many as the cluster has cores. `backfill_tasks` bounds what a query that catches up takes.

    The seconds limit an epoch as a whole, what a query does by itself, and an epoch in which registered functions are
    called, for each FUNCTION_ROWS tuples of it; None: no limit. `max_epoch_rows` are the tuples of an epoch, or of
    several that are run together.
    """

    partitions: int | None = None
    upkeep: UpkeepOptions = field(default_factory=UpkeepOptions)
    epoch_seconds: float | None = None
    query_seconds: float | None = None
    backfill_tasks: int | None = None
    max_epoch_rows: int = DEFAULT_MAX_EPOCH_ROWS
    function_seconds: float | None = None
