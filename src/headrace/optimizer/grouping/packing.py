"""Queries into groups of their own, or together where the driver cannot run so many groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headrace.model.query import QueryId
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.throughput import isolated_share


def pack(situation: Situation, queries: Sequence[QueryId], room: int) -> list[tuple[QueryId, ...]]:
    """At most `room` sets of queries: singletons if there is room for them.

    Otherwise queries that would be about as fast alone go together, because these slow each other least.
    """
    if len(queries) <= room:
        return [(query,) for query in queries]
    room = max(room, 1)
    ranked = sorted(
        queries,
        key=lambda q: (situation.queries[q].operator or "", isolated_share(situation, q), q),
    )
    cuts = [round(i * len(ranked) / room) for i in range(room + 1)]
    return [tuple(sorted(ranked[a:b])) for a, b in pairwise(cuts) if a < b]
