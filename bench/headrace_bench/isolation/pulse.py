"""The rates of figures 8 and 9, which depend on the machine and on how quick the engine is.

In figure 8 the pulse is a rate at which the expensive function cannot keep up, and everything else can. In figure 9 the
rate is such that who shares with everybody falls behind when the filter attribute is spread at its worst. So both are
measured before the first run, and written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Any

from headrace.workloads.isolation import Spread
from headrace_bench.epochs import warehouse
from headrace_bench.isolation.alone import EPOCH_S, WARM_EPOCHS, run_step
from headrace_bench.isolation.cases import PULSE, RATES, Phase, Sizes, pulse_load, shift_load
from headrace_bench.isolation.feeding import made_aside, steps
from headrace_bench.isolation.figures import CORES, rate_at
from headrace_bench.isolation.making import DEAR, LIGHT, create_queries, create_streams
from headrace_bench.meters import Meter

EPOCHS = 6
OVER = 2.0
"""The pulse is so many times what all cores can do for queries that share everything."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The rate of a pulse, the rate that full sharing sustains by its CPU seconds, and the cores that queries without a
    function take during the pulse, all of them together.
    """

    rate: int
    sustained: int
    light: float

    @property
    def tells(self) -> bool:
        """Whether queries without a function keep up with half of the cores. If not, everybody falls behind."""
        return self.light <= CORES / 2


def pulse_of(probed: float, cpu: float, dear: float, light: float) -> Pulse:
    """The pulse for queries that took `cpu` cores at a rate of `probed`, when their tasks took `dear` and `light` ones.

    What the driver does is divided between both. Work is taken to grow with the rate.

    >>> pulse_of(1000.0, 1.0, 0.6, 0.2)
    Pulse(rate=4000, sustained=2000, light=1.0)
    """
    sustained = probed * CORES / cpu
    rate = OVER * sustained
    return Pulse(round(rate), round(sustained), round(cpu * light / (dear + light) * rate / probed, 2))


def measure_pulse(spark: Any, sizes: Sizes) -> Pulse:
    """Some epochs at a rate above the usual one, with queries that call the function in a group of their own."""
    load, probe = pulse_load(sizes), PULSE * RATES["W2"] // 2
    with warehouse(spark, sharing="manual") as hr:
        create_streams(hr, load)
        create_queries(hr, load, by_kind=True)
        coming = steps(load, (Phase("probe", (WARM_EPOCHS + EPOCHS) * EPOCH_S, probe),), EPOCH_S)
        for _ in range(WARM_EPOCHS):
            run_step(hr, next(coming).tables)
        before = hr._delivered.sealed
        with Meter() as meter:
            for step in made_aside(coming, meter):
                run_step(hr, step.tables)
        ran = [epoch for epoch in hr.recent_epochs() if epoch.epoch > before]
        seconds = EPOCHS * EPOCH_S
        return pulse_of(probe, meter.cpu_s / seconds, _of(ran, DEAR) / seconds, _of(ran, LIGHT) / seconds)


def _of(epochs: Iterable[Any], group: str) -> float:
    return float(sum(epoch.cost.cpu_seconds for epoch in epochs if epoch.group == group))


PROBED = 2_000
"""The lowest rate at which the spreads of figure 9 are tried."""

STEEPER = 1.5
HIGHEST = 60_000

SHIFT_OVER = 1.2
"""The rate of figure 9 is so many times what full sharing sustains under the worst spread. Joins grow by its square."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The rate of figure 9, the spread that is the worst for full sharing, and the rate that it sustains then."""

    rate: int
    worst: str
    sustained: int


def shift_of(worst: str, steps: Sequence[tuple[float, float]]) -> Shift:
    """The rate, when epochs of a second's input took so many seconds at rising rates.

    >>> shift_of("low", [(2000.0, 0.2), (4000.0, 0.6), (6000.0, 1.4)])
    Shift(rate=6000, worst='low', sustained=5000)
    """
    sustained = rate_at(steps, EPOCH_S)
    if not isfinite(sustained):
        sustained = steps[-1][0]
    return Shift(round(SHIFT_OVER * sustained), worst, round(sustained))


def measure_shift(spark: Any, sizes: Sizes) -> Shift:
    """Full sharing at rising rates, until its epochs take longer than a second for what comes in a second.

    Every rate is tried with all spreads. At low rates their epochs hardly differ, so the worst is the one that takes
    longest at the highest rate.
    """
    found: dict[Spread, list[tuple[float, float]]] = {spread: [] for spread in Spread}
    rate = PROBED
    while True:
        for spread, took in found.items():
            took.append((float(rate), _shared_s(spark, sizes, rate, spread)))
        worst = max(found, key=lambda spread: found[spread][-1][1])
        if found[worst][-1][1] >= EPOCH_S or rate >= HIGHEST:
            return shift_of(worst.value, found[worst])
        rate = round(rate * STEEPER)


def _shared_s(spark: Any, sizes: Sizes, rate: int, spread: Spread) -> float:
    """How long an epoch takes in which all queries of figure 9 share."""
    load = shift_load(sizes)
    with warehouse(spark, sharing="manual") as hr:
        create_streams(hr, load)
        create_queries(hr, load)
        hr.warm_up()
        coming = steps(load, (Phase("probe", (WARM_EPOCHS + EPOCHS) * EPOCH_S, rate, spread),), EPOCH_S)
        for _ in range(WARM_EPOCHS):
            run_step(hr, next(coming).tables)
        before = hr._delivered.sealed
        for step in coming:
            run_step(hr, step.tables)
        return float(median(epoch.cost.seconds for epoch in hr.recent_epochs() if epoch.epoch > before))
