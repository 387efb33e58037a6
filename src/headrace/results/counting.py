"""How many rows a reader of each query gets.

Epochs count the rows they store. That is what a reader gets, unless HAVING leaves some out, joined rows are put into
windows or groups when they are read, or some rows have expired. Then rows are counted when somebody asks. A result file
never changes, so each is counted once: with numpy where HAVING compares whole numbers, else by one Spark job for all
new files. Joined rows are counted by Spark again when a commit has changed them.
"""

from __future__ import annotations

import operator
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog.queries import QueryEntry
from headrace.engine.delivered import Delivered
from headrace.engine.files import check_results
from headrace.engine.finish import accepted_rows
from headrace.engine.records import ResultFile
from headrace.engine.spark import active
from headrace.engine.stored import ResultReader
from headrace.model.errors import HeadraceError
from headrace.model.query import Aggregation, Join, JoinedRows, Projection, Stream
from headrace.model.tables import QUERY, table_of
from headrace.model.types import Kind
from headrace.planner.shared import query_signature
from headrace.results.direct import count_tuples
from headrace.results.joined_counts import CountedJoin, count_joined, counted_join
from headrace.results.view import query_frame

JOINS_PER_JOB = 32

_COMPARISON = re.compile(r"\(?(\w+) (=|<>|<=|>=|<|>) (-?\d{1,18})\)?")
_OPERATORS: dict[str, Callable[[NDArray[np.int64], int], NDArray[np.bool_]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class _Comparison:
    column: str
    compare: Callable[[NDArray[np.int64], int], NDArray[np.bool_]]
    value: int


@dataclass(slots=True)
class RowCounts:
    """Counts rows when asked, and remembers what it counted. Thread-safe.

    `reader` gives the Spark session to read in; it is asked only when Spark is needed.
    """

    root: Path
    delivered: Callable[[], Delivered]
    streams: Callable[[QueryEntry], dict[str, Stream]]
    reader: Callable[[], SparkSession]
    _files: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    _joined: dict[int, tuple[object, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, entries: Sequence[QueryEntry]) -> dict[int, int]:
        """The rows that a reader of each of these queries gets now, by id.

        Of a query whose files cannot be read the rows that epochs have stored: its reader will be told what is wrong.
        """
        delivered = self.delivered()
        asked = [entry for entry in entries if not _counted(entry, delivered)]
        found = {int(entry.query.id): delivered.stored_rows(entry) for entry in entries}
        with self._lock:
            windows = [entry for entry in asked if _windows_of(entry) is not None]
            joins = [entry for entry in asked if _joins(entry)]
            others = [entry for entry in asked if _windows_of(entry) is None and not _joins(entry)]
            for count, some in ((self._windows, windows), (self._joins, joins), (self._others, others)):
                try:
                    found |= count(delivered, some)
                except (HeadraceError, OSError, pa.ArrowException, PySparkException, Py4JError):
                    continue
            self._forget(delivered)
        return found

    def _forget(self, delivered: Delivered) -> None:
        live = delivered.files()
        for path in [path for path in self._files if path not in live]:
            del self._files[path]

    def _windows(self, delivered: Delivered, entries: Sequence[QueryEntry]) -> dict[int, int]:
        """Rows of windows, by the HAVING of each query."""
        slow: list[tuple[QueryEntry, Aggregation]] = []
        quick: dict[str, list[tuple[int, list[_Comparison]]]] = defaultdict(list)
        for entry in entries:
            body = _windows_of(entry)
            assert body is not None
            comparisons = _comparisons(body)
            if comparisons is None:
                slow.append((entry, body))
            else:
                for file in delivered.results(entry):
                    if int(entry.query.id) not in self._files[file.path]:
                        quick[file.path].append((int(entry.query.id), comparisons))
        for path, wanted in quick.items():
            self._files[path] |= _count(self.root / path, wanted)
        if slow:
            self._ask_spark(delivered, slow)
        return {int(entry.query.id): self._total(delivered, entry) for entry in entries}

    def _total(self, delivered: Delivered, entry: QueryEntry) -> int:
        return sum(self._files[file.path].get(int(entry.query.id), 0) for file in delivered.results(entry))

    def _ask_spark(self, delivered: Delivered, queries: list[tuple[QueryEntry, Aggregation]]) -> None:
        """One job for all files in which one of these queries was not counted yet."""
        tables: dict[tuple[str, str], dict[int, Aggregation]] = defaultdict(dict)
        files: dict[str, dict[str, ResultFile]] = defaultdict(dict)
        streams: dict[str, Stream] = {}
        for entry, body in queries:
            new = [f for f in delivered.results(entry) if int(entry.query.id) not in self._files[f.path]]
            if new:
                signature, stream = query_signature(entry.query), str(entry.query.plan.stream)
                streams |= self.streams(entry)
                tables[signature, stream][int(entry.query.id)] = body
                files[signature] |= {file.path: file for file in new}
        if not tables:
            return
        reader = ResultReader(self.reader(), self.root, streams)
        with active(reader.spark):
            frames = []
            for (signature, stream), bodies in tables.items():
                check_results(self.root, files[signature].values())
                read = list(files[signature].values())
                frames.append(accepted_rows(reader, stream, bodies, read))
            counted = reduce(DataFrame.unionAll, frames).collect()
        for (signature, _), bodies in tables.items():
            for path in files[signature]:
                self._files[path] |= dict.fromkeys(bodies, 0)
        paths = {PurePosixPath(path).name: path for some in files.values() for path in some}
        for row in counted:
            self._files[paths[row["file"]]][int(row[QUERY])] = int(row["n"])

    def _joins(self, delivered: Delivered, entries: Sequence[QueryEntry]) -> dict[int, int]:
        """Joined rows in the windows and groups that readers see."""
        quick = [found for e in entries if (found := self._counted_join(delivered, e)) is not None]
        counted = self._count_windows(delivered, quick)
        return counted | self._ask_joins(delivered, [e for e in entries if int(e.query.id) not in counted])

    def _counted_join(self, delivered: Delivered, entry: QueryEntry) -> CountedJoin | None:
        if delivered.whole_after(entry) is not None:
            return None
        return counted_join(entry, self.streams(entry), delivered.closed_until(entry))

    def _count_windows(self, delivered: Delivered, joins: Sequence[CountedJoin]) -> dict[int, int]:
        """A file whose windows have all closed for a query is counted once."""
        files: dict[str, list[CountedJoin]] = defaultdict(list)
        final: dict[tuple[str, int], bool] = {}
        totals: dict[int, int] = {}
        for join in joins:
            id_ = int(join.entry.query.id)
            totals[id_] = 0
            for file in delivered.results(join.entry):
                final[file.path, id_] = file.max_us is not None and file.max_us <= join.until_us
                if id_ in self._files[file.path]:
                    totals[id_] += self._files[file.path][id_]
                else:
                    files[file.path].append(join)
        for path, some in files.items():
            for id_, count in count_joined(self.root / path, some).items():
                totals[id_] += count
                if final[path, id_]:
                    self._files[path][id_] = count
        return totals

    def _ask_joins(self, delivered: Delivered, entries: Sequence[QueryEntry]) -> dict[int, int]:
        new: dict[int, tuple[object, QueryEntry]] = {}
        for entry in entries:
            paths = tuple(file.path for file in delivered.results(entry))
            key = (paths, delivered.closed_until(entry), delivered.whole_after(entry))
            if self._joined.get(int(entry.query.id), (None, 0))[0] != key:
                new[int(entry.query.id)] = (key, entry)
        waiting = list(new.values())
        for start in range(0, len(waiting), JOINS_PER_JOB):
            some = [entry for _, entry in waiting[start : start + JOINS_PER_JOB]]
            counts = self._count_joined(delivered, some)
            for entry in some:
                id_ = int(entry.query.id)
                self._joined[id_] = (new[id_][0], counts.get(id_, 0))
        return {int(entry.query.id): self._joined[int(entry.query.id)][1] for entry in entries}

    def _count_joined(self, delivered: Delivered, entries: Sequence[QueryEntry]) -> dict[int, int]:
        spark = self.reader()
        with active(spark):
            frames = []
            for entry in entries:
                view = delivered.view(entry)
                check_results(self.root, view.files)
                rows = query_frame(ResultReader(spark, self.root, self.streams(entry)), entry, view)
                frames.append(rows.select(F.lit(int(entry.query.id)).cast("bigint").alias(QUERY)))
            union = reduce(DataFrame.unionAll, frames)
            return {int(row[QUERY]): int(row["count"]) for row in union.groupBy(QUERY).count().collect()}

    def _others(self, delivered: Delivered, entries: Sequence[QueryEntry]) -> dict[int, int]:
        """Projections and fallbacks of which rows have expired."""
        for entry in entries:
            id_ = int(entry.query.id)
            for file in delivered.results(entry):
                if id_ not in self._files[file.path]:
                    if isinstance(entry.query.plan.body, Projection):
                        self._files[file.path][id_] = count_tuples(self.root, entry, [file])
                    else:
                        self._files[file.path] |= _count(self.root / file.path, [(id_, [])])
        return {int(entry.query.id): self._total(delivered, entry) for entry in entries}


def _windows_of(entry: QueryEntry) -> Aggregation | None:
    match entry.query.plan.body:
        case (Aggregation() as body) | Join(then=Aggregation() as body):
            return body
    return None


def _joins(entry: QueryEntry) -> bool:
    body = entry.query.plan.body
    return isinstance(body, Join) and isinstance(body.then, JoinedRows)


def _counted(entry: QueryEntry, delivered: Delivered) -> bool:
    """Whether the rows that epochs have stored are those that a reader gets."""
    if entry.first_epoch is None:
        return True
    body = _windows_of(entry)
    if _joins(entry) or (body is not None and body.having is not None):
        return False
    return delivered.expired(entry) < entry.first_epoch


def _comparisons(body: Aggregation) -> list[_Comparison] | None:
    """HAVING as comparisons that all must hold; None when it says more than that.

    >>> from headrace.model.predicate import TRUE
    >>> from headrace.model.window import Window
    >>> _comparisons(Aggregation(Window(1, 1), TRUE, (), (), (), "(a0 + 1 > 3)"))
    >>> _comparisons(Aggregation(Window(1, 1), TRUE, (), (), ()))
    []
    """
    found: list[_Comparison] = []
    kinds = {column.name: column.type.kind for column in table_of(body).values}
    text = body.having
    if text is None:
        return found
    if text.startswith("(") and text.endswith(")") and " AND " in text and text.count("(") == 1:
        text = text[1:-1]
    for part in text.split(" AND "):
        match = _COMPARISON.fullmatch(part)
        if match is None or kinds.get(match.group(1)) is not Kind.INTEGER:
            return None
        found.append(_Comparison(match.group(1), _OPERATORS[match.group(2)], int(match.group(3))))
    return found


def _count(path: Path, wanted: Sequence[tuple[int, list[_Comparison]]]) -> dict[int, int]:
    """How many rows of each query in a file pass its comparisons; a NULL passes none."""
    names = sorted({comparison.column for _, comparisons in wanted for comparison in comparisons})
    table = pq.read_table(path, columns=[QUERY, *names], memory_map=True)
    queries = table.column(QUERY).to_numpy()
    order = np.argsort(queries, kind="stable")
    queries = queries[order]
    values = {name: _integers(table.column(name), order) for name in names}
    found = {}
    for query, comparisons in wanted:
        rows = slice(*np.searchsorted(queries, (query, query + 1)))
        passed = np.ones(rows.stop - rows.start, bool)
        for comparison in comparisons:
            numbers, known = values[comparison.column]
            passed &= comparison.compare(numbers[rows], comparison.value) & known[rows]
        found[query] = int(passed.sum())
    return found


def _integers(
    column: pa.ChunkedArray, order: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(values, which of them are not NULL)."""
    known = column.is_valid().to_numpy()
    return column.fill_null(0).to_numpy().astype(np.int64)[order], known[order]
