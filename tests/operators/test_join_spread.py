"""How much of a join's work each key group is: a busy key weighs the pairs that it makes, whoever shares its group."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from join_cases import plan_join
from test_join_cost import ALONE, NOWHERE, SCHEMA, ask, batch

from headrace.model.epoch import NEVER_US
from headrace.model.partitioning import KEY_GROUPS, even_partitioning
from headrace.operators.common.arrays import Ints
from headrace.operators.common.placing import key_groups_of_integers
from headrace.operators.join.logic import JoinLogic
from headrace.operators.join.reduce import JoinReduced, reduce_join
from headrace.operators.join.state import JoinSegment
from headrace.operators.join.tuples import prepare_join, receive_join, ship_join


def run(logic: JoinLogic, keys: list[Ints], held: list[JoinSegment]) -> JoinReduced:
    """An epoch of a partition, which is not the only one."""
    blobs = []
    for number, some in enumerate(keys):
        tuples = prepare_join(logic, number, batch(some, np.zeros(len(some), np.int64)), NEVER_US, [])
        if tuples is not None:
            blobs += [shipment.blob for shipment in ship_join(logic, tuples, ALONE)]
    outlet = replace(NOWHERE, partitioning=even_partitioning(2))
    return reduce_join(logic, receive_join(logic, blobs), held, [], NEVER_US, NEVER_US, outlet)


def by_loops(new: list[Ints], old: list[Ints]) -> list[int]:
    """New tuples, and the pairs of equal keys that have a new tuple, by key group."""
    fresh, kept = [Counter(keys.tolist()) for keys in new], [Counter(keys.tolist()) for keys in old]
    spread = [0] * KEY_GROUPS
    for key in {*fresh[0], *fresh[1]}:
        left, right = fresh[0][key], fresh[1][key]
        pairs = left * right + left * kept[1][key] + right * kept[0][key]
        spread[int(key_groups_of_integers(np.array([key]))[0])] += left + right + pairs
    return spread


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_those_of_equal_keys_and_old_tuples_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logic = JoinLogic(plan_join(SCHEMA, [ask(1, (0, 1), 1_000)]))
    hot = np.full(150, 7)
    old = [rng.integers(0, 5_000, 500), np.append(hot, rng.integers(0, 50, 100))]
    new = [np.append(rng.integers(0, 5_000, 500), hot), rng.integers(0, 5_000, 0 if seed % 2 else 500)]
    segment = run(logic, old, []).segment
    assert segment is not None
    found = run(logic, new, [segment]).spread
    assert found is not None and found.tolist() == by_loops(new, old)
    busy = int(key_groups_of_integers(np.array([7]))[0])
    assert found[busy] > 0.8 * found.sum(), "150 x 150 pairs of one key are most of the work"


def test_nothing_new_is_no_work() -> None:
    logic = JoinLogic(plan_join(SCHEMA, [ask(1, (0, 1), 1_000)]))
    nothing = np.empty(0, np.int64)
    found = run(logic, [nothing, nothing], []).spread
    assert found is not None and not found.any()
