"""Large values as text, in pieces that many of them have in common: what is known is neither written nor read anew.

A text has a line for the value and one for each of its distinct pieces. In the value, `{"#":[2,0]}` stands for a tuple
of the pieces of these numbers. Which classes are pieces is said by `register_pieces`. A tuple has pieces alone or none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from headrace.model import codec

_PIECES: set[type] = set()

MOST_KNOWN = 1 << 14
"""So many pieces at least, and twice as many at most, are known to a reader."""


def register_pieces(*classes: type) -> None:
    """Let instances of these classes be pieces, where they are in tuples."""
    _PIECES.update(classes)


class Writer:
    """Writes values, one after the other. A piece that the value before had too, the same object, costs a look-up."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}

    def write(self, value: Any) -> bytes:
        """The lines of a value. They do not tell which of its pieces are one object."""
        used: dict[int, tuple[Any, str]] = {}
        numbers: dict[int, int] = {}
        texts: dict[str, int] = {}
        known = self._known

        def number_of(piece: Any) -> int:
            key = id(piece)
            number = numbers.get(key)
            if number is None:
                _, text = used[key] = known.get(key) or (piece, _compact(codec.to_json(piece)))
                number = numbers[key] = texts.setdefault(text, len(texts))
            return number

        line = _compact(_outline(value, number_of))
        self._known = used  # the objects are kept with their texts, so no other one can have their ids
        return "\n".join((line, *texts)).encode()


def _outline(value: Any, number_of: Any) -> Any:
    """JSON data of a value, with numbers for its pieces."""
    kind: Any = type(value)
    if kind is tuple:
        if value and type(value[0]) in _PIECES:
            return {"#": [number_of(piece) for piece in value]}
        return value if codec.plain(value) else [_outline(item, number_of) for item in value]
    names = codec.fields(kind)
    if names is None:
        return codec.to_json(value)
    return {"$": kind.__name__} | {name: _outline(getattr(value, name), number_of) for name in names}


def _compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


class Reader:
    """Reads values, one after the other. A piece that was read before, in any value, costs a look-up."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._new: dict[bytes, Any] = {}
        self._old: dict[bytes, Any] = {}

    def read(self, lines: bytes) -> Any:
        """The inverse of `Writer.write`."""
        line, *texts = lines.split(b"\n")
        pieces = [self._piece(text) for text in texts]
        return _filled(json.loads(line), pieces)

    def _piece(self, text: bytes) -> Any:
        found = self._new.get(text)
        if found is None:
            found = self._old.get(text)
            if found is None:
                found = codec.loads(text)
            if len(self._new) >= self._most:
                self._new, self._old = {}, self._new
            self._new[text] = found
        return found


def _filled(data: Any, pieces: Sequence[Any]) -> Any:
    """The value of which `_outline` gave the JSON data."""
    kind = type(data)
    if kind is list:
        return tuple(data) if codec.plain(data) else tuple([_filled(item, pieces) for item in data])
    if kind is not dict:
        return data
    numbers = data.get("#")
    if numbers is not None:
        return tuple([pieces[number] for number in numbers])
    return codec.made({key: _filled(item, pieces) for key, item in data.items()})
