"""How long one merge step takes: `python -m headrace_bench.merge_steps [groups]`.

CPU time, the best of five, in milliseconds.

One step finds nothing to merge, which is the common case. In the other one every group starts alone, and merges.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from headrace.model.query import QueryId
from headrace.optimizer.grouping.merging import decide_merges
from headrace.optimizer.grouping.settings import Scaling
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.values import Grouping
from headrace.simulate.isolation.scenario import facts_of
from headrace.simulate.isolation.workloads import windowed_join
from headrace.simulate.isolation.world import World


def situation_of(groups: int, selectivity: tuple[float, float], *, merging: bool) -> Situation:
    """Queries in groups of their own. Unless they are `merging`, no task is free, so that no merge is allowed."""
    scenario = windowed_join(groups, selectivity)
    scaling = Scaling(overhead_s=0.0, serial=0.002)
    settings = replace(scenario.settings, scaling=scaling, headroom=0.1 if merging else 0.99)
    facts = facts_of(scenario)
    world = World(scenario, facts)
    grouping, made = Grouping().named(((QueryId(i),), facts[QueryId(i)].tasks) for i in range(groups))
    world.adopt(grouping.replaced([], made))
    statistics = world.sample(scenario.phases[0], 5_000)
    return Situation(world.grouping, facts, statistics, {}, scenario.costs, settings)


def milliseconds(situation: Situation) -> tuple[float, int]:
    best, left = float("inf"), 0
    for _ in range(5):
        start = time.process_time()
        left = len(decide_merges(situation).grouping.groups)
        best = min(best, time.process_time() - start)
    return 1_000 * best, left


def main() -> None:
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print(f"{'selectivity':>12} {'step':>16} {'groups after':>13} {'ms':>6}")
    for selectivity in ((0.01, 0.01), (0.1, 0.1), (0.01, 0.2)):
        for merging in (False, True):
            took, left = milliseconds(situation_of(groups, selectivity, merging=merging))
            name = "all merge" if merging else "nothing to merge"
            print(f"{selectivity[0]:>5.0%} to {selectivity[1]:<3.0%} {name:>16} {left:13d} {took:6.0f}")


if __name__ == "__main__":
    main()
