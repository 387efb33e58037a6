"""Anybody's rows as an Arrow table of a stream's exact schema, or a refusal that names the column and the
value.

Only casts that lose nothing are made: wider integers, whole floats to integers, finer clocks. Rounding to a
declared FLOAT is allowed, because the declaration asks for it. Timestamps without a zone are taken as UTC.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from headrace.log.chunks import arrow_schema, same_type
from headrace.model.errors import LogError, did_you_mean
from headrace.model.query import Stream
from headrace.model.types import Kind, SqlType

_MOMENTS = {dt.date, dt.datetime, dt.time, dt.timedelta}


def to_table(data: Any, stream: Stream) -> pa.Table:
    """`data` with the stream's columns in the stream's order and types; LogError when it does not fit.

    Takes a pandas DataFrame (NaN and NaT are NULL, as Arrow reads pandas), a pyarrow Table or RecordBatch, or
    a list of dicts (a key that is absent from a row is NULL, one absent from all rows is a missing column).
    """
    match data:
        case pa.Table():
            columns = _named([(name, data.column(i)) for i, name in enumerate(data.column_names)], stream)
        case pa.RecordBatch():
            return to_table(pa.Table.from_batches([data]), stream)
        case _ if _is_pandas(data, "DataFrame"):
            columns = _named([(str(name), data.iloc[:, i]) for i, name in enumerate(data.columns)], stream)
        case list() | tuple():
            columns = _columns_of_dicts(data, stream)
        case _:
            raise LogError(
                "APPEND_TYPE",
                f"cannot append a {type(data).__name__} to stream `{stream.name}`",
                hint="give a pandas or Spark DataFrame, a pyarrow Table or RecordBatch, or a list of dicts",
            )
    schema = arrow_schema(stream)
    arrays = [_fit(columns[field.name], field, stream) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def check_names(found: Sequence[str], stream: Stream) -> None:
    """Refuse missing, unknown and repeated columns; their order is free."""
    wanted = [column.name for column in stream.columns]
    for name in found:
        if name not in wanted:
            raise _error("APPEND_COLUMN", stream, f"it has no column `{name}`", did_you_mean(name, wanted))
        if list(found).count(name) > 1:
            raise _error("APPEND_COLUMN", stream, f"column `{name}` is given twice", None)
    if missing := [name for name in wanted if name not in found]:
        names = ", ".join(f"`{name}`" for name in missing)
        hint = "give every column; use NULL where there is no value"
        raise _error(
            "APPEND_COLUMN", stream, f"the input lacks column{'s' * (len(missing) > 1)} {names}", hint
        )


def _named(columns: list[tuple[str, Any]], stream: Stream) -> dict[str, Any]:
    check_names([name for name, _ in columns], stream)
    return dict(columns)


def _columns_of_dicts(rows: Sequence[Any], stream: Stream) -> dict[str, Any]:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise _error("APPEND_TYPE", stream, f"row {number} is a {type(row).__name__}, not a dict", None)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if rows:
        check_names(names, stream)
    return {column.name: [row.get(column.name) for row in rows] for column in stream.columns}


def _fit(values: Any, field: pa.Field, stream: Stream) -> pa.ChunkedArray:
    """One column cast to the field's type, or a LogError naming the first value that does not fit."""
    try:
        array = _as_arrow(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _fit_one_by_one(list(values), field, stream)
    if not castable(array.type, field.type):
        row = next((i for i, valid in enumerate(array.is_valid()) if valid.as_py()), 0)
        raise _misfit(stream, field, array.type, row, _shown(array, row))
    try:
        return _whole(cast(array, field.type), stream.column(field.name).type)
    except pa.ArrowException:
        row = _first_bad(array, stream.column(field.name).type)
        raise _misfit(stream, field, array.type, row, _shown(array, row)) from None


def _whole(array: pa.ChunkedArray, declared: SqlType) -> pa.ChunkedArray:
    """`array`, whose values are whole units of an INTERVAL or a TIME as declared; else pa.ArrowException."""
    if declared.kind in (Kind.INTERVAL, Kind.MONTHS, Kind.TIME) and declared.unit > 1:
        counts = array.cast(pa.int64())
        rest = pc.subtract(counts, pc.multiply(pc.divide(counts, declared.unit), declared.unit))
        if pc.any(pc.not_equal(rest, 0)).as_py():
            raise pa.ArrowInvalid(f"finer than {declared.name}")
    return array


def _is_pandas(value: Any, kind: str) -> bool:
    """Whether `value` is of a class of pandas, which takes a moment to load: who has one has loaded it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, kind))


def _as_arrow(values: Any) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values
    if _is_pandas(values, "Series"):
        found = pa.array(values, from_pandas=True)
    elif int in (kinds := set(map(type, values))) and kinds & _MOMENTS:
        raise TypeError("numbers among moments")  # which Arrow would take for microseconds
    else:
        found = pa.array(values)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _fit_one_by_one(values: list[Any], field: pa.Field, stream: Stream) -> pa.ChunkedArray:
    """For columns whose values have no common Arrow type: each is cast alone."""
    pieces = []
    for row, value in enumerate(values):
        try:
            one = pa.chunked_array([pa.array([value], from_pandas=True)])
            if castable(one.type, field.type):
                pieces.append(_whole(cast(one, field.type), stream.column(field.name).type))
                continue
            found = str(one.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            found = type(value).__name__
        raise _misfit(stream, field, found, row, repr(value))
    return pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks], type=field.type)


def castable(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type may become another at all; their values are still checked when they are
    cast.
    """
    if pt.is_dictionary(found):
        return castable(found.value_type, wanted)
    if pt.is_null(found) or same_type(found, wanted):
        return True
    if pt.is_integer(wanted):
        return bool(pt.is_integer(found) or pt.is_floating(found))
    if pt.is_floating(wanted):
        return bool(pt.is_integer(found) or pt.is_floating(found))
    if pt.is_decimal(wanted):
        return bool(pt.is_integer(found) or pt.is_decimal(found))
    if pt.is_string(wanted):
        return bool(pt.is_large_string(found) or pt.is_string_view(found))
    if pt.is_binary(wanted):
        return bool(pt.is_large_binary(found) or pt.is_fixed_size_binary(found) or pt.is_binary_view(found))
    if pt.is_date(wanted):
        return bool(pt.is_date(found))
    if pt.is_duration(wanted):
        return bool(pt.is_duration(found))
    if pt.is_time(wanted):
        return bool(pt.is_time(found))
    if pt.is_timestamp(wanted):
        return bool(pt.is_timestamp(found)) and (wanted.tz is not None or found.tz is None)
    return _castable_nested(found, wanted)


def _castable_nested(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_map(wanted):
        return pt.is_map(found) and all(
            castable(f, w)
            for f, w in ((found.key_type, wanted.key_type), (found.item_type, wanted.item_type))
        )
    if pt.is_list(wanted):
        listed = pt.is_list(found) or pt.is_large_list(found) or pt.is_fixed_size_list(found)
        return bool(listed) and castable(found.value_type, wanted.value_type)
    if pt.is_struct(wanted) and pt.is_struct(found):
        names = [field.name for field in wanted]
        return [field.name for field in found] == names and all(
            castable(f.type, w.type) for f, w in zip(found, wanted, strict=True)
        )
    return False


def cast(array: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The checked cast; pa.ArrowException when a value would change."""
    if array.type == wanted:
        return array
    if pt.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pt.is_decimal(wanted) and pt.is_integer(array.type):
        array = array.cast(pa.int64()).cast(pa.decimal128(19, 0))
    if pt.is_decimal(wanted):
        # Through the widest type: Arrow refuses a smaller precision by type before it looks at a value.
        array = array.cast(pa.decimal256(76, wanted.scale))
    if pt.is_float32(wanted) and pt.is_floating(array.type):
        rounded = array.cast(wanted, safe=False)
        if pc.any(pc.and_(pc.is_inf(rounded), pc.is_finite(array))).as_py():
            raise pa.ArrowInvalid("out of the range of FLOAT")
        return rounded
    return array.cast(wanted, safe=True)


def _first_bad(array: pa.ChunkedArray, wanted: SqlType) -> int:
    """The first row that cannot be cast, by halving: a prefix can be cast until it includes that row."""
    good, bad = 0, len(array)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _whole(cast(array.slice(0, middle), wanted.arrow), wanted)
            good = middle
        except pa.ArrowException:
            bad = middle
    return good


def _shown(array: pa.ChunkedArray, row: int) -> str:
    if row >= len(array):
        return "nothing"
    try:
        return repr(array[row].as_py())
    except (ValueError, OverflowError):
        # a moment beyond the years of Python, where str() of the value fails too
        return " ".join(str(array.slice(row, 1).combine_chunks()).split()).strip("[ ]")


def _misfit(stream: Stream, field: pa.Field, found: Any, row: int, value: str) -> LogError:
    declared = stream.column(field.name).type
    hint = f"convert the column to {declared.name.upper()} before appending"
    if declared.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ) and "str" in str(found):
        hint = "parse the text first: pandas.to_datetime(column), or datetime.fromisoformat(value)"
    elif declared.kind is Kind.TIMESTAMP_NTZ and "tz=" in str(found):
        hint = "drop the zone first: pandas dt.tz_localize(None)"
    elif declared.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ) and "[ns" in str(found):
        hint = "it has digits below a microsecond; round first: pandas dt.floor('us')"
    elif declared.kind is Kind.INTERVAL:
        hint = f"give datetime.timedelta values that are {declared.name.upper()} to the digit"
    elif declared.kind is Kind.MONTHS:
        hint = "give the number of months as an integer" + (
            ", whole years only" if declared.unit == 12 else ""
        )
    elif declared.kind is Kind.TIME:
        hint = f"give datetime.time values that are {declared.name.upper()} to the digit"
    elif declared.kind is Kind.DECIMAL and "double" in str(found):
        hint = "give decimal.Decimal values"
    shown = value if len(value) <= 80 else value[:77] + "..."
    return _error(
        "APPEND_VALUE",
        stream,
        f"row {row}, column `{field.name}`: {shown} ({found}) is no {declared.name.upper()}",
        hint,
    )


def _error(code: str, stream: Stream, why: str, hint: str | None) -> LogError:
    return LogError(code, f"cannot append to stream `{stream.name}`: {why}", hint=hint)
