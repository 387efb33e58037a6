"""Where the groups go on: the last commit of each, and whether the log still holds what comes after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from headrace.engine.files import check_results
from headrace.engine.paths import GROUPS, commits_dir
from headrace.engine.records import Commit, no_commit
from headrace.log.epochs import EpochLog
from headrace.model.errors import StorageError
from headrace.storage.warehouse import Warehouse, record_name, unsafe_name

_UNREADABLE = ("FILE_TORN", "FILE_FOREIGN", "FILE_DAMAGED")
_GO_BACK = (
    "restore it from a copy of the warehouse, or open with rebuild=True to go back to the commit before it"
)


def group_names(warehouse: Warehouse) -> list[str]:
    """The groups that have a place in the warehouse, or once had a commit in it."""
    try:
        found = os.listdir(warehouse.path(GROUPS))
    except FileNotFoundError:
        found = []
    marked = (name.split("/")[1] for name in warehouse.marked() if name.startswith(f"{GROUPS}/"))
    return sorted({unsafe_name(name) for name in [*found, *marked]})


def last_commits(warehouse: Warehouse, *, whole: bool = False) -> dict[str, Commit]:
    """The newest commit of every group that has one; with `whole`, the newest that can be read."""
    read: Callable[[Warehouse, str], Commit] = last_whole_commit if whole else last_commit
    found = {name: read(warehouse, name) for name in group_names(warehouse)}
    return {name: commit for name, commit in found.items() if commit.epoch >= 0}


def last_commit(warehouse: Warehouse, group: str) -> Commit:
    """The newest commit of a group, or the empty one; StorageError naming it when it is damaged or missing."""
    folder = commits_dir(group)
    numbers = warehouse.records(folder)
    if (mark := warehouse.mark(folder)) > max([*numbers[-1:], -1]):
        raise StorageError(
            "COMMIT_MISSING",
            f"{warehouse.path(record_name(folder, mark))} is missing",
            detail=f"epoch {mark} was committed",
            hint=_GO_BACK if numbers else f"restore {folder} from a copy of the warehouse",
        )
    if not numbers:
        return no_commit(group)
    try:
        commit: Commit = warehouse.read_record(folder, numbers[-1], kind="commit")
    except StorageError as error:
        if error.code not in _UNREADABLE or len(numbers) < 2:
            raise
        raise StorageError(error.code, error.message, detail=error.detail, hint=_GO_BACK) from error
    return commit


def last_whole_commit(warehouse: Warehouse, group: str) -> Commit:
    """The newest commit that can be read; damaged ones after it are set aside (`.torn`), and their epochs run again.

    StorageError when that would lose rows: the older commit's result files must all be there.
    """
    folder = commits_dir(group)
    torn: list[int] = []
    for number in reversed(warehouse.records(folder)):
        try:
            commit: Commit = warehouse.read_record(folder, number, kind="commit")
        except StorageError as error:
            if error.code not in _UNREADABLE:
                raise
            torn.append(number)
            continue
        if torn or number < warehouse.mark(folder):
            check_results(warehouse.root, commit.results)
            warehouse.go_back(folder, number)
        for bad in torn:
            path = warehouse.path(record_name(folder, bad))
            os.replace(path, path.with_suffix(".json.torn"))
        return commit
    return last_commit(warehouse, group)


def check_commits(commits: Iterable[Commit], epochs: EpochLog) -> None:
    """Refuse to open when the log lacks an epoch that a group has committed."""
    for commit in commits:
        epochs.need(commit.epoch)


def check_cursor(commit: Commit, next_epoch: int, epochs: EpochLog) -> None:
    """Refuse to open when the log lacks the epoch that a group is to run next."""
    if next_epoch < epochs.first:
        raise StorageError(
            "COMMIT_MISSING",
            f"the last commit found is of epoch {commit.epoch}, but the log begins with epoch {epochs.first}",
            detail=f"the epochs in between were committed by group `{commit.group}`, and their records are gone",
            hint=f"restore {commits_dir(commit.group)} from a copy of the warehouse",
        )
