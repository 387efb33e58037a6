"""Join state: the live tuples of all inputs, each once, as immutable segments that outlive the plan that wrote them.

A segment says which query each slot meant when it was written. What has become of those slots since is AStream's
changelog-set (2.1.2): bits whose query is gone, or has given its slot to another, are masked off when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.catalog.changelogs import changelog_set, words
from headrace.operators.common.bitrows import WORD
from headrace.operators.common.bundle import Item
from headrace.operators.common.encode import Array, narrow
from headrace.operators.join.keys import KeyTable
from headrace.operators.join.logic import InputLogic, JoinLogic, Words
from headrace.operators.join.rows import Body, KeyedRows, body_from, body_items, last_end, merge_keyed

VERSION = 2


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
    body = stored.rows.body
    carried = {
        name: body.carried[name] if name in body.carried else pa.nulls(body.rows, operand.type.arrow)
        for name, operand in spec.carried.items()
    }
    sets, mask = _current_sets(spec, stored, body.sets)
    return KeyedRows(stored.rows.keys, Body(body.base, body.time, body.code, body.codes, sets, carried, mask))


def _current_sets(spec: InputLogic, stored: StoredInput, sets: Array) -> tuple[Array, Array | None]:
    """(query-sets in the current plan's roles and words, mask of the queries that are still there)."""
    mask = None
    if stored.slots != spec.slots:
        mask = np.zeros((spec.roles, len(spec.words)), np.uint64)
        slots = (spec.words[-1] + 1) * WORD
        for part, then, now in zip(mask, stored.slots, spec.slots, strict=False):
            part |= words(changelog_set(then, now), slots)[list(spec.words)]
    if (sets.shape[0], stored.words) == (spec.roles, spec.words):
        return sets, mask
    roles = min(spec.roles, sets.shape[0])
    fitted = np.zeros((spec.roles, len(spec.words), sets.shape[2]), np.uint64)
    for word in set(spec.words) & set(stored.words):
        fitted[:roles, spec.words.index(word)] = sets[:roles, stored.words.index(word)]
    return fitted, mask


def build_segment(
    logic: JoinLogic, parts: Sequence[Sequence[KeyedRows]], watermark_us: int
) -> JoinSegment | None:
    """The tuples of each input's parts that a window after the watermark may still need; None without any."""
    inputs: dict[str, StoredInput] = {}
    ends = []
    for spec, rows in zip(logic.inputs, parts, strict=True):
        live = [part for part in (_live(spec, part, watermark_us) for part in rows) if part is not None]
        if live:
            inputs[spec.input.id] = StoredInput(merge_keyed(live), spec.slots, spec.words)
            ends += [int(last_end(spec.windows, part.body.codes.start).max()) for part in live]
    return JoinSegment(inputs, max(ends)) if inputs else None


def _live(spec: InputLogic, part: KeyedRows, watermark_us: int) -> KeyedRows | None:
    body = part.body
    needed = (last_end(spec.windows, body.codes.start) > watermark_us)[body.code]
    needed &= body.wanted()
    if body.mask is None and needed.all():
        return part if body.rows else None
    kept = np.flatnonzero(needed)
    if len(kept) == 0:
        return None
    rows = body.take(kept)
    present = np.bincount(rows.code, minlength=rows.codes.count) > 0
    fewer = Body(
        rows.base,
        rows.time,
        (np.cumsum(present) - 1)[rows.code],
        rows.codes.take(np.flatnonzero(present)),
        rows.sets,
        rows.carried,
    )
    counts = np.diff(np.append(0, np.cumsum(needed))[part.keys.offsets])
    occurs = counts > 0
    table = None if part.keys.table is None else part.keys.table.filter(pa.array(occurs))
    offsets = np.append(0, np.cumsum(counts[occurs]))
    return KeyedRows(KeyTable(part.keys.hashes[occurs], offsets, table), fewer)


def join_items(segment: JoinSegment) -> dict[str, Item]:
    """The segment as bundle items."""
    items: dict[str, Item] = {}
    described = []
    for i, (id_, stored) in enumerate(segment.inputs.items()):
        keys = stored.rows.keys
        mine = body_items(stored.rows.body) | {"hash": narrow(keys.hashes), "offset": narrow(keys.offsets)}
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
    if meta["version"] != VERSION:
        raise ValueError(f"a join segment of version {meta['version']}; this is version {VERSION}")
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
            KeyedRows(keys, body_from(mine)),
            [dict(map(tuple, role)) for role in described["slots"]],
            tuple(described["words"]),
        )
    return JoinSegment(inputs, meta["last_end_us"])
