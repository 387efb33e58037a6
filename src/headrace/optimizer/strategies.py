"""A product or joined rows: how an aggregation of a join by its key is best made, and when that is to be changed.

A product makes a row for each key that a stream has in a window, and multiplies those that meet. So it costs time with
the keys, however many tuples they have. Joining makes a row for each pair of tuples that meet, and groups these. So it
costs time with the joined rows. Sparse keys, of which few meet, favour joining; hot keys favour the product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import floor, log10, prod

from headrace.model.plan.names import input_id
from headrace.model.query import Join, Query, QueryId
from headrace.model.statistics import Statistics
from headrace.model.strategy import Choice, Strategies, Strategy
from headrace.optimizer.selectivity import guess_selectivity
from headrace.planner.strategies import choice_of, group_choice, possible_strategies

ROW_COST = 2.0
"""Joining and grouping a row costs about as much as a product's work for this many keys."""

CHANGE = 2.0
"""A running query changes its strategy when the other one is estimated to cost this many times less: its state has to
be made anew, and what is measured varies."""

MIN_TUPLES, MIN_WINDOWS = 1_000, 3
"""Less than this is too little to decide by: tuples of each stream for keys, closed windows for measured work."""


@dataclass(frozen=True, slots=True)
class JoinEstimate:
    """Per window: the keys of all sides, and the joined rows. `measured` for this query, or estimated from streams."""

    keys: float
    rows: float
    measured: bool

    @property
    def costs(self) -> dict[Strategy, float]:
        return {Strategy.PRODUCT: self.keys, Strategy.JOINED_GROUPS: ROW_COST * self.rows}


def estimate_join(query: Query, statistics: Statistics) -> JoinEstimate | None:
    """What an aggregation of a join by its key has to do per window; None when too little is known."""
    body = query.plan.body
    assert isinstance(body, Join)
    work = next((one for one in statistics.joins if one.query == query.id), None)
    if work is not None and work.windows >= MIN_WINDOWS:
        return JoinEstimate(work.keys / work.windows, work.rows / work.windows, measured=True)
    tuples, keys, meeting = [], [], []
    for side, key in zip(body.sides, body.hubs[0].keys, strict=True):
        stream, known = statistics.stream(side.stream), statistics.keys_of(input_id(side.stream, key))
        count = None if stream is None else stream.tuples_in(side.window.range_us)
        if known is None or count is None or known.tuples < MIN_TUPLES:
            return None
        accepted = count * min(known.wanted, guess_selectivity(side.where))
        tuples.append(accepted)
        keys.append(known.keys_in(accepted))
        meeting.append(known.meeting)
    return JoinEstimate(sum(keys), estimate_rows(tuples, meeting), measured=False)


def estimate_rows(tuples: Collection[float], meeting: Collection[float]) -> float:
    """How many rows so many tuples of each side make, if the sides have the same hot and rare keys.

    `meeting` is each side's probability that two of its tuples share a key. With n tuples and K equally frequent keys
    on each of two sides, n * n / K rows are joined.

    >>> round(estimate_rows([1_000, 1_000], [1 / 500, 1 / 500]), 6)
    2000.0
    """
    sides = len(tuples)
    return prod(tuples) * prod(meeting) ** ((sides - 1) / sides)


@dataclass(frozen=True, slots=True)
class StrategyChanges:
    """`started` are choices for queries without state. `moved` are new choices for running queries, whose state has to
    be made from the log before the first epoch that they are in force in.
    """

    started: Mapping[QueryId, Choice]
    moved: Mapping[QueryId, Choice]

    def applied_to(self, current: Strategies) -> Strategies:
        return current.with_changes({**self.started, **self.moved})


def decide_strategies(
    queries: Iterable[Query], statistics: Statistics, current: Strategies, running: Collection[QueryId]
) -> StrategyChanges:
    """Which choices to record: for each query that starts, and for those of the running ones that should change.

    Queries with one possible strategy need no record. Costs time linear in the queries that have two.
    """
    started: dict[QueryId, Choice] = {}
    moved: dict[QueryId, Choice] = {}
    recorded = current.by_query()
    for query in queries:
        if len(possible_strategies(query.plan.body)) < 2:
            continue
        before = choice_of(query, recorded)
        estimate = estimate_join(query, statistics)
        if query.id not in running:
            started[query.id] = before if estimate is None else _cheapest(estimate)
        elif estimate is not None:
            choice = _cheapest(estimate)
            costs = estimate.costs
            if CHANGE * costs[choice.strategy] < costs[before.strategy]:
                moved[query.id] = choice
    return StrategyChanges(started, moved)


def _cheapest(estimate: JoinEstimate) -> Choice:
    """The strategy that costs less, with the figures that say so."""
    source = "measured" if estimate.measured else "estimated from its streams"
    keys, rows = show_about(estimate.keys), show_about(estimate.rows)
    figures = f"{keys} keys of its streams and {rows} joined rows per window ({source})"
    product, joined = (estimate.costs[s] for s in (Strategy.PRODUCT, Strategy.JOINED_GROUPS))
    if product <= joined:
        return group_choice(
            Strategy.PRODUCT, f"there are about {figures}", f"it would have to join all {rows} rows"
        )
    against = f"it would make a row for each of the {keys} keys before it multiplies those that meet"
    return group_choice(Strategy.JOINED_GROUPS, f"there are about {figures}", against)


def show_about(number: float) -> str:
    """A figure for people, with two digits that count.

    >>> show_about(123_456), show_about(7.04), show_about(0.31), show_about(0)
    ('120,000', '7', '0', '0')
    """
    if number < 1:
        return "0"
    return f"{round(number, 1 - floor(log10(number))):,.0f}"
