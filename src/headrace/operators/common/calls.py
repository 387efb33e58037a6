"""Calls of registered functions: only for rows that some query still wants, and once for each distinct input.

A function is dear and may fail. So a query's cheaper conditions are asked first, as Spark asks them before a Python
function, and a failure is the fault of those queries alone whose own rows make the function fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from headrace.model.metrics import FunctionMetrics, QueryCounts
from headrace.model.plan.predicates import group_families, index_operands
from headrace.model.predicate import TRUE, And, Compare, Const, IsNull, Not, Operand, Or, Predicate
from headrace.model.types import Kind, SqlType
from headrace.operators.common.arrays import Bools, Ints
from headrace.operators.common.cells import FamilyIndex
from headrace.operators.common.encode import decoded, one_chunk
from headrace.operators.common.regions import regions_of
from headrace.operators.common.scores import FLOAT, SCORES, score_of


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """A registered function as tasks have it."""

    function: Callable[..., Any]
    type: SqlType


class FunctionFault(Exception):
    """A function raised, or what it returned is not one value of its declared type for each row."""

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"the function {function}() failed: {reason}")
        self.function = function


class Caller:
    """Calls functions and adds up what that cost, by function. `load` finds a function by its name."""

    def __init__(self, load: Callable[[str], LoadedFunction] | None = None) -> None:
        self._load = load or _nothing
        self.spent: dict[str, FunctionMetrics] = {}

    def value(self, call: Operand, columns: Mapping[Operand, Any], rows: Ints | None) -> pa.Array:
        """The values of a call for some rows (None: all) of the columns that it is made of; or FunctionFault."""
        assert call.function is not None
        arguments = [self._argument(argument, columns, rows) for argument in call.arguments]
        return self.call(call.function, arguments)

    def _argument(self, operand: Operand, columns: Mapping[Operand, Any], rows: Ints | None) -> pa.Array:
        if operand in columns:
            column = one_chunk(columns[operand])
            return column if rows is None else column.take(pa.array(rows))
        return self.value(operand, columns, rows)

    def call(self, name: str, arguments: Sequence[pa.Array]) -> pa.Array:
        """One value for each row of the arguments; the function itself sees each distinct row once."""
        began = time.process_time()
        found = LoadedFunction(score_of(name), FLOAT) if name in SCORES else self._load(name)
        rows = len(arguments[0]) if arguments else 0
        distinct = distinct_inputs(arguments)
        given = arguments
        if distinct is not None:
            given = [argument.take(pa.array(distinct[0])) for argument in arguments]
        given = [decoded(argument) for argument in given]
        inputs = rows if distinct is None else len(distinct[0])
        values = invoke(name, found, given, inputs) if inputs else pa.nulls(0, found.type.arrow)
        spent = FunctionMetrics(rows, inputs, time.process_time() - began)
        self.spent[name] = self.spent.get(name, FunctionMetrics()) + spent
        return values if distinct is None else values.take(pa.array(distinct[1]))

    def note(self, call: Operand, wanted: Mapping[int, int]) -> None:
        """Remember for how many rows each query wanted a call."""
        counts = QueryCounts.of_mapping(wanted)
        for one in call.calls:
            assert one.function is not None
            before = self.spent.get(one.function, FunctionMetrics())
            self.spent[one.function] = before + FunctionMetrics(wanted=counts)

    def take_spent(self) -> dict[str, FunctionMetrics]:
        """What was spent since this was asked last."""
        spent, self.spent = self.spent, {}
        return spent


def _nothing(name: str) -> LoadedFunction:
    raise FunctionFault(name, "there is no such function")


def invoke(name: str, found: LoadedFunction, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
    """Call a function. FunctionFault when it raises, or returns anything but `rows` values of its type."""
    try:
        values = found.function(*arguments)
    except Exception as error:
        raise FunctionFault(name, f"{type(error).__name__}: {error}"[:500]) from error
    if isinstance(values, pa.ChunkedArray):
        values = one_chunk(values)
    if not isinstance(values, pa.Array):
        raise FunctionFault(name, f"it returned a {type(values).__name__}, and not a pyarrow.Array")
    if len(values) != rows:
        raise FunctionFault(name, f"it returned {len(values):,} values for {rows:,} rows")
    wanted = found.type.arrow
    if values.type == wanted:
        return values
    if found.type.kind is Kind.NESTED and pa.types.is_nested(values.type):
        try:  # the names of elements may differ
            return values.cast(wanted)
        except pa.ArrowInvalid:
            pass
    raise FunctionFault(name, f"it returned {values.type}, and is declared as {found.type.name} ({wanted})")


def distinct_inputs(arguments: Sequence[pa.Array]) -> tuple[Ints, Ints] | None:
    """(a row of each distinct input, the distinct input of each row); None where rows cannot be told apart cheaply.

    Floats are told apart by their bits: a function may tell 0.0 from -0.0.

    >>> [part.tolist() for part in distinct_inputs([pa.array(["b", "a", "b"]), pa.array([1, 1, 1])])]
    [[0, 1], [0, 1, 0]]
    """
    codes = np.zeros(len(arguments[0]) if arguments else 0, np.int64)
    for argument in arguments:
        if pa.types.is_nested(argument.type):
            return None
        if pa.types.is_floating(argument.type):
            argument = argument.view(pa.int64() if pa.types.is_float64(argument.type) else pa.int32())
        coded = argument if pa.types.is_dictionary(argument.type) else argument.dictionary_encode()
        number = len(coded.dictionary)
        part = coded.indices.fill_null(number).to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * (number + 1) + part, return_inverse=True)[1].astype(np.int64)
    _, first, of_row = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[of_row]


@dataclass(frozen=True, slots=True)
class CallUse:
    """A query whose rows need a call: those that `predicate` may accept."""

    call: Operand
    query: int
    predicate: Predicate


@dataclass(slots=True)
class Called:
    """The values of calls, and the queries that failed with the reason."""

    columns: dict[Operand, Any] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)


class CallPlan:
    """All calls that an operator needs for one of its reads; built once per plan."""

    def __init__(self, uses: Sequence[CallUse]) -> None:
        found: dict[Operand, list[CallUse]] = {}
        for use in dict.fromkeys(uses):
            found.setdefault(use.call, []).append(use)
        self._wanted = {call: _Wanted(some) for call, some in found.items()}

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def run(self, columns: Mapping[Operand, Any], rows: int, caller: Caller) -> Called:
        """Each call as a column; NULL where no query wants it."""
        called = Called()
        for call, wanted in self._wanted.items():
            mask, counts = wanted.rows(columns, rows)
            caller.note(call, counts)
            at = np.flatnonzero(mask)
            try:
                values = caller.value(call, columns, None if len(at) == rows else at)
            except FunctionFault as fault:
                called.failures |= self._blame(call, columns, rows, caller, fault)
                values = pa.nulls(len(at), call.type.arrow)
            called.columns[call] = pa.chunked_array([spread(values, at, rows)])
        return called

    def _blame(
        self, call: Operand, columns: Mapping[Operand, Any], rows: int, caller: Caller, fault: FunctionFault
    ) -> dict[int, str]:
        """The queries whose own rows make a call fail; all that want it, if it fails for them together only."""
        wanted = self._wanted[call]
        failed = {}
        for query in wanted.queries:
            try:
                caller.value(call, columns, np.flatnonzero(wanted.of_query(query, columns, rows)))
            except FunctionFault as own:
                failed[query] = str(own)
        return failed or dict.fromkeys(wanted.queries, str(fault))


class _Wanted:
    """For which rows queries want a call, as far as conditions without calls tell."""

    def __init__(self, uses: Sequence[CallUse]) -> None:
        self._uses = uses
        predicates = [without_calls(use.predicate) for use in uses]
        self._indexes = index_operands(predicates)
        self._families = group_families(predicates, self._indexes)
        self._index = [FamilyIndex(family, self._indexes, predicates) for family in self._families]

    @property
    def queries(self) -> list[int]:
        return list(dict.fromkeys(use.query for use in self._uses))

    def rows(self, columns: Mapping[Operand, Any], rows: int) -> tuple[Bools, dict[int, int]]:
        """(which rows some query wants, how many each wants)."""
        mask, counts = np.zeros(rows, bool), dict.fromkeys(self.queries, 0)
        for block, ids, membership, uses in self._cells(columns, rows):
            mask[block] |= np.append(membership.any(axis=1), False)[ids]
            sizes = np.bincount(ids[ids >= 0], minlength=len(membership)) @ membership
            for use, size in zip(uses, sizes.tolist(), strict=True):
                counts[self._uses[use].query] = max(counts[self._uses[use].query], size)
        return mask, counts

    def of_query(self, query: int, columns: Mapping[Operand, Any], rows: int) -> Bools:
        mask = np.zeros(rows, bool)
        for block, ids, membership, uses in self._cells(columns, rows):
            mine = [i for i, use in enumerate(uses) if self._uses[use].query == query]
            mask[block] |= np.append(membership[:, mine].any(axis=1), False)[ids]
        return mask

    def _cells(self, columns: Mapping[Operand, Any], rows: int) -> Any:
        regions = [regions_of(columns[index.operand], index) for index in self._indexes]
        for family, index in zip(self._families, self._index, strict=True):
            for block, cells in index.blocks(regions, rows):
                yield block, cells.ids, cells.membership, family.columns


def spread(values: pa.Array, at: Ints, rows: int) -> pa.Array:
    """Values of the rows `at` as a column of all rows, NULL elsewhere.

    >>> spread(pa.array([7, 8]), np.array([0, 2]), 3).to_pylist()
    [7, None, 8]
    """
    if len(at) == rows:
        return values
    place = np.full(rows, -1, np.int64)
    place[at] = np.arange(len(at))
    return values.take(pa.array(place, mask=place < 0))


def without_calls(predicate: Predicate) -> Predicate:
    """A condition without calls that holds wherever the predicate does."""
    return _bound(predicate, TRUE)


def _bound(predicate: Predicate, unknown: Const) -> Predicate:
    """The predicate with `unknown` for what calls decide; a negation turns that around."""
    match predicate:
        case Compare(operand) | IsNull(operand):
            return unknown if operand.calls else predicate
        case And(children):
            return And(tuple(_bound(child, unknown) for child in children))
        case Or(children):
            return Or(tuple(_bound(child, unknown) for child in children))
        case Not(child):
            return Not(_bound(child, Const(not unknown.value)))
        case Const():
            return predicate
        case never:
            assert_never(never)
