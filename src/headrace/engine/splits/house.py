"""All splits of an open warehouse: which there are, where they stand, and how they come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark.sql import SparkSession

from headrace.engine.splits.code import Packed
from headrace.engine.splits.commits import remove_dropped
from headrace.engine.splits.runner import SplitHouse, SplitRunner, batch_source, runner_name
from headrace.model.splits import Split


class Splits:
    """The splits of a warehouse that is open to write. Thread-safe."""

    def __init__(self, house: SplitHouse, session: Callable[[str], SparkSession]) -> None:
        self._house, self._session = house, session
        self._lock = threading.RLock()
        self._runners: dict[str, SplitRunner] = {}
        table = house.catalog.splits
        remove_dropped(house.warehouse, table.all())
        for split in table.all():
            self._begin(split)
        for split in table.dropped():
            self._close_outputs(split)

    def _begin(self, split: Split) -> SplitRunner:
        """Make the output streams that are missing, and what runs the split."""
        for output in split.outputs.values():
            if not self._house.catalog.has_stream(output.name):
                self._house.sealer.create_stream(output)
        runner = SplitRunner(split, self._session(runner_name(split.name)), self._house)
        self._runners[runner.name.lower()] = runner
        return runner

    def runners(self) -> list[SplitRunner]:
        with self._lock:
            return list(self._runners.values())

    def get(self, name: str) -> SplitRunner:
        """What runs a split, by its name among everything that runs epochs."""
        with self._lock:
            return self._runners[name.lower()]

    def of(self, split: Split) -> SplitRunner:
        return self.get(runner_name(split.name))

    def has(self, name: str) -> bool:
        with self._lock:
            return name.lower() in self._runners

    def due(self) -> list[str]:
        """The splits that have a sealed epoch to run."""
        return [runner.name for runner in self.runners() if runner.due]

    def running(self) -> list[str]:
        """The splits that can run."""
        return [runner.name for runner in self.runners() if runner.runs]

    @property
    def needs(self) -> int | None:
        """The first epoch that the log must keep for them; None when there are none."""
        return min((runner.needs for runner in self.runners()), default=None)

    def create(self, split: Split, code: Packed) -> SplitRunner:
        """Remember a split durably and let it begin with the next epoch."""
        with self._lock:
            for output in split.outputs.values():
                self._house.catalog.check_new_stream(output.name)
            self._house.catalog.splits.add(split)
            runner = self._begin(split)
            runner.attach(code)
            return runner

    def drop(self, split: Split) -> None:
        """End a split. Its output streams get no more input, and stay."""
        with self._lock:
            runner = self._runners.pop(runner_name(split.name).lower())
            runner.drop()
            self._house.catalog.splits.drop(split)
            self._close_outputs(split, even_empty=True)
            remove_dropped(self._house.warehouse, self._house.catalog.splits.all())

    def _close_outputs(self, split: Split, *, even_empty: bool = False) -> None:
        """Close the streams of a split that was dropped, unless others have their names by now."""
        arrivals, catalog = self._house.arrivals, self._house.catalog
        for output in split.outputs.values():
            last = arrivals.batch(output.name)
            ours = even_empty or (last is not None and last.source == batch_source(split))
            if ours and catalog.has_stream(output.name) and not arrivals.closed(output.name):
                arrivals.close(output.name)

    def cancel(self) -> None:
        for runner in self.runners():
            with suppress(Exception):
                runner.cancel()
