"""Values on the wire: plain JSON that people can read with curl, Arrow for tables, and errors that stay errors."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.health import SourceHealth
from headrace.looking.group_info import GroupInfo
from headrace.model.errors import (
    CatalogError,
    EngineError,
    HeadraceError,
    LogError,
    SqlError,
    StorageError,
)
from headrace.notes import note_of

if TYPE_CHECKING:
    import pyarrow as pa

API_VERSION = 1
ARROW = "application/vnd.apache.arrow.stream"
"""Clients that accept this get tables exactly, as an Arrow IPC stream; all others get JSON."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hello:
    """What a service says of itself first. `command` is `run` or `serve`."""

    api: int
    version: str
    pid: int
    warehouse: str
    command: str


@dataclass(frozen=True, slots=True)
class Query:
    """`QueryInfo` after a journey; `state` is its value in lower case."""

    name: str
    state: str
    stream: str
    text: str
    first_epoch: int | None
    last_epoch: int | None
    rows: int
    error: str | None
    trouble: str | None = None
    group: str = "main"
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Stream:
    name: str
    columns: tuple[Column, ...]
    event_time: str
    rows: int
    late_rows: int
    closed: bool
    source: SourceHealth | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    epoch: int
    active_queries: int
    input_rows: int
    result_rows: int
    late_rows: int
    last_epoch_seconds: float
    last_epoch_rows: int
    event_time_latency: float | None
    deployment_latencies: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """`AuditReport` after a journey: the differing rows have values as JSON has them, to be looked at."""

    query: str
    ok: bool
    expected_rows: int
    actual_rows: int
    missing: tuple[dict[str, Any], ...]
    unexpected: tuple[dict[str, Any], ...]
    note: str | None = None
    error: str | None = None
    inputs: tuple[SourceHealth, ...] = ()
    verbatim: bool = True


@dataclass(frozen=True, slots=True)
class Status:
    """`QueryStatus` after a journey."""

    name: str
    state: str
    rows: int
    reasons: tuple[str, ...]
    group: str = "main"
    standing: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        return "; ".join(self.reasons)


@dataclass(frozen=True, slots=True)
class Newest:
    """`rows` were delivered up to and including `epoch`."""

    rows: pa.Table
    epoch: int


# out


def plain(value: Any) -> Any:
    """JSON data for a value of dataclasses, enums and scalars; what JSON has no type for becomes text.

    >>> plain((Column("ts", "timestamp"), Decimal("1.50"), float("nan")))
    [{'name': 'ts', 'type': 'timestamp'}, '1.50', 'nan']
    """
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def picked(cls: type, value: Any) -> dict[str, Any]:
    """JSON data for those attributes of `value` that the dataclass `cls` names; a missing one is its default."""
    found = {}
    for field in dataclasses.fields(cls):
        default = None if field.default is dataclasses.MISSING else field.default
        found[field.name] = plain(getattr(value, field.name, default))
    return found


def query_out(info: Any) -> dict[str, Any]:
    found = picked(Query, info)
    return {**found, "state": str(found["state"]).lower()}


def group_out(info: GroupInfo) -> dict[str, Any]:
    """The group, and in words what it does."""
    return {**picked(GroupInfo, info), "doing": info.doing}


def stream_out(info: Any) -> dict[str, Any]:
    columns = [{"name": c.name, "type": _type_name(c)} for c in info.columns]
    return {**picked(Stream, info), "columns": columns}


def _type_name(column: Any) -> str:
    type_ = getattr(column, "type", "")
    return str(getattr(type_, "name", type_))


def audit_out(name: str, report: Any) -> dict[str, Any]:
    return {**picked(Audit, report), "query": name, **_differences(report)}


def _differences(report: Any) -> dict[str, Any]:
    return {side: plain(_dicts(getattr(report, side))) for side in ("missing", "unexpected")}


def _dicts(rows: Any) -> Any:
    """Rows as dicts, whatever they came as: an Arrow table, a pandas frame, dicts, tuples."""
    if hasattr(rows, "to_pylist"):
        return rows.to_pylist()
    if hasattr(rows, "to_dict"):
        return rows.to_dict("records")
    return [row if isinstance(row, Mapping) else {f"_{i + 1}": v for i, v in enumerate(row)} for row in rows]


def table_json(table: pa.Table) -> dict[str, Any]:
    """Names, types, rows and note of a table; a row is a list, because two columns may have one name."""
    columns = [values_of(column) for column in table.columns]
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in table.schema],
        "rows": plain(list(zip(*columns, strict=True))),
        "note": note_of(table),
    }


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; as text when some are moments beyond the years that Python knows."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(column.cast("string").to_pylist())


def table_bytes(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


EPOCH = b"headrace.epoch"


def with_epoch(found: Any) -> pa.Table:
    """Newest rows as one table, which carries the epoch with it."""
    return found.rows.replace_schema_metadata({EPOCH: str(found.epoch)})


# in


def table_from(data: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()


def newest_from(data: bytes) -> Newest:
    table = table_from(data)
    return Newest(table.replace_schema_metadata(None), int((table.schema.metadata or {})[EPOCH]))


def build(cls: type[T], data: Any) -> T:
    """The inverse of `plain` for a dataclass, by the types of its fields; unknown fields are ignored.

    >>> build(Stream, plain(Stream("s", (Column("ts", "timestamp"),), "ts", 3, 0, False))).columns
    (Column(name='ts', type='timestamp'),)
    """
    hints = typing.get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{key: _value(hints[key], item) for key, item in data.items() if key in known})


def _value(hint: Any, data: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if data is None or hint is Any:
        return data
    if origin in (typing.Union, types.UnionType):
        return _value(next(a for a in arguments if a is not type(None)), data)
    if origin is tuple:
        return tuple(_value(arguments[0], item) for item in data)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(data)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(type, hint), data)
    return data


# errors

PHASES: dict[str, type[HeadraceError]] = {
    error.phase: error
    for error in (HeadraceError, SqlError, CatalogError, LogError, EngineError, StorageError)
}


def error_out(error: HeadraceError) -> dict[str, Any]:
    span = None if error.span is None else list(error.span)
    return {
        "phase": error.phase,
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
        "span": span,
    }


def error_in(data: Mapping[str, Any]) -> HeadraceError:
    """The error that was raised on the other side, of the same class."""
    cls = PHASES.get(str(data.get("phase")), HeadraceError)
    span = data.get("span")
    return cls(
        str(data.get("code")),
        str(data.get("message")),
        detail=data.get("detail"),
        hint=data.get("hint"),
        span=None if span is None else (int(span[0]), int(span[1])),
    )
