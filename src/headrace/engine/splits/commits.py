"""From what the tasks of an epoch report to the split's next commit. Pure, but for clearing away."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace

from headrace.engine.splits.messages import ProcessReport, SplitReport
from headrace.engine.splits.paths import SPLITS, commits_dir, home_of
from headrace.model.epoch import Chunk
from headrace.model.errors import StorageError
from headrace.model.splits import (
    BundleFile,
    Counts,
    Split,
    SplitCommit,
    SplitCost,
    SubStreamCost,
    no_split_commit,
)
from headrace.storage.warehouse import Warehouse

KEEP_COMMITS = 3

_ROWS = re.compile(r"(\d{12})-[0-9a-f]{32}\.(parquet|writing)")


def next_commit(
    before: SplitCommit,
    epoch: int,
    version: str,
    watermark_us: int,
    routed: Sequence[SplitReport],
    processed: Sequence[ProcessReport],
) -> SplitCommit:
    """The commit after `before`. Waiting tuples that were handed over, and state that was replaced, are left out."""
    new = [report.waiting for report in routed if report.waiting is not None]
    state, chains = dict(before.state), dict(before.chains)
    number = max((int(key) for key in state), default=-1) + 1
    costs = dict(before.sub_streams)
    outputs: dict[str, tuple[Chunk, ...]] = {}
    for report in processed:
        if report.state is not None:
            state[str(number)] = report.state
        for sub_stream, saved in report.saved.items():
            if saved.bytes:
                kept = () if saved.snapshot else chains[sub_stream]
                chains[sub_stream] = (*kept, (number, saved.bytes))
        for sub_stream, spent in report.costs.items():
            costs[sub_stream] = costs.get(sub_stream, SubStreamCost()).then(spent)
        for kind, chunks in report.outputs.items():
            outputs[kind] = (*outputs.get(kind, ()), *chunks)
        number += 1
    used = {str(file) for chain in chains.values() for file, _ in chain}
    counts = sum((report.counts for report in routed), Counts())
    rows = sum(chunk.rows for chunks in outputs.values() for chunk in chunks)
    cost = SplitCost(
        counts=counts,
        rows=rows,
        splitters=len(routed),
        split_seconds=sum(report.seconds for report in routed),
        process_seconds=sum(report.seconds for report in processed),
        reopened=sum(report.reopened for report in processed),
    )
    return replace(
        before,
        epoch=epoch,
        version=version,
        ticked=watermark_us > before.watermark_us,
        watermark_us=watermark_us,
        waiting=tuple(file for file in (*before.waiting, *new) if file.max_us >= watermark_us),
        state={key: file for key, file in state.items() if key in used},
        chains=chains,
        outputs=outputs,
        counts=before.counts + counts,
        rows=before.rows + rows,
        sub_streams=costs,
        cost=cost,
    )


def due_files(before: SplitCommit, watermark_us: int) -> tuple[BundleFile, ...]:
    """The waiting files that have tuples which the watermark passes now."""
    return tuple(file for file in before.waiting if file.min_us < watermark_us)


def last_split_commit(warehouse: Warehouse, split: Split) -> SplitCommit:
    """Where a split goes on; StorageError when its last commit is not there."""
    folder = commits_dir(split)
    numbers = warehouse.records(folder)
    if (mark := warehouse.mark(folder)) > max([*numbers[-1:], -1]):
        raise StorageError(
            "COMMIT_MISSING",
            f"the commit of epoch {mark} of split `{split.name}` is missing in {warehouse.path(folder)}",
            hint="restore it from a copy of the warehouse, and call restart_split",
        )
    if not numbers:
        return no_split_commit(split)
    found: SplitCommit = warehouse.read_record(folder, numbers[-1], kind="split-commit")
    return found


def put_split_commit(warehouse: Warehouse, split: Split, commit: SplitCommit) -> None:
    """Let a commit count."""
    if not warehouse.put_record(commits_dir(split), commit.epoch, commit, kind="split-commit"):
        raise StorageError(
            "COMMIT_EXISTS",
            f"epoch {commit.epoch} of split `{split.name}` was committed by somebody else",
            hint="make sure that one process writes to a warehouse",
        )


def forget_commits(warehouse: Warehouse, split: Split) -> None:
    for number in warehouse.records(commits_dir(split))[:-KEEP_COMMITS]:
        warehouse.delete_record(commits_dir(split), number)


def sweep(warehouse: Warehouse, split: Split, commit: SplitCommit) -> None:
    """Remove what no commit names: files of epochs that were never committed, and what they needed for a while."""
    shutil.rmtree(warehouse.path(f"{home_of(split)}/work"), ignore_errors=True)
    sweep_files(warehouse, split, commit)


def sweep_files(warehouse: Warehouse, split: Split, commit: SplitCommit) -> None:
    """Remove state, waiting tuples and rows of attempts that failed."""
    home, named = home_of(split), commit.files()
    for folder in ("state", "waiting"):
        for path in warehouse.path(f"{home}/{folder}").glob("*"):
            if f"{home}/{folder}/{path.name}" not in named:
                path.unlink(missing_ok=True)
    named = {chunk.path for chunks in commit.outputs.values() for chunk in chunks}
    for path in warehouse.path(f"{home}/rows").glob("*"):
        found = _ROWS.fullmatch(path.name)  # those of older epochs belong to the log by now
        if found and int(found.group(1)) >= commit.epoch and f"{home}/rows/{path.name}" not in named:
            path.unlink(missing_ok=True)


def remove_dropped(warehouse: Warehouse, live: Sequence[Split]) -> None:
    """Clear away what dropped splits have left, but for their rows: these are chunks of the log."""
    homes = {home_of(split) for split in live}
    for path in warehouse.path(SPLITS).glob("*"):
        if f"{SPLITS}/{path.name}" in homes:
            continue
        for folder in ("work", "state", "waiting", "commits"):
            shutil.rmtree(path / folder, ignore_errors=True)
        warehouse.unmark(f"{SPLITS}/{path.name}/commits")
        (path / "trouble.json").unlink(missing_ok=True)
