"""Keys and strings that open sessions share: made common when an epoch begins, pruned when it ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.model.lanes import has_words
from headrace.model.plan import SessionOperator
from headrace.operators.common.encode import translate_ranks
from headrace.operators.common.words import ordered_words
from headrace.operators.sessions.micro import MicroSessions
from headrace.operators.sessions.segment import SessionBlock, SessionSegment
from headrace.operators.windows.framing import LaneBlock
from headrace.operators.windows.lifted import rerank
from headrace.operators.windows.stored_bags import Bags, rename_keys, revalue_bags, worded_bags


def make_segment(
    operator: SessionOperator,
    keys: pa.Table,
    blocks: list[SessionBlock],
    words: dict[int, pa.Array],
    bags: Bags,
) -> SessionSegment:
    """The blocks and bags with only those keys and strings that they use; changes them."""
    used = np.unique(np.concatenate([block.keys for block in blocks]))
    for block in blocks:
        block.keys = np.searchsorted(used, block.keys)
    named = {operator.inputs[i].sql: array for i, array in words.items()}
    places = np.zeros(keys.num_rows, np.int64)
    places[used] = np.arange(len(used))
    bags = rename_keys(bags, places)
    texts = {sql: _prune_words(blocks, bags, sql, array) for sql, array in named.items()}
    return SessionSegment(keys.take(pa.array(used)), blocks, texts, bags)


def _worded(blocks: Sequence[SessionBlock], sql: str) -> list[LaneBlock]:
    return [lane for b in blocks for name, lane in b.lanes.items() if name.endswith(f":words:{sql}")]


def _prune_words(blocks: Sequence[SessionBlock], bags: Bags, sql: str, words: pa.Array) -> pa.Array:
    """The strings that open sessions still rank; the ranks are translated to them."""
    lanes, kept = _worded(blocks, sql), worded_bags(bags, sql)
    ranks = [*(lane.partials["v"] for lane in lanes), *(bags[name].bag.values for name in kept)]
    live = np.unique(np.concatenate([np.empty(0, np.int64), *ranks]))
    live = live[(live >= 0) & (live < len(words))]
    places = np.zeros(len(words), np.int64)
    places[live] = np.arange(len(live))
    for lane in lanes:
        lane.partials = {"v": translate_ranks(lane.partials["v"], places)}
    revalue_bags(bags, kept, places)
    return words.take(pa.array(live))


def common_words(
    operator: SessionOperator, micros: MicroSessions | None, segments: Sequence[SessionSegment]
) -> dict[int, pa.Array]:
    """One dictionary per input of strings or rows; ranks in rows and segments are translated to it."""
    words: dict[int, pa.Array] = {}
    for i, operand in enumerate(operator.inputs):
        if not has_words(operand):
            continue
        known = [s.words[operand.sql] for s in segments if operand.sql in s.words]
        fresh = None if micros is None else micros.words.get(i)
        if not known and fresh is None:
            continue
        ordered = ordered_words(operand, *known, *([] if fresh is None else [fresh]))
        words[i] = ordered.values
        if micros is not None and fresh is not None:
            rerank(operator, micros.measures, i, ordered.ranks(fresh).values)
        for segment in segments:
            if operand.sql in segment.words:
                ranks = ordered.ranks(segment.words[operand.sql]).values
                for lane in _worded(segment.blocks, operand.sql):
                    lane.partials = {"v": translate_ranks(lane.partials["v"], ranks)}
                revalue_bags(segment.bags, worded_bags(segment.bags, operand.sql), ranks)
                segment.words[operand.sql] = ordered.values
    return words
