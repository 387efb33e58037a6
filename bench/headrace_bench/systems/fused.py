"""What a good engineer would write by hand: one streaming query whose batches serve all queries in a few Spark jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from headrace.engine.spark import start_session
from headrace_bench import astream
from headrace_bench.astream import AggregationQuery
from headrace_bench.predicates import PredicateQuery
from headrace_bench.systems.isolated import (
    CORES,
    SETTINGS,
    bytes_moved,
    raise_failure,
    size_of,
    wait_for_first_poll,
)

CHUNK = 50

OneStream = AggregationQuery | PredicateQuery

Chunk = Sequence[tuple[int, OneStream]]
"""Queries and their numbers that one Spark job computes."""

MERGE = {"SUM": "sum", "COUNT": "sum", "AVG": "sum", "MIN": "min", "MAX": "max"}
"""How partial results come together, in Arrow's words."""

BEFORE_ALL_S = -(2**40)
SECOND_US = 1_000_000


class Fused:
    """Every batch is aggregated once per `CHUNK` queries, to one conditional aggregate per query, slice and key.

    Slices are as long as all windows allow. The driver keeps those that open windows need as Arrow tables (and on disk,
    as a job that has to restart would), puts together the windows that the watermark has closed, and writes them as one
    Parquet file per batch.

    This was the fastest form that was found. Slower ones: the batch persisted first, CASE in place of FILTER, chunks of
    25 or 100 queries, and an aggregation per query over its slices or windows, as a union or as jobs of threads.
    """

    name = "fused"
    ddl = astream.DDL

    def open(self, feed: Path, work: Path, streams: Sequence[str]) -> None:
        (stream,) = streams
        self._spark = start_session(f"local[{CORES}]", SETTINGS)
        self._stream = self._spark.readStream.schema(self.ddl).parquet(str(feed / stream))
        self._work = work
        for folder in ("output", "state"):
            (work / folder).mkdir(parents=True)
        self._watermark_s = BEFORE_ALL_S
        self._done = self._result_rows = 0

    def create(self, queries: Sequence[OneStream]) -> None:
        # queries with the same window are neighbours, so that few chunks have to put that window together
        ordered = sorted(enumerate(queries), key=lambda numbered: window_of(numbered[1]))
        self._chunks = [ordered[i : i + CHUNK] for i in range(0, len(ordered), CHUNK)]
        self._slice_s = math.gcd(*(length for query in queries for length in window_of(query)))
        self._longest_s = max(query.range_s for query in queries)
        self._open = [pa.table({}) for _ in self._chunks]
        writer = self._stream.select(*columns_of(queries)).writeStream.foreachBatch(self._run_batch)
        self._query = writer.option("checkpointLocation", str(self._work / "checkpoint")).start()
        wait_for_first_poll(self._query)

    def done(self) -> int:
        raise_failure(self._query)
        return self._done

    def stop(self) -> None:
        self._query.processAllAvailable()
        raise_failure(self._query)
        self._query.stop()
        self._moved = bytes_moved(self._spark)

    def rows(self, number: int) -> list[tuple[int, int, Any]]:
        found = pq.read_table(self._work / "output", filters=[("query", "=", number)])
        columns = (found[name].to_pylist() for name in ("end_s", "key", "value", "mean"))
        return [
            (end_s * SECOND_US, key, mean if value is None else value)
            for end_s, key, value, mean in zip(*columns, strict=True)
        ]

    def facts(self) -> dict[str, Any]:
        return {
            "result_rows": self._result_rows,
            "bytes_written": size_of(self._work),
            "versions": {"spark": pyspark.__version__},
            **self._moved,
        }

    def close(self) -> None:
        self._spark.stop()

    def _run_batch(self, batch: DataFrame, number: int) -> None:
        slices = [self._slices(batch, chunk) for chunk in self._chunks]
        tuples, latest_us = pc.sum(slices[0]["tuples"]).as_py(), pc.max(slices[0]["latest_us"]).as_py()
        before_s, self._watermark_s = self._watermark_s, max(self._watermark_s, latest_us // SECOND_US)
        self._open = [
            pa.concat_tables([old, new]) if old.num_rows else new
            for old, new in zip(self._open, slices, strict=True)
        ]
        results = [
            rows
            for chunk, table in zip(self._chunks, self._open, strict=True)
            for rows in closed_windows(chunk, table, before_s, self._watermark_s)
        ]
        if results:
            pq.write_table(pa.concat_tables(results), self._work / "output" / f"{number:06}.parquet")
        self._open = [self._needed(table) for table in self._open]
        for i, table in enumerate(self._open):
            pq.write_table(table, self._work / "state" / f"{number:06}-{i}.parquet")
        self._result_rows += sum(rows.num_rows for rows in results)
        self._done += tuples

    def _slices(self, batch: DataFrame, chunk: Chunk) -> pa.Table:
        slice_s = f"unix_seconds(ts) div {self._slice_s} * {self._slice_s} AS slice_s"
        seen = ("count(*) AS tuples", "max(unix_micros(ts)) AS latest_us")
        asked = (partial for numbered in chunk for partial in partials(*numbered))
        return batch.groupBy(expr(slice_s), "key").agg(*map(expr, (*seen, *asked))).toArrow()

    def _needed(self, table: pa.Table) -> pa.Table:
        """Slices in which a window that is still open may begin."""
        return table.filter(pc.field("slice_s") > self._watermark_s - self._longest_s)


def window_of(query: OneStream) -> tuple[int, int]:
    return query.range_s, query.slide_s


def columns_of(queries: Sequence[OneStream]) -> list[str]:
    """What any of the queries reads.

    >>> columns_of([AggregationQuery("SUM", 1, ((4, ">", 7),), 10, 5)])
    ['key', 'ts', 'field1', 'field4']
    """
    return ["key", astream.EVENT_TIME, *sorted({column for query in queries for column in query.reads})]


def partials(number: int, query: OneStream) -> list[str]:
    """What a batch has to compute for a query; an average needs its sum and its count.

    >>> partials(3, AggregationQuery("AVG", 1, ((4, ">", 7),), 10, 5))
    ['sum(field1) FILTER (WHERE field4 > 7) AS v3', 'count(field1) FILTER (WHERE field4 > 7) AS n3']
    """
    argument, condition = query.argument, f"FILTER (WHERE {query.where})"
    if query.aggregate == "AVG":
        return [f"sum({argument}) {condition} AS v{number}", f"count({argument}) {condition} AS n{number}"]
    return [f"{query.aggregate.lower()}({argument}) {condition} AS v{number}"]


def closed_windows(chunk: Chunk, slices: pa.Table, after_s: int, until_s: int) -> Iterator[pa.Table]:
    """Rows of the chunk's windows that end after `after_s` and not after `until_s`."""
    for window in sorted({window_of(query) for _, query in chunk}):
        members = [(number, query) for number, query in chunk if window_of(query) == window]
        merges = [
            (name, MERGE[query.aggregate] if name.startswith("v") else "sum")
            for number, query in members
            for name in (f"v{number}", f"n{number}")
            if name in slices.column_names
        ]
        due = spread(
            slices.select(["slice_s", "key", *(name for name, _ in merges)]), window, after_s, until_s
        )
        if not due:
            continue
        merged = pa.concat_tables(due).group_by(["end_s", "key"]).aggregate(merges)
        for number, query in members:
            yield result_rows(number, query, merged)


def spread(slices: pa.Table, window: tuple[int, int], after_s: int, until_s: int) -> list[pa.Table]:
    """The slices once for each due window that they lie in, with its end."""
    (range_s, slide_s), start_s, found = window, slices["slice_s"].to_numpy(), []
    for back in range(math.ceil(range_s / slide_s)):
        end_s = (start_s // slide_s - back) * slide_s + range_s
        due = (start_s < end_s) & (end_s > after_s) & (end_s <= until_s)
        if due.any():
            found.append(slices.filter(pa.array(due)).append_column("end_s", pa.array(end_s[due])))
    return found


def result_rows(number: int, query: OneStream, merged: pa.Table) -> pa.Table:
    """A query's rows among those of its window: where no tuple has matched, there is none."""
    value = merged[f"v{number}_{MERGE[query.aggregate]}"]
    values, means = value, pa.nulls(len(value), pa.float64())
    if query.aggregate == "AVG":
        count = merged[f"n{number}_sum"]
        values, means = pa.nulls(len(value), pa.int64()), pc.divide(pc.cast(value, pa.float64()), count)
    matched = pc.greater(value, 0) if query.aggregate == "COUNT" else pc.is_valid(value)
    columns = {
        "query": pa.array(np.full(len(value), number, np.int32)),
        "end_s": merged["end_s"],
        "key": merged["key"],
        "value": values,
        "mean": means,
    }
    return pa.table(columns).filter(matched)
