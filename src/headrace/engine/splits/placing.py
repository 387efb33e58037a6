"""Where an epoch of a split runs: what is known of it, the decision, and the workers that it gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import SparkContext

from headrace.engine.spark import is_local
from headrace.engine.splits.code import Packed
from headrace.engine.splits.job import OwnJobs, SparkJobs, SplitJobs
from headrace.engine.splits.workers import SPLIT_WORKERS
from headrace.model.splits import SplitCost
from headrace.optimizer.place import Place
from headrace.optimizer.splitting.place import SplitLoad, decide_processors, decide_split_place


@dataclass(frozen=True, slots=True)
class Site:
    """What runs a split: `home` names it among all of this process, `spent` are the seconds of its sub-streams in the
    last epoch.
    """

    home: str
    sub_streams: int
    code: Packed
    spark: SparkJobs
    spent: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an epoch runs: in how many tasks the operators run, and how many own workers do it (0: Spark's do)."""

    jobs: SplitJobs
    tasks: int
    own_workers: int


def known_load(context: SparkContext, cost: SplitCost) -> SplitLoad:
    """What is known of the next epoch by the cost of the last one."""
    ran = cost.split_seconds + cost.process_seconds
    place = Place.OWN_WORKER if cost.own_workers else Place.SPARK
    return SplitLoad(
        seconds=ran or None,
        own_cores=SPLIT_WORKERS.cores,
        spark_cores=context.defaultParallelism,
        local=is_local(context.master or "local"),
        place=place if ran else None,
        tasks=max(1, cost.own_workers),
    )


@contextmanager
def placed(site: Site, load: SplitLoad, *, alone: bool) -> Iterator[Placed]:
    """Have workers, or leave it to Spark. `alone`: one task runs all operators."""
    most = 1 if alone else site.sub_streams
    if decide_split_place(load) is Place.OWN_WORKER and SPLIT_WORKERS.usable:
        with SPLIT_WORKERS.hired(site.home, 1 if alone else decide_processors(load, most)) as workers:
            if workers:
                jobs = OwnJobs(site.home, site.spent, workers, site.code, site.spark)
                yield Placed(jobs, len(workers), len(workers))
                return
    yield Placed(site.spark, min(load.spark_cores, most), 0)
