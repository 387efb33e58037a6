"""Linear Road in one process: split the tuples, run an operator per expressway, add up the balances.

This is how the operators are meant to be put together. It needs no Spark and is what tests and the example run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil, sqrt

import numpy as np
import pyarrow as pa

from headrace.model.splitting import IncrementalOperator, SplitOperator, State, rows_by_kind
from headrace.workloads.linear_road.operator import ROUTED, AddBalances
from headrace.workloads.linear_road.rules import Kind


@dataclass(slots=True)
class Play:
    """A road of some expressways, with balances added up in two levels of about equal width."""

    expressways: int
    make: Callable[[int], SplitOperator]
    """Makes the operator of an expressway; it is opened here."""
    roads: list[SplitOperator] = field(init=False)
    first_level: list[AddBalances] = field(init=False)
    second_level: AddBalances = field(init=False)
    saved: dict[int, list[State]] = field(init=False, default_factory=dict)
    """What was saved of each expressway: a snapshot and changes."""

    def __post_init__(self) -> None:
        self.roads = [self.make(xway) for xway in range(self.expressways)]
        width = group_width(self.expressways)
        starts = range(0, self.expressways, width)
        self.first_level = [AddBalances(min(width, self.expressways - start)) for start in starts]
        self.second_level = AddBalances(self.expressways)
        for number, operator in enumerate((*self.roads, *self.first_level, self.second_level)):
            operator.open(number if number < self.expressways else 0, None)

    def process(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The answers to a batch, with their kinds."""
        width = group_width(self.expressways)
        for xway, part in split_tuples(batch, self.expressways):
            for kind, rows in rows_by_kind(self.roads[xway].process(part)).items():
                if kind != "balances":
                    yield kind, rows
                    continue
                for sums in self.first_level[xway // width].process(rows).values():
                    yield from self.second_level.process(sums).items()

    def save(self, xway: int, *, whole: bool = False) -> None:
        """Save an expressway: a snapshot the first time or when the whole is wanted, else what changed since."""
        road, saved = self.roads[xway], self.saved.setdefault(xway, [])
        if saved and not whole and isinstance(road, IncrementalOperator):
            saved.append(road.changes())
        else:
            self.saved[xway] = [road.snapshot()]

    def restart(self, xway: int) -> None:
        """Replace an expressway's operator by a new one that goes on from what was saved of the old one just now."""
        self.save(xway)
        first, *changes = self.saved[xway]
        road = self.roads[xway] = self.make(xway)
        road.open(xway, first)
        for change in changes:
            assert isinstance(road, IncrementalOperator)
            road.apply(change)


def group_width(expressways: int) -> int:
    """How many expressways one adder of the first level takes: about the square root of their number.

    >>> group_width(512), group_width(1)
    (23, 1)
    """
    return ceil(sqrt(expressways))


def split_tuples(batch: pa.RecordBatch, expressways: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The tuples of each expressway in their order: its reports, what is asked of it, all balance requests."""
    kinds, xways = batch.column("Type").to_numpy(), batch.column("XWay").to_numpy()
    routed = np.flatnonzero(np.isin(kinds, ROUTED))
    routed = routed[np.argsort(xways[routed], kind="stable")]
    edges = np.searchsorted(xways[routed], np.arange(expressways + 1))
    broadcast = np.flatnonzero(kinds == Kind.BALANCE)
    for xway in range(expressways):
        rows = np.sort(np.concatenate([routed[edges[xway] : edges[xway + 1]], broadcast]))
        if len(rows):
            yield xway, batch.take(pa.array(rows))


def emitted(rows: pa.RecordBatch, seconds: float = 0.0) -> pa.RecordBatch:
    """Rows with the column `Emit`: delivered so many seconds after their tuple's time."""
    emit = rows.column("Time").to_numpy() + seconds
    return rows.append_column("Emit", pa.array(emit, pa.float64()))
