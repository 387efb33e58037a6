"""Progress of `run_available` on a terminal: one line once it takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.engine.records import Commit

QUIET_SECONDS = 2.0


@contextmanager
def progress_of(wanted: bool | None) -> Iterator[Callable[[Commit, int], None]]:
    """A callback for each commit. `wanted` None: only when stderr is a terminal, and only after two seconds."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield lambda commit, waiting: None
        return
    from rich.console import Console
    from rich.status import Status

    status = Status("", console=Console(stderr=True))
    started, rows = time.monotonic(), 0

    def show(commit: Commit, waiting: int) -> None:
        nonlocal rows
        rows += commit.metrics.input_rows
        spent = time.monotonic() - started
        if spent < QUIET_SECONDS and not wanted:
            return
        status.update(
            f"epoch {commit.epoch}: {rows:,} rows in {spent:.0f} s ({rows / max(spent, 1e-3):,.0f}/s), "
            f"{commit.metrics.active_queries:,} queries, {max(0, waiting - commit.metrics.input_rows):,} rows to go"
        )
        status.start()

    try:
        yield show
    finally:
        status.stop()
