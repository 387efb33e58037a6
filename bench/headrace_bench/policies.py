"""The policies of sharing, simulated.

    python -m headrace_bench.policies [W1|W2|W3|pulse|shifts|fan-out] [queries] [policy]

Prints a line per policy, or every step and decision of one policy. The figures are those of a model of the engine, made
from a seed; nothing is measured but the decisions of the controller.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from headrace.optimizer.grouping.policies import Policy
from headrace.simulate.isolation.run import Table, simulate
from headrace.simulate.isolation.scenario import Scenario
from headrace.simulate.isolation.workloads import (
    distribution_shifts,
    fan_out_shift,
    rate_pulse,
    similarity,
    varying_downstream,
    windowed_join,
)

SCENARIOS: dict[str, Callable[[int], Scenario]] = {
    "W1": windowed_join,
    "W2": varying_downstream,
    "W3": similarity,
    "pulse": rate_pulse,
    "shifts": distribution_shifts,
    "fan-out": fan_out_shift,
}


def summary(table: Table) -> str:
    end = table.steps[-1]
    return (
        f"{table.policy.value:>21} {end.groups:6d} {end.tasks:6d} {end.cpu:8.1f} {end.worst:6.2f} "
        f"{min(step.worst for step in table.steps):10.2f} {table.median_error:6.1%}"
    )


def main() -> None:
    name, queries, policy = [*sys.argv[1:], *("W1", "128", "")[len(sys.argv) - 1 :]][:3]
    scenario = SCENARIOS[name](int(queries))
    if policy:
        table = simulate(scenario, Policy[policy.upper()])
        for step, line in zip(table.steps, table.lines()[1:], strict=True):
            print(line, *(f"\n{'':10}{change.reason}" for change in step.changes))
        return
    print(f"{'':>21} groups  tasks      cpu  worst  worst ever  error")
    for each in Policy:
        print(summary(simulate(scenario, each)))


if __name__ == "__main__":
    main()
