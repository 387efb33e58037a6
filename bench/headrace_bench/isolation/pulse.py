"""The rate of figure 8's pulse: so high that full sharing cannot keep up, while queries without a function can.

In the paper the pulse is a rate at which the expensive function cannot keep up, and everything else can. Which rate
that is depends on the machine and on how quick the engine is. So it is measured before the first run, and written down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace_bench.epochs import warehouse
from headrace_bench.isolation.alone import EPOCH_S, WARM_EPOCHS, run_step
from headrace_bench.isolation.cases import PULSE, RATES, Phase, Sizes, pulse_load
from headrace_bench.isolation.feeding import made_aside, steps
from headrace_bench.isolation.figures import CORES
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
