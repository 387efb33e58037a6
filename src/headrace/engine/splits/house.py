"""All splits of an open warehouse: which there are, where they stand, and how they come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import SparkSession

from headrace.engine.splits.code import Packed
from headrace.engine.splits.commits import remove_dropped
from headrace.engine.splits.runner import SplitHouse, SplitRunner, batch_source, runner_name
from headrace.engine.splits.workers import SPLIT_WORKERS
from headrace.model.epoch import FOREVER_US
from headrace.model.errors import HeadraceError
from headrace.model.splits import Split
from headrace.storage import faults


class Splits:
    """The splits of a warehouse that is open to write. Thread-safe."""

    def __init__(self, house: SplitHouse, session: Callable[[str], SparkSession]) -> None:
        self._house, self._session = house, session
        self._lock, self._altering = threading.RLock(), threading.Lock()
        self._runners: dict[str, SplitRunner] = {}
        table = house.catalog.splits
        for split in table.all():
            if self._half_dropped(self._begin(split)):
                self._end(split)
        for split in table.dropped():
            self._close_outputs(split)
        remove_dropped(house.warehouse, table.all())

    def _begin(self, split: Split) -> SplitRunner:
        """Make the output streams that are missing, and what runs the split."""
        for output in split.outputs.values():
            if not self._house.catalog.has_stream(output.name):
                self._house.sealer.create_stream(output)
        runner = SplitRunner(split, self._session(runner_name(split.name)), self._house)
        self._runners[runner.name.lower()] = runner
        return runner

    def _half_dropped(self, runner: SplitRunner) -> bool:
        """Whether a process ended after closing the outputs of a split to drop it, before it wrote down the drop."""
        arrivals, commit = self._house.arrivals, runner.commit
        names = [output.name for output in runner.split.outputs.values()]
        if not runner.recovered or commit.watermark_us == FOREVER_US:
            return False
        lasts = [arrivals.batch(name) for name in names]
        older = any(last is not None and last.number > commit.epoch for last in lasts)  # a commit from a copy
        return not older and any(arrivals.closed(name) for name in names)

    def runners(self) -> list[SplitRunner]:
        with self._lock:
            return list(self._runners.values())

    def get(self, name: str) -> SplitRunner:
        """What runs a split, by its name among everything that runs epochs."""
        with self._lock:
            return self._runners[name.lower()]

    def find(self, split: Split) -> SplitRunner | None:
        """What runs a split; None when its creation could not be brought to its end."""
        with self._lock:
            return self._runners.get(runner_name(split.name).lower())

    def of(self, split: Split) -> SplitRunner:
        """What runs a split; it is made when it is missing."""
        if (runner := self.find(split)) is not None:
            return runner
        with self._house.sealer.holding(), self._lock:  # in the order of whoever creates a split
            return self.find(split) or self._begin(split)

    def due(self) -> list[str]:
        """The splits that have a sealed epoch to run."""
        return [runner.name for runner in self.runners() if runner.due]

    def running(self) -> list[str]:
        """The splits that can run."""
        return [runner.name for runner in self.runners() if runner.runs]

    @property
    def needs(self) -> int | None:
        """The first epoch that the log must keep for them; None when there are none."""
        with self._lock:
            found = [(split, self.find(split)) for split in self._house.catalog.splits.all()]
        needed = (split.first_epoch if runner is None else runner.needs for split, runner in found)
        return min(needed, default=None)

    def create(self, split: Split, code: Packed) -> SplitRunner:
        """Remember a split durably and let it begin with the next epoch."""
        with self._lock:
            for output in split.outputs.values():
                self._house.catalog.check_new_stream(output.name)
            self._house.catalog.splits.add(split)
            try:
                runner = self._begin(split)
                runner.attach(code)
            except Exception:
                self._undo(split)
                raise
            return runner

    def alter(self, split: Split, code: Packed, *, rerouted: bool) -> Split:
        """Let a split be another one from its next epoch on: first durably, then where it runs. `rerouted` says whether
        it has another route, so that state and waiting tuples have to move whatever the number of sub-streams.
        """
        with self._altering:  # one after the other, so that what is durable is what runs
            runner = self.of(split)
            with self._lock:
                known = self._house.catalog.splits.get(split.name)
                split = replace(split, layout=known.layout + rerouted)
                self._house.catalog.splits.alter(split)
                faults.reach("split.alter")
            runner.alter(split, code)
            return split

    def _undo(self, split: Split) -> None:
        """Take back a creation that failed. If that fails too, the split is there, and can be given its code again."""
        catalog = self._house.catalog
        with suppress(OSError, HeadraceError):
            catalog.splits.drop(split)
            self._runners.pop(runner_name(split.name).lower(), None)
            for output in split.outputs.values():
                if catalog.has_stream(output.name):
                    self._house.sealer.drop_stream(output.name)

    def drop(self, split: Split) -> None:
        """End a split. Its output streams get no more input, and stay."""
        runner = self.find(split)
        if runner is not None:
            runner.drop()  # nobody else waits meanwhile
        with self._lock:
            known = next((one for one in self._house.catalog.splits.all() if one.id == split.id), None)
            if known is not None:  # else somebody else has dropped it
                self._end(known)
                remove_dropped(self._house.warehouse, self._house.catalog.splits.all())

    def _end(self, split: Split) -> None:
        """Close the outputs and write down the drop, in this order: streams that a kill leaves open stay open."""
        self._close_outputs(split, even_empty=True)
        faults.reach("split.drop")
        self._house.catalog.splits.drop(split)
        self._runners.pop(runner_name(split.name).lower(), None)

    def _close_outputs(self, split: Split, *, even_empty: bool = False) -> None:
        """Close the streams of a split that was dropped, unless others have their names by now."""
        arrivals, catalog = self._house.arrivals, self._house.catalog
        for output in split.outputs.values():
            last = arrivals.batch(output.name)
            ours = even_empty or (last is not None and last.source == batch_source(split))
            if ours and catalog.has_stream(output.name) and not arrivals.closed(output.name):
                arrivals.close(output.name)

    def close(self) -> None:
        """Let the own workers go that ran these splits."""
        SPLIT_WORKERS.leave(str(self._house.warehouse.root))

    def cancel(self) -> None:
        for runner in self.runners():
            with suppress(Exception):
                runner.cancel()
