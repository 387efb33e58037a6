"""What segments of windows and of sessions have in common: keys in order of key groups, lanes, vocabularies and bags.

A kind of segment says what its blocks are. How a segment is put into order, written and read in portions is here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from headrace.operators.common.arrays import Ints
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import one_chunk
from headrace.operators.common.ordered import KeyOrder, Sections
from headrace.operators.common.placing import Portion
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.stored_bags import (
    Bags,
    bag_items,
    bags_from,
    portion_of_bags,
)

Block = TypeVar("Block")
Kind = TypeVar("Kind", bound="KeyedSegment[Any]")

VOCABULARY = "words."
"""What the name of a vocabulary begins with in a segment's file. It is durable."""


class HasPartials(Protocol):
    """Partials of one kind, of which some are ranks in a vocabulary."""

    partials: Partials


class HasLanes(Protocol):
    """Partials by the names of what they are of."""

    @property
    def lanes(self) -> Mapping[str, HasPartials]: ...


@dataclass(slots=True)
class LaneBlock:
    """Partials for the lane entries with these ids."""

    ids: Ints
    partials: Partials


@dataclass(slots=True)
class KeyedSegment(Generic[Block]):
    """`vocabularies` are found by the text of their input; `bags`, the values that are kept, by the name of their lane.

    A bag has no key that nothing else has. `order` says where key groups are, when keys and rows are in their order.
    """

    keys: pa.Table
    blocks: list[Block]
    vocabularies: dict[str, pa.Array]
    bags: Bags = field(default_factory=dict)
    order: KeyOrder | None = None

    @property
    def holders(self) -> Sequence[HasLanes]:
        """What has partials, blocks and all else."""
        return cast(Sequence[HasLanes], self.blocks)


def portion_of(
    segment: Kind,
    portion: Portion,
    portion_block: Callable[[Any, Sections, Portion], Any | None],
    *,
    more: bool = False,
) -> Kind | None:
    """The state of some keys and queries; None when that is nothing. The segment is in order. `more` says that there is
    something of them besides blocks.

    No other keys and rows are looked at. `portion_block` gives a block's rows of these keys, with their new numbers.
    """
    assert segment.order is not None
    keys = segment.order.sections(portion)
    found = (portion_block(block, keys, portion) for block in segment.blocks)
    blocks = [block for block in found if block is not None]
    if not blocks and not more:
        return None
    return replace(
        segment,
        keys=keys.slice_table(segment.keys),
        blocks=blocks,
        vocabularies=dict(segment.vocabularies),
        bags=portion_of_bags(segment.bags, keys, portion),
        order=None,
    )


def whole_of(segment: Kind, whole_block: Callable[[Any], Any]) -> Kind:
    """All of a segment; `whole_block` makes its blocks ready."""
    return replace(segment, blocks=[whole_block(block) for block in segment.blocks])


def lane_items(prefix: str, lanes: Mapping[str, LaneBlock]) -> tuple[dict[str, Item], list[dict[str, Any]]]:
    """(a block's lanes as bundle items, what a reader must know of them)."""
    items: dict[str, Item] = {}
    described = []
    for j, (name, lane) in enumerate(lanes.items()):
        items[f"{prefix}.{j}.ids"] = lane.ids
        items |= {f"{prefix}.{j}.{letter}": values for letter, values in lane.partials.items()}
        described.append({"lane": name, "parts": list(lane.partials)})
    return items, described


def lanes_from(
    items: Mapping[str, Item], prefix: str, described: Sequence[Mapping[str, Any]]
) -> dict[str, LaneBlock]:
    """The inverse of `lane_items`; arrays stay views of the bundle."""
    return {
        lane["lane"]: LaneBlock(
            items[f"{prefix}.{j}.ids"], {letter: items[f"{prefix}.{j}.{letter}"] for letter in lane["parts"]}
        )
        for j, lane in enumerate(described)
    }


def frame_items(segment: KeyedSegment[Any], meta: Mapping[str, Any]) -> dict[str, Item]:
    """A segment that is in order as bundle items, but for its blocks; `meta` says what a reader must know of these."""
    assert segment.order is not None
    items: dict[str, Item] = {"keys": segment.keys, "first": segment.order.first}
    items |= {f"{VOCABULARY}{sql}": pa.table({"w": array}) for sql, array in segment.vocabularies.items()}
    items |= bag_items(segment.bags)
    described = {**meta, "bags": list(segment.bags)}
    items["meta"] = np.frombuffer(json.dumps(described).encode(), np.uint8)
    return items


def meta_of(items: Mapping[str, Item], version: int) -> dict[str, Any]:
    """What the writer of a segment said of it; ValueError for a segment of another version."""
    meta: dict[str, Any] = json.loads(items["meta"].tobytes())
    check_version(meta, version)
    return meta


def check_version(meta: Mapping[str, object], version: int) -> None:
    """ValueError for a segment of another version."""
    if meta["version"] != version:
        raise ValueError(f"a segment of version {meta['version']}; this is version {version}")


def frame_from(items: Mapping[str, Item], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `frame_items`, as arguments of a kind of segment; segments of older versions have no order."""
    named = {
        name.removeprefix(VOCABULARY): item for name, item in items.items() if name.startswith(VOCABULARY)
    }
    vocabularies = {sql: one_chunk(table.column("w")) for sql, table in named.items()}
    order = KeyOrder(items["first"]) if "first" in items else None
    bags = bags_from(items, meta.get("bags", ()))
    return {"keys": items["keys"], "vocabularies": vocabularies, "bags": bags, "order": order}
