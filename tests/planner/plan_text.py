"""A plan as text for goldens: every field that is not its default, one line where that fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import Enum
from typing import Any

from headrace.model.predicate import Operand, Predicate
from headrace.model.types import SqlType
from headrace.model.window import SessionWindow, Window
from headrace.planner.explain import render_predicate, render_window

WIDTH = 110


def plan_text(value: Any) -> str:
    return "\n".join(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    short = _short(value)
    if len(short) <= WIDTH:
        yield short
        return
    parts = list(_parts(value))
    if not parts:
        yield short
        return
    yield type(value).__name__ if dataclasses.is_dataclass(value) else "each"
    for name, part in parts:
        first, *rest = _lines(part)
        yield f"  {name}{first}"
        yield from (f"  {line}" for line in rest)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        yield from (("- ", item) for item in value)
    elif dataclasses.is_dataclass(value):
        yield from ((f"{name}: ", part) for name, part in _fields(value))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        if part != field.default:
            yield field.name, part


def _short(value: Any) -> str:
    match value:
        case SqlType():
            return value.name
        case Operand():
            return f"{value.sql if value.plain else '{' + value.sql + '}'}: {value.type.name}"
        case Window() | SessionWindow():
            return f"({render_window(value)})"
        case Enum():
            return value.name
        case tuple():
            return f"({', '.join(map(_short, value))})"
    if isinstance(value, Predicate.__args__):  # type: ignore[attr-defined]
        return f"[{render_predicate(value)}]"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({', '.join(f'{n}={_short(part)}' for n, part in _fields(value))})"
    return repr(value)
