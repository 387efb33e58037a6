"""Just enough of Spark's RDDs to run a job's tasks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class LocalRdd:
    """Partitions of items; every step is done at once."""

    def __init__(self, partitions: list[list[Any]]) -> None:
        self._partitions = partitions

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> LocalRdd:
        return LocalRdd([[out for item in part for out in function(item)] for part in self._partitions])

    def partitionBy(self, count: int, place: Callable[[Any], int]) -> LocalRdd:
        found: list[list[Any]] = [[] for _ in range(count)]
        for part in self._partitions:
            for item in part:
                found[place(item[0])].append(item)
        return LocalRdd(found)

    def mapPartitions(self, function: Callable[[Iterator[Any]], Iterable[Any]]) -> LocalRdd:
        return LocalRdd([list(function(iter(part))) for part in self._partitions])

    def collect(self) -> list[Any]:
        return [item for part in self._partitions for item in part]


class LocalContext:
    defaultParallelism = 2

    def parallelize(self, items: list[Any], count: int) -> LocalRdd:
        assert len(items) == count
        return LocalRdd([[item] for item in items])


class LocalSpark:
    """A session without a JVM."""

    sparkContext = LocalContext()
