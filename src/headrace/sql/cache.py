"""The shapes seen so far; an object that its owner passes in, never a global."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from headrace.model.query import Stream
from headrace.model.types import Column, SqlType
from headrace.sql.binding import Shape
from headrace.sql.resolve.analysis import Analyzer

MAX_SHAPES = 4096


class ShapeCache:
    """An Analyzer that also remembers shapes, the least recently kept of which it forgets first.

    Safe to use with changing streams: a shape is only found while its streams are exactly as they were. `functions` are
    the registered functions that texts may call, by name in small letters; `register` changes them.
    """

    def __init__(self, analyzer: Analyzer, capacity: int = MAX_SHAPES) -> None:
        self._analyzer, self._capacity = analyzer, capacity
        self.functions: dict[str, SqlType] = {}
        self._shapes: dict[Hashable, Shape] = {}
        self._schemas: dict[Hashable, tuple[Column, ...]] = {}

    def register(self, name: str, type_: SqlType | None) -> None:
        """Let texts call a function of that type, or no longer (None). What was known of texts is forgotten."""
        self.functions.pop(name, None)
        if type_ is not None:
            self.functions[name] = type_
        self._shapes.clear()
        self._schemas.clear()

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        return self._analyzer.schema(sql, *streams)

    def difference(self, original: str, rendered: str) -> str | None:
        return self._analyzer.difference(original, rendered)

    def schema_like(self, key: Hashable, sql: str, *streams: Stream) -> tuple[Column, ...]:
        """The schema of `sql`, which is that of every text with the same key over the same streams."""
        known = self._schemas.get((key, streams))
        if known is None:
            known = self._schemas[key, streams] = self.schema(sql, *streams)
            while len(self._schemas) > self._capacity:
                del self._schemas[next(iter(self._schemas))]
        return known

    def find(self, key: Hashable, streams: Mapping[str, Stream]) -> Shape | None:
        shape = self._shapes.get(key)
        if shape is None:
            return None
        same = all(streams.get(stream.name) == stream for stream in shape.streams)
        return shape if same else None

    def keep(self, key: Hashable, shape: Shape) -> None:
        self._shapes.pop(key, None)
        self._shapes[key] = shape
        while len(self._shapes) > self._capacity:
            del self._shapes[next(iter(self._shapes))]

    def __len__(self) -> int:
        return len(self._shapes)
