"""Streams and queries of a case in an open warehouse."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from headrace.workloads.embedding import FUNCTIONS, price_anomaly
from headrace.workloads.isolation import STREAMS, Kind
from headrace_bench.isolation.cases import Load

DEARER = 240
"""In the paper the function after W2's join is what cannot keep up. Ours is quick, so it works so many times over."""


DEAR, LIGHT = "dear", "light"
"""Groups of queries that call a function, and of those that do not."""


def dear_anomaly(descriptions: pa.Array, prices: pa.Array) -> pa.Array:
    """`price_anomaly`, about half a millisecond per row."""
    for _ in range(DEARER - 1):
        price_anomaly(descriptions, prices)
    return price_anomaly(descriptions, prices)


def create_streams(hr: Any, load: Load) -> None:
    """The streams that the queries read, and the functions that they call."""
    hr.register_function("embed_text", *FUNCTIONS["embed_text"])
    hr.register_function("price_anomaly", dear_anomaly, "DOUBLE")
    for stream in load.streams:
        hr.create_stream(stream, STREAMS[stream], event_time="date_time", watermark="1 second")


def create_queries(
    hr: Any, load: Load, *, apart: bool = False, by_kind: bool = False, only: Collection[str] | None = None
) -> None:
    """All queries, or only some: `apart`, each in a group of its own; `by_kind`, those that call a function in one."""
    drawn = {name: query for name, query in load.draw().items() if only is None or name in only}
    if by_kind:
        for name, query in drawn.items():
            dear = query.kind is Kind.PRICE_ANOMALY
            hr.create_query(query.cql(), name=name, group=DEAR if dear else LIGHT)
        return
    if not apart:
        hr.create_queries([(name, query.cql()) for name, query in drawn.items()])
        return
    for name, query in drawn.items():
        hr.create_query(query.cql(), name=name, group=f"alone_{name}")
