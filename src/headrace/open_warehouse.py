"""A warehouse from its opening to its closing: what a session works with, whoever asks it for something."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from headrace.catalog.queries import QueryEntry
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.query import Stream
from headrace.options import Options
from headrace.recovering import recover, streams_by_name
from headrace.running.run import Running, session_closed
from headrace.sparks import SparkSessions
from headrace.storage.interrupts import uninterrupted
from headrace.storage.warehouse import Warehouse


class OpenWarehouse:
    """What was put together when a warehouse was opened. It is let go with `close()`, or at the end of a `with` block.

    A warehouse that is opened for writing is locked until then. Spark is started when somebody asks for it.
    """

    def __init__(self, path: str | Path, options: Options | None = None) -> None:
        """Use `headrace.open`, which documents the options."""
        options = options or Options()
        self._pid = os.getpid()
        self._warehouse = Warehouse(path, read_only=options.read_only)
        if not options.read_only:
            self._warehouse.acquire()
        self._sparks = SparkSessions(options.spark, options.master, options.config)
        self._closed = self._released = False
        try:
            found = recover(self._warehouse, self._sparks, options)
        except BaseException:
            self._sparks.stop()
            self._warehouse.release()
            raise
        self._catalog, self._arrivals, self._sealer = found.catalog, found.arrivals, found.sealer
        self._delivered, self._counts, self._checkup = found.delivered, found.counts, found.checkup
        self._running, self._events = found.running, found.events

    @property
    def spark(self) -> SparkSession:
        """The SparkSession in use."""
        return self._sparks.main

    @property
    def _reader(self) -> SparkSession:
        return self._sparks.reader

    @property
    def _auditor(self) -> SparkSession:
        return self._sparks.auditor

    def _streams_by_name(self, entry: QueryEntry) -> dict[str, Stream]:
        return streams_by_name(self._catalog, entry)

    def _check_open(self) -> None:
        if self._closed:
            raise session_closed()

    def _runs(self) -> Running:
        """What only a session that may write has."""
        self._check_open()
        if self._running is None:
            raise EngineError(
                "READ_ONLY", "this session was opened to read", hint="open the warehouse without read_only"
            )
        return self._running

    def close(self) -> None:
        """Stop, keep everything that was asked for, and let the warehouse go. Harmless when closed.

        Epochs under way have some seconds to end; then they are cancelled, and run again after opening.
        In a forked child it does nothing: the session, its lock and its Spark are the parent's.
        """
        if self._released or self._pid != os.getpid():
            return
        self._closed = True
        try:
            if self._running is not None:
                self._running.close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        with uninterrupted():
            try:
                if not self._warehouse.read_only:
                    self._catalog.close()
            finally:
                self._warehouse.release()
                self._released = True
                self._sparks.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except HeadraceError:
            if error is None:
                raise
