"""Joins and complex queries by their definition, row by row, for small trials."""

from __future__ import annotations

import operator
from collections import defaultdict
from itertools import product
from typing import Any

import pyarrow.compute as pc

from headrace_bench.astream import AggregationQuery
from headrace_bench.astream_joins import ComplexQuery, Predicate
from headrace_bench.trial import Trial
from headrace_bench.workload import Query, Workload

WIDE = {
    "queries": 70,
    "sample": 70,
    "rows": 4_000,
    "files": 2,
    "warm_up": 1,
    "rate": 1_000,
    "window_max_s": 6,
    "seed": 2,
}
"""More queries than a word of flags has bits."""

JOINED = {
    Workload.JOIN: WIDE | {"workload": "join", "keys": 300},
    Workload.COMPLEX: WIDE | {"workload": "complex", "keys": 1_500},
}


def by_definition(query: Query, trial: Trial) -> list[tuple[Any, ...]]:
    """The closed windows of a join by their definition: per window and key, everything with everything."""
    assert not isinstance(query, AggregationQuery)
    sides = [windows(trial, *side, query) for side in zip(query.streams, query.predicates, strict=True)]
    rows: list[tuple[Any, ...]] = []
    for end, key in set.intersection(*(set(side) for side in sides)):
        joined = list(product(*(side[end, key] for side in sides)))
        if isinstance(query, ComplexQuery):
            rows.append((end, key, sum(tuples[query.summed]["field1"] for tuples in joined)))
        else:
            shown = [f"field{n}" for n in query.fields]
            rows += [(end, key, left[shown[0]], right[shown[1]]) for left, right in joined]
    return [row for row in rows if row[0] <= trial.last_closed_us()]


def windows(
    trial: Trial, stream: str, predicate: Predicate, query: Query
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """A stream's matching tuples by window end and key."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    size_us, slide_us = query.range_s * 1_000_000, query.slide_s * 1_000_000
    field, name, value = predicate
    for number in range(trial.warm_up + trial.files):
        table = trial.table(number, stream)
        table = table.set_column(6, "ts", table["ts"].cast("int64"))
        for row in table.filter(COMPARE[name](pc.field(f"field{field}"), value)).to_pylist():
            last = row["ts"] // slide_us * slide_us
            for start in range(last, row["ts"] - size_us, -slide_us):
                found[start + size_us, row["key"]].append(row)
    return found


COMPARE = {"=": operator.eq, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
