"""Query processors: instances of operators, what they are given, and how their state is saved. No files, no Spark.

Instances stay in the worker process between two epochs. One is used again only when its state is exactly that of the
commit that the epoch follows; otherwise it is made anew from the saved state. So the instances that are kept are a
cache, and a kill at any point costs only the time to fill it again.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.engine.splits.faults import bad_output, raised, too_slow
from headrace.model.epoch import FOREVER_US
from headrace.model.errors import EngineError
from headrace.model.splits import Split
from headrace.model.splitting import IncrementalOperator, Output, SplitOperator, State, rows_by_kind
from headrace.storage.private import make_directory, open_new

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
    raise TypeError(f"a state is bytes, a RecordBatch or a Table, not {type(state).__name__}")


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


class SlowCall(BaseException):
    """A call of the user's code took too long. No Exception: the user's code may catch these."""


GRACE_S = 10.0
"""A call that hears no alarm for so long after its time is in compiled code that does not return: the worker ends."""

STUCK = "Timeout ("
"""How faulthandler begins."""

_notes: IO[bytes] | None = None
"""Where this worker writes in which call it is."""


@contextmanager
def noting(path: Path) -> Iterator[None]:
    """Write the call under way into a file, so that the driver knows it should the worker have to end."""
    global _notes
    make_directory(path.parent)
    with open(open_new(path), "wb", buffering=0) as file:
        _notes = file
        try:
            yield
        finally:
            _notes = None


@dataclass(frozen=True, slots=True)
class Noted:
    """A call that a worker did not come back from: what it was, of which sub-stream, and with which rows. `stuck` when
    it took too long, so that the worker had to end.
    """

    what: str
    sub_stream: int | None
    rows: tuple[int, int] | None
    stuck: bool


def noted_calls(folder: Path) -> list[Noted]:
    """The calls that workers were in when they ended."""
    found = []
    for path in sorted(folder.glob("call-*")):
        what, _, rest = path.read_text(errors="replace").partition("\n")
        where, _, rest = rest.partition("\n")
        if what:
            sub_stream, rows = json.loads(where or "[null, null]")
            found.append(Noted(what, sub_stream, None if rows is None else tuple(rows), STUCK in rest))
    return found


def stuck_call(folder: Path) -> str | None:
    """In which call a worker had to end; None when none had to."""
    return next((call.what for call in noted_calls(folder) if call.stuck), None)


@contextmanager
def limited(
    seconds: float | None, what: str, sub_stream: int | None = None, rows: tuple[int, int] | None = None
) -> Iterator[None]:
    """Raise SlowCall in the block when it takes too long. Only the main thread of a process can do that.

    A worker that notes its calls ends when that does not help: the job fails, and its driver reads the note.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    notes = None if _notes is None else _notes.fileno()
    if notes is not None:
        os.lseek(notes, 0, os.SEEK_SET)
        os.write(notes, f"{what}\n{json.dumps([sub_stream, rows])}\n".encode())
    try:
        with _alarm(seconds):
            yield
    finally:
        if notes is not None:
            os.ftruncate(notes, 0)


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise SlowCall

    before = signal.signal(signal.SIGALRM, ring)
    if _notes is not None:
        faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=_notes)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also when the alarm rings while the call ends
        if _notes is not None:
            faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


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

    @property
    def _limit(self) -> float | None:
        return call_limit(self.split)

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
        try:
            with limited(self._limit, what, self.sub_stream, self.rows):
                return function(*arguments)
        except SlowCall:
            raise too_slow(self.split.name, what, self._limit or 0.0) from None
        except EngineError:
            raise
        except Exception as error:
            raise raised(self.split.name, what, error) from error

    def _keep(self, output: Output) -> None:
        try:
            kinds = rows_by_kind(output)
        except AttributeError:
            raise bad_output(
                self.split.name, self.sub_stream, f"a {type(output).__name__} instead of a RecordBatch"
            ) from None
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


def call_limit(split: Split) -> float | None:
    """How many seconds one call of a split's code may take."""
    return None if split.call_us is None else split.call_us / 1e6


def open_instance(
    split: Split,
    sub_stream: int,
    make: Callable[[], SplitOperator],
    chain: Sequence[memoryview],
    version: str,
) -> Instance:
    """A new instance with the state of a chain: a snapshot, and the changes since."""
    what = f"open() of sub-stream {sub_stream}"
    try:
        with limited(call_limit(split), what, sub_stream):
            operator = make()
            operator.open(sub_stream, load_state(chain[0]) if chain else None)
            for changes in chain[1:]:
                operator.apply(load_state(changes))  # type: ignore[attr-defined]
    except SlowCall:
        raise too_slow(split.name, what, (split.call_us or 0) / 1e6) from None
    except Exception as error:
        raise raised(split.name, what, error) from error
    return Instance(operator, version, digest(chain[0]) if chain else b"")


def _moment(us: int) -> str:
    if us >= FOREVER_US:
        return "for ever"
    seconds, rest = divmod(us, 1_000_000)
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + (f".{rest:06d}" if rest else "")
    except (OverflowError, ValueError, OSError):
        return f"{us} us"
