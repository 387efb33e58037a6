"""Places that were given to new queries which the catalog does not have yet.

Whoever creates a query first asks for its place. Meanwhile somebody else may ask for one, too. He has to know of the
first query, or both start in one group, although each of them should have been alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.engine.conductor.facts import LiveQuery
from headrace.model.query import QueryId

GUESTS = QueryId(2**62)
"""Queries that are being created have no number yet. Until the catalog has given them one, they have these."""

TRUSTED_S = 30.0
"""A query that the catalog does not have after so long was not created: its name was taken, say."""


@dataclass(frozen=True, slots=True)
class _Promise:
    at: float
    guest: LiveQuery

    def holds(self, now: float) -> bool:
        return 0 <= now - self.at < TRUSTED_S


class Promises:
    """The queries that were given a place and are not there yet. Not thread-safe."""

    def __init__(self) -> None:
        self._left: list[_Promise] = []
        self._next, self._seen = GUESTS, QueryId(-1)

    def number(self) -> QueryId:
        """A number for a new query, which no other one has had."""
        self._next = QueryId(self._next + 1)
        return self._next

    def add(self, now: float, homes: Mapping[LiveQuery, str], newest: QueryId) -> None:
        """These queries are to begin in these groups. The `newest` query that was known then is none of them."""
        if not self._left:
            self._seen = max(self._seen, newest)
        self._left = [promise for promise in self._left if promise.holds(now)]
        self._left += [_Promise(now, replace(guest, group=group)) for guest, group in homes.items()]

    def left(self, now: float, there: Iterable[LiveQuery]) -> list[LiveQuery]:
        """The queries that are not among those that are `there`, each in the group that it is to begin in.

        A query that has come since the last time is the oldest one of those that were promised with its text.
        """
        come = [query for query in there if query.id > self._seen]
        self._seen = max((query.id for query in come), default=self._seen)
        texts = Counter(query.plan.text for query in come)
        left = list[_Promise]()
        for promise in self._left:
            if texts[promise.guest.plan.text]:
                texts[promise.guest.plan.text] -= 1
            elif promise.holds(now):
                left.append(promise)
        self._left = left
        return [promise.guest for promise in left]
