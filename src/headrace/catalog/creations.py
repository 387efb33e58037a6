"""Creations of queries: what becomes of those that several threads ask for at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from headrace.catalog.directory import Directory
from headrace.catalog.errands import Errand
from headrace.catalog.streams import StreamTable
from headrace.model.epoch import Change, Create, Drop
from headrace.model.errors import CatalogError, HeadraceError
from headrace.model.grouping import MAIN, plain_group
from headrace.model.query import Fallback, Needs, Query, QueryId, QueryPlan
from headrace.storage.clock import Clock


@dataclass(frozen=True, slots=True)
class Asked:
    """Queries that one call asks for: (name or None, plan) of each, the group of each, and the call's options."""

    wanted: tuple[tuple[str | None, QueryPlan], ...]
    groups: tuple[str | None, ...]
    replace: bool
    start: int | None
    needs: Needs


class Creating:
    """Turns what is asked for into changes, and has them kept by `request`. Not thread-safe; the catalog guards it."""

    def __init__(
        self,
        directory: Directory,
        streams: StreamTable,
        clock: Clock,
        request: Callable[..., None],
    ) -> None:
        self._directory, self._streams, self._clock, self._request = directory, streams, clock, request

    def work(self, errands: Sequence[Errand[Asked, list[Query]]]) -> None:
        """Ask for what several threads want, durable with one sync. A name that is asked for twice comes next time."""
        ready: list[tuple[Errand[Asked, list[Query]], list[Query]]] = []
        changes: list[Change] = []
        new: set[str] = set()
        for errand in errands:
            names = {name.lower() for name, _ in errand.wanted.wanted if name is not None}
            if not new.isdisjoint(names):
                continue
            try:
                made, theirs = self._changes_of(errand.wanted, sum(len(found) for _, found in ready), new)
            except HeadraceError as error:
                errand.fail(error)
                continue
            ready.append((errand, made))
            changes += theirs
            new |= {query.name.lower() for query in made}
        if changes:
            self._request(*changes)
        for errand, made in ready:
            errand.give(made)

    def _changes_of(self, asked: Asked, before: int, taken: Set[str]) -> tuple[list[Query], list[Change]]:
        """The queries of one call and the changes that bring them, when so many others come before them."""
        queries: list[Query] = []
        changes: list[Change] = []
        new = set(taken)
        for (name, plan), group in zip(asked.wanted, asked.groups, strict=True):
            for stream in plan.streams:
                self._streams.get(stream)
            query_id = QueryId(self._directory.next_id + before + len(queries))
            query = Query(query_id, name or self._free_name(query_id, new), plan, asked.needs)
            alone = plain_group(int(query_id)) if isinstance(plan.body, Fallback) else MAIN
            create = Create(query, self._clock.now(), group or alone, asked.start)
            changes += self._creation(create, asked.replace, again=query.name.lower() in new)
            queries.append(query)
            new.add(query.name.lower())
        return queries, changes

    def _free_name(self, query_id: QueryId, new: set[str]) -> str:
        streams = {str(stream.name).lower() for stream in self._streams.all()}
        return self._directory.free_name(query_id, new | streams)

    def _creation(self, create: Create, replace: bool, again: bool) -> list[Change]:
        """The changes that bring a query; `again` says that one of its name was asked for a moment ago."""
        name = create.query.name
        if self._streams.has(name):
            raise name_taken("query", name, "there is a stream of that name")
        present = self._directory.newest(name)
        if not again and (present is None or not present.live):
            return [create]
        if replace and not again and present is not None:
            return [Drop(present.query.id, create.requested_at), create]
        raise CatalogError(
            "QUERY_EXISTS",
            f"there is already a query `{name if present is None else present.query.name}`",
            hint="drop it first, choose another name, or write CREATE OR REPLACE QUERY",
        )


def name_taken(what: str, name: str, why: str) -> CatalogError:
    return CatalogError(
        "NAME_TAKEN",
        f"the {what} cannot be called `{name}`: {why}",
        hint="choose another name; streams and queries share one set of names, so that FROM is never ambiguous",
    )
