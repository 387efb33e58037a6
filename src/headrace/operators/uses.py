"""Which calls of registered functions an operator makes for its tuples, and for whom."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.plan import AggregatingOperator, JoinOperator, Operator, SelectionOperator
from headrace.model.predicate import Operand, Predicate, operands_of
from headrace.operators.common.calls import CallPlan, CallUse


def call_plan(operator: Operator, read: int) -> CallPlan:
    """The calls that an operator needs of the tuples of one of its reads."""
    if not any(operand.calls for operand in operator.reads[read].scanned):
        return CallPlan(())
    return CallPlan(list(_uses(operator, read)))


def _uses(operator: Operator, read: int) -> Iterator[CallUse]:
    match operator:
        case AggregatingOperator():
            yield from _of_aggregation(operator)
        case SelectionOperator():
            for query, predicate in zip(operator.queries, operator.predicates, strict=True):
                yield from _needed((*operands_of(predicate), *operator.outputs), int(query), predicate)
        case JoinOperator():
            yield from _of_join(operator, read)
        case _:
            raise TypeError(f"no calls are known of {type(operator).__name__}")


def _of_aggregation(operator: AggregatingOperator) -> Iterator[CallUse]:
    inputs: dict[int, set[int]] = {}
    for lane in (*operator.lanes, *operator.bags):
        for place, measure in zip(lane.columns, lane.measures, strict=True):
            found = operator.measures[measure].input
            if found is not None:
                inputs.setdefault(place, set()).add(found)
    for number, column in enumerate(operator.columns):
        read = [operator.inputs[i] for i in sorted(inputs.get(number, ()))]
        needed = (*operands_of(column.predicate), *operator.keys, *read)
        yield from _needed(needed, int(column.query), column.predicate)


def _of_join(operator: JoinOperator, read: int) -> Iterator[CallUse]:
    """A tuple's calls are for the queries that ask for them by its own conditions, its key, or those on joined rows."""
    input_ = operator.inputs[read]
    asked: dict[int, set[Operand]] = {}
    for query in operator.joined:
        asked[int(query.query)] = {operand for _, operand in query.called_with}
    for one in input_.filters:
        carried = asked.get(int(one.query), set()) & {*input_.carried}
        yield from _needed(
            (*operands_of(one.predicate), *input_.keys, *carried), int(one.query), one.predicate
        )


def _needed(operands: tuple[Operand, ...], query: int, predicate: Predicate) -> Iterator[CallUse]:
    for operand in operands:
        for part in operand.read:
            if part.calls:
                yield CallUse(part, query, predicate)
