"""How tuples found the queries that accept them, as tasks did it: what EXPLAIN VERBOSE says of each family."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class Finding(Enum):
    """How the tuples of a family find its queries. The values are the words that EXPLAIN uses."""

    CELLS = "cells"
    SPARSE_CELLS = "the cells that occur"
    BIT_ROWS = "bit rows"
    CANDIDATES = "candidates"
    BOTH = "bit rows and candidates"


@dataclass(frozen=True, slots=True)
class FamilyWay:
    """What tasks did for the tuples of one family of an operator. Its operands and the number of its filters name it.

    `sparse` says that partials were updated where they are, not in tiles (None: there were no such updates). `words`
    and `candidates` are what a tuple met of bit rows and lists, and `matches` the filters that accepted it, all added
    up over `tuples`. `pooled` ones were kept themselves and updated no partials. The choice was made by estimates of
    time (None: nothing was estimated, or it was not possible).
    """

    operator: str
    operands: tuple[str, ...]
    filters: int
    finding: Finding
    sparse: bool | None = None
    tuples: int = 0
    words: float = 0
    candidates: float = 0
    matches: float = 0
    cells_ms: float | None = None
    matches_ms: float | None = None
    pooled: bool = False

    def __add__(self, other: FamilyWay) -> FamilyWay:
        """Both together; they are of the same family and went the same way."""
        return replace(
            self,
            tuples=self.tuples + other.tuples,
            words=self.words + other.words,
            candidates=self.candidates + other.candidates,
            matches=self.matches + other.matches,
            cells_ms=_sum(self.cells_ms, other.cells_ms),
            matches_ms=_sum(self.matches_ms, other.matches_ms),
        )

    def __str__(self) -> str:
        """The way and the reason.

        >>> print(FamilyWay("w1", ("flight",), 9_000, Finding.CANDIDATES, True, 100, 0, 150, 90, None, 0.2))
        candidates, updated in place: of 100 tuples each met 0 words and 1.5 candidates and matched 0.9 filters \
(estimated 0.20 ms; too many cells)
        >>> print(FamilyWay("w1", ("a", "b"), 10, Finding.CELLS, None, 100, 0, 0, 0, 0.1, 0.2))
        cells (estimated 0.10 ms; bit rows and candidates 0.20 ms)
        >>> print(FamilyWay("w1", ("a",), 10, Finding.CELLS))
        cells: they are few
        >>> print(FamilyWay("w1", ("a",), 10, Finding.CELLS, pooled=True))
        cells: they are few; tuples are kept in place of partials
        """
        return f"{self._found}; tuples are kept in place of partials" if self.pooled else self._found

    @property
    def _found(self) -> str:
        cells = self.finding in (Finding.CELLS, Finding.SPARSE_CELLS)
        if cells and self.matches_ms is None:
            few = "they are few" if self.finding is Finding.CELLS else "some filter has too many alternatives"
            return f"{self.finding.value}: {few}"
        if cells:
            return (
                f"{self.finding.value} (estimated {_ms(self.cells_ms)}; bit rows and candidates "
                f"{_ms(self.matches_ms)})"
            )
        updated = "" if self.sparse is None else f", updated in {'place' if self.sparse else 'tiles'}"
        met = (
            f"of {self.tuples:,} tuples each met {self._each(self.words)} words and "
            f"{self._each(self.candidates)} candidates and matched {self._each(self.matches)} filters"
        )
        against = "too many cells" if self.cells_ms is None else f"cells {_ms(self.cells_ms)}"
        estimated = "" if self.matches_ms is None else f"estimated {_ms(self.matches_ms)}; "
        return f"{self.finding.value}{updated}: {met} ({estimated}{against})"

    def _each(self, total: float) -> str:
        return f"{total / max(self.tuples, 1):.2g}"


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _ms(milliseconds: float | None) -> str:
    return "unknown" if milliseconds is None else f"{milliseconds:.2f} ms"


def add_ways(ways: Iterable[FamilyWay]) -> tuple[FamilyWay, ...]:
    """The ways of each family, most tuples first: tasks and blocks of keys may have gone different ones."""
    found: dict[tuple[object, ...], FamilyWay] = {}
    for way in ways:
        key = (way.operator, way.operands, way.filters, way.finding, way.sparse, way.pooled)
        found[key] = found[key] + way if key in found else way
    return tuple(
        sorted(found.values(), key=lambda way: (way.operator, way.operands, way.filters, -way.tuples))
    )
