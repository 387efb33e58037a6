"""What the groups of an open warehouse share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.catalog.catalog import Catalog
from headrace.engine.crowding import JobsUnderWay
from headrace.engine.delivered import Delivered
from headrace.engine.options import GroupOptions
from headrace.engine.upkeep import Upkeep
from headrace.log.seal import Sealer
from headrace.storage.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class House:
    """What all groups of an open warehouse have in common."""

    warehouse: Warehouse
    catalog: Catalog
    sealer: Sealer
    delivered: Delivered
    upkeep: Upkeep
    options: GroupOptions
    clock: Callable[[], float] = time.time
    jobs: JobsUnderWay = field(default_factory=JobsUnderWay)
