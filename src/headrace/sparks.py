"""The Spark sessions behind one open warehouse: the one in use, and children of it with settings of their own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from weakref import WeakSet

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
from headrace.engine.udfs import register_udf
from headrace.engine.workers import refuse_connect
from headrace.model.grouping import MAIN
from headrace.model.types import SqlType


class SparkSessions:
    """Each session is found or started when it is first asked for: many a look at a warehouse needs no Spark."""

    def __init__(self, given: SparkSession | None, master: str, config: dict[str, str] | None) -> None:
        self._given, self._master, self._config = given, master, config
        self._ours = False
        self._functions: dict[str, tuple[SqlType, bytes]] = {}
        self._children: WeakSet[SparkSession] = WeakSet()
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
        return self._child(EPOCH_JOBS)

    def jobs_of(self, group: str) -> SparkSession:
        """The session that epochs of a group run in: temporary views of one group are not seen by another."""
        return self.jobs if group == MAIN else self._child(EPOCH_JOBS)

    @cached_property
    def reader(self) -> SparkSession:
        """The session that results are read in."""
        return self._child(READING)

    @cached_property
    def auditor(self) -> SparkSession:
        """The session that the log is read in when results are compared with it."""
        return self._child(AUDITING)

    @cached_property
    def shapes(self) -> sql.ShapeCache:
        """What Spark says of the types and names of queries, asked once per shape."""
        analyzer = SparkAnalyzer(self.reader)
        self._equip(analyzer.spark)
        shapes = sql.ShapeCache(analyzer)
        for name, (type_, _) in self._functions.items():
            shapes.register(name, type_)
        return shapes

    def register(self, name: str, type_: SqlType, code: bytes) -> None:
        """Let texts call a function, which is `pickled`, in all sessions that there are and that will be."""
        with self.lock:
            self._functions[name] = (type_, code)
            for child in list(self._children):
                register_udf(child, name, type_, code)
            if "shapes" in vars(self):
                self.shapes.register(name, type_)

    def is_built_in(self, name: str) -> bool:
        """Whether Spark has a function of that name itself."""
        return name not in self._functions and self.reader.catalog.functionExists(name)

    def built_in(self) -> list[str]:
        """The names of Spark's functions."""
        return [function.name for function in self.reader.catalog.listFunctions()]

    def _child(self, settings: Mapping[str, str]) -> SparkSession:
        with self.lock:
            child = child_session(self.main, settings)
            self._equip(child)
            return child

    def _equip(self, child: SparkSession) -> None:
        for name, (type_, code) in self._functions.items():
            register_udf(child, name, type_, code)
        self._children.add(child)

    def stop(self) -> None:
        """End the session that was started here, if one was."""
        if self._ours and "main" in vars(self):
            with suppress(Exception):
                self.main.stop()
