"""Aggregations of joined rows: which operator groups them, and what each query asks of it.

The operator is an ordinary shared aggregation over a stream of its own: a joined row is a tuple of it once per query
and window that holds the row. The query is a column, so queries are told apart by the predicate index.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.plan.names import QUERY, digest
from headrace.model.predicate import Compare, Op, Operand, operands_of
from headrace.model.query import Aggregation, Stream, StreamName
from headrace.model.tables import joined_column
from headrace.model.types import TIMESTAMP, Column
from headrace.model.window import Window
from headrace.planner.joins import Joining, renamed

ROWS = Stream(StreamName("joined rows"), (Column("__headrace_moment", TIMESTAMP),), "__headrace_moment", 0)
"""What a grouping reads. The event time is the last moment of the window."""


def grouping_id(joining: Joining) -> str:
    """The operator that groups a query's joined rows: one per set of inputs and grouping keys."""
    keys = (key.sql for key in grouping_body(joining).keys)
    return f"groups-{digest(*joining.clock, '', joining.signature, '', *keys)}"


def grouping_body(joining: Joining) -> Aggregation:
    """The query's aggregation over the operator's tuples: names that other queries know too, windows by their ends."""
    body, then = joining.body, joining.body.then
    assert isinstance(then, Aggregation)
    leaves = joining.leaves
    named = {carried.name: carried for carried in body.carried}

    def own(operand: Operand) -> Operand:
        if operand.parts:
            return Operand.row(tuple(map(own, operand.parts)))
        carried = named[operand.sql]
        return Operand(joined_column(*leaves[carried.side], carried.operand), operand.type)

    aggregates = tuple(
        replace(
            aggregate,
            input=None if aggregate.input is None else own(aggregate.input),
            filter=renamed(aggregate.filter, {o: own(o) for o in operands_of(aggregate.filter)}),
        )
        for aggregate in then.aggregates
    )
    slide = body.window.slide_us
    ends = Window(slide, slide, (body.window.offset_us + body.window.range_us) % slide)
    mine = Compare(QUERY, Op.EQ, int(joining.id))
    return Aggregation(ends, mine, tuple(map(own, then.keys)), aggregates, ())
