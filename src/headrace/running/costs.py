"""What each query has cost, over all openings of a warehouse.

It is written down now and then, and when the warehouse is closed. It is for people and for those who decide, and no row
depends on it: when a process is killed, what came after the last writing is missing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from headrace.catalog.catalog import Catalog
from headrace.engine.costs import QueryCost
from headrace.model.errors import StorageError
from headrace.storage.warehouse import Warehouse

_LOGGER = logging.getLogger(__name__)

COSTS = "catalog/costs.json"

SAVE_EPOCHS = 100
"""It is written down after so many epochs of groups."""

FORGET_COSTS = 20_000
"""When the costs of more queries are known, those of queries that are gone are forgotten."""


class CostBook:
    """The costs of queries by their ids. Thread-safe."""

    def __init__(self, warehouse: Warehouse, catalog: Catalog) -> None:
        self._warehouse, self._catalog = warehouse, catalog
        self._lock, self._unsaved = threading.Lock(), 0
        self._costs: dict[int, QueryCost] = {}
        try:
            if warehouse.exists(COSTS):
                kept: Mapping[str, QueryCost] = warehouse.read_value(COSTS, "costs")
                self._costs = {int(query): cost for query, cost in kept.items()}
        except StorageError as error:  # nothing else needs it
            _LOGGER.warning("%s; costs of queries are counted from now on", error.message)

    @property
    def costs(self) -> dict[int, QueryCost]:
        """As they are now."""
        with self._lock:
            return dict(self._costs)

    def add(self, costs: Mapping[int, QueryCost]) -> None:
        """What an epoch of a group has cost its queries."""
        with self._lock:
            known = self._costs
            known |= {query: known.get(query, QueryCost()).then(cost) for query, cost in costs.items()}
            if len(known) > FORGET_COSTS:
                listed = {int(entry.query.id) for entry in self._catalog.current()}
                self._costs = {query: cost for query, cost in known.items() if query in listed}
            self._unsaved += 1
            due = self._unsaved % SAVE_EPOCHS == 0
        if due:
            self.save()

    def save(self) -> None:
        """Write the costs down, if there is anything new. When that fails, say on a full disk, a later time will do."""
        with self._lock:
            if not self._unsaved:
                return
            kept, noted = {str(query): cost for query, cost in self._costs.items()}, self._unsaved
        try:
            self._warehouse.replace_value(COSTS, "costs", kept)
        except (StorageError, OSError) as error:
            _LOGGER.warning("the costs of queries could not be written down: %s", error)
            return
        with self._lock:
            self._unsaved = max(0, self._unsaved - noted)
