"""Bags in segments, of windows and of sessions alike: written in few bytes, put into order, read in portions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headrace.model.plan.reads import COLUMNS_PER_QUERY, ENTRIES_PER_COLUMN
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import narrow
from headrace.operators.common.ordered import Sections
from headrace.operators.common.placing import Portion
from headrace.operators.windows.bags import Bag, StoredBag

Bags = dict[str, StoredBag]
"""By the names of their lanes."""

_COLUMNS = ("keys", "values", "slices", "sets", "counts")


def query_of_entry(ids: Ints) -> Ints:
    """The query that each lane entry is of, by the way its id is made."""
    return ids // (ENTRIES_PER_COLUMN * COLUMNS_PER_QUERY)


def bag_items(bags: Mapping[str, StoredBag]) -> dict[str, Item]:
    """Bags as bundle items; the segment keeps their names."""
    items: dict[str, Item] = {}
    for i, stored in enumerate(bags.values()):
        for name in _COLUMNS:
            items[f"bag{i}.{name}"] = narrow(getattr(stored.bag, name))
        items[f"bag{i}.ids"] = stored.ids
        items[f"bag{i}.members"] = np.packbits(stored.bag.membership, axis=1).ravel()
    return items


def bags_from(items: Mapping[str, Item], names: Sequence[str]) -> Bags:
    """The inverse of `bag_items`; columns stay views of the bundle, as narrow as they are stored.

    `StoredBag.under` makes them wide, when it is known which entries somebody asks for.
    """
    return {name: _bag_from(items, f"bag{i}") for i, name in enumerate(names)}


def _bag_from(items: Mapping[str, Item], prefix: str) -> StoredBag:
    columns = {name: items[f"{prefix}.{name}"] for name in _COLUMNS}
    ids, packed = items[f"{prefix}.ids"], items[f"{prefix}.members"]
    width = -(-len(ids) // 8)
    membership = np.unpackbits(packed.reshape(-1, width), axis=1, count=len(ids)).astype(bool)
    return StoredBag(ids, Bag(**columns, membership=membership))


def order_bags(bags: Mapping[str, StoredBag], ranks: Ints) -> Bags:
    """The bags with key `ranks[k]` for k, in the order of these."""
    return {name: StoredBag(stored.ids, _ordered(stored.bag, ranks)) for name, stored in bags.items()}


def _ordered(bag: Bag, ranks: Ints) -> Bag:
    keys = ranks[bag.keys]
    return replace(bag, keys=keys).take(np.argsort(keys, kind="stable"))


def rename_keys(bags: Mapping[str, StoredBag], places: Ints) -> Bags:
    """The bags with key `places[k]` for k; places ascend."""
    return {name: StoredBag(stored.ids, stored.bag.renamed(places)) for name, stored in bags.items()}


def portion_of_bags(bags: Mapping[str, StoredBag], keys: Sections, portion: Portion) -> Bags:
    """The entries of these keys that a query which counts asks for; no others are looked at."""
    return {name: _portion(stored, keys, portion) for name, stored in bags.items()}


def _portion(stored: StoredBag, keys: Sections, portion: Portion) -> StoredBag:
    mine = np.flatnonzero(portion.queries(query_of_entry(stored.ids)))
    membership = stored.bag.membership[:, mine]
    asked = np.logical_or.reduce(membership, axis=1)
    bag = replace(stored.bag, membership=membership).take(keys.rows_of(stored.bag.keys).numbers)
    bag = bag.take(asked[bag.sets])
    return StoredBag(stored.ids[mine], replace(bag, keys=keys.renumber(bag.keys)))


def revalue_bags(bags: Bags, names: Iterable[str], places: Ints) -> None:
    """Give some bags value `places[v]` for v, in place; places ascend."""
    for name in names:
        bags[name] = StoredBag(bags[name].ids, bags[name].bag.revalued(places))
