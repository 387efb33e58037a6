"""A stand-in for Spark's analyser that knows just enough typing for tests without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.model.query import Stream, StreamName
from headrace.model.types import Column, SqlType
from headrace.sql.text.dialect import parse, render
from headrace.sql.text.lexer import lex

PURCHASES = Stream(
    StreamName("purchases"),
    tuple(
        Column(name, SqlType(type_))
        for name, type_ in (
            ("userID", "bigint"),
            ("gemPackID", "bigint"),
            ("price", "double"),
            ("amount", "decimal(10,2)"),
            ("country", "string"),
            ("level", "int"),
            ("born", "date"),
            ("paid", "boolean"),
            ("weight", "float"),
            ("seen", "timestamp_ntz"),
            ("big", "decimal(30,2)"),
            ("raw", "binary"),
            ("address", "struct<city:string,zip:int>"),
            ("ts", "timestamp"),
        )
    ),
    event_time="ts",
    watermark_us=5_000_000,
)
STREAMS = {"purchases": PURCHASES, "returns": replace(PURCHASES, name=StreamName("returns"))}

_BIGINT = ("count", "count_if")
_STRING = ("lower", "upper", "concat", "substring", "trim")


class FakeAnalyzer:
    """Names columns by their text and types them by rule; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        self.asked.append(sql)
        tree = parse(lex(sql).tokens, sql)[0]
        assert isinstance(tree, exp.Select)
        return tuple(_outputs(tree, [column for stream in streams for column in stream.columns]))

    def difference(self, original: str, rendered: str) -> str | None:
        return None


def _outputs(select: exp.Select, base: Sequence[Column]) -> list[Column]:
    source = select.args["from_"].this
    known = list(base) if isinstance(source, exp.Table) else _outputs(source.this, base)
    found: list[Column] = []
    for item in select.expressions:
        if isinstance(item, exp.Star):
            dropped = {name.name for name in item.args.get("except_") or ()}
            found += [column for column in known if column.name not in dropped]
        elif isinstance(item, exp.Alias):
            found.append(Column(item.alias, _type(item.this, [*known, *found])))
        else:
            name = item.name if isinstance(item, exp.Column) else render(item).lower()
            found.append(Column(name, _type(item, [*known, *found])))
    return found


def _type(node: exp.Expr, known: Sequence[Column]) -> SqlType:
    match node:
        case exp.Column():
            first = node.parts[0].name.lower()
            types = {column.name.lower(): column.type for column in known}
            if node.name.lower() in ("start", "end"):
                return SqlType("timestamp")
            return types.get(first) or types.get(node.name.lower()) or SqlType("string")
        case exp.Paren() | exp.Filter():
            return _type(node.this, known)
        case exp.Literal():
            return SqlType("string" if node.args["is_string"] else "int")
        case exp.Cast():
            return SqlType(render(node.to).lower().replace(" ", ""))
        case exp.Anonymous():
            return _call_type(node.name.lower(), node.expressions, known)
        case exp.Predicate() | exp.And() | exp.Or() | exp.Not():
            return SqlType("boolean")
        case exp.Window():
            return SqlType("int")
        case exp.Dot():
            return SqlType("timestamp")
        case exp.Add() | exp.Sub() | exp.Mul():
            return max(
                _type(node.this, known), _type(node.expression, known), key=lambda t: _RANK.get(t.name, 0)
            )
        case _:
            return SqlType("double")


_RANK = {"int": 1, "bigint": 2, "double": 3}


def _call_type(name: str, arguments: Sequence[exp.Expr], known: Sequence[Column]) -> SqlType:
    if name in _BIGINT:
        return SqlType("bigint")
    if name in _STRING:
        return SqlType("string")
    if name in ("window", "session_window"):
        return SqlType("struct<start:timestamp,end:timestamp>")
    of = _type(arguments[0], known) if arguments else SqlType("int")
    if name in ("any_value", "min", "max", "first"):
        return of
    if name == "sum" and of.name in ("int", "bigint"):
        return SqlType("bigint")
    if name in ("sum", "avg") and of.name.startswith("decimal"):
        more, finer = (10, 0) if name == "sum" else (4, 4)
        return SqlType(f"decimal({min(of.precision + more, 38)},{of.scale + finer})")
    return SqlType("double")
