"""What the controller reads: what each group's epochs did, and what samples say about queries and regions.

The engine measures these values; the simulator makes them up. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.model.query import QueryId
from headrace.optimizer.grouping.values import FunctionName, GroupName, OperatorId


@dataclass(frozen=True, slots=True)
class OperatorEpoch:
    """What a shared operator did in one epoch of one group.

    `tuples` are what it read, `selected` those that any member wants, `matches` the joined rows. An operator without a
    join has one match per selected tuple. `scan_s` are CPU seconds to read and filter tuples, and `join_s` those to do
    the rest of the shared part with the selected ones. They are measured apart: when all groups select the same share
    of the tuples, a sum of both could not tell one from the other.
    """

    operator: OperatorId
    tuples: int
    selected: int
    matches: int
    scan_s: float
    join_s: float

    @property
    def seconds(self) -> float:
        return self.scan_s + self.join_s


@dataclass(frozen=True, slots=True)
class FunctionEpoch:
    """What a function after the shared part did in one epoch: rows in, and CPU seconds."""

    function: FunctionName
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """One epoch of one group.

    `elapsed_s` is from the commit before to this one, waiting included. `arrived` counts the tuples sealed meanwhile,
    and `processed` those of the epochs that were run. `lag` is what is sealed and not run yet, in tuples. `idle_s` are
    the seconds that the group's tasks had nothing to do, added up. `rows` and `finishing_s` are the rows of all
    members, and the CPU seconds to group and finish them.
    """

    group: GroupName
    epoch: int
    tasks: int
    elapsed_s: float
    arrived: int
    processed: int
    lag: int
    idle_s: float
    operators: tuple[OperatorEpoch, ...]
    rows: int = 0
    finishing_s: float = 0.0
    functions: tuple[FunctionEpoch, ...] = ()

    @property
    def shared_s(self) -> float:
        return sum(ran.seconds for ran in self.operators)

    @property
    def cpu_s(self) -> float:
        return self.shared_s + self.finishing_s + sum(ran.seconds for ran in self.functions)


@dataclass(frozen=True, slots=True)
class QuerySample:
    """What a sample (1 % of the tuples) says of one query: the share that it selects, and matches per selected one."""

    selectivity: float
    matches: float


Bits = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RegionTable:
    """What a sample says about one operator's disjoint filter regions (section IV-D a).

    Region r is wanted by the queries with `wanted[r, i]`. It has `tuples[r]` of the `sampled` tuples, and these have
    `matches[r]` matches together. Tuples that nobody wants are in `sampled` alone.
    """

    operator: OperatorId
    queries: tuple[QueryId, ...]
    wanted: Bits
    tuples: Floats
    matches: Floats
    sampled: float

    def __post_init__(self) -> None:
        regions = len(self.tuples)
        if self.wanted.shape != (regions, len(self.queries)) or len(self.matches) != regions:
            raise ValueError("a region has a query-set, tuples and matches")


@dataclass(frozen=True, slots=True)
class Statistics:
    """All that is known at one moment. `rates` are the input tuples per second of each operator."""

    rates: Mapping[OperatorId, float]
    regions: Mapping[OperatorId, RegionTable]
    samples: Mapping[QueryId, QuerySample]
