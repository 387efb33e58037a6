"""Join state: the live tuples of all inputs, each once, as immutable segments that outlive the plan that wrote them.

A segment says which query each slot meant when it was written. What has become of those slots since is AStream's
changelog-set (2.1.2): bits whose query is gone, or has given its slot to another, are masked off when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.model.tables import WORD
from headrace.operators.common.arrays import Array, Bools, Ints
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import narrow, ranges
from headrace.operators.common.placing import Portion
from headrace.operators.join.changelogs import changelog_set, words
from headrace.operators.join.keys import KeyTable, key_groups
from headrace.operators.join.logic import InputLogic, JoinLogic, Words, slot_mask
from headrace.operators.join.rows import (
    Content,
    KeyedRows,
    content_from,
    content_items,
    last_end,
    merge_keyed,
)
from headrace.operators.windows.framing import check_version

VERSION = 3
"""Version 2 had other hashes of keys."""


@dataclass(slots=True)
class StoredInput:
    """An input's tuples, with the words of query-sets they have and the query that each slot meant per role.

    No window of these queries has an edge inside a slice. Others may, but they have no bit in these tuples.
    """

    rows: KeyedRows
    slots: list[dict[int, int]]
    words: Words


@dataclass(slots=True)
class JoinSegment:
    """State of one partition by the inputs' permanent ids. The last window that needs it ends at `last_end_us`."""

    inputs: dict[str, StoredInput]
    last_end_us: int


def read_input(spec: InputLogic, segment: JoinSegment) -> KeyedRows | None:
    """An input's tuples as the current plan sees them, or None: query-sets, slices and columns are its own."""
    stored = segment.inputs.get(spec.input.id)
    if stored is None or not spec.windows:
        return None
    content = stored.rows.content
    carried = {
        name: content.carried[name] if name in content.carried else pa.nulls(content.rows, operand.type.arrow)
        for name, operand in spec.carried.items()
    }
    sets, mask = _current_sets(spec, stored, content.sets)
    return KeyedRows(
        stored.rows.keys,
        Content(content.base, content.time, content.code, content.codes, sets, carried, mask),
    )


def _current_sets(spec: InputLogic, stored: StoredInput, sets: Array) -> tuple[Array, Array | None]:
    """(query-sets in the current plan's roles and words, mask of the queries that are still where they were)."""
    mask = None
    if stored.slots != spec.slots:
        mask = np.zeros((spec.roles, len(spec.words)), np.uint64)
        slots = (spec.words[-1] + 1) * WORD
        for allowed, then, now in zip(mask, stored.slots, spec.slots, strict=False):
            allowed |= words(changelog_set(then, now), slots)[list(spec.words)]
    moved = _moved_slots(spec, stored)
    if (sets.shape[0], stored.words) == (spec.roles, spec.words) and not moved:
        return sets, mask
    roles = min(spec.roles, sets.shape[0])
    fitted = np.zeros((spec.roles, len(spec.words), sets.shape[2]), np.uint64)
    for word in set(spec.words) & set(stored.words):
        fitted[:roles, spec.words.index(word)] = sets[:roles, stored.words.index(word)]
    if not moved:
        return fitted, mask
    assert mask is not None
    fitted &= mask[:, :, None]
    for role, old, new in moved:
        bits = sets[role, stored.words.index(old // WORD)] >> np.uint64(old % WORD) & np.uint64(1)
        fitted[role, spec.words.index(new // WORD)] |= bits << np.uint64(new % WORD)
    return fitted, None


def _moved_slots(spec: InputLogic, stored: StoredInput) -> list[tuple[int, int, int]]:
    """(role, slot then, slot now) of the queries that have another slot than when the tuples were written."""
    moved = []
    for role, (then, now) in enumerate(zip(stored.slots, spec.slots, strict=False)):
        if then != now:
            place = {query: slot for slot, query in now.items()}
            moved += [(role, old, place[q]) for old, q in then.items() if place.get(q, old) != old]
    return moved


def build_segment(
    logic: JoinLogic, sides: Sequence[Sequence[KeyedRows]], watermark_us: int
) -> JoinSegment | None:
    """The tuples of each input that a window after the watermark may still need; None without any."""
    inputs: dict[str, StoredInput] = {}
    ends = []
    for spec, held in zip(logic.inputs, sides, strict=True):
        live = [rows for rows in (_live(spec, rows, watermark_us) for rows in held) if rows is not None]
        if live:
            inputs[spec.input.id] = StoredInput(merge_keyed(live), spec.slots, spec.words)
            ends += [int(last_end(spec.windows, rows.content.codes.start).max()) for rows in live]
    return JoinSegment(inputs, max(ends)) if inputs else None


def _live(spec: InputLogic, rows: KeyedRows, watermark_us: int) -> KeyedRows | None:
    content = rows.content
    needed = (last_end(spec.windows, content.codes.start) > watermark_us)[content.code]
    needed &= content.wanted()
    if content.mask is None and needed.all():
        return rows if content.rows else None
    return _some_rows(rows, needed)


def _some_rows(rows: KeyedRows, needed: Bools) -> KeyedRows | None:
    """Some rows with the keys and codes that they have, and the bits of their mask; None without any row."""
    kept = np.flatnonzero(needed)
    if len(kept) == 0:
        return None
    content = rows.content.take(kept)
    present = np.bincount(content.code, minlength=content.codes.count) > 0
    fewer = Content(
        content.base,
        content.time,
        (np.cumsum(present) - 1)[content.code],
        content.codes.take(np.flatnonzero(present)),
        content.sets,
        content.carried,
    )
    counts = np.diff(np.append(0, np.cumsum(needed))[rows.keys.offsets])
    occurs = counts > 0
    table = None if rows.keys.table is None else rows.keys.table.filter(pa.array(occurs))
    offsets = np.append(0, np.cumsum(counts[occurs]))
    return KeyedRows(KeyTable(rows.keys.hashes[occurs], offsets, table), fewer)


def portion_of_join(segment: JoinSegment, operator: str, portion: Portion) -> JoinSegment | None:
    """The tuples of some keys that some queries want, of an operator by its id; None when there are none."""
    if portion.whole:
        return segment
    found = {id_: _portion_of_input(stored, operator, portion) for id_, stored in segment.inputs.items()}
    inputs = {id_: stored for id_, stored in found.items() if stored is not None}
    return JoinSegment(inputs, segment.last_end_us) if inputs else None


def _portion_of_input(stored: StoredInput, operator: str, portion: Portion) -> StoredInput | None:
    keys, content = stored.rows.keys, stored.rows.content
    slots = [{slot: q for slot, q in role.items() if portion.has(q)} for role in stored.slots]
    if portion.chooses:
        mask = np.stack([slot_mask(role, stored.words) for role in slots])
        content = replace(content, mask=mask)
    mine = KeyedRows(keys, content)
    if portion.key_groups is not None:
        mine = _of_keys(mine, np.flatnonzero(portion.keys(key_groups(keys, operator))))
    rows = _some_rows(mine, mine.content.wanted())
    return None if rows is None else StoredInput(rows, slots, stored.words)


def _of_keys(rows: KeyedRows, wanted: Ints) -> KeyedRows:
    """The rows of some keys; no other row is looked at. Keys are in the order in which they find each other, so those
    of a key group do not lie side by side.
    """
    keys = rows.keys
    counts = np.diff(keys.offsets)[wanted]
    table = None if keys.table is None else keys.table.take(pa.array(wanted))
    content = rows.content.take(ranges(keys.offsets[wanted], counts))
    return KeyedRows(KeyTable(keys.hashes[wanted], np.append(0, np.cumsum(counts)), table), content)


def join_items(segment: JoinSegment) -> dict[str, Item]:
    """The segment as bundle items."""
    items: dict[str, Item] = {}
    described = []
    for i, (id_, stored) in enumerate(segment.inputs.items()):
        keys = stored.rows.keys
        mine = content_items(stored.rows.content) | {
            "hash": narrow(keys.hashes),
            "offset": narrow(keys.offsets),
        }
        if keys.table is not None:
            mine["keys"] = keys.table
        items |= {f"{i}.{name}": item for name, item in mine.items()}
        slots = [list(role.items()) for role in stored.slots]
        described.append({"id": id_, "slots": slots, "words": list(stored.words)})
    meta = {"version": VERSION, "last_end_us": segment.last_end_us, "inputs": described}
    items["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    return items


def join_from(items: dict[str, Item]) -> JoinSegment:
    """The inverse of `join_items`; arrays stay views of the bundle where they can."""
    meta = json.loads(items["meta"].tobytes())
    check_version(meta, VERSION)
    inputs = {}
    for i, described in enumerate(meta["inputs"]):
        prefix = f"{i}."
        mine = {name[len(prefix) :]: item for name, item in items.items() if name.startswith(prefix)}
        keys = KeyTable(
            mine["hash"].astype(np.int64, copy=False),
            mine["offset"].astype(np.int64, copy=False),
            mine.get("keys"),
        )
        inputs[described["id"]] = StoredInput(
            KeyedRows(keys, content_from(mine)),
            [dict(map(tuple, role)) for role in described["slots"]],
            tuple(described["words"]),
        )
    return JoinSegment(inputs, meta["last_end_us"])
