"""Changes that are asked for queries that live: that they end, live elsewhere, or get something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.catalog.directory import Directory
from headrace.catalog.waiting import Waiting
from headrace.model.epoch import ChangeNeeds, Drop, Move
from headrace.model.errors import CatalogError
from headrace.model.grouping import MAIN, is_reserved
from headrace.model.query import Needs, Query, QueryId


class Changing:
    """Checks what is asked for, and has it kept by `request`. Not thread-safe; the catalog guards it."""

    def __init__(self, directory: Directory, waiting: Waiting, request: Callable[..., None]) -> None:
        self._directory, self._waiting, self._request = directory, waiting, request

    def drop(self, name: str) -> Query:
        """Ask for a query to end."""
        entry = self._directory.live_entry(name)
        self._request(Drop(entry.query.id, self._waiting.clock.now()))
        return entry.query

    def move(self, name: str, group: str) -> Query:
        """Ask for a query to live in another group; refused when it is quarantined."""
        entry = self._directory.live_entry(name)
        if entry.error is not None:
            raise CatalogError(
                "QUERY_QUARANTINED",
                f"query `{entry.query.name}` is quarantined: it lives in no group any more",
                hint="drop it, and create it again in the group that you want",
            )
        self._request(Move(entry.query.id, group, self._waiting.clock.now()))
        return entry.query

    def move_all(self, moves: Iterable[tuple[QueryId, str]]) -> None:
        """Ask for queries to live in other groups, but for those that have ended meanwhile.

        Those that a person has named a group for, which no epoch has taken in yet, stay as well: the person decides.
        """
        entries = ((self._directory.queries.get(query), group) for query, group in moves)
        now = self._waiting.clock.now()
        wished = {change.id: change.group for change in self._waiting if isinstance(change, Move)}
        named = {query for query, group in wished.items() if group != MAIN and not is_reserved(group)}
        changes = [
            Move(entry.query.id, group, now)
            for entry, group in entries
            if entry is not None and entry.live and entry.error is None and entry.query.id not in named
        ]
        if changes:
            self._request(*changes)

    def need(self, name: str, change: Callable[[Needs], Needs]) -> Query:
        """Ask for something else for a query. What is changed is what was asked for last."""
        query = self._directory.live_entry(name).query
        asked = [one.needs for one in self._waiting if isinstance(one, ChangeNeeds) and one.id == query.id]
        needs = change(asked[-1] if asked else query.needs)
        self._request(ChangeNeeds(query.id, needs, self._waiting.clock.now()))
        return query
