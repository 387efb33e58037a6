"""Spark sessions: one that is ours when none is given, and a child session set up for epoch jobs."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

from headrace.engine.beside import KEEP_MEMORY

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    **{f"spark.executorEnv.{name}": os.environ.get(name, value) for name, value in KEEP_MEMORY.items()},
    # over TCP each answer of a Python worker waits 40 ms for an acknowledgement
    "spark.python.unix.domain.socket.enabled": "true",
    # what is shuffled is packed already, and stays on this machine
    "spark.shuffle.compress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.log.level": "FATAL",
    "spark.ui.showConsoleProgress": "false",
}

MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Spark would put settings and environment variables in place of `${...}`, even inside of text constants
    "spark.sql.variable.substitute": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.timeType.enabled": "true",
    # Spark computes what occurs twice in advance, and takes `b` of `a AND b` for something that is always computed:
    # `n <> 0 AND (1 / n > 2 OR 1 / n < 1)`, or two queries that guard `1 / n` like this, would fail on 0
    "spark.sql.subexpressionElimination.enabled": "false",
}
"""What a query means must not depend on the session that somebody brings."""

EPOCH_JOBS = {
    **MEANING,
    # epoch jobs are two short stages of known width: re-planning between them only costs time
    "spark.sql.adaptive.enabled": "false",
    # past 8 kB the JIT leaves a generated method to the interpreter; let Spark split it instead
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.files.openCostInBytes": "262144",
    # Parquet's bounds leave NaN out, so filters that are pushed down lose tuples that Spark's own would keep
    "spark.sql.parquet.filterPushdown": "false",
}


_PARENTS: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()
"""The session that somebody brought, by the children that were made of it."""


def forget_dead() -> None:
    """Let go of a JVM that has died. PySpark would ask it for ever; after this it starts another one when asked to."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    with suppress(Exception):
        gateway.jvm.java.lang.System.nanoTime()
        return
    context = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None
        with suppress(Exception):
            context.stop()  # ends what it has in this process
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = SQLContext._instantiatedContext = None


def running_session() -> SparkSession | None:
    """The Spark session of this process as it is, if there is one."""
    forget_dead()
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


BESIDE_THE_DRIVER = {
    # a task that runs out of memory fails; else Spark would end the process, which is the driver's too
    "spark.executor.killOnFatalError.depth": "0",
    "spark.python.daemon.module": "headrace.engine.worker_daemon",
}
"""For masters that run tasks in the driver's process, with the packages that this one has."""


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's process.

    >>> is_local("local[2]"), is_local("local"), is_local("local-cluster[2,1,1024]")
    (True, True, False)
    """
    return master == "local" or master.startswith("local[")


@cache
def _socket_folder() -> str:
    """A folder that only the owner of this process may enter, for the sockets between Spark and its Python workers:
    whoever reaches one of these needs no secret.
    """
    folder, pid = tempfile.mkdtemp(prefix="headrace-sockets-"), os.getpid()

    def remove() -> None:
        if os.getpid() == pid:  # not in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def private_settings(master: str) -> dict[str, str]:
    """Settings of a session of our own on this machine that keep other people on it out.

    Spark makes the secret itself where tasks run in the driver, and asks for one where they do not.
    """
    if not master.startswith("local"):
        return {}
    settings = {"spark.authenticate": "true", "spark.python.unix.domain.socket.dir": _socket_folder()}
    if master.startswith("local-cluster"):
        settings["spark.authenticate.secret"] = secrets.token_hex(32)
    return settings


def start_session(master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """A session of our own; workers run this interpreter and everything binds to 127.0.0.1."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    builder = SparkSession.builder.master(master).appName("headrace").config("spark.api.mode", "classic")
    beside = BESIDE_THE_DRIVER if is_local(master) else {}
    for key, value in {**LOCAL, **beside, **private_settings(master), **(config or {})}.items():
        builder = builder.config(key, value)
    # PySpark logs every failed query to stderr as JSON; ours carry the reason in their state
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    session = builder.getOrCreate()
    # when Spark dies, the server of its accumulators would print a traceback; whoever asks for rows is told anyway
    session.sparkContext._accumulatorServer.handle_error = lambda request, address: None  # type: ignore
    return session


def is_stopped(spark: SparkSession) -> bool:
    """Whether somebody called `stop()` on the session, or another one of its context. Asks nobody, so it is cheap."""
    return spark.sparkContext._jsc is None


def is_gone(spark: SparkSession) -> bool:
    """Whether there is no Spark behind a session any more: it was stopped, or its process has died."""
    context = spark.sparkContext
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception:  # nobody answers
        return True


READING = MEANING
"""For results: their files have bounds of the query's number only, which are safe to push filters down to."""

AUDITING = {**READING, "spark.sql.parquet.filterPushdown": EPOCH_JOBS["spark.sql.parquet.filterPushdown"]}


def child_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A child of `spark` with its own settings and temporary views; the given session is left as it is."""
    # `mapInArrow`, which makes no pandas frame, is built on what warns of pandas 3; in whichever thread it is called
    warnings.filterwarnings(
        "ignore",
        "PySpark does not yet fully support pandas",
        FutureWarning,
        r"pyspark\.sql\.pandas\.functions",
    )
    child = spark.newSession()
    _PARENTS[child] = _PARENTS.get(spark, spark)
    for key, value in settings.items():
        child.conf.set(key, value)
    child.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    return child


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Let Spark take the settings of `session` for what this thread parses (types in DDL, say) in the block.

    PySpark makes whichever session last created a DataFrame the active one, of the whole process; after the block that
    is no child of ours.
    """
    sessions = SparkSession._get_j_spark_session_class(session._jvm)
    before, theirs = sessions.getActiveSession(), _theirs(SparkSession._activeSession)
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
        if SparkSession._activeSession in _PARENTS:
            SparkSession._activeSession = theirs


_WIDTH = ("spark.sql.shuffle.partitions", "spark.sql.files.minPartitionNum")


@contextmanager
def width_of(spark: SparkSession, tasks: int) -> Iterator[None]:
    """Let what a session runs in the block have so many tasks at a time, as far as its files are not too large."""
    before = {name: spark.conf.get(name, None) for name in _WIDTH}
    for name in _WIDTH:
        spark.conf.set(name, str(tasks))
    try:
        yield
    finally:
        with suppress(Exception):  # Spark may have died, and that is not the news here
            for name, value in before.items():
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)


_JOB_PROPERTIES = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
    "spark.scheduler.pool",
)


@contextmanager
def jobs_of(context: SparkContext, group: str, description: str, pool: str) -> Iterator[None]:
    """Let this thread's jobs be of a group and a pool in the block; afterwards all is as it was."""
    before = {name: context.getLocalProperty(name) for name in _JOB_PROPERTIES}
    context.setLocalProperty("spark.scheduler.pool", pool)
    context.setJobGroup(group, description)
    try:
        yield
    finally:
        with suppress(Exception):  # Spark may have died, and that is not the news here
            for name, value in before.items():
                context.setLocalProperty(name, value)  # type: ignore[arg-type]


def _theirs(session: SparkSession | None) -> SparkSession | None:
    return session if session is None else _PARENTS.get(session, session)
