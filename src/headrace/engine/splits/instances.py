"""Query processors: instances of operators, what they are given, and how their state is saved. No files, no Spark.

Instances stay in the worker process between two epochs. One is used again only when its state is exactly that of the
commit that the epoch follows; otherwise it is made anew from the saved state. So the instances that are kept are a
cache, and a kill at any point costs only the time to fill it again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.engine.splits.calls import calling
from headrace.engine.splits.faults import bad_output
from headrace.model.epoch import FOREVER_US
from headrace.model.splits import Split
from headrace.model.splitting import (
    IncrementalOperator,
    Output,
    SplitOperator,
    State,
    missing_methods,
    rows_by_kind,
)

BATCH_ROWS = 1 << 16
"""A call of `process` gets so many tuples at most."""

MOST_CHANGES = 50
"""After so many savings of changes, or up to twice as many, a snapshot is due: whoever opens the instance has to read
them all.
"""

GOLDEN = 0.618034
"""Multiples of it are spread evenly over the numbers from 0 to 1."""

Times = Sequence[int] | NDArray[np.int64]

_BYTES, _BATCH, _TABLE = b"B", b"R", b"T"


def dump_state(state: State) -> bytes:
    """An instance's state as bytes that tell what it was."""
    if isinstance(state, bytes | bytearray | memoryview):
        return _BYTES + bytes(state)
    if isinstance(state, pa.RecordBatch | pa.Table):
        table = pa.Table.from_batches([state]) if isinstance(state, pa.RecordBatch) else state
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        kind = _BATCH if isinstance(state, pa.RecordBatch) else _TABLE
        return kind + bytes(sink.getvalue())
    raise TypeError(f"a {type(state).__name__} as its state, which is bytes, a RecordBatch or a Table")


def digest(blob: bytes | memoryview) -> bytes:
    """What tells two snapshots apart."""
    return hashlib.blake2b(blob, digest_size=16).digest()


def load_state(blob: memoryview) -> State:
    """The inverse of `dump_state`."""
    kind, rest = bytes(blob[:1]), blob[1:]
    if kind == _BYTES:
        return bytes(rest)
    with pa.ipc.open_stream(pa.py_buffer(rest)) as reader:
        table = reader.read_all()
    if kind == _TABLE:
        return table
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


@dataclass(slots=True)
class Instance:
    """An operator at work on one sub-stream. `version` names the commit whose state it has."""

    operator: SplitOperator
    version: str
    saved: bytes = b""
    """A digest of the last snapshot."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What of an instance is to be kept: a snapshot or changes; neither when nothing has changed."""

    blob: bytes | None
    snapshot: bool = True


@dataclass(slots=True)
class Processed:
    """What a sub-stream gave in an epoch."""

    rows: dict[str, list[pa.Table]] = field(default_factory=dict)
    tuples: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Handler:
    """Calls the operator of one sub-stream, checks what it gives, and says which rows made it fail."""

    split: Split
    sub_stream: int
    schemas: Mapping[str, pa.Schema]
    instance: Instance
    done: Processed = field(default_factory=Processed)
    rows: tuple[int, int] | None = None
    """The rows that the operator has at the moment."""

    def run(
        self, tuples: pa.Table, times: Times, watermark_us: int | None, cuts: Sequence[int] = ()
    ) -> Processed:
        """Hand over tuples in order, cut into batches there and then as usual; then the watermark if it has moved."""
        before = time.process_time()
        for start, end in pairwise(usual_cuts(tuples.num_rows, cuts)):
            self.rows = (start, end)
            batch = one_batch(tuples.slice(start, end - start))
            which = f"tuple {start}" if end - start == 1 else f"tuples {start} to {end - 1}"
            when = f"{_moment(int(times[start]))} to {_moment(int(times[end - 1]))}"
            what = (
                f"process() of sub-stream {self.sub_stream}, with {which} of its epoch (event times {when}),"
            )
            self._keep(self._call(what, self.instance.operator.process, batch))
        self.rows = None
        self.done.tuples += tuples.num_rows
        if watermark_us is not None:
            what = f"on_watermark({watermark_us}) of sub-stream {self.sub_stream}"
            self._keep(self._call(what, self.instance.operator.on_watermark, watermark_us))
        self.done.seconds += time.process_time() - before
        return self.done

    def save(self, chain: Sequence[int]) -> Saved:
        """What to keep of the instance; `chain` has the sizes of the last snapshot and the changes since."""
        operator = self.instance.operator
        if isinstance(operator, IncrementalOperator) and not snapshot_due(self.sub_stream, chain):
            what = f"changes() of sub-stream {self.sub_stream}"
            return Saved(self._dumped(what, operator.changes), snapshot=False)
        blob = self._dumped(f"snapshot() of sub-stream {self.sub_stream}", operator.snapshot)
        if isinstance(operator, IncrementalOperator):
            return Saved(blob)  # there are changes since the last one, or there is none
        mark = digest(blob)
        if len(chain) == 1 and mark == self.instance.saved:
            return Saved(None)
        self.instance.saved = mark
        return Saved(blob)

    def _dumped(self, what: str, give: Callable[[], State]) -> bytes:
        state = self._call(what, give)
        try:
            return dump_state(state)
        except TypeError as error:
            raise bad_output(self.split.name, self.sub_stream, str(error)) from error

    def _call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        with calling(self.split, what, self.sub_stream, self.rows):
            return function(*arguments)

    def _keep(self, output: Output) -> None:
        for rows in output.values() if isinstance(output, Mapping) else (output,):
            if rows is not None and not isinstance(rows, pa.RecordBatch | pa.Table):
                why = f"a {type(rows).__name__} instead of a RecordBatch"
                raise bad_output(self.split.name, self.sub_stream, why)
        kinds = rows_by_kind(output)
        for kind, rows in kinds.items():
            self.done.rows.setdefault(kind, []).append(self._fitted(kind, rows))

    def _fitted(self, kind: str, rows: pa.RecordBatch) -> pa.Table:
        name, number = self.split.name, self.sub_stream
        if kind not in self.schemas:
            known = ", ".join(sorted(self.schemas))
            raise bad_output(name, number, f"rows of kind `{kind}`, and it has only {known}")
        wanted = self.schemas[kind]
        missing = [column for column in wanted.names if column not in rows.schema.names]
        extra = [column for column in rows.schema.names if column not in wanted.names]
        if missing or extra:
            why = (
                f"without column `{missing[0]}`"
                if missing
                else f"with a column `{extra[0]}` that it does not declare"
            )
            raise bad_output(name, number, f"rows of kind `{kind}` {why}")
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        try:
            return table.select(wanted.names).cast(wanted)
        except (pa.ArrowException, ValueError, KeyError) as error:  # KeyError: two columns of one name
            reason = str(error.args[0] if error.args else error).splitlines()[0]
            why = f"rows of kind `{kind}` that do not fit its schema: {reason}"
            raise bad_output(name, number, why) from error


def snapshot_due(sub_stream: int, chain: Sequence[int]) -> bool:
    """Whether a snapshot is to be taken, by the sizes of the last one and of the changes since then.

    It is due when the changes are larger than it, or many. How much larger differs from sub-stream to sub-stream.
    Otherwise all of them would take one in the same epoch, which would take long.

    >>> snapshot_due(0, []), snapshot_due(0, [100_000, 99_000]), snapshot_due(0, [100_000, 101_000])
    (True, False, True)
    >>> snapshot_due(1, [100_000, 101_000]), snapshot_due(1, [100_000, 162_000])
    (False, True)
    """
    if not chain:
        return True
    own = 1 + sub_stream * GOLDEN % 1
    snapshot, *changes = chain
    return len(changes) >= own * MOST_CHANGES or sum(changes) >= own * max(snapshot, 1 << 16)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Rows, at least one, as one batch."""
    (batch,) = table.combine_chunks().to_batches()
    return batch


def usual_cuts(rows: int, first: Sequence[int] = ()) -> list[int]:
    """Where batches begin, and where the last one ends. The first ones may be given.

    >>> usual_cuts(3), usual_cuts(0), usual_cuts(9, [0, 2, 4])
    ([0, 3], [0], [0, 2, 4, 9])
    """
    given = [cut for cut in first[:-1] if cut < rows]
    start = min(first[-1], rows) if first else 0
    return [*given, *range(start, rows, BATCH_ROWS), rows] if rows else [0]


def finer_cuts(rows: tuple[int, int], before: Sequence[int]) -> list[int]:
    """The same batches up to rows that made an operator fail, and these in sixteen pieces.

    >>> finer_cuts((100, 132), [0, 100, 132, 500])
    [0, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126, 128, 130, 132]
    """
    start, end = rows
    step = max(1, (end - start + 15) // 16)
    return [*(cut for cut in before if cut < start), *range(start, end, step), end]


def open_instance(
    split: Split,
    sub_stream: int,
    make: Callable[[], SplitOperator],
    chain: Sequence[memoryview],
    version: str,
) -> Instance:
    """A new instance with the state of a chain: a snapshot, and the changes since."""
    what = f"open() of sub-stream {sub_stream}"
    with calling(split, what, sub_stream):
        operator = make()
        if missing := missing_methods(operator):
            raise TypeError(f"an operator has {missing[0]}(), and {type(operator).__name__} has not")
        operator.open(sub_stream, load_state(chain[0]) if chain else None)
        for changes in chain[1:]:
            operator.apply(load_state(changes))  # type: ignore[attr-defined]
    return Instance(operator, version, digest(chain[0]) if chain else b"")


def _moment(us: int) -> str:
    if us >= FOREVER_US:
        return "for ever"
    seconds, rest = divmod(us, 1_000_000)
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + (f".{rest:06d}" if rest else "")
    except (OverflowError, ValueError, OSError):
        return f"{us} us"
