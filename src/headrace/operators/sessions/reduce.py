"""The reduce side of shared sessions: micro-sessions per family and cell, merged with the open sessions per query.

A family's rows are in the order of keys and moments, and so are the sessions that were left open. So each query's rows
are merged with its open sessions by one walk over both, and a new session begins wherever a row starts later than
everything before it reaches. A query's filters add rows inside of its sessions only, so they need no merge of their
own. Partials follow: lift, combine, lower, as for windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from headrace.model.metrics import QueryCounts
from headrace.operators.common.arrays import Ints
from headrace.operators.common.keys import empty_key, unify_keys
from headrace.operators.protocol import Emit
from headrace.operators.sessions.filling import fill_lanes
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.merging import Stored, merge
from headrace.operators.sessions.micro import MicroSessions, late_limits
from headrace.operators.sessions.rows import lower_output, open_block
from headrace.operators.sessions.segment import SessionSegment, make_segment
from headrace.operators.sessions.values import KeptBags, gather_bags, row_values, values_of_keys
from headrace.operators.sessions.wanted import FamilyMicros, family_micros, pairs_of
from headrace.operators.windows.aggregation import Reduced
from headrace.operators.windows.vocabularies import common_vocabularies

BLOCK_ELEMENTS = 1 << 21
"""Keys are worked off in blocks, so that micro-sessions times queries are about this many at most."""


@np.errstate(invalid="ignore", over="ignore")
def reduce_sessions(
    logic: SessionLogic,
    micros: MicroSessions | None,
    segments: Sequence[SessionSegment],
    closed_us: int,
    watermark_us: int,
    emit: Emit,
) -> Reduced[SessionSegment]:
    """Run one partition of one epoch: sessions that end by the watermark leave as rows, the others as a new segment.

    Stored sessions that ended by `closed_us` were delivered already and are forgotten.
    """
    vocabularies = common_vocabularies(logic.operator, [] if micros is None else [micros], segments)
    keys, micro_keys, stored_keys = _unify(micros, segments)
    reduced: Reduced[SessionSegment] = Reduced()
    families = []
    if micros is not None and micros.rows:
        families = list(family_micros(logic, micros, micro_keys, closed_us, reduced.ways))
    stored = [
        Stored(logic, block, ids[block.keys], closed_us)
        for segment, ids in zip(segments, stored_keys, strict=True)
        for block in segment.blocks
    ]
    bags = gather_bags(logic, micros, micro_keys, list(zip(segments, stored_keys, strict=True)), closed_us)
    accepted = np.zeros(len(logic.query_of), np.int64)
    blocks, later = [], KeptBags(logic.bags)
    for low, high in _key_blocks(keys.num_rows, families):
        limits = late_limits(logic.operator, closed_us)[logic.gap_index]
        pairs = pairs_of(families, limits, low, high)
        for pair in pairs:
            accepted[pair.family.columns] += pair.tuples()
        merged = merge(logic, pairs, stored, low, high)
        if merged is None:
            continue
        fill_lanes(logic, merged, pairs, stored)
        found = merged.found
        values = values_of_keys(logic, bags, found, low, high)
        for ready in logic.outputs:
            kept = partial(row_values, values, found, ready)
            lowered = lower_output(logic, found, ready, keys, vocabularies, watermark_us, kept)
            reduced.note(lowered)
            if lowered.table is not None and lowered.table.num_rows:
                emit(ready.output.signature, lowered.table, lowered.queries, lowered.latest_us)
        if (found.ends > watermark_us).any():
            blocks.append(open_block(logic, found, found.ends > watermark_us))
            later.add(values, watermark_us)
    reduced.matched = QueryCounts.of(logic.queries[logic.query_of[logic.base]], accepted[logic.base])
    if blocks:
        reduced.segment = make_segment(logic.operator, keys, blocks, vocabularies, later.bags())
    return reduced


def _unify(
    micros: MicroSessions | None, segments: Sequence[SessionSegment]
) -> tuple[pa.Table, Ints, list[Ints]]:
    """(all keys, each micro-session's among them, each segment's)."""
    tables = [segment.keys for segment in segments]
    if micros is not None:
        tables.append(micros.keys.table)
    if not tables:
        return empty_key(0), np.empty(0, np.int64), []
    keys, ids = unify_keys(tables)
    mine = np.empty(0, np.int64) if micros is None else ids[-1][micros.keys.ids]
    return keys, mine, ids[: len(segments)]


def _key_blocks(keys: int, families: Sequence[FamilyMicros]) -> Iterator[tuple[int, int]]:
    """All keys as ranges, each with few enough micro-sessions."""
    work = np.zeros(keys, np.int64)
    for family in families:
        work += (np.bincount(family.keys, minlength=keys) * family.wanted.each()).astype(np.int64)
    home = np.cumsum(work) // BLOCK_ELEMENTS
    edges = np.flatnonzero(np.diff(home, prepend=-1, append=-1)) if keys else np.empty(0, np.int64)
    yield from zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
