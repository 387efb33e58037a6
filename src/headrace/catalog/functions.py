"""Registered functions: name and type are durable, the code is registered anew by whoever opens the warehouse."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from headrace.catalog.queries import QueryEntry
from headrace.model.errors import CatalogError, EngineError
from headrace.model.functions import FunctionFile, FunctionSpec
from headrace.model.query import Query
from headrace.storage.warehouse import Warehouse

FUNCTIONS = "catalog/functions.json"


class FunctionTable:
    """The functions of one warehouse. Thread-safe; reads nothing from disk after it was opened."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse, self._lock = warehouse, threading.Lock()
        self._specs: dict[str, FunctionSpec] = {}
        self._files: dict[str, FunctionFile] = {}
        if warehouse.exists(FUNCTIONS):
            self._specs = {spec.name: spec for spec in warehouse.read_value(FUNCTIONS, "functions")}

    def register(self, spec: FunctionSpec, file: FunctionFile, users: Iterable[str]) -> None:
        """Keep a function, durably. It keeps its type as long as `users`, the live queries that call it, need that."""
        with self._lock:
            known, used = self._specs.get(spec.name), list(users)
            if known is not None and known.type != spec.type and used:
                raise CatalogError(
                    "FUNCTION_IN_USE",
                    f"the function {spec.name}() is {known.type.name.upper()}, and query `{used[0]}` calls it",
                    hint=f"register it as {known.type.name.upper()}, choose another name, or drop the query",
                )
            if known != spec:
                specs = {**self._specs, spec.name: spec}
                self._warehouse.replace_value(FUNCTIONS, "functions", tuple(specs.values()))
                self._specs = specs
            self._files[spec.name] = file

    def specs(self) -> tuple[FunctionSpec, ...]:
        """All functions that were ever registered, by name."""
        with self._lock:
            return tuple(self._specs[name] for name in sorted(self._specs))

    @property
    def all_ready(self) -> bool:
        """Whether every function that was ever registered has been registered since the warehouse was opened."""
        with self._lock:
            return self._specs.keys() <= self._files.keys()

    def is_ready(self, name: str) -> bool:
        """Whether a function was registered since the warehouse was opened."""
        with self._lock:
            return name in self._files

    def files(self) -> tuple[FunctionFile, ...]:
        """The functions that tasks may call."""
        with self._lock:
            return tuple(self._files.values())

    def missing(self, query: Query) -> tuple[str, ...]:
        """The functions that a query calls and that have not been registered since the warehouse was opened."""
        return tuple(name for name in query.plan.functions if not self.is_ready(name))

    def given_up(self, entries: Iterable[QueryEntry], epoch: int) -> dict[int, str]:
        """The queries that wait for a function and that somebody has dropped meanwhile, with the reason why an epoch is
        run without them: nobody may ever register the function again.
        """
        lacking = {int(e.query.id): self.missing(e.query) for e in entries if not e.live}
        return {
            query: f"dropped before epoch {epoch} was run: {names[0]}() was not registered"
            for query, names in lacking.items()
            if names
        }

    def check(self, queries: Iterable[Query]) -> None:
        """EngineError when a query calls a function that has not been registered yet."""
        for query in queries:
            for name in self.missing(query):
                raise self.not_registered(name, f"query `{query.name}` waits for it")

    def not_registered(self, name: str, detail: str) -> EngineError:
        spec = self._specs.get(name)
        type_ = "..." if spec is None else f"'{spec.type.name.upper()}'"
        return EngineError(
            "FUNCTION_MISSING",
            f"the function {name}() is not registered; {detail}",
            hint=f"register the function again: hr.register_function('{name}', ..., {type_})",
        )
