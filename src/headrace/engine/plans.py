"""Plans as files: what the driver plans, and what tasks run.

A plan's file has its queries in lines of their own, and whoever reads one plan after the other keeps what it knows.
"""

from __future__ import annotations

from pathlib import Path

from headrace.engine.paths import plan_path
from headrace.model.pieces import Reader
from headrace.model.plan import SharedPlan
from headrace.planner.group import Kept
from headrace.storage.envelope import lines_envelope, open_lines
from headrace.storage.warehouse import Warehouse

_READER = Reader()
"""A worker process serves all groups of a warehouse with it."""


def plan_file(plan: SharedPlan, kept: Kept | None = None) -> bytes:
    """What a plan's file has in it."""
    return lines_envelope("plan", (kept or Kept()).text_of(plan))


class PlanWriter:
    """Writes the plans of a group.

    A plan can be made again, so nobody waits for the disk. What another process wrote may be half there after a power
    failure, and is written anew.
    """

    def __init__(self, warehouse: Warehouse, group: str) -> None:
        self._warehouse, self._group, self._written = warehouse, group, ""

    def write(self, plan: SharedPlan, kept: Kept) -> str:
        """The path of a plan, which is written unless it is there."""
        path = plan_path(self._group, plan.version)
        if plan.operators and not (self._written == path and self._warehouse.exists(path)):
            self._warehouse.replace(path, plan_file(plan, kept), durable=False)
            self._written = path
        return path


def read_plan(path: Path) -> SharedPlan:
    """The plan in a file; StorageError when it is damaged."""
    found: SharedPlan = open_lines(path.read_bytes(), "plan", path, _READER.read)
    return found
