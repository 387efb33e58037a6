"""The durable list of streams: a record per definition, refused when it could not work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model import codec
from headrace.model.errors import CatalogError, StorageError, did_you_mean
from headrace.model.query import Stream
from headrace.model.types import Kind
from headrace.sql.text.names import RESERVED_PREFIX, name_key
from headrace.storage.warehouse import Warehouse, record_name

STREAMS = "catalog/streams"


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream and the description of its source; None when it is fed by append."""

    stream: Stream
    source: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class StreamDrop:
    """The end of a stream: epochs from `epoch` on do not have it. Its name may be given to another stream."""

    name: str
    epoch: int


codec.register(StreamRecord, StreamDrop)


class StreamTable:
    """Streams by name, in any case of letters. Not thread-safe; the catalog guards it."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        numbers = warehouse.sequence(STREAMS, 0)
        self._next = numbers[-1] + 1 if numbers else 0
        self._records: dict[str, StreamRecord] = {}
        self._former: list[tuple[Stream, int]] = []
        for number in numbers:
            self._note(_checked(warehouse, number))

    def _note(self, record: StreamRecord | StreamDrop) -> None:
        if isinstance(record, StreamRecord):
            self._records[record.stream.name.lower()] = record
        else:
            gone = self._records.pop(record.name.lower())
            self._former.append((gone.stream, record.epoch))

    def check_new(self, name: str) -> None:
        """CatalogError when there is a stream of that name."""
        present = self._records.get(name.lower())
        if present is not None:
            raise CatalogError(
                "STREAM_EXISTS",
                f"there is already a stream `{present.stream.name}`",
                hint="choose another name; names differ by more than the case of their letters",
            )

    def create(self, stream: Stream, source: Mapping[str, Any] | None) -> None:
        self.check_new(stream.name)
        check_stream(stream)
        self._write(StreamRecord(stream, None if source is None else dict(source)))

    def drop(self, name: str, epoch: int) -> None:
        """End a stream before `epoch`. Older epochs, and queries that read them, still find it."""
        self._write(StreamDrop(self.get(name).name, epoch))

    def _write(self, record: StreamRecord | StreamDrop) -> None:
        if not self._warehouse.put_record(STREAMS, self._next, record, kind="stream"):
            raise StorageError(
                "STREAM_RECORD_EXISTS",
                f"stream record {self._next} of {self._warehouse.root} was written by somebody else",
                hint="make sure that one process writes to a warehouse",
            )
        self._next += 1
        self._note(record)

    def all(self, epoch: int | None = None) -> tuple[Stream, ...]:
        """The streams there are, oldest first; or those that an epoch has, under their names of that time."""
        if epoch is None or not self._former:
            return tuple(record.stream for record in self._records.values())
        found = {stream.name.lower(): stream for stream in self.all()}
        for stream, until in reversed(self._former):
            if epoch < until:
                found[stream.name.lower()] = stream
        return tuple(found.values())

    def get(self, name: str, epoch: int | None = None) -> Stream:
        """A stream by name; with an epoch, the one that had the name then."""
        if epoch is not None and isinstance(name, str):
            for stream, until in self._former:
                if stream.name.lower() == name.lower() and epoch < until:
                    return stream
        return self._find(name).stream

    def ended(self, name: str) -> int | None:
        """The first epoch without the last stream of this name that was dropped; None when none was."""
        found = [until for stream, until in self._former if stream.name.lower() == name.lower()]
        return found[-1] if found else None

    def has(self, name: str) -> bool:
        return isinstance(name, str) and name.lower() in self._records

    def source(self, name: str) -> dict[str, Any] | None:
        return self._find(name).source

    def _find(self, name: str) -> StreamRecord:
        found = self._records.get(name_key(name, "stream"))
        if found is None:
            known = [record.stream.name for record in self._records.values()]
            raise CatalogError(
                "STREAM_NOT_FOUND", f"there is no stream `{name}`", hint=did_you_mean(name, known)
            )
        return found


def _checked(warehouse: Warehouse, number: int) -> StreamRecord | StreamDrop:
    """A record of the list; StorageError when it holds something else."""
    record = warehouse.read_record(STREAMS, number, kind="stream")
    whole = isinstance(record, StreamRecord) and isinstance(record.stream, Stream)
    if not whole and not isinstance(record, StreamDrop):
        raise StorageError(
            "FILE_FOREIGN",
            f"{warehouse.path(record_name(STREAMS, number))} does not hold a stream",
            hint="restore it from a copy of the warehouse",
        )
    return record  # type: ignore[no-any-return]


def check_stream(stream: Stream) -> None:
    """Refuse a definition that could hold no tuple or no event time."""
    seen: dict[str, str] = {}
    for column in stream.columns:
        if column.name.lower() in seen:
            other = seen[column.name.lower()]
            raise _bad(
                stream, f"columns `{other}` and `{column.name}` are the same to Spark", "rename one of them"
            )
        seen[column.name.lower()] = column.name
        if column.name.lower().startswith(RESERVED_PREFIX):
            raise _bad(
                stream,
                f"column `{column.name}` begins with {RESERVED_PREFIX}, which is reserved",
                "rename it",
            )
        if "char(" in column.type.name:
            raise _bad(
                stream,
                f"column `{column.name}` has type {column.type.name}: files hold no texts of limited length",
                "declare it as STRING",
            )
        try:
            storable = column.type.arrow
        except TypeError:
            storable = None
        if storable is None or not column.type.travels or column.type.kind is Kind.VOID:
            raise _bad(
                stream,
                f"column `{column.name}` has type {column.type.name}, which the log cannot hold",
                "intervals of months and TIME need a column of their own" if storable is not None else None,
            )
    known = [column.name for column in stream.columns]
    if stream.event_time not in known:
        raise _bad(
            stream,
            f"its event time `{stream.event_time}` is no column",
            did_you_mean(stream.event_time, known),
        )
    if stream.column(stream.event_time).type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        kind = stream.column(stream.event_time).type.name
        raise _bad(stream, f"its event time `{stream.event_time}` is {kind}", "use a TIMESTAMP column")
    if stream.watermark_us < 0:
        raise _bad(stream, "its watermark delay is negative", "use zero or more")


def _bad(stream: Stream, why: str, hint: str | None) -> CatalogError:
    return CatalogError("STREAM_INVALID", f"stream `{stream.name}`: {why}", hint=hint)
