"""Pools in segments: written in few bytes, read in portions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.model.lanes import is_extreme, is_least, is_ranked
from headrace.model.plan.reads import COLUMNS_PER_QUERY
from headrace.operators.common.arrays import Array
from headrace.operators.common.bitrows import pack_words
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import narrow
from headrace.operators.common.ordered import Sections
from headrace.operators.common.placing import Portion
from headrace.operators.windows.lanes.extremes import nothing_in
from headrace.operators.windows.pool import Pool, PoolLane
from headrace.operators.windows.storing import narrow_extremes, widen_extremes

_COLUMNS = ("keys", "slots")


def pool_items(pool: Pool) -> tuple[dict[str, Item], dict[str, Any]]:
    """(a pool as bundle items, what a reader must know of it)."""
    items: dict[str, Item] = {f"pool.{name}": narrow(getattr(pool, name)) for name in _COLUMNS}
    items |= {"pool.ids": pool.ids, "pool.starts": pool.starts, "pool.sets": pool.sets}
    small: dict[tuple[int, bool | None], Array] = {}  # measures of one input often have the same array
    described = []
    for i, (name, lane) in enumerate(pool.lanes.items()):
        gaps = has_gaps(name, lane.partials["v"])
        for part, array in lane.partials.items():
            least = is_least(name) if gaps else None
            if (id(array), least) not in small:
                small[id(array), least] = narrow(array) if least is None else narrow_extremes(array, least)
            items[f"pool.{i}.{part}"] = small[id(array), least]
        described.append({"lane": name, "parts": list(lane.partials), "gaps": gaps})
    return items, {"lanes": described, "last_end_us": pool.last_end_us}


def has_gaps(name: str, values: Array) -> bool:
    """Whether some are a MIN or a MAX of no tuple."""
    if not is_extreme(name):
        return False
    return bool((values == nothing_in(np.int64, is_least(name))).any())


def pool_from(items: Mapping[str, Item], described: Mapping[str, Any]) -> Pool:
    """The inverse of `pool_items`. Arrays stay views of the bundle, as narrow as they are stored, but for ranks and for
    extremes with gaps.
    """
    lanes = {}
    for i, lane in enumerate(described["lanes"]):
        name, partials = lane["lane"], {part: items[f"pool.{i}.{part}"] for part in lane["parts"]}
        if lane["gaps"]:
            partials = {"v": widen_extremes(partials["v"], is_least(name))}
        elif is_ranked(name):
            partials = {"v": partials["v"].astype(np.int64)}
        lanes[name] = PoolLane(partials)
    columns = {name: items[f"pool.{name}"] for name in ("ids", "keys", "starts", "slots", "sets")}
    return Pool(**columns, lanes=lanes, last_end_us=described["last_end_us"])


def portion_of_pool(pool: Pool, keys: Sections, portion: Portion) -> Pool | None:
    """The tuples of these keys that a query which counts accepts; no others are looked at."""
    rows = keys.rows_of(pool.keys).numbers
    sets = pool.sets[:, rows]
    if portion.chooses:
        mine = portion.queries(pool.ids // COLUMNS_PER_QUERY)
        sets &= pack_words(mine[None, :])[0][:, None]
        kept = np.bitwise_or.reduce(sets, axis=0) != 0
        rows, sets = rows[kept], sets[:, kept]
    if len(rows) == 0:
        return None
    lanes = {
        name: PoolLane({part: array[rows] for part, array in lane.partials.items()})
        for name, lane in pool.lanes.items()
    }
    return replace(pool, keys=keys.renumber(pool.keys[rows]), slots=pool.slots[rows], sets=sets, lanes=lanes)
