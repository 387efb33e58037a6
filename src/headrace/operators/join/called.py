"""Conditions on values of functions of joined tuples: asked last, of rows that all else has let through.

Each call is made once for all queries that want one of its rows. Every query's condition then selects by the values,
as predicates do that are about one stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.model.plan import JoinedQuery, at_position
from headrace.model.plan.predicates import group_families, index_operands
from headrace.model.predicate import Operand, operands_of
from headrace.model.tables import WORD
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.calls import Caller, FunctionFault, spread
from headrace.operators.common.query_sets import QuerySets
from headrace.operators.common.regions import regions_of
from headrace.operators.join.prefix import Prefix
from headrace.operators.join.probing import has_bits


class CalledConditions:
    """The conditions of some queries, which are asked at one step; built once per plan.

    `places[i]` is the bit of query i in the words of query-sets.
    """

    def __init__(self, queries: Sequence[JoinedQuery], places: Sequence[int], words: int) -> None:
        self._words, self._queries, self._places = words, queries, places
        self._with = {at_position(*one): one for query in queries for one in query.called_with}
        predicates = [query.called for query in queries]
        self._indexes = index_operands(predicates)
        families = group_families(predicates, self._indexes)
        self._sets = QuerySets(families, self._indexes, predicates, np.array(places, np.int64), words)
        self._users: dict[Operand, list[int]] = {}
        for number, query in enumerate(queries):
            for operand in operands_of(query.called):
                if operand.function is not None:
                    self._users.setdefault(operand, []).append(number)
        self._mask = self._bits(range(len(queries)))

    def _bits(self, numbers: Sequence[int]) -> Array:
        mask = np.zeros(self._words, np.uint64)
        for number in numbers:
            place = self._places[number]
            mask[place // WORD] |= np.uint64(1 << place % WORD)
        return mask

    def restrict(self, prefix: Prefix, caller: Caller, failures: dict[int, str]) -> Prefix:
        """The rows without the queries whose conditions do not hold. Queries that fail are noted, and have no rows."""
        asked = np.flatnonzero(has_bits(prefix.sets & self._mask[:, None]))
        if len(asked) == 0:
            return prefix
        some = prefix if len(asked) == prefix.rows else prefix.take(asked)
        columns = {named: some.column(*one) for named, one in self._with.items()}
        for call, users in self._users.items():
            columns[call] = self._called(call, users, some, columns, caller, failures)
        allowed = self._allowed(columns, some.rows)
        prefix.sets[:, asked] &= allowed | ~self._mask[:, None]
        return prefix.take(np.flatnonzero(has_bits(prefix.sets)))

    def _called(
        self,
        call: Operand,
        users: Sequence[int],
        rows: Prefix,
        columns: dict[Operand, pa.Array],
        caller: Caller,
        failures: dict[int, str],
    ) -> pa.Array:
        """The values of a call; NULL where nobody wants it, and where it failed."""
        wanted = rows.sets & self._bits(users)[:, None]
        at = np.flatnonzero(has_bits(wanted))
        own = {
            number: np.flatnonzero(has_bits(rows.sets & self._bits([number])[:, None])) for number in users
        }
        caller.note(call, {int(self._queries[number].query): len(found) for number, found in own.items()})
        try:
            return spread(caller.value(call, columns, at), at, rows.rows)
        except FunctionFault as fault:
            failed = self._blame(call, own, columns, caller) or dict.fromkeys(users, str(fault))
            failures.update({int(self._queries[number].query): why for number, why in failed.items()})
            return pa.nulls(rows.rows, call.type.arrow)

    def _blame(
        self, call: Operand, own: dict[int, Ints], columns: dict[Operand, pa.Array], caller: Caller
    ) -> dict[int, str]:
        """The queries whose own rows make a call fail."""
        failed = {}
        for number, found in own.items():
            try:
                caller.value(call, columns, found)
            except FunctionFault as fault:
                failed[number] = str(fault)
        return failed

    def _allowed(self, columns: dict[Operand, pa.Array], rows: int) -> Array:
        """Query-sets [word, row] of the conditions that hold."""
        regions = [regions_of(columns[index.operand], index) for index in self._indexes]
        return self._sets.of(regions, rows, [])
