"""Result files as they are stored, read by Spark. Every reader of results comes by here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.engine.records import ResultFile
from headrace.log.sources import literal_path

_READING = {"parquet.filter.dictionary.enabled": "false"}
"""Filters may not look into dictionaries. Files that older versions wrote are compressed with LZ4, and Spark fails to
decompress their dictionary pages for a filter, though not for the rows (parquet-java issue 3478).
"""


def read_results(spark: SparkSession, root: Path, ddl: str, files: Iterable[ResultFile]) -> DataFrame:
    """The rows of result files, with the columns of `ddl`."""
    reader = spark.read.schema(ddl).options(**_READING)
    return reader.parquet(*(literal_path(str(root / file.path)) for file in files))
