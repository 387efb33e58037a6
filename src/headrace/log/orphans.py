"""Orphans: chunk files whose arrival was never recorded, because their writer died or their task was retried.

A chunk's name begins with a lower bound of its arrival's number. A sweep at open settles all names below the
next number for good, so the following sweep looks only at newer files and newer epochs.
"""

from __future__ import annotations

import os
import re

from headrace.log.arrivals import Arrivals
from headrace.log.epochs import EpochLog
from headrace.storage.warehouse import Warehouse

SWEPT = "log/swept.json"

_CHUNK = re.compile(r"(\d{12})-[0-9a-f]{32}\.(parquet|writing)")


def remove_orphans(warehouse: Warehouse, epochs: EpochLog, arrivals: Arrivals) -> list[str]:
    """Remove the orphans of former writers; their paths. Only for the writer, before it writes anything."""
    since = warehouse.read_value(SWEPT, "swept")["before"] if warehouse.exists(SWEPT) else 0
    suspects = _files_since(warehouse, since)
    orphans = suspects - _named_since(since, epochs, arrivals) if suspects else set()
    for path in orphans:
        warehouse.delete(path)
    if since != arrivals.next_number:
        warehouse.replace_value(SWEPT, "swept", {"before": arrivals.next_number})
    return sorted(orphans)


def _files_since(warehouse: Warehouse, since: int) -> set[str]:
    found = set()
    for directory in warehouse.path("log").glob("*/"):
        if directory.name == "arrivals":
            continue
        for name in os.listdir(directory):
            match = _CHUNK.fullmatch(name)
            if match and int(match.group(1)) >= since:
                found.add(f"log/{directory.name}/{name}")
    return found


def _named_since(since: int, epochs: EpochLog, arrivals: Arrivals) -> set[str]:
    named = {chunk.path for arrival in arrivals.pending() for chunk in arrival.chunks}
    for number in range(epochs.last(), epochs.first - 1, -1):
        epoch = epochs.read(number)
        named.update(chunk.path for inflow in epoch.streams for chunk in inflow.chunks)
        if epoch.last_arrival < since - 1 or (epoch.last_arrival == since - 1 and not epoch.next_chunk):
            break
    return named
