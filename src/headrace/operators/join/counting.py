"""Query-sets counted: how many tuples each query of a join accepts, how many keys these have, and joined rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from headrace.model.blocks import EVERY_BLOCK
from headrace.model.metrics import QueryCounts
from headrace.model.partitioning import KEY_GROUPS
from headrace.model.plan import InputRole
from headrace.model.statistics import JoinCount, SideCount
from headrace.model.tables import WORD
from headrace.operators.common.arrays import Ints
from headrace.operators.common.bitrows import count_bits
from headrace.operators.join.keys import key_groups
from headrace.operators.join.logic import JoinLogic, place_of
from headrace.operators.join.rows import KeyedRows
from headrace.operators.join.side import Side, Stock

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


def spread_of_join(logic: JoinLogic, sides: Sequence[Side | None]) -> Ints:
    """How much work each key group is: its new tuples, and the pairs of equal keys that these make, with old ones too.

    Pairs are those of the first two tuples of a row. Costs time for each key and stock, not for each tuple: the join
    finds equal keys for itself anyway.
    """
    spread = np.zeros(KEY_GROUPS, np.int64)
    for number, side in enumerate(sides):
        if side is None or side.fresh is None or side.probe is None:
            continue
        tuples = np.diff(side.fresh.keys.offsets)
        work = tuples.copy()
        for stock in _partners(logic, sides, number):
            theirs = np.append(np.diff(stock.keys.offsets), 0)  # for keys that are nowhere
            work += tuples * theirs[side.probe.places(stock)]
        groups = key_groups(side.fresh.keys, logic.operator.id)
        spread += np.bincount(groups, work, KEY_GROUPS).astype(np.int64)
    return spread


def _partners(logic: JoinLogic, sides: Sequence[Side | None], number: int) -> Iterator[Stock]:
    """The stocks that new tuples of an input meet by its own key, each once, however many queries and roles do so."""
    steps = (step for start in logic.starts if start.met.input == number for step in start.children)
    met = {(step.met.input, step.old_only) for step in steps if step.of.hop is None}
    for other, old_only in sorted(met):
        side = sides[other]
        if side is not None and not (old_only and (other, False) in met):
            yield from side.old if old_only else side.stocks


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
