"""A job's tasks one after the other in this process: the same functions that Spark's tasks run, without a shuffle."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine.handover import Shipped
from headrace.engine.reduce import reduce_task
from headrace.engine.tasks import scan_task


def run_chain(loads: Sequence[bytes], partitions: int, stages: int) -> list[bytes]:
    """The reports of map tasks with these loads, and of so many stages of reduce tasks behind them."""
    shipped: list[Shipped] = [one for load in loads for one in scan_task(load)]
    for stage in range(stages):
        received: list[list[Shipped]] = [[] for _ in range(partitions)]
        for one in shipped:
            received[one[0]].append(one)
        shipped = [one for mine in received for one in reduce_task(stage, mine)]
    return [blob for _, (_, _, blob) in shipped]
