"""PySpark's daemon of Python workers, with the kernels loaded, and silent about workers whose task was gone.

When a task fails in Java (a file that cannot be read, say), its Python worker finds the pipe closed. PySpark prints a
traceback of that for every such worker, in the middle of whatever a person has on the screen; the task's own error is
what tells.

A worker is a copy of this process. So kernels are loaded here once, and not in the first task of each worker. PySpark
forbids threads before the copies are made, so nothing that starts one is imported: no Arrow, and numpy's library for
linear algebra gets one thread, which is all that a task may use anyway. Each copy gives numpy's own generator another
seed: people's functions would draw the same numbers in all workers otherwise. Python's `random` does so by itself.

Spark starts this module in place of `pyspark.daemon` where the session is ours.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from contextlib import redirect_stdout, suppress
from typing import Any

from pyspark import daemon

_print = traceback.print_exc


def print_unless_gone(*arguments: Any, **named: Any) -> None:
    """Print the exception being handled, unless it says that nobody listens any more."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        _print(*arguments, **named)


def load_kernels() -> None:
    """Import what numba compiles, in a process that is going to be copied. Tasks do it where somebody asks for more
    threads, and tell why where it fails.
    """
    if os.environ.setdefault("OPENBLAS_NUM_THREADS", "1") != "1":
        return
    with suppress(Exception), redirect_stdout(sys.stderr):  # Spark reads a port from standard output
        kernels = importlib.import_module("headrace.operators.compiled")
        for module in pkgutil.iter_modules(kernels.__path__):
            importlib.import_module(f"{kernels.__name__}.{module.name}")
    if numpy := sys.modules.get("numpy"):
        os.register_at_fork(after_in_child=numpy.random.seed)


if __name__ == "__main__":
    load_kernels()
    traceback.print_exc = print_unless_gone
    daemon.manager()
