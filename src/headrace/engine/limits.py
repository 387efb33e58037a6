"""Time limits for what runs in Spark: whatever a block is waiting for is cancelled when its time is up."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

CANCEL_EVERY = 0.5
GRACE_SECONDS = 10.0
"""A job that was cancelled ends by then, unless the driver itself is busy: with folding a constant, say."""


class Watch:
    """A block with a time limit, for jobs of one job group in this thread; `seconds` None: no limit.

    When time is up, `expired` is set and the jobs are cancelled, so that the block raises Spark's exception. A block
    that waits for Spark's driver rather than for a job is cut off from it; Spark then goes on by itself, for nothing.
    """

    def __init__(self, spark: SparkSession, job_group: str, seconds: float | None) -> None:
        self._context, self._job_group, self.seconds = spark.sparkContext, job_group, seconds
        self._done = threading.Event()
        self._timer: threading.Timer | None = None
        self._connection: object = None
        self.expired = False

    def __enter__(self) -> Watch:
        if self.seconds is not None:
            self._connection = self._context._gateway._gateway_client.get_thread_connection()  # type: ignore[union-attr]
            self._timer = threading.Timer(self.seconds, self._expire)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        self.expired = True
        for _ in range(int(GRACE_SECONDS / CANCEL_EVERY)):
            with suppress(Exception):  # again and again: the next job of the block is to end, too
                self._context.cancelJobGroup(self._job_group)
            if self._done.wait(CANCEL_EVERY):
                return
        with suppress(Exception):
            connection: Any = self._connection
            connection.initiated_from_client = False  # else py4j would ask the same again
            connection.socket.shutdown(socket.SHUT_RDWR)
