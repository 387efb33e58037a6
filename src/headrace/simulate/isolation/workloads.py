"""The paper's workloads as scenarios: windowed joins, varying work after the join, similarity; pulses and shifts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.optimizer.grouping.costs import Coefficients, OperatorCost
from headrace.optimizer.grouping.settings import Scaling, Settings
from headrace.optimizer.grouping.values import FunctionName
from headrace.simulate.isolation.scenario import (
    DEFAULT_COSTS,
    DOMAIN,
    JOIN,
    Phase,
    RangeQuery,
    Scenario,
    uniform,
    zipfian,
)

RATE = 50_000.0
MATCHES = 20.0
SCALING = Scaling(overhead_s=0.2, interval_s=10.0, serial=0.002)
ANOMALY = FunctionName("price_anomaly")

Selectivity = tuple[float, float]


def windowed_join(queries: int, selectivity: Selectivity = (0.1, 0.1), seed: int = 0) -> Scenario:
    """W1: every query joins the same streams, for a random range of the filter attribute (Fig. 6a to c, 7, 10)."""
    rng = np.random.default_rng(seed)
    return Scenario(
        name="W1",
        queries=tuple(_random_range(rng, selectivity) for _ in range(queries)),
        phases=(Phase(0.0, RATE, uniform(), np.full(DOMAIN, MATCHES)),),
        costs=DEFAULT_COSTS,
        settings=Settings(scaling=SCALING),
        scaling=SCALING,
        seed=seed,
    )


def varying_downstream(queries: int, selectivity: Selectivity = (0.1, 0.1), seed: int = 0) -> Scenario:
    """W2: a third of the queries each end in two averages and in a function that is dear and uses one task at most."""
    base = windowed_join(queries, selectivity, seed)
    changed = tuple(
        replace(query, function=ANOMALY, width=1) if i % 3 == 2 else query
        for i, query in enumerate(base.queries)
    )
    costs = replace(base.costs, functions={ANOMALY: 8e-6})
    return replace(base, name="W2", queries=changed, costs=costs)


def similarity(queries: int, selectivity: Selectivity = (0.1, 0.1), seed: int = 0) -> Scenario:
    """W3: nearly all work is comparing pairs."""
    base = windowed_join(queries, selectivity, seed)
    costs = Coefficients({JOIN: OperatorCost(alpha=1e-6, beta=5e-5, gamma=8e-5)}, finish=5e-8)
    return replace(base, name="W3", costs=costs)


def rate_pulse(queries: int = 48, seed: int = 0, factor: float = 2.0) -> Scenario:
    """Fig. 8: W2, and an input rate that rises at 360 s and falls back at 660 s."""
    base = varying_downstream(queries, seed=seed)
    calm = base.phases[0]
    phases = (calm, replace(calm, starts_s=360.0, rate=factor * calm.rate), replace(calm, starts_s=660.0))
    return replace(base, name="W2 with a rate pulse", phases=phases, duration_s=960.0)


def distribution_shifts(queries: int = 32, seed: int = 0) -> Scenario:
    """Fig. 9: W1 with ranges from the domain's start; uniform, then frequent at the start, then in the middle."""
    rng = np.random.default_rng(seed)
    base = windowed_join(queries, seed=seed)
    changed = tuple(RangeQuery(0, int(rng.integers(1, DOMAIN + 1))) for _ in range(queries))
    calm = base.phases[0]
    phases = (
        calm,
        replace(calm, starts_s=360.0, spread=zipfian(0)),
        replace(calm, starts_s=660.0, spread=zipfian(DOMAIN // 2)),
    )
    return replace(base, name="W1 with shifts", queries=changed, phases=phases, duration_s=960.0)


def shared_cores(queries: int = 100, seed: int = 0, cores: int = 8, factor: float = 1.0) -> Scenario:
    """The engine's mode: light queries, and a tenth that call a dear function, on so many cores for everybody.

    At a factor of 1 all of them fit into the cores when they share. At 2 the function alone needs more than there is.
    """
    base = windowed_join(queries, (0.005, 0.015), seed)
    scaling = Scaling(overhead_s=0.2, interval_s=1.0, serial=0.002)
    changed = tuple(
        replace(query, function=ANOMALY) if i % 10 == 9 else query for i, query in enumerate(base.queries)
    )
    users = [query for query in changed if query.function is not None]
    called = len({value for query in users for value in range(query.low, query.high)}) / DOMAIN
    rate = factor * RATE / 2
    # the calls of all users together keep six tenths of the cores busy at a factor of 1
    per_row = 0.6 * scaling.useful(cores) / max(called * MATCHES * RATE / 2, 1.0)
    costs = Coefficients(
        {JOIN: OperatorCost(alpha=1e-4 / queries, beta=2e-6, gamma=2e-7)}, 5e-8, {ANOMALY: per_row}
    )
    return replace(
        base,
        name="W2 on shared cores",
        queries=changed,
        phases=tuple(replace(phase, rate=rate) for phase in base.phases),
        costs=costs,
        settings=Settings(scaling=scaling, cores=cores, task_budget=cores, bounded=True, meet_within_s=2.0),
        scaling=scaling,
    )


def shared_cores_pulse(queries: int = 100, seed: int = 0, factor: float = 2.0) -> Scenario:
    """The engine's mode, and an input rate that rises at 360 s and falls back at 660 s."""
    base = shared_cores(queries, seed)
    calm = base.phases[0]
    phases = (calm, replace(calm, starts_s=360.0, rate=factor * calm.rate), replace(calm, starts_s=660.0))
    return replace(base, name="W2 on shared cores with a pulse", phases=phases, duration_s=960.0)


def several_functions(
    queries: int = 60, seed: int = 0, cores: int = 8, factor: float = 1.0, functions: int = 5
) -> Scenario:
    """The engine's mode: a third of the queries call one of some functions, each dearer than the one before."""
    base = shared_cores(queries, seed, cores, factor)
    names = [FunctionName(f"f{number}") for number in range(functions)]
    changed = tuple(
        replace(query, function=names[i // 3 % functions] if i % 3 == 2 else None)
        for i, query in enumerate(base.queries)
    )
    dear = base.costs.functions[ANOMALY]
    costs = {name: dear * (0.2 + 0.25 * number) for number, name in enumerate(names)}
    return replace(
        base,
        name="W2 on shared cores with several functions",
        queries=changed,
        costs=replace(base.costs, functions=costs),
    )


def uneven_functions(seed: int = 0, cores: int = 2, factor: float = 2.0) -> Scenario:
    """The engine's mode: 8 light queries, and 4 that call a dear function for 2 % to 20 % of the values each.

    From 100 s to 400 s their calls alone need `factor` times the cores that there are, though they share them.
    """
    base, rng = shared_cores(12, seed, cores), np.random.default_rng([seed, 7])
    queries = tuple(
        replace(_random_range(rng, (0.02, 0.2)), function=ANOMALY)
        if i % 3 == 2
        else replace(query, function=None)
        for i, query in enumerate(base.queries)
    )
    called = len({v for query in queries if query.function for v in range(query.low, query.high)}) / DOMAIN
    busy = base.phases[0]
    per_row = base.scaling.useful(cores) / (called * MATCHES * busy.rate)
    costs = Coefficients({JOIN: OperatorCost(alpha=8e-7, beta=2e-6, gamma=2e-7)}, 5e-8, {ANOMALY: per_row})
    calm = replace(busy, rate=busy.rate / 8)
    pulse = replace(busy, starts_s=100.0, rate=factor * busy.rate)
    return replace(
        base,
        name="W2 on shared cores with uneven functions",
        queries=queries,
        phases=(calm, pulse, replace(calm, starts_s=400.0)),
        costs=costs,
        duration_s=600.0,
    )


def fan_out_shift(queries: int = 32, seed: int = 0) -> Scenario:
    """W1, and a part of the values that matches ten times as much from 300 s on."""
    base = windowed_join(queries, seed=seed)
    calm = base.phases[0]
    more = calm.matches.copy()
    more[: DOMAIN // 5] *= 10
    phases = (calm, replace(calm, starts_s=300.0, matches=more))
    return replace(base, name="W1 with a fan-out shift", phases=phases)


def _random_range(rng: np.random.Generator, selectivity: Selectivity) -> RangeQuery:
    length = max(1, round(rng.uniform(*selectivity) * DOMAIN))
    low = int(rng.integers(0, DOMAIN - length + 1))
    return RangeQuery(low, low + length)
