"""All sharing groups of an open warehouse: which there are, where they stand, and how queries change groups."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import SparkSession

from headrace.engine.group import Group
from headrace.engine.house import House
from headrace.engine.moves import Standing, Step, Traveller, holds_back, plan_moves
from headrace.model.errors import EngineError
from headrace.model.grouping import (
    MAIN,
    GroupKind,
    GroupSpec,
    Regrouping,
    Relocation,
    auto_group,
    auto_number,
    kind_of,
)
from headrace.model.partitioning import KEY_GROUPS, even_partitioning
from headrace.model.state import SegmentFile

_LOGGER = logging.getLogger(__name__)


class Groups:
    """The groups with work to do, each opened when it is first needed. Thread-safe.

    `session` gives each group a Spark session of its own: temporary views of one must not be seen by another.
    """

    def __init__(self, house: House, session: Callable[[str], SparkSession]) -> None:
        self._house, self._session = house, session
        self._lock = threading.RLock()
        self._open: dict[str, Group] = {}
        self._complaints: set[str] = set()
        self.cores = int(session(MAIN).sparkContext.defaultParallelism)
        self._take_width()
        house.upkeep.sweep()

    def get(self, name: str) -> Group:
        with self._lock:
            if name not in self._open:
                self._open[name] = Group(name, self._session(name), self._house)
            return self._open[name]

    @property
    def backfill_tasks(self) -> int | None:
        """So many tasks a group on its way takes at most."""
        return self._house.options.backfill_tasks

    @property
    def main(self) -> Group:
        return self.get(MAIN)

    @property
    def spark(self) -> SparkSession:
        """The session that the main group's jobs run in."""
        return self.main.spark

    def opened(self) -> list[Group]:
        with self._lock:
            return list(self._open.values())

    def due(self) -> list[str]:
        """The groups that have a sealed epoch to run."""
        delivered, homes = self._house.delivered, self._house.catalog.homes
        with self._lock:  # groups that nobody lives in any more take their Spark sessions with them
            for name in [name for name in self._open if name != MAIN]:
                if homes.next_epoch(name, delivered.commit_of(name).epoch) is None:
                    del self._open[name]
        return [name for name in homes.groups() if delivered.next_epoch(name) <= delivered.sealed]

    def priority(self, name: str) -> int:
        """The highest priority that was asked for a query of a group."""
        living = self._house.catalog.homes.living_in(name)
        return max((entry.query.needs.priority for entry in living if entry.live), default=0)

    def is_plain(self, name: str) -> bool:
        """Whether plain Spark runs all queries of a group."""
        return self._house.catalog.homes.is_plain(name)

    def is_light(self, name: str) -> bool:
        """Whether a group's last epoch ran in the driver's own worker, without a Spark job."""
        return self._house.delivered.commit_of(name).metrics.own_worker > 0

    def shares(self) -> bool:
        """Whether shared operators run any query."""
        return self._house.catalog.homes.shares()

    def lived_in(self) -> list[str]:
        """The groups that have members."""
        homes, sealed = self._house.catalog.homes, self._house.delivered.sealed
        return [name for name in homes.groups() if homes.next_epoch(name, sealed) is not None]

    def sharing(self) -> dict[str, int]:
        """The groups in which shared operators run queries, but for those that are on their way: how many sealed epochs
        each has not run yet.
        """
        house = self._house
        return {name: house.delivered.behind(name) for name in house.catalog.homes.sharing()}

    def cancel(self) -> None:
        """Let all jobs under way fail with EPOCH_CANCELLED. From any thread."""
        for group in self.opened():
            with suppress(Exception):
                group.cancel()

    def rebuild(self) -> None:
        """Derive the state of every group anew from the log."""
        for name in self._house.catalog.homes.groups():
            self.get(name).rebuild()

    def close(self) -> None:
        """Wait for what runs beside the epochs."""
        self._house.upkeep.close()

    # where they stand

    def standings(self, running: Collection[str] = (), failing: Collection[str] = ()) -> dict[str, Standing]:
        """Where every group stands, with those that are running an epoch now."""
        delivered, catalog = self._house.delivered, self._house.catalog
        found = {}
        for name in {*catalog.homes.groups(), *delivered.commits}:
            following = delivered.next_epoch(name)
            found[name] = Standing(
                delivered.cursor(name),
                delivered.commit_of(name).epoch,
                # the main group runs every epoch, so it is never one that can begin anywhere
                max(len(catalog.active_entries(following, name)), name == MAIN),
                following <= delivered.sealed,
                name in running,
                name in failing,
            )
        return found

    # how queries change groups

    def travellers(self) -> list[Traveller]:
        """The queries that are wanted in another group than the one they live in.

        Who lacks a function stays where it is: the other group would wait with it.
        """
        catalog = self._house.catalog
        return [
            Traveller(entry.query.id, entry.group, entry.wish, entry.stays[-1].epoch)
            for entry in catalog.homes.travellers()
            if entry.wish is not None and not catalog.functions.missing(entry.query)
        ]

    def settle(self, running: Collection[str] = (), failing: Collection[str] = ()) -> set[str]:
        """Let queries change groups where that can be done now. The groups that should wait for a moment.

        The caller makes sure that no group begins an epoch meanwhile.
        """
        with self._lock:
            self._take(self._partings(running))
            travellers = self.travellers()
            if not travellers:
                return set()
            self._take(plan_moves(travellers, self.standings(running, failing)))
        standings = self.standings(running, failing)
        return {t.group for t in self.travellers() if holds_back(t.group, t.wish.group, standings)}

    def _take(self, steps: Iterable[Step]) -> None:
        for step in steps:
            try:
                self._regroup(step)
            except Exception as error:  # one move that fails keeps nobody else from running
                if str(error) not in self._complaints:
                    _LOGGER.warning("queries stay in group %s for now: %s", step.source, error)
                self._complaints.add(str(error))

    def _partings(self, running: Collection[str]) -> Iterator[Step]:
        """Queries whose function nobody has registered again wait in a group of their own, so that the others go on.

        They go back when somebody has: until then they are no travellers.

        In its very first epoch, a query begins there. One that came from elsewhere with this epoch cannot leave yet,
        because its state is on the way: its group waits with it.
        """
        catalog = self._house.catalog
        if catalog.functions.all_ready:
            return
        for name, standing in self.standings(running).items():
            epoch = standing.cursor + 1
            if standing.running or not standing.due:
                continue
            members = catalog.active_entries(epoch, name)
            free = [e for e in members if e.stays[-1].epoch < epoch or len(e.stays) == 1]
            waiting = [e for e in free if e.live and catalog.functions.missing(e.query)]
            if waiting and (name == MAIN or len(waiting) < len(members)):
                # others may be on their way to a group that nobody lives in yet
                wanted = {
                    entry.moving_to for entry in catalog.homes.travellers() if entry.moving_to is not None
                }
                numbers = (auto_number(group) for group in {*catalog.homes.groups(), *wanted})
                target = auto_group(1 + max((n for n in numbers if n is not None), default=-1))
                moves = tuple(Relocation(entry.query.id, name, target, returns=True) for entry in waiting)
                yield Step(epoch, name, target, moves)

    def _regroup(self, step: Step) -> None:
        catalog = self._house.catalog
        names = [catalog.entry_of(move.query).query.name for move in step.moves]
        who = f"query `{names[0]}`" if len(names) == 1 else f"{len(names)} queries"
        catalog.homes.regroup(
            Regrouping(
                number=catalog.homes.last_regrouping + 1,
                epoch=step.epoch,
                moves=step.moves,
                state={step.target: self._state(step)},
                strategies=self.get(step.source)
                .strategies(step.epoch)
                .only(move.query for move in step.moves),
                reason=f"{who} moved from {step.source} to {step.target}",
                decided_at=self._house.clock(),
            )
        )

    def _state(self, step: Step) -> tuple[SegmentFile, ...]:
        """What queries bring along: the parts of their group's segments that are theirs."""
        group, moving = self.get(step.source), {int(move.query) for move in step.moves}
        theirs = {
            operator.id: moving & {int(query) for query in operator.queries}
            for operator in group.plan_for(step.epoch - 1).operators
        }
        held = (file.of_queries(theirs.get(file.operator, ())) for file in group.held(step.epoch))
        return tuple(file for file in held if file is not None)

    # how wide they are

    def _take_width(self) -> None:
        """As many partitions as was asked for at opening; else as Spark has cores, unless a person chose otherwise."""
        catalog, wanted = self._house.catalog, self._house.options.partitions
        now, cores = catalog.homes.spec(MAIN, self._house.delivered.sealed + 1), self.cores
        if now is None:
            self._widen(wanted or cores, by_hand=wanted is not None, reason="the warehouse is new", epoch=0)
        elif wanted is not None and wanted != now.tasks:
            self._widen(wanted, by_hand=True, reason=f"opened with {wanted} partitions")
        elif wanted is None and not now.by_hand and cores != now.tasks:
            self._widen(cores, by_hand=False, reason=f"Spark has {cores} cores")

    def repartition(self, partitions: int) -> None:
        """Spread keys over so many partitions from the next epoch on."""
        if type(partitions) is not int or not 1 <= partitions <= KEY_GROUPS:
            raise EngineError(
                "BAD_OPTION",
                f"there cannot be {partitions!r} partitions",
                hint=f"give a whole number from 1 to {KEY_GROUPS}",
            )
        self._widen(partitions, by_hand=True, reason=f"repartition({partitions})")

    def resize(self, group: str, tasks: int) -> None:
        """Let a group run with so many tasks from the next epoch on, unless a person chose otherwise for it."""
        with self._house.sealer.holding(), self._lock:
            now = self._house.catalog.homes.spec(group, self._house.delivered.sealed + 1)
            if now is None or now.by_hand or now.tasks == tasks:
                return
            self._widen(tasks, by_hand=False, reason=f"group {group} runs with {tasks} tasks", group=group)

    def balance(self, group: Group) -> str | None:
        """Spread a group's keys anew from the next epoch on, if one of its tasks has much more to do than others; why.

        Called between two epochs of the group.
        """
        house = self._house
        now = house.catalog.homes.spec(group.name, house.delivered.sealed + 1)
        if now is None or kind_of(group.name) is not GroupKind.SHARED:
            return None
        better = group.balance.decide(now.partitioning)
        if better is None:
            return None
        with house.sealer.holding(), self._lock:
            spec = house.catalog.homes.spec(group.name, house.delivered.sealed + 1)
            if spec != now:  # somebody has given it another width meanwhile
                return None
            self._put_specs([replace(now, partitioning=better.partitioning)], better.reason)
        return better.reason

    def _widen(
        self,
        partitions: int,
        *,
        by_hand: bool,
        reason: str,
        epoch: int | None = None,
        group: str | None = None,
    ) -> None:
        """Without a `group` it holds for all: the main one, those that will come, and those that have another width."""
        catalog = self._house.catalog
        partitioning = even_partitioning(min(partitions, KEY_GROUPS))
        with self._house.sealer.holding(), self._lock:  # no group can begin the next epoch meanwhile
            others = catalog.homes.sized() - {MAIN} if group is None else ()
            specs = [
                GroupSpec(group or MAIN, partitions, partitioning, by_hand),
                *(GroupSpec(name, partitions, partitioning) for name in sorted(others)),
            ]
            self._put_specs(specs, reason, epoch)

    def _put_specs(self, specs: Sequence[GroupSpec], reason: str, epoch: int | None = None) -> None:
        """Let groups run with these from the next epoch on, or from another one. The sealer is held meanwhile."""
        homes = self._house.catalog.homes
        homes.regroup(
            Regrouping(
                number=homes.last_regrouping + 1,
                epoch=self._house.delivered.sealed + 1 if epoch is None else epoch,
                specs=tuple(specs),
                reason=reason,
                decided_at=self._house.clock(),
            )
        )
