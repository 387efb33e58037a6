"""The checkup: from what a session knows about its run, its sources and its queries to one `Health`."""

from __future__ import annotations

import time

from headrace.catalog.catalog import Catalog
from headrace.engine.records import Commit
from headrace.health import Health, Problem, RunState, SourceHealth, SourceState
from headrace.log.arrivals import Arrivals
from headrace.model.query import Stream
from headrace.running import Running


def check_up(catalog: Catalog, arrivals: Arrivals, commit: Commit, running: Running | None) -> Health:
    """The state of everything; reads no file and asks Spark nothing. `running` is None for a reader."""
    state = RunState.STOPPED if running is None else running.state
    trouble = None if running is None else running.trouble
    sources = tuple(_source(stream, catalog, arrivals, commit, running) for stream in catalog.streams())
    problems: list[Problem] = []
    if trouble is not None:
        problems.append(Problem("the run", trouble.render(), trouble.hint, time.time()))
    problems += [
        Problem(f"query `{entry.query.name}`", f"it is quarantined: {entry.error}", None, entry.requested_at)
        for entry in catalog.entries()
        if entry.error is not None
    ]
    error = None if trouble is None else str(trouble)
    return Health(not problems, state, error, tuple(problems), sources, ())


def _source(
    stream: Stream, catalog: Catalog, arrivals: Arrivals, commit: Commit, running: Running | None
) -> SourceHealth:
    if arrivals.closed(stream.name):
        state = SourceState.CLOSED
    elif running is not None and stream.name in running.ingests:
        state = SourceState.READING
    elif catalog.source(stream.name) is None:
        state = SourceState.APPEND
    else:
        state = SourceState.DETACHED
    return SourceHealth(stream.name, state, rows_taken=commit.stream_rows.get(stream.name, (0, 0))[0])
