"""Shared windowed aggregations, of a stream's tuples or of joined rows, as a kind of operator."""

from __future__ import annotations

import numpy as np

from headrace.model.plan import AggregationOperator, SharedPlan
from headrace.model.plan.names import input_id
from headrace.operators.common.placing import Portion, spread_of
from headrace.operators.common.sampling import sample_keys
from headrace.operators.protocol import (
    Batch,
    Items,
    MapOutlet,
    Mapped,
    OperatorKind,
    Received,
    Reduced,
    ReduceOutlet,
    Saved,
)
from headrace.operators.windows.aggregation import reduce_aggregation
from headrace.operators.windows.lifted import combine_lifted, lift_tuples, receive_lifted, ship_lifted
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.segment import Segment, portion_of_segment, segment_from, segment_items


class Windows:
    """An aggregation made ready to run."""

    def __init__(self, operator: AggregationOperator, plan: SharedPlan) -> None:
        self._operator = operator
        self._logic = AggregationLogic(operator)
        factor = operator.product is not None
        self._sampled = input_id(operator.stream, operator.keys) if factor else None

    def map(self, batch: Batch, outlet: MapOutlet) -> Mapped:
        lifted = lift_tuples(self._operator, batch.columns, batch.closed_us)
        codes = np.empty(0, np.int64) if lifted is None else lifted.keys.ids
        keys = None if self._sampled is None else sample_keys(self._sampled, codes, batch.rows)
        if lifted is None:
            return Mapped(keys=keys)
        combined = combine_lifted(self._operator, lifted)
        return Mapped(ship_lifted(self._operator, combined, outlet.partitioning), keys=keys)

    def reduce(self, received: Received, outlet: ReduceOutlet) -> Reduced:
        lifted = receive_lifted(self._operator, received.blobs)
        spread = None
        if lifted is not None and outlet.partitioning.partitions > 1:
            spread = spread_of(lifted.keys, self._operator.id)
        reduced = reduce_aggregation(
            self._logic,
            lifted,
            received.absorbed,
            received.kept,
            received.closed_us,
            received.watermark_us,
            outlet.emit,
        )
        segment = reduced.segment
        state = None if segment is None else Saved(segment_items(segment), segment.last_end_us)
        return Reduced(
            state,
            reduced.rows,
            reduced.failures,
            reduced.matched,
            ways=reduced.ways,
            spread=spread,
            closing_seconds=reduced.closing_seconds,
        )


def load_windows(items: Items, operator: str, portion: Portion) -> Segment | None:
    return portion_of_segment(segment_from(items), portion)


WINDOWS = OperatorKind(
    Windows,
    load_windows,
    stages=lambda operator, rebuilds: 1,
    factor_of=lambda operator: operator.product,
    ticks=True,
    merges=True,
)
GROUPINGS = OperatorKind(
    Windows,
    load_windows,
    stages=lambda operator, rebuilds: 1,
    fed_by=lambda operator: operator.join,
    ticks=True,
    merges=True,
)
