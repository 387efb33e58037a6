"""How tuples find their queries: every way that a family can go, timed by itself, beside the way that is chosen.

No Spark. The grid goes over queries, columns, constants per column, keys, and how much a condition accepts. CPU time of
one epoch of one partition, without closing windows: the best of a few runs.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from headrace.model.epoch import NEVER_US
from headrace.model.plan import AggregationOperator
from headrace.model.predicate import TRUE, Compare, Op, Operand, Predicate, conjunction
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.types import BIGINT, Column, SqlType
from headrace.model.window import Window
from headrace.operators.common.arrays import Ints
from headrace.operators.common.boxes import BoxTable
from headrace.operators.common.matching import homes_for
from headrace.operators.windows.aggregation import reduce_aggregation
from headrace.operators.windows.lifted import Lifted, lift_tuples
from headrace.operators.windows.matches import Matching
from headrace.operators.windows.prepared import AggregationLogic
from headrace.optimizer.membership import Choice, FamilyBatch, Homes, Membership, decide_membership
from headrace.planner.group import Member, plan_group

QUERIES, COLUMNS, CONSTANTS, KEYS = (100, 1_000, 10_000), (1, 2, 3), (20, 200, 10_000), (10, 1_000)
ACCEPTS = ("equality", "1 %", "40 %")
MOST_COLUMNS = max(COLUMNS)
SLOW = 4.0
"""A way that took so many times as long as the best is not timed again."""

ENOUGH_MS = 10.0
"""A repeat is so much CPU time of the chosen way."""

LITTLE_MS = 0.3
"""So little time is told apart from what is lost by a wrong choice."""

MOST_PAIRS = 10**8
"""Queries times tuples of a case: more of them would take minutes."""

KNOWN = "headrace.operators.common.cells._KNOWN"
MATCHES = "headrace.operators.windows.matches."
MOST_LISTED = 1 << 24
STREAM = Stream(
    StreamName("s"),
    (
        *(Column(f"c{i}", BIGINT) for i in range(MOST_COLUMNS)),
        Column("key", BIGINT),
        Column("v", BIGINT),
        Column("ts", SqlType("timestamp")),
    ),
    "ts",
    0,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A point of the grid. Columns have `constants` values each, equally often."""

    queries: int
    columns: int
    constants: int
    keys: int
    accepts: str

    def __str__(self) -> str:
        return (
            f"{self.queries:,} queries, {self.columns} columns of {self.constants:,} constants, "
            f"{self.keys:,} keys, {self.accepts}"
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU milliseconds of a case: as chosen, what choosing takes included, and of every way by itself. `batch` is what
    the choice was made of.
    """

    case: Case
    chosen: str
    chosen_ms: float
    ways: dict[str, float]
    batch: dict[str, Any]

    @property
    def best(self) -> str:
        return min(self.ways, key=self.ways.__getitem__)

    @property
    def ratio(self) -> float:
        """What was done, choosing included, beside the best way alone."""
        return self.chosen_ms / self.ways[self.best]

    @property
    def lost_ms(self) -> float:
        return self.chosen_ms - self.ways[self.best]

    @property
    def way_ratio(self) -> float:
        """The chosen way beside the best one, both without choosing."""
        return self.ways[self.chosen] / self.ways[self.best]


def grid(queries: Sequence[int]) -> Iterator[Case]:
    for case in product(queries, COLUMNS, CONSTANTS, KEYS, ACCEPTS):
        yield Case(*case)


def make_operator(case: Case, rng: np.random.Generator) -> AggregationOperator:
    members = []
    for number in range(case.queries):
        function = (AggregateFunction.SUM, AggregateFunction.MAX, AggregateFunction.COUNT)[number % 3]
        aggregate = Aggregate(function, Operand("v", BIGINT), TRUE, BIGINT)
        where = conjunction(*(_condition(case, f"c{i}", rng) for i in range(case.columns)))
        body = Aggregation(
            Window(10_000_000, 10_000_000), where, (Operand("key", BIGINT),), (aggregate,), (), None
        )
        query = Query(QueryId(number + 1), f"q{number}", QueryPlan("", (STREAM.name,), body, (), "", ""))
        members.append(Member(query, number))
    (operator,) = plan_group(members, {STREAM.name: STREAM}).operators
    assert isinstance(operator, AggregationOperator)
    return operator


def _condition(case: Case, column: str, rng: np.random.Generator) -> Predicate:
    operand = Operand(column, BIGINT)
    if case.accepts == "equality":
        return Compare(operand, Op.EQ, int(rng.integers(case.constants)))
    width = max(1, int(case.constants * (0.01 if case.accepts == "1 %" else 0.4)))
    low = int(rng.integers(case.constants - width + 1))
    return conjunction(Compare(operand, Op.GE, low), Compare(operand, Op.LT, low + width))


def make_tuples(case: Case, operator: AggregationOperator, count: int, rng: np.random.Generator) -> Lifted:
    columns = {f"c{i}": rng.integers(0, case.constants, count) for i in range(MOST_COLUMNS)}
    columns |= {"key": rng.integers(0, case.keys, count), "v": rng.integers(0, 1_000, count)}
    moments = pa.array(np.full(count, 5_000_000)).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({**columns, "ts": moments})
    found = lift_tuples(operator, {o: table.column(o.sql) for o in operator.scanned}, NEVER_US)
    assert found is not None
    return found


def _all_homes(listed: bool) -> Callable[[BoxTable, Ints, int], Homes]:
    def homes(table: BoxTable, codes: Ints, passes: int) -> Homes:
        found = homes_for(table, codes, passes)
        return Homes(np.full(table.boxes, listed), found.home, found.shares, found.cost_ns)

    return homes


@dataclass(frozen=True, slots=True)
class Way:
    """One way to go, whatever would be chosen."""

    membership: Membership
    sparse: bool
    homes: Callable[[BoxTable, Ints, int], Homes]


WAYS: Mapping[str, Way] = {
    "cells": Way(Membership.CELLS, False, homes_for),
    **{
        f"{name}, {'in place' if sparse else 'in tiles'}": Way(Membership.MATCHES, sparse, homes)
        for name, homes in (
            ("bit rows", _all_homes(False)),
            ("candidates", _all_homes(True)),
            ("both", homes_for),
        )
        for sparse in (False, True)
    },
}


class Bench:
    """One case, ready to be run in any way."""

    def __init__(self, case: Case, tuples: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._operator = make_operator(case, rng)
        self._tuples = make_tuples(case, self._operator, tuples, rng)
        (self._family,) = AggregationLogic(self._operator).families
        self.batch: FamilyBatch | None = None
        self.choice: Choice | None = None

    def ways(self) -> list[str]:
        """Those that are possible. Lists of ranges over many constants would not fit the memory."""
        boxes = self._family.boxes
        assert boxes is not None
        regions = np.ones(int(boxes.offsets[-1]), np.int64)
        lists = int(boxes.weights(regions).min(axis=1).sum()) <= MOST_LISTED
        return [
            name
            for name in WAYS
            if (name != "cells" or self._family.static) and (not name.startswith("candidates") or lists)
        ]

    def prepared(self, homes: Callable[[BoxTable, Ints, int], Homes]) -> AggregationLogic:
        """The operator with families of its own, whose boxes are split so. They were looked at by tuples once, so that
        everything is made ready.

        A process keeps families ready, with the candidates of whoever was first.
        """
        with patch.dict(KNOWN, clear=True):
            logic = AggregationLogic(self._operator)
        with (
            patch(MATCHES + "is_best", lambda *_: False),
            patch(MATCHES + "decide_membership", self._noted),
            patch("headrace.operators.common.cells.homes_for", homes),
        ):
            self._reduce(logic)
        return logic

    def as_chosen(self, logic: AggregationLogic) -> float:
        """CPU milliseconds, those of choosing included."""
        self.choice = None
        with patch(MATCHES + "decide_membership", self._watched):
            return self._reduce(logic)

    def forced(self, logic: AggregationLogic, way: Way) -> float:
        """CPU milliseconds of a way on which nobody has decided anything."""

        def matching(logic: AggregationLogic, family: int, *_: Any) -> Matching | None:
            if way.membership is Membership.CELLS:
                return None
            found = logic.families[family].known_matcher
            assert found is not None
            return Matching(found, way.sparse)

        with patch("headrace.operators.windows.folding.choose_matching", matching):
            return self._reduce(logic)

    def _reduce(self, logic: AggregationLogic) -> float:
        start = time.process_time()
        reduce_aggregation(logic, self._tuples, [], [], NEVER_US, NEVER_US, lambda *_: None)
        return 1_000 * (time.process_time() - start)

    def _watched(self, batch: FamilyBatch) -> Choice:
        self.choice = decide_membership(batch)
        return self.choice

    def _noted(self, batch: FamilyBatch) -> Choice:
        """Decides as usual, but for matches: making these ready is what is asked for."""
        self.batch = batch
        return replace(decide_membership(batch), membership=Membership.MATCHES)


def measure(case: Case, tuples: int, repeats: int, seed: int) -> Measured:
    bench = Bench(case, min(tuples, MOST_PAIRS // case.queries), seed)
    own = bench.prepared(homes_for)
    batch = bench.batch
    assert batch is not None
    split = "both" if batch.words and batch.listed else "candidates" if batch.listed else "bit rows"
    bench.as_chosen(own)
    chosen = "cells"
    if bench.choice is not None and bench.choice.membership is Membership.MATCHES:
        chosen = f"{split}, {'in place' if bench.choice.sparse else 'in tiles'}"
    names = [name for name in bench.ways() if split == "both" or not name.startswith("both")]
    ready = {"cells": own, split: own}
    for name in names:
        kind = name.partition(",")[0]
        if kind not in ready:
            ready[kind] = bench.prepared(WAYS[name].homes)
    runs = {
        n: partial(bench.forced, ready[n.partition(",")[0]], WAYS[n]) for n in dict.fromkeys([chosen, *names])
    }
    ways = {name: float("inf") for name in runs}
    chosen_ms, spent = float("inf"), 0.0
    while spent < repeats * ENOUGH_MS:  # in turns, so that what disturbs the machine disturbs all alike
        for name, run in runs.items():
            if ways[name] == float("inf") or ways[name] < SLOW * min(ways.values()):
                ways[name] = min(ways[name], run())
        chosen_ms = min(chosen_ms, bench.as_chosen(own))
        spent += max(1.0, ways[chosen])
    return Measured(case, chosen, chosen_ms, ways, asdict(batch))


@click.command("membership")
@click.option(
    "--tuples", type=click.IntRange(min=1), default=50_000, show_default=True, help="Tuples per run."
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs, of which the best counts.",
)
@click.option(
    "--queries", default=",".join(map(str, QUERIES)), show_default=True, help="How many queries, as a list."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same tuples and queries.")
@click.option(
    "--minutes", type=click.FloatRange(min=0.1), help="Stop after so many, with cases from all over the grid."
)
@click.option("--json", "out", type=click.File("w"), help="Write all figures to a file.")
def membership(tuples: int, repeats: int, queries: str, seed: int, minutes: float | None, out: Any) -> None:
    """Time every way in which tuples can find their queries, and say how good the chosen ones are."""
    console = Console()
    found: list[Measured] = []
    cases = list(grid([int(part) for part in queries.split(",")]))
    if minutes is not None:
        Random(seed).shuffle(cases)
    began = time.monotonic()
    for number, case in enumerate(cases):
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            console.print(f"{len(cases) - number} cases are left out: the time is over.")
            break
        one = measure(case, tuples, repeats, seed)
        found.append(one)
        console.print(
            f"{number + 1}/{len(cases)} {one.ratio:5.2f}  {case}: {one.chosen} {one.chosen_ms:.2f} ms, of which "
            f"the way {one.ways[one.chosen]:.2f}, best {one.best} {one.ways[one.best]:.2f} ms"
        )
        if out is not None:
            out.write(json.dumps(asdict(one)) + "\n")
            out.flush()
    console.print(_summary(found))


def _summary(found: Sequence[Measured]) -> Table:
    table = Table("", "cases", "median", "90 of 100", "worst", "within 10 %", f"or {LITTLE_MS} ms")
    for name, ratios in (
        ("with choosing", sorted(one.ratio for one in found)),
        ("the way alone", sorted(one.way_ratio for one in found)),
    ):
        with_choosing = name == "with choosing"
        close = sum(
            (one.ratio if with_choosing else one.way_ratio) <= 1.1
            or (one.lost_ms if with_choosing else one.ways[one.chosen] - one.ways[one.best]) <= LITTLE_MS
            for one in found
        )
        table.add_row(
            name,
            str(len(found)),
            f"{statistics.median(ratios):.2f}",
            f"{ratios[int(0.9 * (len(ratios) - 1))]:.2f}",
            f"{ratios[-1]:.2f}",
            f"{sum(ratio <= 1.1 for ratio in ratios)} of {len(found)}",
            f"{close} of {len(found)}",
        )
    return table


if __name__ == "__main__":
    membership()
