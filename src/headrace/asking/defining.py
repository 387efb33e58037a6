"""Definitions of streams: from names, Spark DDL and durations to a `Stream`, or an error that says what is wrong."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headrace import sql
from headrace.engine.errors import spark_reason
from headrace.engine.spark import active
from headrace.model.errors import CatalogError
from headrace.model.query import Stream, StreamName
from headrace.model.types import Column, Kind, SqlType
from headrace.options import Duration

DEFAULT_BOUND = "default"
"""Stands for the bound that streams of its kind have."""

SOURCE_BOUND = "1 hour"
"""How far ahead of the clock a source's tuple may move the watermark, unless the stream says otherwise."""

ZONELESS_BOUND = "1 day"
"""The same where event times have no zone: clocks on walls differ by up to 14 hours from UTC."""


def define_stream(
    spark: SparkSession,
    name: str,
    schema: str,
    event_time: str,
    watermark: Duration,
    max_ahead: Duration | None = None,
) -> Stream:
    """A stream from what a person wrote; Spark reads the DDL. Refuses what epochs could not run.

    `max_ahead` is DEFAULT_BOUND for the bound that sources have.
    """
    sql.check_name(name, "stream")
    if not isinstance(event_time, str):
        raise CatalogError(
            "NO_EVENT_TIME", f"stream `{name}` has no event time", hint="name a TIMESTAMP column"
        )
    sql.check_text(schema)
    try:
        with active(spark):
            parsed = StructType.fromDDL(schema)
        fields = parsed.fields if isinstance(parsed, StructType) else []
    except Exception as error:
        raise CatalogError(
            "BAD_SCHEMA",
            f"the schema of stream `{name}` is not Spark DDL",
            detail=spark_reason(error),
            hint="write it as 'userID BIGINT, price DOUBLE, ts TIMESTAMP'",
        ) from None
    columns = tuple(Column(f.name, SqlType(f.dataType.simpleString())) for f in fields)
    found = [column for column in columns if column.name.lower() == event_time.lower()]
    if not found:
        raise CatalogError(
            "NO_EVENT_TIME",
            f"stream `{name}` has no column `{event_time}` to take its event time from",
            hint="name a TIMESTAMP column of its schema",
        )
    if found[0].type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        raise CatalogError(
            "EVENT_TIME_TYPE",
            f"the event time `{found[0].name}` of stream `{name}` is {found[0].type.name.upper()}",
            hint="it must be TIMESTAMP or TIMESTAMP_NTZ",
        )
    delay = sql.parse_duration(watermark)
    if delay < 0:
        raise CatalogError("BAD_WATERMARK", f"the watermark of stream `{name}` is negative")
    if max_ahead == DEFAULT_BOUND:
        max_ahead = ZONELESS_BOUND if found[0].type.kind is Kind.TIMESTAMP_NTZ else SOURCE_BOUND
    ahead = None if max_ahead is None else sql.parse_duration(max_ahead)
    if ahead is not None and ahead < 0:
        raise CatalogError(
            "BAD_WATERMARK", f"max_ahead of stream `{name}` is negative", hint="use zero or more"
        )
    return Stream(StreamName(name), columns, found[0].name, delay, ahead)
