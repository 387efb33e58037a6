"""Opening the log of a warehouse: catalog, arrivals and sealer, consistent with each other."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalog.catalog import Catalog
from headrace.catalog.waiting import Batching
from headrace.log.arrivals import Arrivals
from headrace.log.seal import Sealer
from headrace.model.errors import StorageError
from headrace.storage.clock import Clock
from headrace.storage.warehouse import Warehouse

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Log:
    warehouse: Warehouse
    catalog: Catalog
    arrivals: Arrivals
    sealer: Sealer


def open_log(
    warehouse: Warehouse,
    *,
    clock: Clock | None = None,
    batching: Batching | None = None,
) -> Log:
    """Recover what a warehouse holds. A reader gets the state of some recent moment.

    A live writer removes records that snapshots, packs and epochs have made superfluous; a reader that misses
    one between listing and reading starts over.
    """
    for attempt in range(_ATTEMPTS):
        try:
            catalog = Catalog(warehouse, clock=clock, batching=batching)
            arrivals = Arrivals(warehouse)
            return Log(warehouse, catalog, arrivals, Sealer(warehouse, catalog, arrivals, clock=clock))
        except StorageError as error:
            moved = error.code in ("FILE_MISSING", "EPOCH_EXPIRED", "EPOCH_MISSING", "RECORD_MISSING")
            if not warehouse.read_only or not moved or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
