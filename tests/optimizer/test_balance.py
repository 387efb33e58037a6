"""Which task owns which key groups: no worse than before, and as good as neighbours can be kept together."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from headrace.model.partitioning import KEY_GROUPS, Partitioning, even_partitioning
from headrace.optimizer.balance import LEAST_S, Balanced, decide_balance
from thorough import seeds


def work_of(loads: list[float], partitioning: Partitioning) -> list[float]:
    found = [0.0] * partitioning.partitions
    for load, owner in zip(loads, partitioning.table, strict=True):
        found[owner] += load
    return found


def best_cut(loads: list[float], partitions: int) -> float:
    """The lightest heaviest run, by trying every cut between the key groups that have work."""
    busy = [load for load in loads if load]
    cuts = combinations(range(1, len(busy)), min(partitions, len(busy)) - 1)
    tried = (max(sum(busy[a:b]) for a, b in zip((0, *cut), (*cut, len(busy)), strict=True)) for cut in cuts)
    return min(tried)


@pytest.mark.parametrize("seed", seeds(20))
def test_the_busiest_task_has_as_little_as_any_cut_leaves_it(seed: int) -> None:
    rng = random.Random(seed)
    loads = [0.0] * KEY_GROUPS
    for busy in rng.sample(range(KEY_GROUPS), rng.randrange(1, 9)):
        loads[busy] = rng.choice([0.5, 1.0, rng.uniform(0.2, 5.0)])
    now = even_partitioning(rng.randrange(1, 6))
    found = decide_balance(loads, now)
    before, best = max(work_of(loads, now)), best_cut(loads, now.partitions)
    if found is None:
        assert before - best < max(LEAST_S, 0.15 * before) + 1e-6
        return
    after = work_of(loads, found.partitioning)
    assert found.partitioning.partitions == now.partitions and list(found.partitioning.table) == sorted(
        found.partitioning.table
    )
    assert max(after) == pytest.approx(best, rel=1e-6) == found.after_s and found.before_s == before
    assert decide_balance(loads, found.partitioning) is None, "it settles at once"


def test_nothing_changes_for_little_work_or_a_single_busy_key() -> None:
    even = even_partitioning(2)
    little = [0.0] * 200 + [0.001] * 56
    assert decide_balance(little, even) is None
    one_key = [0.0] * 200 + [5.0] + [0.0] * 55
    assert decide_balance(one_key, even) is None
    assert decide_balance([0.0] * KEY_GROUPS, even) is None
    assert decide_balance([1.0] * KEY_GROUPS, even_partitioning(1)) is None


def test_every_task_keeps_a_key_group_when_all_work_is_at_the_end() -> None:
    loads = [0.0] * 254 + [1.0, 1.0]
    found = decide_balance(loads, even_partitioning(4))
    assert isinstance(found, Balanced) and found.partitioning.partitions == 4 and found.after_s == 1.0
