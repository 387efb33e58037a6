"""Frozen dataclasses to JSON and back: the one encoding for everything a warehouse keeps as records."""

from __future__ import annotations

import dataclasses
import json
import math
from enum import Enum
from functools import cache
from typing import Any

from headrace.model import epoch, predicate, query, statistics, strategy, types, window

_SAME = frozenset((int, str, bool, type(None)))
"""Values of exactly these types are the same in JSON: long lists and counts need no call for each of them."""


@cache
def _classes() -> dict[str, type]:
    found: dict[str, type] = {}
    for module in (types, window, predicate, query, strategy, statistics, epoch):
        for item in vars(module).values():
            if isinstance(item, type) and (dataclasses.is_dataclass(item) or issubclass(item, Enum)):
                found[item.__name__] = item
    return found


def register(*classes: type) -> None:
    """Let records carry these classes too (plan nodes live outside `model/`)."""
    for cls in classes:
        _classes()[cls.__name__] = cls


_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


@cache
def _fields(cls: Any) -> tuple[str, ...] | None:
    """The names of a dataclass's fields; None for any other class."""
    return tuple(field.name for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None


def to_json(value: Any) -> Any:
    """JSON data for a value built of dataclasses, enums, tuples and scalars.

    >>> from_json(to_json(window.Window(10, 5)))
    Window(range_us=10, slide_us=5, offset_us=0)
    """
    kind: Any = type(value)
    if kind in _AS_THEY_ARE:  # most values, by far
        return value
    if (names := _fields(kind)) is not None:
        found = {"$": kind.__name__}
        for name in names:
            found[name] = to_json(getattr(value, name))
        return found
    match value:
        case None | bool() | int() | str():
            return value if not isinstance(value, Enum) else {"$": type(value).__name__, "v": value.value}
        case float():
            return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
        case Enum():
            return {"$": type(value).__name__, "v": value.value}
        case tuple() | list():
            return [item if type(item) in _SAME else to_json(item) for item in value]
        case dict():
            return {key: item if type(item) in _SAME else to_json(item) for key, item in value.items()}
    raise TypeError(f"cannot encode {kind.__name__}")


def from_json(data: Any) -> Any:
    """The inverse of `to_json`; JSON arrays come back as tuples."""
    match data:
        case list():
            return tuple(item if type(item) in _SAME else from_json(item) for item in data)
        case {"$": "float", "v": text}:
            return float(text)
        case {"$": name, **rest}:
            cls = _classes()[name]
            if issubclass(cls, Enum):
                return cls(rest["v"])
            return cls(**{str(key): from_json(item) for key, item in rest.items()})
        case dict():
            return {key: item if type(item) in _SAME else from_json(item) for key, item in data.items()}
        case _:
            return data


def dumps(value: Any) -> bytes:
    return json.dumps(to_json(value), separators=(",", ":")).encode()


def loads(data: bytes) -> Any:
    return from_json(json.loads(data))
