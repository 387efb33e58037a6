"""Frozen dataclasses to JSON and back: the one encoding for everything a warehouse keeps as records."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """JSON data for a value built of dataclasses, enums, tuples, scalars and arrays of whole numbers.

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
        case np.ndarray():
            return _packed(value)
    raise TypeError(f"cannot encode {kind.__name__}")


def _packed(numbers: npt.NDArray[Any]) -> dict[str, str]:
    """Many whole numbers as one text: as JSON numbers, those of 10,000 queries would take longer than most of a task.

    >>> _packed(np.array([1, -2]))
    {'$': 'ints', 'type': '<i1', 'v': 'Af4='}
    """
    least, greatest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    for kind in ("<i1", "<i2", "<i4", "<i8"):
        limits = np.iinfo(kind)
        if limits.min <= least and greatest <= limits.max:
            break
    return {"$": "ints", "type": kind, "v": base64.b64encode(numbers.astype(kind).tobytes()).decode()}


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
    if name == "ints":
        return np.frombuffer(base64.b64decode(data["v"]), np.dtype(data["type"])).astype(np.int64)
    cls = _classes()[name]
    return cls(**data) if fields(cls) is not None else cls(data["v"])


def plain(items: Sequence[Any]) -> bool:
    """Whether all items are the same in JSON."""
    return _SAME.issuperset(map(type, items))


def dumps(value: Any) -> bytes:
    return json.dumps(to_json(value), separators=(",", ":")).encode()


def loads(data: bytes) -> Any:
    return from_json(json.loads(data))
