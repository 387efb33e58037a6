"""PySpark's daemon of Python workers, silent about workers whose task was gone before they had answered.

When a task fails in Java (a file that cannot be read, say), its Python worker finds the pipe closed. PySpark prints a
traceback of that for every such worker, in the middle of whatever a person has on the screen; the task's own error is
what tells. Spark starts this module in place of `pyspark.daemon` where the session is ours.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from pyspark import daemon

_print = traceback.print_exc


def print_unless_gone(*arguments: Any, **named: Any) -> None:
    """Print the exception being handled, unless it says that nobody listens any more."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        _print(*arguments, **named)


if __name__ == "__main__":
    traceback.print_exc = print_unless_gone
    daemon.manager()
