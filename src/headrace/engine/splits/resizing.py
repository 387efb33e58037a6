"""Another number of sub-streams: the operator takes its state apart, and waiting tuples are routed anew.

That is a step before the first epoch with the new number. It makes files that nothing names, and a commit that is only
thought of: the epoch follows that one, and its own commit names the files. So a kill leaves everything as it was.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.engine.splits.bundles import Bundle, Entry, from_stream, open_bundle, to_stream, write_bundle
from headrace.engine.splits.calls import calling, noting
from headrace.engine.splits.code import SplitCode
from headrace.engine.splits.faults import OPERATOR, bad_output
from headrace.engine.splits.instances import dump_state, load_state, open_instance
from headrace.engine.splits.messages import ResizeReport, ResizeWork
from headrace.engine.splits.routing import Router, Splitter
from headrace.model.errors import EngineError
from headrace.model.splits import BundleFile, Split, SplitCommit
from headrace.model.splitting import State


def is_due(commit: SplitCommit, split: Split) -> bool:
    """Whether the split was altered since the last commit: another number of sub-streams, or another route."""
    ran_with = commit.sub_stream_count or len(commit.chains)
    return ran_with not in (0, split.sub_streams) or commit.layout != split.layout


def resized_commit(commit: SplitCommit, split: Split, report: ResizeReport) -> SplitCommit:
    """The commit as it would be had the split always had so many sub-streams. It is not written."""
    return replace(
        commit,
        version=f"{commit.version}/{split.sub_streams}.{split.layout}",
        state={} if report.state is None else {"0": report.state},
        chains={number: ((0, size),) for number, size in report.sizes.items()},
        waiting=report.waiting,
        sub_streams={},
        sub_stream_count=split.sub_streams,
        layout=split.layout,
    )


def resize(work: ResizeWork, code: SplitCode, router: Router) -> ResizeReport:
    """Move the state and the waiting tuples to the new sub-streams."""
    epoch, root = work.epoch, Path(work.epoch.root)
    unique = f"e{epoch.epoch:012d}-{epoch.attempt}-{uuid.uuid4().hex}"
    with noting(root / epoch.folder / f"call-{unique}"):
        blobs = _moved(work, code)
        waiting = tuple(
            found
            for number, file in enumerate(work.waiting)
            if (found := _routed_anew(work, file, router, f"{unique}-{number}")) is not None
        )
    state = None
    if blobs:
        entries: dict[int, Entry] = {number: (blob, 0) for number, blob in blobs.items()}
        state = write_bundle(root, f"{epoch.home}/state/{unique}", epoch.epoch, entries, durable=True)
    return ResizeReport(state, {str(number): len(blob) for number, blob in blobs.items()}, waiting)


def _moved(work: ResizeWork, code: SplitCode) -> dict[int, bytes]:
    """The state of every new sub-stream that has one."""
    split = work.epoch.split
    caller = _Caller(split, _made(split, code))
    pieces: dict[int, list[State]] = {}
    for number, state in _states(work, code):
        what = f"split_state() of sub-stream {number}"
        found = caller.call(what, "split_state", state, split.sub_streams)
        if not isinstance(found, Mapping):
            raise bad_output(split.name, number, f"a {type(found).__name__} from split_state()")
        for target, piece in found.items():
            if type(target) is not int or not 0 <= target < split.sub_streams:
                why = f"a part of the state for sub-stream {target!r}, and there are 0 to {split.sub_streams - 1}"
                raise bad_output(split.name, number, why)
            pieces.setdefault(target, []).append(piece)
    merged = {
        number: states[0]
        if len(states) == 1
        else caller.call(f"merge_state() for sub-stream {number}", "merge_state", states)
        for number, states in sorted(pieces.items())
    }
    return {number: _dumped(split, number, state) for number, state in merged.items()}


def _dumped(split: Split, number: int, state: State) -> bytes:
    try:
        return dump_state(state)
    except TypeError as error:
        raise bad_output(split.name, number, str(error)) from error


def _made(split: Split, code: SplitCode) -> object:
    """An operator to ask; it is opened for no sub-stream."""
    with calling(split, "the operator"):
        return code.operator()


class _Caller:
    """Calls the functions of an operator that move state, within the time that a call may take."""

    def __init__(self, split: Split, operator: object) -> None:
        self._split, self._operator = split, operator

    def call(self, what: str, name: str, *arguments: object) -> Any:
        split = self._split
        function = getattr(self._operator, name, None)
        if function is None:
            raise lacks(split.name, name)
        with calling(split, what):
            return function(*arguments)


def lacks(split: str, name: str) -> EngineError:
    return EngineError(
        OPERATOR,
        f"the operator of split `{split}` has no {name}(), so that its number of sub-streams cannot change",
        hint="give one that has split_state(state, q) and merge_state(states), or set q to what it was; "
        "then call restart_split",
    )


def _states(work: ResizeWork, code: SplitCode) -> Iterable[tuple[int, State]]:
    """The whole state of every old sub-stream."""
    opened: dict[int, Bundle] = {}
    for key, chain in sorted(work.chains.items(), key=lambda item: int(item[0])):
        number = int(key)
        states = []
        for file, _ in chain:
            if file not in opened:
                opened[file] = open_bundle(Path(work.epoch.root), work.state[str(file)], durable=True)
            state = opened[file].entry(number)
            assert state is not None, f"state file {file} has nothing of sub-stream {number}"
            states.append(state)
        if len(states) == 1:
            yield number, load_state(states[0])
        elif states:  # only the operator knows what a snapshot and changes are together
            instance = open_instance(work.epoch.split, number, code.operator, states, "")
            caller = _Caller(work.epoch.split, instance.operator)
            yield number, caller.call(f"snapshot() of sub-stream {number}", "snapshot")


def _routed_anew(work: ResizeWork, file: BundleFile, router: Router, unique: str) -> BundleFile | None:
    """The waiting tuples of a file by their new sub-streams; None when the watermark has passed them all."""
    epoch, root = work.epoch, Path(work.epoch.root)
    entry = open_bundle(root, file, durable=bool(file.checksum)).entry(0)
    assert entry is not None
    splitter = Splitter(router, epoch.stream.event_time, work.watermark_us, work.watermark_us)
    splitter.take(from_stream(entry).replace_schema_metadata(None))
    found = splitter.waiting()
    if found is None:
        return None
    table, span = found
    entries: dict[int, Entry] = {0: (to_stream(table), table.num_rows)}
    return write_bundle(
        root, f"{epoch.home}/waiting/{unique}", file.epoch, entries, durable=True, span_us=span
    )


def with_routes(
    work: ResizeWork, routed: Callable[[pa.Table], pa.Table], files: Sequence[BundleFile]
) -> ResizeWork:
    """The work with waiting tuples that have what Spark computed of route and broadcast, in files for a while."""
    root, found = Path(work.epoch.root), []
    for number, file in enumerate(files):
        entry = open_bundle(root, file, durable=True).entry(0)
        assert entry is not None
        table = routed(from_stream(entry).replace_schema_metadata(None))
        entries: dict[int, Entry] = {0: (to_stream(table), table.num_rows)}
        path = f"{work.epoch.folder}/routed-{number}"
        found.append(
            write_bundle(root, path, file.epoch, entries, durable=False, span_us=(file.min_us, file.max_us))
        )
    return replace(work, waiting=tuple(found))
