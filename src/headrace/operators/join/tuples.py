"""From a batch of a stream to the rows a reduce task joins: index, ship once to the key's partition, receive."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.model.blocks import BLOCK_KEYS, BLOCKS, ONE_BLOCK
from headrace.model.epoch import NEVER_US
from headrace.model.partitioning import Partitioning
from headrace.model.ways import FamilyWay
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.bundle import Blob, Item, pack_bundle, read_bundle
from headrace.operators.common.encode import narrow, one_chunk, taken_from, to_physical
from headrace.operators.join.keys import RowKeys, concat_keys, encode_row_keys, partition_rows
from headrace.operators.join.logic import InputLogic, JoinLogic
from headrace.operators.join.rows import (
    Codes,
    Content,
    JoinTuples,
    concat_contents,
    content_from,
    content_items,
    last_end,
)
from headrace.operators.protocol import Columns, Shipment
from headrace.operators.windows.slices import fine_slices


def prepare_join(
    logic: JoinLogic, input: int, columns: Columns, closed_us: int, ways: list[FamilyWay]
) -> JoinTuples | None:
    """Index a batch of one input. Dropped: tuples without time or key, that nobody wants, or too late for all.

    How tuples found their queries is added to `ways`.
    """
    spec = logic.inputs[input]
    event_time = to_physical(columns[spec.input.event_time], spec.input.event_time.type)
    rows = len(event_time.values)
    if rows == 0 or not spec.windows:
        return None
    sets = spec.select(columns, rows, ways)
    wanted = sets.any(axis=(0, 1))
    if event_time.valid is not None:
        wanted &= event_time.valid
    for key in spec.input.keys:
        if key not in BLOCK_KEYS and columns[key].null_count:
            wanted &= np.asarray(one_chunk(columns[key]).is_valid())
    kept = np.flatnonzero(wanted)
    times = event_time.values[kept]
    code, codes, still = _codes(spec, times, closed_us)
    if still is not None:
        kept, times, code = kept[still], times[still], code[still]
    if len(kept) == 0:
        return None
    taken = None if len(kept) == rows else pa.array(kept)

    carried = {name: taken_from(columns[operand], taken) for name, operand in spec.carried.items()}
    if taken is not None:
        sets = np.take(sets, kept, axis=2)
    content = Content(0, times, code, codes, sets, carried)
    if spec.input.keys[0] in BLOCK_KEYS:
        return _in_blocks(spec, content)
    of_rows = [one_chunk(columns[key]) for key in spec.input.keys]
    if taken is not None:
        of_rows = [column.take(taken) for column in of_rows]
    keys = encode_row_keys(of_rows, spec.input.keys)
    return JoinTuples(input, keys, content)


def _in_blocks(spec: InputLogic, content: Content) -> JoinTuples:
    """The tuples of a join without an equality: each in one block, or in all of them."""
    rows = content.rows
    if spec.input.keys[0] == ONE_BLOCK:
        return JoinTuples(spec.number, RowKeys(np.arange(rows) % BLOCKS, None), content)
    blocks = np.repeat(np.arange(BLOCKS), rows)
    return JoinTuples(spec.number, RowKeys(blocks, None), content.take(np.tile(np.arange(rows), BLOCKS)))


def _codes(spec: InputLogic, times: Ints, closed_us: int) -> tuple[Ints, Codes, Bools | None]:
    """(code of each tuple, the codes, which tuples some window still counts: None for all)."""
    index, starts = fine_slices(times, spec.windows)
    late = times < closed_us
    if not late.any():
        return index, Codes(starts, np.full(len(starts), NEVER_US)), None
    still = np.flatnonzero(last_end(spec.windows, starts)[index] > closed_us)
    code = 2 * index + late
    present = np.flatnonzero(np.bincount(code[still], minlength=2 * len(starts)))
    lookup = np.zeros(2 * len(starts), np.int64)
    lookup[present] = np.arange(len(present))
    bound = np.where(present % 2, closed_us, NEVER_US)
    return lookup[code], Codes(starts[present // 2], bound), still


def ship_join(logic: JoinLogic, tuples: JoinTuples, partitioning: Partitioning) -> list[Shipment]:
    """Route tuples to partitions by key, one blob each."""
    return [
        Shipment(partition, pack_bundle(_items(tuples, keys, rows)))
        for partition, keys, rows in route_rows(logic, tuples.keys, partitioning)
    ]


def route_rows(
    logic: JoinLogic, keys: RowKeys, partitioning: Partitioning
) -> Iterator[tuple[int, RowKeys, Ints | None]]:
    """(partition, keys of the rows that go there, these rows: None for all): equal keys of all inputs meet."""
    home = partition_rows(keys, partitioning, logic.operator.id)
    sizes = np.bincount(home, minlength=partitioning.partitions)
    by_home = np.argsort(home.astype(np.uint16), kind="stable")
    ends = np.cumsum(sizes)
    for partition in np.flatnonzero(sizes).tolist():
        rows = by_home[ends[partition] - sizes[partition] : ends[partition]]
        alone = len(rows) == len(home)
        yield partition, keys if alone else _take_keys(keys, rows), None if alone else rows


def _take_keys(keys: RowKeys, rows: Ints) -> RowKeys:
    values = keys.values[rows]
    if keys.table is None:
        return RowKeys(values, None)
    present = np.bincount(values, minlength=keys.table.num_rows) > 0
    return RowKeys((np.cumsum(present) - 1)[values], keys.table.filter(pa.array(present)))


def _items(tuples: JoinTuples, keys: RowKeys, rows: Ints | None) -> dict[str, Item]:
    content = tuples.content if rows is None else tuples.content.take(rows)
    return content_items(content) | key_items(keys) | {"meta": meta_item({"input": tuples.input})}


def key_items(keys: RowKeys) -> dict[str, Item]:
    items: dict[str, Item] = {"key": narrow(keys.values)}
    return items if keys.table is None else items | {"keys": keys.table}


def keys_from(items: dict[str, Item]) -> RowKeys:
    return RowKeys(items["key"].astype(np.int64), items.get("keys"))


def meta_item(meta: dict[str, int]) -> Item:
    return np.frombuffer(json.dumps(meta).encode(), np.uint8)


def meta_of(items: dict[str, Item]) -> dict[str, int]:
    """What a bundle is: {"input": number} of new tuples, {"hop": number} of rows on their way."""
    found: dict[str, int] = json.loads(items["meta"].tobytes())
    return found


def receive_join(logic: JoinLogic, blobs: Sequence[Blob]) -> list[JoinTuples | None]:
    """All blobs of one partition, as one batch per input."""
    return together(logic, [read_bundle(blob) for blob in blobs])


def together(logic: JoinLogic, bundles: Sequence[dict[str, Item]]) -> list[JoinTuples | None]:
    """New tuples as one batch per input."""
    received: list[list[JoinTuples]] = [[] for _ in logic.inputs]
    for items in bundles:
        number = meta_of(items)["input"]
        received[number].append(JoinTuples(number, keys_from(items), content_from(items)))
    return [_together(found) for found in received]


def _together(several: Sequence[JoinTuples]) -> JoinTuples | None:
    if not several:
        return None
    keys = concat_keys([one.keys for one in several])
    return JoinTuples(several[0].input, keys, concat_contents([one.content for one in several]))
