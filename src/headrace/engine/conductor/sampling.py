"""Samples: which queries want which tuples of a stream, from about a thousand of its newest ones.

All queries of all groups are asked about the same tuples, so the load of any union of groups can be told, also where no
group of today evaluates such a union. The driver does this beside the epochs, and no row of any query passes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.engine.conductor.facts import LiveQuery, operator_of, predicates_on, streams_of
from headrace.model.plan.predicates import index_operands
from headrace.model.predicate import Operand, Predicate, operands_of
from headrace.model.query import QueryId, QueryPlan
from headrace.operators.common.regions import Truth, regions_of
from headrace.optimizer.grouping.regions import summarise_counts
from headrace.optimizer.grouping.statistics import Bits, Floats, QuerySample, RegionTable
from headrace.optimizer.grouping.values import OperatorId

TUPLES = 1_000
"""So many tuples of a stream are looked at."""

TOGETHER = 256
"""The predicates of so many queries are asked together. Each of them costs time for every constant of the others."""


@dataclass(frozen=True, slots=True)
class StreamSample:
    """Some tuples of a stream, as columns of its own types by their names."""

    stream: str
    rows: int
    columns: Mapping[str, pa.ChunkedArray]


def wanted_by(sample: StreamSample, plans: Sequence[QueryPlan]) -> tuple[Bits, Bits]:
    """(tuple t is wanted by query q, whether that can be told of query q)."""
    asked = [predicates_on(plan, sample.stream) for plan in plans]
    known = np.array([predicates is not None for predicates in asked], dtype=bool)
    wanted = np.zeros((sample.rows, len(plans)), dtype=bool)
    for first in range(0, len(asked), TOGETHER):
        some = asked[first : first + TOGETHER]
        truth = _truth(sample, [predicate for predicates in some for predicate in predicates or ()])
        for column, predicates in enumerate(some, first):
            for predicate in predicates or ():
                wanted[:, column] |= truth.of(predicate)
    return wanted, known


def _truth(sample: StreamSample, predicates: Iterable[Predicate]) -> Truth:
    indexes = index_operands(predicates)
    cells = tuple(regions_of(_column(sample, index.operand), index) for index in indexes)
    return Truth(indexes, cells, sample.rows)


def _column(sample: StreamSample, operand: Operand) -> pa.ChunkedArray:
    column = sample.columns[operand.sql]
    return column if column.type == operand.type.arrow else column.cast(operand.type.arrow)


def columns_of(plans: Iterable[QueryPlan], stream: str) -> set[str]:
    """The columns of a stream that the predicates of queries read."""
    predicates = (one for plan in plans for one in predicates_on(plan, stream) or ())
    return {operand.sql for predicate in predicates for operand in operands_of(predicate)}


def region_tables(
    queries: Sequence[LiveQuery],
    samples: Mapping[str, StreamSample],
    rates: Mapping[str, float],
    matches: Mapping[QueryId, float],
) -> dict[OperatorId, RegionTable]:
    """The filter regions of every operator whose streams have a sample each.

    A tuple of a busy stream counts more than one of a quiet one, by the tuples per second. `matches` says how many rows
    a join makes of a tuple that a query wants, on average over its sides; of a query of which that is not known, it is
    the mean of all.
    """
    by_operator: dict[OperatorId, list[LiveQuery]] = {}
    for query in queries:
        operator = operator_of(query.plan)
        if operator is not None:
            by_operator.setdefault(operator, []).append(query)
    seen = {
        stream: wanted_by(sample, [query.plan for query in queries])
        for stream, sample in samples.items()
        if sample.rows
    }
    place = {query.id: i for i, query in enumerate(queries)}
    found = {}
    for operator, users in by_operator.items():
        streams = streams_of(operator)
        if not all(stream in seen for stream in streams):
            continue
        columns = np.array([place[query.id] for query in users])
        told = np.logical_and.reduce([seen[stream][1][columns] for stream in streams])
        columns, ids = columns[told], tuple(q.id for q, tells in zip(users, told, strict=True) if tells)
        wanted = np.concatenate([seen[stream][0][:, columns] for stream in streams])
        weights = np.concatenate(
            [_weights(samples[stream].rows, rates.get(stream, 0.0)) for stream in streams]
        )
        per_tuple = _matches(
            [seen[stream][0][:, columns] for stream in streams],
            np.array([max(rates.get(stream, 0.0), 1e-6) for stream in streams]),
            np.array([matches.get(id_, np.nan) for id_ in ids], dtype=float),
        )
        found[operator] = summarise_counts(
            operator, ids, wanted, weights, weights * per_tuple, float(weights.sum())
        )
    return found


def samples_alike(
    queries: Sequence[LiveQuery], sample: StreamSample, matches: float
) -> dict[QueryId, QuerySample]:
    """What the sample of their only stream says of queries that find so many matches each, without making regions.

    Queries of which only Spark can tell are left out.
    """
    wanted, known = wanted_by(sample, [query.plan for query in queries])
    shares = wanted.mean(axis=0).tolist()
    return {
        query.id: QuerySample(share, matches if share else 0.0)
        for query, share, tells in zip(queries, shares, known.tolist(), strict=True)
        if tells
    }


def _weights(rows: int, rate: float) -> Floats:
    """What each tuple of a sample stands for. Streams at rest count a little, so that they count at all."""
    return np.full(rows, max(rate, 1e-6) / rows)


ALIKE = 2.0
"""Sides of a join of which a query wants shares that differ by no more than this are alike. The first one counts."""


def _matches(sides: Sequence[Bits], rates: Floats, matches: Floats) -> Floats:
    """The matches of each tuple of all sides, from those of the queries that want it.

    A query's joined rows are those of the tuples on its most selective side. There, two queries have joined rows in
    common as they have tuples in common. On a side that all want whole, they would seem to have all of them in common.
    """
    usual = float(np.nanmean(matches)) if np.isfinite(matches).any() else 1.0
    matches = np.where(np.isfinite(matches), matches, usual)
    shares = np.array([side.mean(axis=0) for side in sides]).reshape(len(sides), len(matches))
    least = np.where(shares > 0, shares, np.inf).min(axis=0, initial=np.inf)
    side_of = ((shares > 0) & (shares <= ALIKE * least)).argmax(axis=0)
    tuples = shares * rates[:, None]
    per_tuple = matches * tuples.sum(axis=0) / np.maximum(tuples[side_of, np.arange(len(matches))], 1e-12)
    found = []
    for number, side in enumerate(sides):
        mine = side_of == number
        counts = side[:, mine].sum(axis=1)
        found.append(np.where(counts > 0, side[:, mine] @ per_tuple[mine] / np.maximum(counts, 1), 0.0))
    return np.concatenate(found)
