"""Streams and queries of a case in an open warehouse."""

from __future__ import annotations

from typing import Any

from headrace.workloads.embedding import FUNCTIONS
from headrace.workloads.isolation import STREAMS
from headrace_bench.isolation.cases import Load


def create_streams(hr: Any, load: Load) -> None:
    """The streams that the queries read, and the functions that they call."""
    for name, (function, type_) in FUNCTIONS.items():
        hr.register_function(name, function, type_)
    for stream in load.streams:
        hr.create_stream(stream, STREAMS[stream], event_time="date_time", watermark="1 second")


def create_queries(hr: Any, load: Load, *, apart: bool = False) -> None:
    """All queries; `apart`, each in a group of its own."""
    drawn = load.draw()
    if not apart:
        hr.create_queries([(name, query.cql()) for name, query in drawn.items()])
        return
    for name, query in drawn.items():
        hr.create_query(query.cql(), name=name, group=f"alone_{name}")
