"""The Spark sessions behind one open warehouse: the one in use, and children of it with settings of their own."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cached_property

from pyspark.sql import SparkSession

from headrace import sql
from headrace.engine.analyzer import SparkAnalyzer
from headrace.engine.errors import given_spark_gone
from headrace.engine.spark import (
    AUDITING,
    EPOCH_JOBS,
    READING,
    child_session,
    is_gone,
    running_session,
    start_session,
)
from headrace.engine.workers import refuse_connect
from headrace.model.grouping import MAIN


class SparkSessions:
    """Each session is found or started when it is first asked for: many a look at a warehouse needs no Spark."""

    def __init__(self, given: SparkSession | None, master: str, config: dict[str, str] | None) -> None:
        self._given, self._master, self._config = given, master, config
        self._ours = False
        self.lock = threading.RLock()
        self.auditing = threading.RLock()
        """Audits read all of a query's tuples; nobody else waits for them."""

    @cached_property
    def main(self) -> SparkSession:
        """The session that was given; else the running one; else one that is started, and ended by `stop`."""
        with self.lock:
            found = self._given or running_session()
            refuse_connect(found)
            if self._given is not None and is_gone(self._given):
                raise given_spark_gone()
            self._ours = found is None
            return found or start_session(self._master, self._config)

    @property
    def started(self) -> SparkSession | None:
        """The session in use, when it has been asked for."""
        return vars(self).get("main")

    @cached_property
    def jobs(self) -> SparkSession:
        """The session that epochs run in."""
        return child_session(self.main, EPOCH_JOBS)

    def jobs_of(self, group: str) -> SparkSession:
        """The session that epochs of a group run in: temporary views of one group are not seen by another."""
        return self.jobs if group == MAIN else child_session(self.main, EPOCH_JOBS)

    @cached_property
    def reader(self) -> SparkSession:
        """The session that results are read in."""
        return child_session(self.main, READING)

    @cached_property
    def auditor(self) -> SparkSession:
        """The session that the log is read in when results are compared with it."""
        return child_session(self.main, AUDITING)

    @cached_property
    def shapes(self) -> sql.ShapeCache:
        """What Spark says of the types and names of queries, asked once per shape."""
        return sql.ShapeCache(SparkAnalyzer(self.reader))

    def stop(self) -> None:
        """End the session that was started here, if one was."""
        if self._ours and "main" in vars(self):
            with suppress(Exception):
                self.main.stop()
