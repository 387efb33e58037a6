"""Random tuples with vectors, and random queries that join them by a score: as SQL, and as loops over all pairs."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from typing import Any

import pyarrow as pa

from headrace.model.types import SqlType
from headrace.operators.common.scores import COSINE, PRODUCT, score

COLUMNS = (("id", "bigint"), ("text", "string"), ("v", "array<float>"), ("n", "int"), ("ts", "timestamp"))
VECTORS = SqlType("array<float>")
SECOND = 1_000_000


def embed(texts: pa.Array) -> pa.Array:
    """A vector of each text: how often it has each of four letters."""
    found = [None if t is None else [float(t.count(letter)) for letter in "abcd"] for t in texts.to_pylist()]
    return pa.array(found, pa.list_(pa.float32()))


def tuples(rng: random.Random, count: int, ids: int, length: int = 4) -> list[dict[str, Any]]:
    def vector() -> list[Any] | None:
        found: list[Any] = [float(rng.choice([-1, 0, 1, 2])) * 1.1 for _ in range(length)]
        kind = rng.random()
        if kind < 0.1:
            return None
        if kind < 0.15:
            return [0.0] * length
        if kind < 0.2:
            found[1] = None
        return found

    return [
        {
            "id": ids + i,
            "text": None
            if rng.random() < 0.1
            else "".join(rng.choice("abcd") for _ in range(rng.randint(0, 6))),
            "v": vector(),
            "n": rng.randint(0, 5),
            "ts": rng.randint(0, 29) * SECOND,
        }
        for i in range(count)
    ]


def exact(name: str, left: list[Any] | None, right: list[Any] | None) -> float | None:
    type_ = VECTORS.arrow
    found: float | None = score(name, pa.array([left], type_), pa.array([right], type_))[0].as_py()
    return found


class Ask:
    """One random query: a score above a constant, filters on both sides, windows, and a comparison across."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.number, self.name, self.embeds = number, rng.choice([COSINE, PRODUCT]), rng.random() < 0.4
        self.bound = rng.choice([0.0, 0.5, 0.8, 0.9, 1.0, 1.21]) * (1 if self.name == COSINE else 4)
        self.strict, self.low = rng.random() < 0.5, rng.randint(0, 3)
        self.across, self.range_s = rng.random() < 0.5, rng.choice([10, 15])
        self.streams = rng.choice([("offers", "wishes"), ("wishes", "offers"), ("offers", "offers")])

    def text(self) -> str:
        window = f"[RANGE {self.range_s} SECONDS SLIDE {self.range_s} SECONDS]"
        of = ("embed(l.text)", "embed(r.text)") if self.embeds else ("l.v", "r.v")
        where = (
            f"{self.name}({of[0]}, {of[1]}) {'>' if self.strict else '>='} {self.bound} AND l.n > {self.low}"
        )
        where += " AND l.id < r.id" if self.across else ""
        return (
            f"SELECT l.id, r.id AS other FROM {self.streams[0]} {window} AS l, {self.streams[1]} {window} AS r "
            f"WHERE {where}"
        )

    def _vector(self, row: dict[str, Any]) -> list[Any] | None:
        if not self.embeds:
            return row["v"]  # type: ignore[no-any-return]
        found: list[Any] | None = embed(pa.array([row["text"]], pa.string()))[0].as_py()
        return found

    def rows(self, every: dict[str, list[dict[str, Any]]]) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for left, right in product(every[self.streams[0]], every[self.streams[1]]):
            size = self.range_s * SECOND
            if left["ts"] // size != right["ts"] // size or left["n"] <= self.low:
                continue
            if self.across and not left["id"] < right["id"]:
                continue
            value = exact(self.name, self._vector(left), self._vector(right))
            if value is not None and (value > self.bound or (not self.strict and value == self.bound)):
                found[left["id"], right["id"]] += 1
        return found
