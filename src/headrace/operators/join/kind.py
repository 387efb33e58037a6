"""Shared joins as a kind of operator. Rows of a chain are stored, or feed an aggregation of the same plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from headrace.model.metrics import NOBODY
from headrace.model.plan import GroupingOperator, JoinOperator, SharedPlan
from headrace.model.predicate import Operand
from headrace.model.query import QueryId
from headrace.model.statistics import JoinCount
from headrace.model.ways import FamilyWay
from headrace.operators.common.placing import Portion
from headrace.operators.common.sampling import sample_keys
from headrace.operators.join.block import JoinedBlock, stored_rows
from headrace.operators.join.feed import GATHER_ROWS, Feed, Gathering
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.reduce import Outlet, reduce_join, resume_join
from headrace.operators.join.state import JoinSegment, join_from, join_items, portion_of_join
from headrace.operators.join.tuples import prepare_join, receive_join, ship_join
from headrace.operators.protocol import (
    Batch,
    Emit,
    Items,
    MapOutlet,
    Mapped,
    OperatorKind,
    Received,
    Reduced,
    ReduceOutlet,
    Saved,
    sources_of,
)
from headrace.operators.windows.lifted import Lifted, ship_lifted


class Joins:
    """A join operator made ready to run, with what becomes of the rows of its chains."""

    def __init__(self, operator: JoinOperator, plan: SharedPlan) -> None:
        self._operator = operator
        self._logic = JoinLogic(operator)
        groupings = {o.id: o for o in plan.operators if isinstance(o, GroupingOperator)}
        self._feeds = {
            number: Feed(self._logic, number, groupings[chain.feeds])
            for number, chain in enumerate(operator.chains)
            if chain.feeds is not None
        }
        stored = [chain for chain in operator.chains if chain.feeds is None]
        self._counted = {query.query for chain in stored for query in chain.queries}
        self._fed_slots = frozenset(
            query.slot for number in self._feeds for query in operator.chains[number].queries
        )

    def map(self, batch: Batch, outlet: MapOutlet) -> Mapped:
        ways: list[FamilyWay] = []
        tuples = prepare_join(self._logic, batch.read, batch.columns, batch.closed_us, ways)
        shipments = () if tuples is None else ship_join(self._logic, tuples, outlet.partitioning)
        if not self._feeds:
            return Mapped(shipments, ways=ways)
        codes = np.empty(0, np.int64) if tuples is None else tuples.keys.values
        keys = sample_keys(self._operator.inputs[batch.read].id, codes, batch.rows)
        return Mapped(shipments, keys=keys, ways=ways)

    def reduce(self, received: Received, outlet: ReduceOutlet) -> Reduced:
        """A rebuild joins for the chains that feed an aggregation alone."""
        gathered = self._gatherings(outlet)
        windowed: Counter[int] = Counter()
        failures: dict[int, str] = {}
        joined = self._outlet(received, outlet, gathered, windowed, failures)
        state, matched, sides, spread = None, NOBODY, list[JoinCount](), None
        ways: list[FamilyWay] = []
        if received.step > 0:
            held = received.absorbed, received.kept
            rows = resume_join(self._logic, received.blobs, *held, received.closed_us, joined, ways)
        else:
            reduced = reduce_join(
                self._logic,
                receive_join(self._logic, received.blobs),
                received.absorbed,
                received.kept,
                received.closed_us,
                received.watermark_us,
                joined if self._feeds or not received.rebuilds else None,
            )
            rows, segment, matched, sides = reduced.rows, reduced.segment, reduced.matched, reduced.sides
            spread, ways = reduced.spread, reduced.ways
            state = None if segment is None else Saved(join_items(segment), segment.last_end_us)
        for waiting in gathered.values():
            waiting.flush()
        joins = [*sides, *(JoinCount(QueryId(query), rows=count) for query, count in windowed.items())]
        stored = rows.only(self._counted)
        return Reduced(
            state, stored, failures, matched=matched, joined=rows, joins=joins, ways=ways, spread=spread
        )

    def _outlet(
        self,
        received: Received,
        outlet: ReduceOutlet,
        gathered: Mapping[str, Gathering],
        windowed: Counter[int],
        failures: dict[int, str],
    ) -> Outlet:
        """Where joined rows go. `windowed` gets how many each query has that are fed, once for each window."""

        def consume(chain: int, block: JoinedBlock) -> None:
            feed = self._feeds.get(chain)
            if feed is None:
                self._store(chain, block, received.epoch, outlet.emit)
                return
            for lifted in feed.lifted(block, windowed):
                gathered[feed.operator.id].add(lifted)

        return Outlet(
            consume,
            lambda shipment: outlet.send(self._operator.id, [shipment]),
            outlet.partitioning,
            self._fed_slots if received.rebuilds else None,
            tuple(self._feeds),
            outlet.caller,
            failures,
        )

    def _store(self, chain: int, block: JoinedBlock, epoch: int, emit: Emit) -> None:
        spec = self._operator.chains[chain]
        reach = max(window.range_us for query in spec.queries for window in query.windows)
        rows = stored_rows(self._logic, chain, block, epoch)
        emit(spec.signature, rows, [query.query for query in spec.queries], block.latest_us + reach)

    def _gatherings(self, outlet: ReduceOutlet) -> dict[str, Gathering]:
        """One for each aggregation that is fed; together they hold back no more than one would."""
        fed = {feed.operator.id: feed.operator for feed in self._feeds.values()}
        return {id_: _gathering(operator, outlet, len(fed)) for id_, operator in fed.items()}


def _gathering(operator: GroupingOperator, outlet: ReduceOutlet, count: int) -> Gathering:
    def send(lifted: Lifted) -> None:
        outlet.send(operator.id, ship_lifted(operator, lifted, outlet.partitioning))

    return Gathering(operator, send, max(GATHER_ROWS // count, 1))


def load_join(items: Items, operator: str, portion: Portion) -> JoinSegment | None:
    return portion_of_join(join_from(items), operator, portion)


def _stages(operator: JoinOperator, rebuilds: bool) -> int:
    """Joins send rows on to themselves where they are on several keys. A rebuild joins nothing but what is fed."""
    feeding = any(chain.feeds is not None for chain in operator.chains)
    return operator.levels if feeding or not rebuilds else 1


def _looked_up(operator: JoinOperator, read: int) -> Sequence[Operand]:
    """What conditions and calls read, and keys. What tuples carry alone are strings from beginning to end."""
    input_ = operator.inputs[read]
    compared = (index.operand for index in input_.operands)
    return sources_of([*compared, *input_.keys, *(carried for carried in input_.carried if carried.calls)])


JOINS = OperatorKind(Joins, load_join, _stages, merges=True, encoded=_looked_up)
