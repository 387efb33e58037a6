"""Opening a warehouse from the command line: look before Spark starts, keep its chatter off the screen."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from headrace.cli.console import spinner
from headrace.cli.face import Opener, Served, Session
from headrace.model.errors import HeadraceError, StorageError
from headrace.service.client import connect
from headrace.storage.warehouse import Warehouse, local_directory


def check_is_warehouse(path: str) -> None:
    """Refuse what is no warehouse, or one of another version, before any Spark starts; touches nothing."""
    directory = local_directory(path)
    if not (directory / "format.json").exists():
        raise StorageError(
            "NO_WAREHOUSE",
            f"there is no warehouse at {path}",
            detail="the directory is something else" if directory.is_dir() else "there is no such directory",
            hint="name one with --warehouse DIR, or make one with `headrace run` or `headrace demo`",
        )
    Warehouse(directory, read_only=True)


@contextmanager
def reached(opener: Opener, warehouse: str, *, read_only: bool) -> Iterator[Served]:
    """Whoever runs the warehouse now, through its service; without one, a session of our own on it."""
    with spinner("Waiting for the service of this warehouse", plain=False):
        remote = connect(warehouse)
    if remote is not None:
        yield remote
        return
    with opened(opener, warehouse, read_only=read_only) as session:
        yield session


@contextmanager
def opened(opener: Opener, warehouse: str, *, read_only: bool = False) -> Iterator[Session]:
    """A session on `warehouse`, with a spinner while Spark starts; closed however the block ends.

    One that only reads needs a warehouse that exists, may be used beside a writer, and starts Spark when it must.
    """
    if read_only:
        check_is_warehouse(warehouse)
    opening = opener(warehouse, read_only=read_only)
    with entered(opening, read_only=read_only) as session:
        yield session


@contextmanager
def entered(opening: AbstractContextManager[Session], *, read_only: bool = False) -> Iterator[Session]:
    """The session of an opening, with a spinner while Spark starts; closed however the block ends."""
    with spinner("Reading the warehouse" if read_only else "Starting Spark (a few seconds)"):
        session = opening.__enter__()
    try:
        yield session
    except BaseException:
        if not opening.__exit__(*sys.exc_info()):
            raise
    else:
        opening.__exit__(None, None, None)


@contextmanager
def open_warehouse(
    warehouse: str,
    *,
    read_only: bool = False,
    partitions: int | None = None,
    backfill_tasks: int | None = None,
    sharing: str = "functional",
) -> Iterator[Session]:
    """The real `Opener`."""
    with _spark_chatter_in_a_file():
        import headrace

        _hush_pyspark()
        session = headrace.open(
            warehouse,
            read_only=read_only,
            partitions=partitions,
            backfill_tasks=backfill_tasks,
            sharing=sharing,
        )
        try:
            yield session
        finally:
            session.close()


def _hush_pyspark() -> None:
    """PySpark logs each SQL error as a page of JSON before it raises it; the exception is enough.

    It also warns of pandas 3 wherever it meets it, which is nothing that a person at the command line can act upon.
    """
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


_redirected = False


@contextmanager
def _spark_chatter_in_a_file() -> Iterator[None]:
    """Send what the JVM and its workers write to stderr to a file; Python's `sys.stderr` stays as it was.

    The file is removed unless the block fails unexpectedly; then the exception carries a note that names it. Inside
    such a block another one changes nothing.
    """
    global _redirected
    if _redirected:
        yield
        return
    descriptor, path = tempfile.mkstemp(prefix="headrace-spark-", suffix=".log")
    python_stderr, screen = sys.stderr, os.dup(2)
    sys.stderr = os.fdopen(os.dup(screen), "w", buffering=1)
    os.dup2(descriptor, 2)
    keep, _redirected = False, True
    try:
        yield
    except (HeadraceError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except Exception as error:
        if keep := type(error).__module__.partition(".")[0] != "click":
            error.add_note(f"Spark's log is in {path}")
        raise
    finally:
        _redirected = False
        os.dup2(screen, 2)
        sys.stderr.close()
        sys.stderr = python_stderr
        os.close(screen)
        os.close(descriptor)
        if not keep:
            os.unlink(path)
