"""What the conductor has learnt, kept beside the catalog: costs of work, and what joins make of tuples.

    catalog/learnt.json    the newest

It is replaced as a whole, now and then and when the warehouse is closed. No row depends on it: where it is missing or
damaged, the conductor learns anew.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from headrace.model import codec
from headrace.model.errors import StorageError
from headrace.optimizer.grouping.calibration import KeptCalibration, KeptSums
from headrace.storage.warehouse import Warehouse

_LOGGER = logging.getLogger(__name__)

LEARNT = "catalog/learnt.json"

MEANING = 2
"""What costs are about. Since 2, an operator of plans has its own, and those of streams are for reading them."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """Sums of calibration, and tuples and joined rows of queries with the function that each calls, by query id."""

    calibration: KeptCalibration
    accepted: dict[str, float] = field(default_factory=dict)
    joined: dict[str, float] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    meaning: int = 1


codec.register(KeptSums, KeptCalibration, Learnt)


class Memory:
    """The file. Only one thread at a time writes."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def recall(self) -> Learnt | None:
        """What was kept last; None when there is nothing that can be read."""
        try:
            if not self._warehouse.exists(LEARNT):
                return None
            found: Learnt = self._warehouse.read_value(LEARNT, "learnt")
            return found if found.meaning == MEANING else None
        except StorageError as error:  # nothing else needs it
            _LOGGER.warning("%s; who shares with whom is learnt anew", error.message)
            return None

    def keep(self, learnt: Learnt) -> None:
        """Replace what was kept. When that fails, say on a full disk, a later time will do."""
        try:
            self._warehouse.replace_value(LEARNT, "learnt", learnt)
        except (StorageError, OSError) as error:
            _LOGGER.warning("what was learnt about sharing could not be written down: %s", error)
