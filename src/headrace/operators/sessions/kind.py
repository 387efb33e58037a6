"""Shared sessions as a kind of operator. Their state is small and is written anew in every epoch."""

from __future__ import annotations

from headrace.model.plan import SessionOperator, SharedPlan
from headrace.operators.common.placing import Portion, spread_of
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
from headrace.operators.sessions.logic import SessionLogic
from headrace.operators.sessions.micro import combine_micros, prepare_micros, receive_micros, ship_micros
from headrace.operators.sessions.reduce import reduce_sessions
from headrace.operators.sessions.segment import (
    SessionSegment,
    portion_of_sessions,
    session_segment_from,
    session_segment_items,
)


class Sessions:
    """A session operator made ready to run."""

    def __init__(self, operator: SessionOperator, plan: SharedPlan) -> None:
        self._operator = operator
        self._logic = SessionLogic(operator)

    def map(self, batch: Batch, outlet: MapOutlet) -> Mapped:
        micros = prepare_micros(self._operator, batch.columns, batch.closed_us)
        if micros is None:
            return Mapped()
        micros = combine_micros(self._operator, micros, batch.closed_us)
        return Mapped(ship_micros(self._operator, micros, outlet.partitioning))

    def reduce(self, received: Received, outlet: ReduceOutlet) -> Reduced:
        micros = receive_micros(self._operator, received.blobs)
        spread = None
        if micros is not None and outlet.partitioning.partitions > 1:
            spread = spread_of(micros.keys, self._operator.id)
        reduced = reduce_sessions(
            self._logic,
            micros,
            [*received.kept, *received.absorbed],
            received.closed_us,
            received.watermark_us,
            outlet.emit,
        )
        segment = reduced.segment
        state = (
            None
            if segment is None
            else Saved(session_segment_items(segment, self._operator.id), segment.last_end_us)
        )
        return Reduced(
            state, reduced.rows, reduced.failures, reduced.matched, ways=reduced.ways, spread=spread
        )


def load_sessions(items: Items, operator: str, portion: Portion) -> SessionSegment | None:
    return portion_of_sessions(session_segment_from(items), operator, portion)


SESSIONS = OperatorKind(Sessions, load_sessions, stages=lambda operator, rebuilds: 1, ticks=True)
