"""Which plan node is run by what: the one table of operator kinds.

A new kind of operator is a plan node, an `OperatorKind` and a line here; see `operators/protocol.py`.
"""

from __future__ import annotations

from headrace.model.plan import (
    AggregationOperator,
    GroupingOperator,
    JoinOperator,
    Operator,
    SelectionOperator,
    SessionOperator,
)
from headrace.operators.join.kind import JOINS
from headrace.operators.protocol import OperatorKind
from headrace.operators.selection import SELECTIONS
from headrace.operators.sessions.kind import SESSIONS
from headrace.operators.windows.kind import GROUPINGS, WINDOWS

KINDS: dict[type, OperatorKind] = {
    AggregationOperator: WINDOWS,
    GroupingOperator: GROUPINGS,
    SessionOperator: SESSIONS,
    SelectionOperator: SELECTIONS,
    JoinOperator: JOINS,
}


def operator_kind(operator: Operator) -> OperatorKind:
    """What runs a plan node."""
    return KINDS[type(operator)]
