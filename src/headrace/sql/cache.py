"""The shapes seen so far; an object that its owner passes in, never a global."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from headrace.model.query import Stream
from headrace.model.types import Column
from headrace.sql.analysis import Analyzer
from headrace.sql.binding import Shape

MAX_SHAPES = 4096


class ShapeCache:
    """An Analyzer that also remembers shapes, the least recently kept of which it forgets first.

    Safe to use with changing streams: a shape is only found while its stream is exactly as it was.
    """

    def __init__(self, analyzer: Analyzer, capacity: int = MAX_SHAPES) -> None:
        self._analyzer, self._capacity = analyzer, capacity
        self._shapes: dict[Hashable, Shape] = {}
        self._schemas: dict[Hashable, tuple[Column, ...]] = {}

    def schema(self, sql: str, stream: Stream) -> tuple[Column, ...]:
        return self._analyzer.schema(sql, stream)

    def schema_like(self, key: Hashable, sql: str, stream: Stream) -> tuple[Column, ...]:
        """The schema of `sql`, which is that of every text with the same key over the same stream."""
        known = self._schemas.get((key, stream))
        if known is None:
            known = self._schemas[key, stream] = self.schema(sql, stream)
            while len(self._schemas) > self._capacity:
                del self._schemas[next(iter(self._schemas))]
        return known

    def find(self, key: Hashable, streams: Mapping[str, Stream]) -> Shape | None:
        shape = self._shapes.get(key)
        if shape is None:
            return None
        now = streams.get(shape.stream.name)
        return shape if now is shape.stream or now == shape.stream else None

    def keep(self, key: Hashable, shape: Shape) -> None:
        self._shapes.pop(key, None)
        self._shapes[key] = shape
        while len(self._shapes) > self._capacity:
            del self._shapes[next(iter(self._shapes))]

    def __len__(self) -> int:
        return len(self._shapes)
