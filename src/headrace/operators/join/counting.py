"""Query-sets counted: how many tuples each query of a join accepts, how many keys these have, and joined rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np

from headrace.model.blocks import EVERY_BLOCK
from headrace.model.metrics import QueryCounts
from headrace.model.partitioning import KEY_GROUPS
from headrace.model.plan import InputRole
from headrace.model.statistics import JoinCount, SideCount
from headrace.model.tables import WORD
from headrace.operators.common.bitrows import count_bits
from headrace.operators.common.encode import Ints
from headrace.operators.join.keys import key_groups_of_rows
from headrace.operators.join.logic import JoinLogic, place_of
from headrace.operators.join.rows import JoinTuples, KeyedRows

New = Sequence[KeyedRows | None]
"""An epoch's new tuples of each input, in the order of the plan."""


def accepted_tuples(logic: JoinLogic, new: New) -> QueryCounts:
    """How many new tuples each query accepts, added up over the inputs and roles in which it reads them."""
    found: dict[int, int] = {}
    for spec, rows in zip(logic.inputs, new, strict=True):
        if rows is None:
            continue
        # tuples that are in every block are counted in the first
        once = rows.keys.of_rows() if spec.input.keys[0] == EVERY_BLOCK else None
        for queries, sets in zip(spec.slots, rows.content.sets, strict=True):
            counts = count_bits(sets if once is None else sets[:, rows.keys.hashes[once] == 0])
            for slot, query in queries.items():
                found[query] = found.get(query, 0) + int(counts[place_of(slot, logic.words)])
    return QueryCounts.of_mapping(found)


def spread_of_joins(logic: JoinLogic, new: Sequence[JoinTuples | None]) -> Ints:
    """How much work each key group is: its new tuples, and how many pairs these make. Costs a hash per new tuple.

    Pairs are those of the new tuples alone. Older ones are as many times more in each key group, about.
    """
    counts = [
        np.bincount(key_groups_of_rows(tuples.keys, logic.operator.id), minlength=KEY_GROUPS)
        for tuples in new
        if tuples is not None
    ]
    spread = np.zeros(KEY_GROUPS, np.int64)
    for count in counts:
        spread += count
    pairs = combinations(counts, 2) if len(logic.inputs) > 1 else zip(counts, counts, strict=True)
    for left, right in pairs:
        spread += left * right
    return spread


def count_sides(logic: JoinLogic, new: New, chains: Collection[int]) -> list[JoinCount]:
    """For each query of some chains: how many new tuples each of its sides let in, and how many keys these have.

    Costs one pass over the query-sets of these inputs, whatever the number of queries.
    """
    counted: dict[InputRole, tuple[Ints, Ints]] = {}
    found = []
    for chain in (logic.operator.chains[number] for number in chains):
        for query in chain.queries:
            sides = []
            for met, position in chain.positions.items():
                if met not in counted:
                    counted[met] = _tuples_and_keys(logic, new[met.input], met.role)
                tuples, keys = (int(counts[place_of(query.slot, logic.words)]) for counts in counted[met])
                stream, window = logic.inputs[met.input].input.stream, query.windows[position]
                sides.append(SideCount(stream, window.range_us, tuples, keys))
            found.append(JoinCount(query.query, sides=tuple(sides)))
    return found


def _tuples_and_keys(logic: JoinLogic, rows: KeyedRows | None, role: int) -> tuple[Ints, Ints]:
    """For each bit of a role's query-sets: the rows that have it, and the keys that have a row with it."""
    if rows is None or rows.keys.count == 0:
        nothing = np.zeros(len(logic.words) * WORD, np.int64)
        return nothing, nothing
    sets = rows.content.sets[role]
    return count_bits(sets), count_bits(np.bitwise_or.reduceat(sets, rows.keys.offsets[:-1], axis=1))
