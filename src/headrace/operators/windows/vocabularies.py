"""One vocabulary per input for batches and segments that meet, and none larger than the state that is kept needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from headrace.model.lanes import has_vocabulary, holds_ranks, is_least, is_ranked
from headrace.model.plan import AggregatingOperator, LaneKind
from headrace.operators.common.arrays import Ints
from headrace.operators.common.encode import translate_ranks
from headrace.operators.common.vocabulary import vocabulary_of
from headrace.operators.windows.framing import HasLanes, HasPartials, KeyedSegment
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.stored_bags import Bags, revalue_bags
from headrace.operators.windows.storing import widen_extremes

RANKED_LANES = (LaneKind.MIN, LaneKind.MAX, LaneKind.BAG)


class Ranked(Protocol):
    """Partials, and the vocabularies that their ranks are of."""

    measures: list[Partials]
    vocabularies: dict[int, pa.Array]


def unify_vocabularies(operator: AggregatingOperator, batches: Sequence[Ranked]) -> dict[int, pa.Array]:
    """One vocabulary per input that has one; the batches' ranks are translated to it."""
    return common_vocabularies(operator, batches, [])


def common_vocabularies(
    operator: AggregatingOperator, batches: Sequence[Ranked], segments: Sequence[KeyedSegment[Any]]
) -> dict[int, pa.Array]:
    """One vocabulary per input that has one; ranks in batches and segments are translated to it."""
    found: dict[int, pa.Array] = {}
    for i, operand in enumerate(operator.inputs):
        if not has_vocabulary(operand):
            continue
        stored = [segment for segment in segments if operand.sql in segment.vocabularies]
        fresh = [batch for batch in batches if i in batch.vocabularies]
        known = [segment.vocabularies[operand.sql] for segment in stored]
        known += [batch.vocabularies[i] for batch in fresh]
        if not known:
            continue
        common = vocabulary_of(operand, *known)
        found[i] = common.values
        for batch in fresh:
            _rerank_measures(operator, batch.measures, i, common.ranks(batch.vocabularies[i]).values)
        for segment in stored:
            ranks = common.ranks(segment.vocabularies[operand.sql]).values
            _rerank_state(segment.holders, segment.bags, operand.sql, ranks)
            segment.vocabularies[operand.sql] = common.values
    return found


def prune_vocabularies(
    operator: AggregatingOperator,
    blocks: Sequence[HasLanes],
    bags: Bags,
    vocabularies: Mapping[int, pa.Array],
) -> dict[str, pa.Array]:
    """By the inputs' texts, what the state still ranks of their vocabularies; its ranks are translated to that."""
    texts = {operator.inputs[i].sql: vocabulary for i, vocabulary in vocabularies.items()}
    return {sql: _prune_vocabulary(blocks, bags, sql, vocabulary) for sql, vocabulary in texts.items()}


def _prune_vocabulary(blocks: Sequence[HasLanes], bags: Bags, sql: str, vocabulary: pa.Array) -> pa.Array:
    ranks = [
        widen_extremes(lane.partials["v"], is_least(name)).ravel()
        for name, lane in _ranked_lanes(blocks, sql)
    ]
    ranks += [bags[name].bag.values for name in _ranked_bags(bags, sql)]
    live = np.unique(np.concatenate(ranks)) if ranks else np.empty(0, np.int64)
    live = live[(live >= 0) & (live < len(vocabulary))]
    places = np.zeros(len(vocabulary), np.int64)
    places[live] = np.arange(len(live))
    _rerank_state(blocks, bags, sql, places)
    return vocabulary.take(pa.array(live))


def _rerank_measures(
    operator: AggregatingOperator, measures: Sequence[Partials], input_: int, ranks: Ints
) -> None:
    for measure, partials in zip(operator.measures, measures, strict=True):
        if measure.input == input_ and measure.kind in RANKED_LANES:
            partials["v"] = translate_ranks(partials["v"], ranks)


def _rerank_state(blocks: Sequence[HasLanes], bags: Bags, sql: str, ranks: Ints) -> None:
    for name, lane in _ranked_lanes(blocks, sql):
        wide = widen_extremes(lane.partials["v"], is_least(name))
        lane.partials = {"v": translate_ranks(wide, ranks)}
    revalue_bags(bags, _ranked_bags(bags, sql), ranks)


def _ranked_lanes(blocks: Sequence[HasLanes], sql: str) -> list[tuple[str, HasPartials]]:
    return [
        (name, lane)
        for block in blocks
        for name, lane in block.lanes.items()
        if is_ranked(name) and holds_ranks(name, sql)
    ]


def _ranked_bags(bags: Bags, sql: str) -> list[str]:
    return [name for name in bags if holds_ranks(name, sql)]
