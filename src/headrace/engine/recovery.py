"""Where a group goes on: the last commit, and whether the log still holds what comes after it."""

from __future__ import annotations

import os

from headrace.engine.files import check_results
from headrace.engine.records import COMMITS, NOTHING, Commit
from headrace.log.epochs import EpochLog
from headrace.model.errors import StorageError
from headrace.storage.warehouse import Warehouse, record_name

_UNREADABLE = ("FILE_TORN", "FILE_FOREIGN", "FILE_DAMAGED")
_GO_BACK = (
    "restore it from a copy of the warehouse, or open with rebuild=True to go back to the commit before it"
)


def last_commit(warehouse: Warehouse) -> Commit:
    """The newest commit of the group, or the empty one; StorageError naming it when it is damaged or missing."""
    numbers = warehouse.records(COMMITS)
    if (mark := warehouse.mark(COMMITS)) > max([*numbers[-1:], -1]):
        raise StorageError(
            "COMMIT_MISSING",
            f"{warehouse.path(record_name(COMMITS, mark))} is missing",
            detail=f"epoch {mark} was committed",
            hint=_GO_BACK if numbers else "restore groups/main/commits from a copy of the warehouse",
        )
    if not numbers:
        return NOTHING
    try:
        commit: Commit = warehouse.read_record(COMMITS, numbers[-1], kind="commit")
    except StorageError as error:
        if error.code not in _UNREADABLE or len(numbers) < 2:
            raise
        raise StorageError(error.code, error.message, detail=error.detail, hint=_GO_BACK) from error
    return commit


def last_whole_commit(warehouse: Warehouse) -> Commit:
    """The newest commit that can be read; damaged ones after it are set aside (`.torn`), and their epochs run again.

    StorageError when that would lose rows: the older commit's result files must all be there.
    """
    torn: list[int] = []
    for number in reversed(warehouse.records(COMMITS)):
        try:
            commit: Commit = warehouse.read_record(COMMITS, number, kind="commit")
        except StorageError as error:
            if error.code not in _UNREADABLE:
                raise
            torn.append(number)
            continue
        if torn or number < warehouse.mark(COMMITS):
            check_results(warehouse.root, commit.results)
            warehouse.go_back(COMMITS, number)
        for bad in torn:
            path = warehouse.path(record_name(COMMITS, bad))
            os.replace(path, path.with_suffix(".json.torn"))
        return commit
    return last_commit(warehouse)


def check_cursor(commit: Commit, epochs: EpochLog) -> None:
    """Refuse to open when the log lacks the last committed epoch, or the one that is to run next."""
    epochs.need(commit.epoch)
    if commit.epoch + 1 < epochs.first:
        raise StorageError(
            "COMMIT_MISSING",
            f"the last commit found is of epoch {commit.epoch}, but the log begins with epoch {epochs.first}",
            detail="the epochs in between were committed, and their records are gone",
            hint="restore groups/main/commits from a copy of the warehouse",
        )
