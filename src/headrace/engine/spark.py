"""Spark sessions: one that is ours when none is given, and a child session set up for epoch jobs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.log.level": "FATAL",
    "spark.ui.showConsoleProgress": "false",
}

EPOCH_JOBS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # epoch jobs are two short stages of known width: re-planning between them only costs time
    "spark.sql.adaptive.enabled": "false",
    # past 8 kB the JIT leaves a generated method to the interpreter; let Spark split it instead
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.files.openCostInBytes": "262144",
    # Parquet's bounds leave NaN out, so filters that are pushed down lose tuples that Spark's own would keep
    "spark.sql.parquet.filterPushdown": "false",
}


def start_session(master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """A session of our own; workers run this interpreter and everything binds to 127.0.0.1."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    builder = SparkSession.builder.master(master).appName("headrace")
    for key, value in {**LOCAL, **(config or {})}.items():
        builder = builder.config(key, value)
    # PySpark logs every failed query to stderr as JSON; ours carry the reason in their state
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return builder.getOrCreate()


READING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
}
"""For results: their files have bounds of the query's number only, which are safe to push filters down to."""

AUDITING = {**READING, "spark.sql.parquet.filterPushdown": EPOCH_JOBS["spark.sql.parquet.filterPushdown"]}


def child_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A child of `spark` with its own settings and temporary views; the given session is left as it is."""
    child = spark.newSession()
    for key, value in settings.items():
        child.conf.set(key, value)
    child.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    return child
