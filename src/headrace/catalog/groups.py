"""The list of regroupings, and with what each group runs. Not thread-safe; the catalog guards it."""

from __future__ import annotations

from collections.abc import Container, Iterable

from headrace.model.errors import StorageError
from headrace.model.grouping import GroupSpec, Regrouping
from headrace.storage import faults
from headrace.storage.warehouse import Warehouse

REGROUPINGS = "catalog/regroupings"


class GroupTable:
    """Specs by group and epoch, and the regroupings that a group may still have to take in."""

    def __init__(self, warehouse: Warehouse, last: int, specs: Iterable[tuple[int, GroupSpec]]) -> None:
        self._warehouse = warehouse
        self._specs: dict[str, list[tuple[int, GroupSpec]]] = {}
        for epoch, spec in specs:
            self._specs.setdefault(spec.name, []).append((epoch, spec))
        self._records: list[Regrouping] = []
        self._last = last
        self.unapplied: list[Regrouping] = []
        """Regroupings that the snapshot lacks: the catalog lets them happen once it knows all epochs."""
        for number in _unbroken(warehouse, last):
            record: Regrouping = warehouse.read_record(REGROUPINGS, number, kind="regrouping")
            self._records.append(record)
            if number > last:
                self.unapplied.append(record)
                self._note(record)

    @property
    def last(self) -> int:
        """The number of the newest regrouping; -1 before any."""
        return self._last

    @property
    def specs(self) -> tuple[tuple[int, GroupSpec], ...]:
        """(epoch from which on, spec) of all groups, oldest first."""
        return tuple(pair for pairs in self._specs.values() for pair in pairs)

    def spec(self, group: str, epoch: int) -> GroupSpec | None:
        """With what a group runs an epoch; None when nobody has said anything about this group."""
        found = self._specs.get(group)
        if not found:
            return None
        return next((spec for since, spec in reversed(found) if since <= epoch), found[0][1])

    def forget_specs(self, done: int, groups: Container[str]) -> None:
        """Leave out what no group runs with again when all have run epoch `done`: specs that another one has followed
        since, and what groups had that are not among these.
        """
        for name, found in list(self._specs.items()):
            newest = max((i for i, (since, _) in enumerate(found) if since <= done + 1), default=0)
            kept = found[newest:] if name in groups else [pair for pair in found if pair[0] > done]
            if kept:
                self._specs[name] = kept
            else:
                del self._specs[name]

    def add(self, record: Regrouping) -> None:
        """Make a regrouping durable. From then on it is in force, whatever happens."""
        if record.number != self._last + 1:
            raise ValueError(f"regrouping {record.number} after {self._last}")
        faults.reach("regroup.before")
        if not self._warehouse.put_record(REGROUPINGS, record.number, record, kind="regrouping"):
            raise StorageError(
                "REGROUPING_EXISTS",
                f"regrouping {record.number} of {self._warehouse.root} was written by somebody else",
                hint="make sure that one process writes to a warehouse",
            )
        faults.reach("regroup.after")
        self._records.append(record)
        self._note(record)

    def _note(self, record: Regrouping) -> None:
        self._last = record.number
        for spec in record.specs:
            self._specs.setdefault(spec.name, []).append((record.epoch, spec))

    def pending(self, group: str, after: int, until: int) -> list[Regrouping]:
        """Regroupings after number `after` that concern a group and take effect by epoch `until`, oldest first."""
        return [r for r in self._records if r.number > after and r.epoch <= until and r.concerns(group)]

    def files(self) -> set[str]:
        """The segment files that regroupings name: some group may still have to take them in."""
        return {
            file.path for record in self._records for files in (record.state or {}).values() for file in files
        }

    def forget(self, taken: int, covered: int) -> None:
        """Remove records up to number `taken`, which all groups have taken in, that the snapshot covers."""
        for record in [r for r in self._records if r.number <= min(taken, covered)]:
            self._warehouse.delete_record(REGROUPINGS, record.number)
            self._records.remove(record)


def _unbroken(warehouse: Warehouse, covered: int) -> list[int]:
    """The numbers of the regroupings on disk; StorageError naming the first that is missing.

    They are forgotten from the oldest on, and those that the snapshot does not cover are never forgotten.
    """
    there = warehouse.records(REGROUPINGS)
    return warehouse.sequence(REGROUPINGS, min([covered + 1, *there]))
