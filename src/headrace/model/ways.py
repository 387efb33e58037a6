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
    LIST = "list"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class FamilyWay:
    """What tasks did for the tuples of one family of an operator. Its operands and the number of its filters name it.

    `sparse` says that partials were updated where they are, not in tiles (None: there were no such updates). `words`
    and `candidates` are what a tuple met of bit rows and lists, and `matches` the filters that accepted it, all added
    up over `tuples`. `pooled` ones were kept themselves and updated no partials. Partials are of the keys and slices
    that occur where they are `listed`, and of a grid of them elsewhere (None: there are none). `pool_ms` and
    `partials_ms` are of the operator as a whole. Choices were made by such estimates of time (None: nothing was
    estimated, or it was not possible).

    A join's way is that of the partners of one input: LIST or GROUPS. Its operand is the input, it has no filters, and
    `candidates` are the pairs of tuples that a list has. `cells_ms` is the estimate of groups, `matches_ms` of a list.
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
    listed: bool | None = None
    pool_ms: float | None = None
    partials_ms: float | None = None

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
            pool_ms=_sum(self.pool_ms, other.pool_ms),
            partials_ms=_sum(self.partials_ms, other.partials_ms),
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
        >>> print(FamilyWay("w1", ("a",), 10, Finding.CELLS, pooled=True, pool_ms=3.0, partials_ms=8.5))
        cells: they are few; tuples are kept in place of partials (all of the operator: estimated 3.00 ms; \
partials 8.50 ms)
        >>> print(FamilyWay("w1", ("a",), 10, Finding.CELLS, listed=True, pool_ms=3.0, partials_ms=2.5))
        cells: they are few; partials of the keys and slices that occur (all of the operator: estimated 2.50 ms; \
keeping tuples 3.00 ms)
        >>> print(FamilyWay("w1", ("a",), 10, Finding.CELLS, listed=False, pool_ms=2.5, partials_ms=3.0))
        cells: they are few; partials in a grid of keys and slices (all of the operator: estimated 3.00 ms; \
keeping tuples 2.50 ms, which is not so much less that the way would change)
        >>> print(FamilyWay("w1", ("a",), 10, Finding.CELLS, listed=False))
        cells: they are few; partials in a grid of keys and slices
        >>> print(FamilyWay("j1", ("1",), 0, Finding.LIST, None, 100, 0, 5_000, 0, None, 0.1))
        list: 100 rows had 5,000 tuples of their keys near in time (too few for groups)
        >>> print(FamilyWay("j1", ("1",), 0, Finding.GROUPS, None, 100, 0, 500_000, 0, 0.1, 0.9))
        groups: 100 rows had 500,000 tuples of their keys near in time (estimated 0.10 ms; list 0.90 ms)
        """
        if self.is_of_join:
            return self._met_partners
        if self.pooled:
            return f"{self._found}; tuples are kept in place of partials{self._by(self.pool_ms, self.partials_ms)}"
        if self.listed is None:
            return self._found
        where = "of the keys and slices that occur" if self.listed else "in a grid of keys and slices"
        return f"{self._found}; partials {where}{self._by(self.partials_ms, self.pool_ms)}"

    @property
    def is_of_join(self) -> bool:
        return self.finding in (Finding.LIST, Finding.GROUPS)

    @property
    def _met_partners(self) -> str:
        met = f"{self.tuples:,} rows had {self.candidates:,.0f} tuples of their keys near in time"
        if self.finding is Finding.LIST and self.cells_ms is None:
            return f"list: {met} (too few for groups)"
        mine, other = self.matches_ms, f"groups {_ms(self.cells_ms)}"
        if self.finding is Finding.GROUPS:
            mine, other = self.cells_ms, f"list {_ms(self.matches_ms)}"
        return f"{self.finding.value}: {met} (estimated {_ms(mine)}; {other})"

    def _by(self, chosen_ms: float | None, other_ms: float | None) -> str:
        """Why partials or tuples are kept; nothing where keys are too few to ask."""
        if chosen_ms is None:
            return ""
        other = "partials" if self.pooled else "keeping tuples"
        small = other_ms is not None and other_ms < chosen_ms
        stays = ", which is not so much less that the way would change" if small else ""
        return f" (all of the operator: estimated {_ms(chosen_ms)}; {other} {_ms(other_ms)}{stays})"

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


def input_role(input_: int, role: int) -> str:
    """An input of a join in one of its roles, as EXPLAIN names it.

    >>> input_role(1, 0), input_role(1, 2)
    ('1', '1 (role 2)')
    """
    return f"{input_}" + (f" (role {role})" if role else "")


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _ms(milliseconds: float | None) -> str:
    return "unknown" if milliseconds is None else f"{milliseconds:.2f} ms"


def add_ways(ways: Iterable[FamilyWay]) -> tuple[FamilyWay, ...]:
    """The ways of each family, most tuples first: tasks and blocks of keys may have gone different ones.

    Those with estimates and those without are not added up: a task with few keys does not ask whether to keep tuples.

    >>> few, many = (FamilyWay("w1", ("a",), 9, Finding.CELLS, tuples=n, listed=True) for n in (1, 7))
    >>> asked = replace(many, pool_ms=3.0, partials_ms=2.0)
    >>> [(way.tuples, way.partials_ms) for way in add_ways([asked, few, asked, few])]
    [(14, 4.0), (2, None)]
    """
    found: dict[tuple[object, ...], FamilyWay] = {}
    for way in ways:
        few = (way.cells_ms if way.is_of_join else way.pool_ms) is None
        key = (way.operator, way.operands, way.filters, way.finding, way.sparse, way.pooled, way.listed, few)
        found[key] = found[key] + way if key in found else way
    return tuple(
        sorted(found.values(), key=lambda way: (way.operator, way.operands, way.filters, -way.tuples))
    )
