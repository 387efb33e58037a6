"""Frozen dataclasses to JSON and back: the one encoding for everything a warehouse keeps as records."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any

from headrace.model import epoch, predicate, query, statistics, strategy, types, window

_SAME = frozenset((int, str, bool, type(None)))
"""Values of exactly these types are the same in JSON. Most values are, so they are looked at many at once."""


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


@cache
def fields(cls: Any) -> tuple[str, ...] | None:
    """The names of a dataclass's fields; None for any other class."""
    return tuple(field.name for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else None


def to_json(value: Any) -> Any:
    """JSON data for a value built of dataclasses, enums, tuples and scalars.

    >>> from_json(to_json(window.Window(10, 5)))
    Window(range_us=10, slide_us=5, offset_us=0)
    """
    kind: Any = type(value)
    if kind in _SAME:  # most values, by far
        return value
    if (names := fields(kind)) is not None:
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
            return value if plain(value) else [to_json(item) for item in value]
        case dict():
            return {key: to_json(item) for key, item in value.items()}
    raise TypeError(f"cannot encode {kind.__name__}")


def from_json(data: Any) -> Any:
    """The inverse of `to_json`; JSON arrays come back as tuples."""
    kind = type(data)
    if kind is list:
        return tuple(data) if plain(data) else tuple([from_json(item) for item in data])
    if kind is not dict:
        return data
    return made({key: from_json(item) for key, item in data.items()})


def made(data: dict[str, Any]) -> Any:
    """The value that JSON data names by `$`, once what is in it has been read; other data as it is."""
    name = data.pop("$", None)
    if name is None:
        return data
    if name == "float":
        return float(data["v"])
    cls = _classes()[name]
    return cls(**data) if fields(cls) is not None else cls(data["v"])


def plain(items: Sequence[Any]) -> bool:
    """Whether all items are the same in JSON."""
    return _SAME.issuperset(map(type, items))


def dumps(value: Any) -> bytes:
    return json.dumps(to_json(value), separators=(",", ":")).encode()


def loads(data: bytes) -> Any:
    return from_json(json.loads(data))
