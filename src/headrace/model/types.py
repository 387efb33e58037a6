"""Spark SQL's atomic types as plain values, with their Arrow and physical representations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa


class Kind(Enum):
    """How a type behaves in a kernel: which numpy domain its values live in."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOATING = "floating"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    INTERVAL = "interval"
    MONTHS = "months"
    TIME = "time"
    VOID = "void"
    NESTED = "nested"


_KINDS = {
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.INTEGER,
    "smallint": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.INTEGER,
    "float": Kind.FLOATING,
    "double": Kind.FLOATING,
    "string": Kind.STRING,
    "binary": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP_NTZ,
    "void": Kind.VOID,
}

_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


@dataclass(frozen=True, slots=True)
class SqlType:
    """A Spark SQL type, named as Spark's `simpleString` names it.

    >>> SqlType("decimal(10,2)").kind, SqlType("decimal(10,2)").scale
    (<Kind.DECIMAL: 'decimal'>, 2)
    >>> SqlType("array<int>").kind
    <Kind.NESTED: 'nested'>
    """

    name: str

    @property
    def kind(self) -> Kind:
        if self.name in _KINDS:
            return _KINDS[self.name]
        if _DECIMAL.fullmatch(self.name):
            return Kind.DECIMAL
        if interval := _INTERVAL.fullmatch(self.name):
            return Kind.MONTHS if interval.group(2) in ("year", "month") else Kind.INTERVAL
        if _TIME.fullmatch(self.name):
            return Kind.TIME
        if self.name.startswith(("string collate", "char(", "varchar(")):
            return Kind.STRING if "collate" not in self.name else Kind.NESTED
        return Kind.NESTED

    @property
    def precision(self) -> int:
        """Decimal digits; only for DECIMAL."""
        match = _DECIMAL.fullmatch(self.name)
        assert match, self.name
        return int(match.group(1))

    @property
    def scale(self) -> int:
        """Decimal digits after the point; only for DECIMAL."""
        match = _DECIMAL.fullmatch(self.name)
        assert match, self.name
        return int(match.group(2))

    @property
    def fits_int64(self) -> bool:
        """Whether every value has an exact int64 encoding that keeps Spark's order."""
        match self.kind:
            case Kind.BOOLEAN | Kind.INTEGER | Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
                return True
            case Kind.INTERVAL | Kind.MONTHS | Kind.TIME:
                return True
            case Kind.DECIMAL:
                return self.precision <= 18
            case _:
                return False

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that chunks and results carry for this type; TypeError when there is none.

        >>> str(SqlType("struct<a:array<int>,b:map<string,decimal(4,1)>>").arrow)
        'struct<a: list<element: int32>, b: map<string, decimal128(4, 1)>>'
        """
        if self.name in _ARROW:
            return _ARROW[self.name]
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        if self.kind is Kind.STRING:
            return pa.string()
        if self.kind in _SPANS:
            return _SPANS[self.kind]
        if nested := _NESTED.fullmatch(self.name):
            return _nested_arrow(nested.group(1), _split(nested.group(2)))
        raise TypeError(f"no Arrow type for {self.name}")

    @property
    def unit(self) -> int:
        """What a value counts at least: microseconds of a day-time INTERVAL or a TIME, months of the other INTERVALs.

        >>> SqlType("interval day to hour").unit, SqlType("interval year").unit, SqlType("time(3)").unit
        (3600000000, 12, 1000)
        """
        if interval := _INTERVAL.fullmatch(self.name):
            return _UNITS[interval.group(2)]
        time = _TIME.fullmatch(self.name)
        assert time, self.name
        return int(10 ** (6 - int(time.group(1))))

    @property
    def ddl(self) -> str:
        """The type as Spark's parser reads it, whatever the fields of its structs are called.

        >>> SqlType("array<struct<1:int,b c:map<int,int>>>").ddl
        'array<struct<`1`:int,`b c`:map<int,int>>>'
        """
        nested = _NESTED.fullmatch(self.name)
        if nested is None:
            return self.name
        if nested.group(1) == "struct":
            parts = [f"`{f.name.replace('`', '``')}`:{f.type.ddl}" for f in self.fields]
        else:
            parts = [SqlType(part).ddl for part in _split(nested.group(2))]
        return f"{nested.group(1)}<{','.join(parts)}>"

    @property
    def fields(self) -> tuple[Column, ...]:
        """The fields of a struct; nothing for any other type.

        >>> [(field.name, field.type.name) for field in SqlType("struct<a:int,b:map<int,int>>").fields]
        [('a', 'int'), ('b', 'map<int,int>')]
        """
        nested = _NESTED.fullmatch(self.name)
        if nested is None or nested.group(1) != "struct":
            return ()
        parts = [part.partition(":") for part in _split(nested.group(2)) if part]
        return tuple(Column(name, SqlType(kind)) for name, _, kind in parts)

    @property
    def twin_field(self) -> str | None:
        """A field that some struct in this type has twice, by Spark's reading of names; such a type is in no file.

        >>> SqlType("array<struct<a:int,A:int>>").twin_field, SqlType("struct<a:struct<a:int>>").twin_field
        ('A', None)
        """
        names: set[str] = set()
        for field in self.fields:
            if field.name.lower() in names:
                return field.name
            names.add(field.name.lower())
        nested = _NESTED.fullmatch(self.name)
        parts = [] if nested is None or self.fields else [SqlType(part) for part in _split(nested.group(2))]
        inner = (type_.twin_field for type_ in (*parts, *(field.type for field in self.fields)))
        return next((name for name in inner if name is not None), None)

    @property
    def travels(self) -> bool:
        """Whether values can pass between Spark and Python.

        >>> SqlType("interval month").travels, SqlType("array<interval month>").travels
        (True, False)
        >>> SqlType("struct<interval:int>").travels, SqlType("struct<variant:variant>").travels
        (True, False)
        """
        return self.kind in (Kind.MONTHS, Kind.TIME) or not _HOMELESS.search(self.name)


_HOMELESS = re.compile(
    r"\binterval\b(?! (day|hour|minute|second)|:)|\btime\(\d|\b(?:variant|geometry|geography)\b(?!:)"
)
"""What travels by itself only, as a number, and not inside of another type; intervals of months and days; and what no
file of ours has a type for.
"""

_INTERVAL = re.compile(r"interval (?:(year|day|hour|minute) to )?(year|month|day|hour|minute|second)")
_TIME = re.compile(r"time\(([0-6])\)")

_SPANS = {Kind.INTERVAL: pa.duration("us"), Kind.MONTHS: pa.int32(), Kind.TIME: pa.time64("us")}

_UNITS = {
    "year": 12,
    "month": 1,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1,
}

_NESTED = re.compile(r"(array|map|struct)<(.*)>", re.DOTALL)


def _nested_arrow(outer: str, parts: list[str]) -> pa.DataType:
    match outer, parts:
        case "array", [item]:
            return pa.list_(pa.field("element", SqlType(item).arrow))
        case "map", [key, value]:
            return pa.map_(SqlType(key).arrow, SqlType(value).arrow)
        case "struct", _:
            fields = [part.partition(":") for part in parts if part]
            return pa.struct([pa.field(name, SqlType(kind).arrow) for name, _, kind in fields])
    raise TypeError(f"no Arrow type for {outer}<{','.join(parts)}>")


def _split(text: str) -> list[str]:
    """The parts between the commas that no bracket encloses.

    >>> _split("a:int,b:decimal(4,1),c:map<int,int>")
    ['a:int', 'b:decimal(4,1)', 'c:map<int,int>']
    """
    parts, depth = [""], 0
    for char in text:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


BOOLEAN = SqlType("boolean")
BIGINT = SqlType("bigint")
DOUBLE = SqlType("double")
STRING = SqlType("string")
TIMESTAMP = SqlType("timestamp")


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column; nullable, as every column of a stream is."""

    name: str
    type: SqlType
