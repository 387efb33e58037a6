"""Headrace itself: all queries as one shared job per epoch over the Parquet files, adopted where they are."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyspark

import headrace
from headrace import sources
from headrace.engine.records import Metrics
from headrace.engine.spark import start_session
from headrace.looking.answers import ways_of
from headrace.model.ways import FamilyWay, Finding
from headrace_bench import astream
from headrace_bench.astream_joins import text_of
from headrace_bench.trial import PHASES
from headrace_bench.workload import Query

INTERVAL = "100 milliseconds"
HEALTH_S = 1.0
"""So often it is asked whether all is well."""
COUNTED = 200
"""So many queries are asked how many tuples they accepted."""


class Shared:
    """Query texts alternate between CQL and Spark's form, as people would write them."""

    name = "headrace"
    ddl = astream.DDL

    def open(self, feed: Path, work: Path, streams: Sequence[str]) -> None:
        self._live: dict[int, str] = {}
        self._asked = time.monotonic()
        self._spark = start_session("local[2]")
        self._hr = headrace.open(work / "warehouse", spark=self._spark, progress=False)
        for stream in streams:
            files = sources.files(feed / stream, "parquet")
            self._hr.create_stream(stream, self.ddl, event_time=astream.EVENT_TIME, source=files)
        self._hr.warm_up()

    def create(self, queries: Sequence[Query]) -> None:
        for number, query in enumerate(queries):
            self._hr.create_query(text_of(query, number), name=f"q{number}")
        self._columns = [query.columns for query in queries]
        self._hr.run_available()
        self._hr.start(INTERVAL)

    def done(self) -> int:
        if (
            time.monotonic() >= self._asked + HEALTH_S
        ):  # not each time: it goes over all queries, and its time counts
            self._asked = time.monotonic()
            health = self._hr.health()
            if not health.ok:  # a measurement does not wait for trouble to pass
                raise RuntimeError(str(health))
        return self._hr.metrics().input_rows

    def spent(self, since: float) -> tuple[list[tuple[int, float]], dict[str, float]]:
        costs = [epoch.cost for epoch in self._hr.recent_epochs() if epoch.committed_at > since]
        epochs = [(cost.input_rows, round(cost.seconds, 4)) for cost in costs if cost.input_rows]
        return epochs, tasks_spent(costs)

    def request(self, create: Iterable[tuple[int, Query]], drop: Iterable[int]) -> None:
        for number, query in create:
            self._live[number] = self._hr.create_query(text_of(query, number)).name
        for number in drop:
            self._hr.drop_query(self._live.pop(number))

    def acknowledged(self) -> int:
        return self._hr.metrics().query_changes

    def delivered(self) -> list[tuple[float, int]]:
        epochs = self._hr.recent_epochs()
        return [(epoch.committed_at, epoch.newest_end_us) for epoch in epochs if epoch.newest_end_us]

    def stop(self) -> None:
        self._hr.stop()
        self._hr.run_available()

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        query = self._hr.query(f"q{number}")
        if number == 0:  # whoever else is measured, plain Spark is asked
            verdict = query.audit()
            if not verdict.ok:
                raise AssertionError(f"q{number} differs from plain Spark: {verdict}")
        found = query.results().toArrow()
        end = "window_end" if "window_end" in found.column_names else "end"
        columns = [found[end].cast("int64"), *(found[name] for name in self._columns[number])]
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    def facts(self) -> dict[str, Any]:
        found = [epoch.cost for epoch in self._hr.recent_epochs()]
        return {
            "result_rows": self._hr.metrics().result_rows,
            "matches": self._matches(),
            "visited": visited(ways_of(self._hr, "main")),
            "bytes_read": sum(m.bytes_read for m in found),
            "bytes_shuffled": sum(m.bytes_shuffled for m in found),
            "bytes_written": sum(m.bytes_written for m in found),
            "phases_s": {
                name: round(sum(getattr(m, f"{name}_seconds") for m in found), 3)
                for name in ("plan", "map", "reduce", "fallback")
            },
            "versions": {"headrace": headrace.__version__, "spark": pyspark.__version__},
        }

    def _matches(self) -> int:
        """How many tuples all queries accepted together, by those of some of them."""
        asked = range(0, len(self._columns), max(1, len(self._columns) // COUNTED))
        costs = [self._hr.query(f"q{number}").metrics().cost for number in asked]
        found = [cost.matched for cost in costs if cost is not None]
        return round(sum(found) * len(self._columns) / max(len(found), 1))

    def close(self) -> None:
        self._hr.close()
        self._spark.stop()


def tasks_spent(costs: Sequence[Metrics]) -> dict[str, float]:
    """The CPU seconds of the tasks of epochs by `PHASES`.

    >>> tasks_spent([Metrics(map_cpu=3.0, read_cpu=2.0, reduce_cpu=5.0, closing_cpu=1.0, finish_cpu=0.5)])
    {'reading': 2.0, 'matching': 5.0, 'closing': 1.0, 'writing': 0.5}
    """
    reading, closing = sum(cost.read_cpu for cost in costs), sum(cost.closing_cpu for cost in costs)
    matching = sum(cost.map_cpu + cost.reduce_cpu for cost in costs) - reading - closing
    writing = sum(cost.finish_cpu for cost in costs)
    return {
        phase: round(seconds, 3)
        for phase, seconds in zip(PHASES, (reading, matching, closing, writing), strict=True)
    }


def visited(ways: Iterable[FamilyWay]) -> float:
    """How many matches of an event were gone through one by one, by what tasks told of each family. Tuples that find
    their queries by cells go through none.

    >>> found, few = Finding.CANDIDATES, Finding.CELLS
    >>> visited([FamilyWay("w", ("a",), 9, found, tuples=3, matches=6), FamilyWay("w", ("a",), 9, few, tuples=1)])
    1.5
    """
    found: dict[object, tuple[int, float]] = {}
    for way in ways:
        family = (way.operator, way.operands, way.filters)
        tuples, matches = found.get(family, (0, 0.0))
        more = 0.0 if way.finding in (Finding.CELLS, Finding.SPARSE_CELLS) else way.matches
        found[family] = tuples + way.tuples, matches + more
    return sum(matches / max(tuples, 1) for tuples, matches in found.values())
