"""Where queries live: which sharing groups there are, who is in them, and how that changes."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from headrace.catalog.groups import GroupTable
from headrace.catalog.queries import QueryEntry, QueryState, QueryTable
from headrace.model.grouping import MAIN, GroupKind, GroupSpec, Regrouping, kind_of
from headrace.model.partitioning import even_partitioning
from headrace.storage.interrupts import uninterrupted


class Homes:
    """The catalog's side of sharing groups. Thread-safe, by the catalog's own lock."""

    def __init__(self, lock: threading.RLock, queries: QueryTable, groups: GroupTable) -> None:
        self._lock, self._queries, self._groups = lock, queries, groups
        self._covered = groups.last - len(groups.unapplied)

    @property
    def specs(self) -> tuple[tuple[int, GroupSpec], ...]:
        """(epoch from which on, spec) of all groups, oldest first."""
        return self._groups.specs

    def covered(self, regrouping: int) -> None:
        """A snapshot holds the regroupings up to this number."""
        self._covered = regrouping

    def groups(self) -> tuple[str, ...]:
        """Every group that a listed query lives in, or has lived in; and the one that is always there."""
        with self._lock:
            return tuple(sorted({MAIN, *self._queries.groups()}))

    def unless_lived_in(self, group: str, remove: Callable[[], None]) -> None:
        """Remove what a group has, unless a query lives in it, or has lived in it. Nobody moves in meanwhile."""
        with self._lock:
            if group not in self.groups():
                remove()

    def living_in(self, group: str) -> tuple[QueryEntry, ...]:
        """The queries that live in a group, or have lived there, oldest first."""
        with self._lock:
            return self._queries.living_in(group)

    def is_plain(self, group: str) -> bool:
        """Whether plain Spark runs all queries that live in a group."""
        with self._lock:
            if self._queries.lives_in(group, plain=False):
                return False
            return kind_of(group) is GroupKind.PLAIN or self._queries.lives_in(group, plain=True)

    def shares(self) -> bool:
        """Whether shared operators run any query."""
        with self._lock:
            return any(self._queries.lives_in(group, plain=False) for group in self._queries.groups())

    def sharing(self) -> tuple[str, ...]:
        """The groups in which shared operators run queries now, but for those that are on their way."""
        with self._lock:
            return tuple(
                group
                for group in self._queries.groups()
                if kind_of(group) is GroupKind.SHARED and self._queries.lives_in(group, plain=False)
            )

    def travellers(self) -> tuple[QueryEntry, ...]:
        """The active queries that are wanted in another group than the one they live in, oldest first."""
        with self._lock:
            found = self._queries.wishing()
            return tuple(e for e in found if e.state is QueryState.ACTIVE and e.moving_to is not None)

    def next_epoch(self, group: str, after: int) -> int | None:
        """The first epoch after `after` in which a query is active in a group, sealed or not; None when none is."""
        with self._lock:
            return self._queries.next_epoch(group, after)

    def spec(self, group: str, epoch: int) -> GroupSpec | None:
        """With what a group runs an epoch. A group of which nothing was said is as wide as the main group.

        Which keys are busy is a matter of its own queries, so its keys are spread evenly.
        """
        with self._lock:
            found, main = self._groups.spec(group, epoch), self._groups.spec(MAIN, epoch)
            if found is not None or main is None:
                return found
            even = even_partitioning(main.partitioning.partitions)
            return dataclasses.replace(main, name=group, partitioning=even, by_hand=False)

    def sized(self) -> set[str]:
        """The groups of which something was said about what they run with."""
        with self._lock:
            return {spec.name for _, spec in self._groups.specs}

    def forget_specs(self, done: int) -> None:
        """Forget with what groups have run that all have epoch `done` behind them, and groups that are gone."""
        with self._lock:
            wanted = {entry.wish.group for entry in self._queries.wishing() if entry.wish is not None}
            self._groups.forget_specs(done, {MAIN, *self._queries.groups(), *wanted})

    @property
    def last_regrouping(self) -> int:
        with self._lock:
            return self._groups.last

    def regroup(self, record: Regrouping) -> None:
        """Let queries live elsewhere from an epoch on, durably. The caller makes sure that no group has run it yet."""
        with uninterrupted(), self._lock:
            self._groups.add(record)
            self._relocate(record)

    def hand_over(self, group: str, heir: str) -> None:
        """The stays in a group, which nobody lives in, become stays in its heir. Durable with the next checkpoint.

        The caller makes sure that neither of them will run an epoch of these stays again.
        """
        with self._lock:
            self._queries.hand_over(group, heir)

    def regroupings(self, group: str, after: int, until: int) -> list[Regrouping]:
        """The regroupings after number `after` that concern a group and take effect by epoch `until`, oldest first."""
        with self._lock:
            return self._groups.pending(group, after, until)

    def regrouping_files(self) -> set[str]:
        """The segment files that regroupings name: a group may still have to take them in."""
        with self._lock:
            return self._groups.files()

    def forget_regroupings(self, taken: int) -> None:
        """Remove the regroupings up to number `taken`, which every group has taken in, from the disk."""
        with self._lock:
            self._groups.forget(taken, self._covered)

    def replayed(self) -> None:
        """All epochs are known: regroupings that the snapshot lacks happen now."""
        with self._lock:
            for record in self._groups.unapplied:
                self._relocate(record)
            self._groups.unapplied.clear()

    def _relocate(self, record: Regrouping) -> None:
        for move in record.moves:
            self._queries.relocate(move, record.epoch)
