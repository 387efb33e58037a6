"""Joins as a good engineer would write them by hand: one streaming query whose batches join once for all queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, expr

from headrace.engine.spark import start_session
from headrace_bench import astream
from headrace_bench.astream_joins import ComplexQuery, JoinQuery, condition
from headrace_bench.systems.isolated import (
    CORES,
    SETTINGS,
    bytes_moved,
    raise_failure,
    size_of,
    wait_for_first_poll,
)
from headrace_bench.workload import Query

WORD = 60
"""A tuple's flags, which say the queries that it may belong to, are whole numbers of so many bits."""

STRATEGY = "shuffle_hash"
SECOND_US = 1_000_000
FIELDS = range(1, astream.FIELDS + 1)

Joined = JoinQuery | ComplexQuery


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch's tuples of one stream, stored with their flags."""

    folder: Path
    latest_us: int


Batches = dict[str, list[_Batch]]
"""By stream."""


class _Fused(ABC):
    """What joins and complex queries have in common.

    A batch has new tuples of all streams. Every tuple is stored once, as Parquet, with a flag per query: whether it
    meets the query's predicate on its stream. What windows that are still open may need stays in reach. A stream's
    watermark is its latest tuple, and time is at the least of these.
    """

    name = "fused"
    ddl = astream.DDL

    def open(self, feed: Path, work: Path, streams: Sequence[str]) -> None:
        self._spark = start_session(f"local[{CORES}]", SETTINGS)
        self._feed, self._work, self._streams = feed, work, tuple(streams)
        for folder in ("output", "state"):
            (work / folder).mkdir(parents=True)
        self._kept: Batches = {stream: [] for stream in streams}
        self._tuples, self._latest_us = dict.fromkeys(streams, 0), dict.fromkeys(streams, 0)
        self._now_us = self._done = 0

    def create(self, queries: Sequence[Query]) -> None:
        self._queries = [query for query in queries if isinstance(query, Joined)]
        self._words = range(-(-len(self._queries) // WORD))
        self._longest_us = max(query.range_s for query in self._queries) * SECOND_US
        flagged = (self._flagged(place, stream) for place, stream in enumerate(self._streams))
        writer = reduce(DataFrame.union, flagged).writeStream.foreachBatch(self._run_batch)
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

    def facts(self) -> dict[str, Any]:
        return {
            "result_rows": self._count_rows(),
            "bytes_written": size_of(self._work),
            "versions": {"spark": pyspark.__version__},
            **self._moved,
        }

    def close(self) -> None:
        self._spark.stop()

    @abstractmethod
    def rows(self, number: int) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _count_rows(self) -> int: ...

    @abstractmethod
    def _write_results(self, new: Batches, before_us: int, folder: Path) -> None:
        """Results that new tuples make with each other and with those in `_kept`; time has gone on from `before_us`."""

    @abstractmethod
    def _shown(self, place: int) -> set[int]:
        """Fields of stream number `place` that results are made of."""

    def _flagged(self, place: int, stream: str) -> DataFrame:
        """A stream's tuples with flags, and without fields that are not needed any more."""
        read = self._spark.readStream.schema(astream.DDL).parquet(str(self._feed / stream))
        shown = self._shown(place)
        fields = (name_of(n) if n in shown else f"CAST(NULL AS BIGINT) AS {name_of(n)}" for n in FIELDS)
        flags = (f"{flags_of(self._queries, place, word)} AS flags{word}" for word in self._words)
        return read.selectExpr(f"'{stream}' AS stream", "key", "unix_micros(ts) AS us", *fields, *flags)

    def _run_batch(self, batch: DataFrame, number: int) -> None:
        folder = self._work / "state" / f"{number:06}"
        batch.write.partitionBy("stream").parquet(str(folder))
        new: Batches = {stream: [] for stream in self._streams}
        for stream in self._streams:
            place = folder / f"stream={stream}"
            footers = [pq.read_metadata(path) for path in place.glob("*.parquet")]
            if footers:
                new[stream].append(_Batch(place, max(map(latest_us, footers))))
                self._tuples[stream] += sum(footer.num_rows for footer in footers)
                self._latest_us[stream] = max(self._latest_us[stream], new[stream][0].latest_us)
        before_us, self._now_us = self._now_us, min(self._latest_us.values())
        self._write_results(new, before_us, self._work / "output" / f"{number:06}")
        oldest_us = self._now_us - self._longest_us
        for stream, batches in self._kept.items():
            self._kept[stream] = [b for b in (*batches, *new[stream]) if b.latest_us > oldest_us]
        self._done = len(self._streams) * min(self._tuples.values())

    def _read(self, stream: str, batches: Sequence[_Batch], since_us: int) -> DataFrame:
        """Stored tuples that are later than `since_us` and that some query wants.

        A tuple spans `lo_us` to `hi_us`, as joined ones do.
        """
        shown = self._shown(self._streams.index(stream))
        columns = [*(name_of(n) for n in sorted(shown)), *(f"flags{w}" for w in self._words)]
        schema = ", ".join(f"{name} BIGINT" for name in ("key", "us", *columns))
        found = self._spark.read.schema(schema).parquet(*(str(batch.folder) for batch in batches))
        named = (f"{name_of(n)} AS {stream}_{name_of(n)}" for n in sorted(shown))
        flags = [f"flags{w}" for w in self._words]
        found = found.where(f"us > {since_us}").where(" OR ".join(f"{word} != 0" for word in flags))
        return found.selectExpr("key", "us AS lo_us", "us AS hi_us", *named, *flags)

    def _joined(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Tuples of both sides that some query may want together, with the queries that may."""
        own = {name: f"right_{name}" for name in right.columns if "_field" not in name}
        right = right.withColumnsRenamed(own)
        lo_us, hi_us = "least(lo_us, right_lo_us)", "greatest(hi_us, right_hi_us)"
        flags = [f"flags{w} & right_flags{w}" for w in self._words]
        wanted = " OR ".join(f"({word}) != 0" for word in flags)
        on = expr(f"key = right_key AND {hi_us} - {lo_us} < {self._longest_us} AND ({wanted})")
        fields = [name for name in (*left.columns, *right.columns) if "_field" in name]
        return left.join(right.hint(STRATEGY), on).selectExpr(
            "key",
            f"{lo_us} AS lo_us",
            f"{hi_us} AS hi_us",
            *fields,
            *(f"{word} AS flags{w}" for w, word in enumerate(flags)),
        )


class FusedJoins(_Fused):
    """Joins of two streams: new tuples meet each other and those kept of the other side, once for all queries.

    A pair is written once, with its flags and times; a query's rows are the pairs that carry its flag, once per window
    of its that has both, and are made when they are read. So the pairs of all queries are all that is written.

    100 queries over 600,000 tuples took 29 s of CPU joined by shuffled hash, 26 s by broadcast and 32 s by merge, on a
    busy machine, one run each; a broadcast has to hold all that is kept of a stream, so it is not taken.
    """

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        query = self._queries[number]
        assert isinstance(query, JoinQuery)
        found = [(table, *windows_of(query, table)) for table in self._pairs(query.columns, [number // WORD])]
        rows: list[tuple[Any, ...]] = []
        for table, first, count in found:
            chosen = np.flatnonzero(flag(table, number) & (count > 0))
            pair = np.repeat(chosen, count[chosen])
            nth = np.arange(len(pair)) - np.repeat(np.cumsum(count[chosen]) - count[chosen], count[chosen])
            ends = (first[pair] + nth) * (query.slide_s * SECOND_US) + query.range_s * SECOND_US
            columns = (table[name].take(pa.array(pair)).to_pylist() for name in query.columns)
            rows += zip(ends.tolist(), *columns, strict=True)
        return rows

    def _count_rows(self) -> int:
        counted = 0
        for table in self._pairs((), self._words):
            for number, query in enumerate(self._queries):
                _, count = windows_of(query, table)
                counted += int(np.maximum(count, 0)[flag(table, number)].sum())
        return counted

    def _pairs(self, columns: Sequence[str], words: Sequence[int]) -> Iterator[pa.Table]:
        names = ["lo_us", "hi_us", *columns, *(f"flags{word}" for word in words)]
        for path in sorted((self._work / "output").glob("*/*.parquet")):
            yield pq.read_table(path, columns=names, partitioning=None)

    def _shown(self, place: int) -> set[int]:
        return {query.fields[place] for query in self._queries if isinstance(query, JoinQuery)}

    def _write_results(self, new: Batches, before_us: int, folder: Path) -> None:
        left, right = self._streams
        since_us = before_us - self._longest_us
        all_right = [*self._kept[right], *new[right]]
        met = [(new[left], all_right), (self._kept[left], new[right])]
        pairs = [
            self._joined(self._read(left, ours, since_us), self._read(right, theirs, since_us))
            for ours, theirs in met
            if ours and theirs
        ]
        if pairs:
            reduce(DataFrame.union, pairs).write.parquet(str(folder))


class FusedComplex(_Fused):
    """Complex queries: when windows have closed, the tuples in reach are joined stream by stream, once for all queries.

    A query of n streams takes the joined tuples of the first n that carry its flag, once per closed window that has
    them all, and sums them per key. All sums of a batch are one Parquet table, with the number of their query.
    """

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        found = pq.read_table(self._work / "output", filters=[("query", "=", number)], partitioning=None)
        columns = (found[name].to_pylist() for name in ("end_us", "key", "value"))
        return list(zip(*columns, strict=True))

    def _count_rows(self) -> int:
        return sum(pq.read_metadata(p).num_rows for p in (self._work / "output").glob("*/*.parquet"))

    def _shown(self, place: int) -> set[int]:
        return {1}

    def _write_results(self, new: Batches, before_us: int, folder: Path) -> None:
        since_us = before_us - self._longest_us
        reach = {s: [*self._kept[s], *new[s]] for s in self._streams}
        if self._now_us // SECOND_US == before_us // SECOND_US or not all(reach.values()):
            return
        first, *others = self._streams
        joined = self._read(first, reach[first], since_us)
        levels, sums = [], []
        for size, stream in enumerate(others, 2):
            joined = self._joined(joined, self._read(stream, reach[stream], since_us)).persist()
            levels.append(joined)
            if asked := [(n, q) for n, q in enumerate(self._queries) if len(q.streams) == size]:
                sums.append(self._sums(joined, asked, before_us))
        try:
            reduce(DataFrame.union, sums).write.parquet(str(folder))
        finally:
            for level in levels:
                level.unpersist()

    def _sums(self, joined: DataFrame, asked: Sequence[tuple[int, Joined]], before_us: int) -> DataFrame:
        """Sums of the queries that want exactly these streams, over the windows that have closed since `before_us`."""
        rows = [
            (n, n // WORD, 1 << n % WORD, q.range_s * SECOND_US, q.slide_s * SECOND_US, q.summed)
            for n, q in asked
            if isinstance(q, ComplexQuery)
        ]
        schema = "query INT, word INT, bit BIGINT, range_us BIGINT, slide_us BIGINT, summed INT"
        queries = broadcast(self._spark.createDataFrame(rows, schema))
        flags = " ".join(f"WHEN {w} THEN flags{w}" for w in self._words)
        fields = [name for name in joined.columns if "_field" in name]
        value = " ".join(f"WHEN {place} THEN {name}" for place, name in enumerate(fields))
        matched = joined.join(queries, expr(f"((CASE word {flags} END) & bit) != 0"))
        first = f"(greatest(hi_us, {before_us}) - range_us) div slide_us + 1"
        last = f"least(lo_us div slide_us, ({self._now_us} - range_us) div slide_us)"
        windows = matched.selectExpr(
            "query",
            "key",
            "range_us",
            "slide_us",
            f"CASE summed {value} END AS value",
            f"{first} AS first",
            f"{last} AS last",
        )
        windows = windows.where("first <= last").selectExpr("*", "explode(sequence(first, last)) AS nth")
        windows = windows.withColumn("end_us", expr("nth * slide_us + range_us"))
        return windows.groupBy("query", "end_us", "key").agg(expr("sum(value) AS value"))


def name_of(field: int) -> str:
    return f"field{field}"


def flags_of(queries: Sequence[Joined], place: int, word: int) -> str:
    """A word of a tuple's flags: one bit per query that reads the stream and whose predicate the tuple meets.

    >>> flags_of([JoinQuery(((3, ">", 5), (1, "<", 7)), 10, 5)], 1, 0)
    'shiftleft(CAST(field1 < 7 AS BIGINT), 0)'
    """
    bits = (
        f"shiftleft(CAST({condition(query.predicates[place])} AS BIGINT), {bit})"
        for bit, query in enumerate(queries[word * WORD : (word + 1) * WORD])
        if place < len(query.predicates)
    )
    return " | ".join(bits) or "0L"


def flag(table: pa.Table, number: int) -> np.ndarray:
    """Which rows carry a query's flag."""
    word = table[f"flags{number // WORD}"].to_numpy()
    carried: np.ndarray = (word >> np.int64(number % WORD)) & 1 == 1
    return carried


def windows_of(query: Joined, pairs: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """For each pair the number of the first window that has both, counted in slides since 1970, and how many do.

    >>> pairs = pa.table({"lo_us": [6_000_000], "hi_us": [9_500_000]})
    >>> [found.tolist() for found in windows_of(JoinQuery((), 10, 5), pairs)]
    [[0], [2]]
    """
    range_us, slide_us = query.range_s * SECOND_US, query.slide_s * SECOND_US
    first = (pairs["hi_us"].to_numpy() - range_us) // slide_us + 1
    return first, pairs["lo_us"].to_numpy() // slide_us - first + 1


def latest_us(footer: pq.FileMetaData) -> int:
    """The latest time in a file of stored tuples: its second column's."""
    groups = (footer.row_group(i) for i in range(footer.num_row_groups))
    return max((group.column(1).statistics.max for group in groups), default=0)
