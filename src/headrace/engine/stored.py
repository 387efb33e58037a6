"""Result files as they are stored, read by Spark. Every reader of results comes by here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.catalog.queries import QueryEntry
from headrace.engine.records import ResultFile
from headrace.log.sources import literal_path
from headrace.model.query import Stream
from headrace.model.tables import ResultTable, SharedRows

_READING = {"parquet.filter.dictionary.enabled": "false", "datetimeRebaseMode": "CORRECTED"}
"""Filters may not look into dictionaries. Files that older versions wrote are compressed with LZ4, and Spark fails to
decompress their dictionary pages for a filter, though not for the rows (parquet-java issue 3478). Times are what they
are, whatever a session that somebody brings says of old calendars: Spark cannot convert them in the encoding that they
have.
"""


@dataclass(frozen=True, slots=True)
class ResultReader:
    """What reads the result files of a warehouse: `streams` are those of the queries that are asked about, by name."""

    spark: SparkSession
    root: Path
    streams: Mapping[str, Stream]

    def rows(self, table: ResultTable, files: Iterable[ResultFile]) -> DataFrame:
        """The rows of files of a table, as they are stored: those of all queries."""
        reader = self.spark.read.schema(table.ddl).options(**_READING)
        return reader.parquet(*(literal_path(str(self.root / file.path)) for file in files))


def shared_rows(entry: QueryEntry) -> SharedRows:
    """The rows of a query that was active, in a table whose rows have query-sets."""
    assert entry.slot is not None and entry.first_epoch is not None
    last = None if entry.last_epoch is None else int(entry.last_epoch)
    return SharedRows(entry.slot, int(entry.first_epoch), last)
