"""The running engine as the conductor's stage: the catalog says who lives where, the log what came in."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog.queries import QueryEntry, QueryState
from headrace.engine.conductor.facts import LiveQuery
from headrace.engine.conductor.measured import Measured
from headrace.engine.conductor.sampling import StreamSample
from headrace.engine.conductor.stage import Standing
from headrace.engine.group import Group
from headrace.engine.groups import Groups
from headrace.engine.house import House
from headrace.engine.records import Commit
from headrace.log.arrivals import Arrivals
from headrace.model.epoch import Chunk
from headrace.model.errors import StorageError
from headrace.model.grouping import GroupKind, auto_number, kind_of
from headrace.model.query import Fallback, Join, QueryId
from headrace.optimizer.grouping.values import FunctionName

LOOK_BACK = 20
"""So many epochs back a stream's newest tuples are looked for."""


class HouseStage:
    """The engine of an open warehouse. Nothing here is remembered: the catalog and the log are asked each time.

    `moved` is set when moves are asked for: whoever seals should do so now, for they are known with the next epoch.
    """

    def __init__(self, house: House, groups: Groups, arrivals: Arrivals) -> None:
        self._house, self._groups, self._arrivals = house, groups, arrivals
        self.moved = threading.Event()

    @property
    def cores(self) -> int:
        return self._groups.cores

    def queries(self) -> list[LiveQuery]:
        functions = self._house.catalog.functions
        return [
            _live(entry, waits=bool(functions.missing(entry.query)))
            for entry in self._house.catalog.current()
            if entry.live and entry.state is not QueryState.QUARANTINED
        ]

    def tasks(self, groups: Iterable[str]) -> dict[str, int]:
        homes, following = self._house.catalog.homes, self._house.delivered.sealed + 1
        specs = {name: homes.spec(name, following) for name in groups}
        return {name: spec.tasks for name, spec in specs.items() if spec is not None}

    def next_number(self) -> int:
        catalog = self._house.catalog
        names = {*catalog.homes.groups(), *self._house.delivered.commits}
        names |= {name for entry in catalog.current() for name in (entry.group, entry.moving_to or "")}
        numbers = [number for name in names if (number := auto_number(name)) is not None]
        return 1 + max(numbers, default=-1)

    def arrived(self) -> dict[str, int]:
        found = self.processed(self._house.delivered.sealed)
        for arrival in self._arrivals.pending():
            rows = sum(chunk.rows for chunk in arrival.chunks)
            found[str(arrival.stream)] = found.get(str(arrival.stream), 0) + rows
        return found

    def processed(self, epoch: int) -> dict[str, int]:
        """The tuples of each stream up to and with an epoch."""
        return {stream: rows for stream, (rows, _) in self._house.delivered.totals(epoch).items()}

    def standings(self, groups: Iterable[str]) -> dict[str, Standing]:
        delivered, sealer, now = self._house.delivered, self._house.sealer, self.now()
        found = {}
        for name in groups:
            cursor = max(delivered.cursor(name), sealer.first - 1)
            done = self._done(cursor)
            if cursor >= delivered.sealed:
                found[name] = Standing(done)
                continue
            following = sealer.head(cursor + 1)
            waiting = frozenset(str(inflow.stream) for inflow in following.streams if inflow.rows)
            found[name] = Standing(done, max(0.0, now - following.sealed_at), waiting)
        return found

    def _done(self, cursor: int) -> dict[str, int]:
        """The tuples of each stream up to and with an epoch, or all before the oldest one that the log still has."""
        sealer = self._house.sealer
        if cursor >= sealer.first or cursor >= self._house.delivered.sealed:
            return self.processed(cursor)
        oldest = sealer.head(sealer.first)
        return {
            stream: rows - (0 if (inflow := oldest.of(stream)) is None else inflow.rows)
            for stream, (rows, _) in oldest.totals().items()
        }

    def function_costs(self) -> dict[FunctionName, float]:
        specs = self._house.catalog.functions.specs()
        return {FunctionName(spec.name): spec.cost for spec in specs if spec.cost is not None}

    def sample(self, stream: str, columns: Sequence[str], tuples: int) -> StreamSample | None:
        tables: list[pa.Table] = []
        rows = 0
        for chunk in self._newest(stream):
            table = read_sample(Path(self._house.warehouse.root, chunk.path), columns, tuples - rows)
            if table is not None:
                rows += table.num_rows
                tables.append(table)
            if rows >= tuples:
                break
        if not rows:
            return None
        whole = pa.concat_tables(tables, promote_options="permissive") if columns else None
        return StreamSample(stream, rows, {} if whole is None else {c: whole.column(c) for c in columns})

    def _newest(self, stream: str) -> Iterable[Chunk]:
        sealer = self._house.sealer
        if sealer.latest is None:
            return
        last = int(sealer.latest.id)
        for number in range(last, max(sealer.first, last - LOOK_BACK + 1) - 1, -1):
            inflow = sealer.head(number).of(stream)
            yield from reversed(inflow.chunks if inflow is not None else ())

    def move(self, moves: Sequence[tuple[QueryId, str]]) -> None:
        self._house.catalog.request_moves(moves)
        with suppress(StorageError):  # they are requests that are kept; the next flush says what is wrong
            self._house.catalog.flush()  # what is decided waits for no other changes
            self.moved.set()

    def resize(self, group: str, tasks: int) -> None:
        self._groups.resize(group, tasks)

    def now(self) -> float:
        """The time that decisions are dated with."""
        return self._house.clock()

    def balance(self, group: Group) -> str | None:
        """Spread a group's keys anew if that is worth it; why it was."""
        return self._groups.balance(group)

    def measured(self, group: Group, commit: Commit) -> Measured:
        """An epoch of a group that was just committed."""
        members = self._house.catalog.active_entries(commit.epoch, group.name)
        return Measured(
            group.name,
            commit.epoch,
            commit.committed_at,
            group.spec(commit.epoch).tasks,
            frozenset(entry.query.id for entry in members),
            commit.metrics,
            commit.operators,
            group.users(),
            self.arrived(),
            self.processed(commit.epoch),
            frozenset(entry.query.id for entry in members if isinstance(entry.query.plan.body, Join)),
        )


def _live(entry: QueryEntry, *, waits: bool = False) -> LiveQuery:
    """A query that is catching up lives apart until it has. So does one that plain Spark runs, or that `waits` for its
    function.

    It may take long until a query that is on its way arrives. Until then, its new group is decided about without it.
    """
    group, kind = entry.moving_to or entry.group, kind_of(entry.group)
    apart = waits or kind is not GroupKind.SHARED or isinstance(entry.query.plan.body, Fallback)
    query = entry.query
    return LiveQuery(
        query.id,
        query.name,
        query.plan,
        group,
        query.needs,
        moving=group != entry.group,
        apart=apart,
        living_in=entry.group,
    )


def read_sample(path: Path, columns: Sequence[str], tuples: int) -> pa.Table | None:
    """Some tuples of a chunk's last row group, evenly spread; None when the log has no such chunk any more."""
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            if not file.num_row_groups:
                return None
            last = file.num_row_groups - 1
            rows = file.metadata.row_group(last).num_rows
            taken = np.linspace(0, rows - 1, min(rows, tuples)).astype(np.int64)
            if not columns:
                return pa.table({"": taken})
            return file.read_row_group(last, columns=list(columns), use_threads=False).take(pa.array(taken))
    except FileNotFoundError:
        return None
