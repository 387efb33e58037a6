"""AStream's join queries (SIGMOD 2019, figure 7) and its complex ones (section 4.7), over streams of one schema."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from headrace_bench.astream import FIELDS, FIELDS_MAX, OPERATORS

STREAMS = ("a", "b", "c", "d", "e", "f")
"""All have AStream's schema; a query of n joins reads the first n + 1 of them."""

MOST_JOINS = len(STREAMS) - 1

Predicate = tuple[int, str, int]
"""(number of a field, operator, constant)."""


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """Figure 7: an inner join of two streams on the key, each under a predicate of its own, in one window.

    `fields` is the field that is selected of each side, under the names that `columns` tells; without any the select
    list is `*`, as in the figure: then columns of both sides share their names, and in Spark's form each side has its
    window as well.

    >>> query = JoinQuery(((3, ">", 5), (1, "<", 7)), 10, 5, (1, 2))
    >>> query.cql()
    'SELECT a.key, a.field1 AS a_field1, b.field2 AS b_field2 FROM a [RANGE 10 SECONDS SLICE 5 SECONDS] AS a, \
b [RANGE 10 SECONDS SLICE 5 SECONDS] AS b WHERE a.key = b.key AND a.field3 > 5 AND b.field1 < 7'
    """

    predicates: tuple[Predicate, ...]
    range_s: int
    slide_s: int
    fields: tuple[int, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return STREAMS[: len(self.predicates)]

    @property
    def columns(self) -> tuple[str, ...]:
        """What the selected columns are called, after the window's end; none for a star.

        >>> JoinQuery(((3, ">", 5), (1, "<", 7)), 10, 5, (1, 1)).columns
        ('key', 'a_field1', 'b_field1')
        """
        if not self.fields:
            return ()
        return ("key", *(f"{s}_field{n}" for s, n in zip(self.streams, self.fields, strict=True)))

    @property
    def _selected(self) -> str:
        chosen = zip(self.streams, self.fields, strict=True)
        return ", ".join(("a.key", *(f"{s}.field{n} AS {s}_field{n}" for s, n in chosen)))

    def cql(self) -> str:
        return f"SELECT {self._selected if self.fields else '*'} FROM {cql_sources(self)}"

    def spark_sql(self) -> str:
        selected = f"a.window.end, {self._selected}" if self.fields else "*"
        return f"SELECT {selected} FROM {spark_sources(self)}"


@dataclass(frozen=True, slots=True)
class ComplexQuery:
    """Section 4.7: a selection on each stream, windowed joins on the key, and a sum per key and window of the joined.

    What is summed is FIELD1 of stream number `summed`.

    >>> query = ComplexQuery(((3, ">", 5), (1, "<", 7)), 4, 4, 1)
    >>> query.cql()
    'SELECT a.key, SUM(b.field1) AS value FROM a [RANGE 4 SECONDS SLICE 4 SECONDS] AS a, \
b [RANGE 4 SECONDS SLICE 4 SECONDS] AS b WHERE a.key = b.key AND a.field3 > 5 AND b.field1 < 7 GROUP BY a.key'
    """

    predicates: tuple[Predicate, ...]
    range_s: int
    slide_s: int
    summed: int

    @property
    def streams(self) -> tuple[str, ...]:
        return STREAMS[: len(self.predicates)]

    @property
    def columns(self) -> tuple[str, ...]:
        return ("key", "value")

    @property
    def _sum(self) -> str:
        return f"SUM({self.streams[self.summed]}.field1) AS value"

    def cql(self) -> str:
        return f"SELECT a.key, {self._sum} FROM {cql_sources(self)} GROUP BY a.key"

    def spark_sql(self) -> str:
        return f"SELECT a.window.end, a.key, {self._sum} FROM {spark_sources(self)} GROUP BY a.window, a.key"


def cql_sources(query: JoinQuery | ComplexQuery) -> str:
    """FROM and WHERE of a query in CQL: the windows stand with the streams."""
    window = f"[RANGE {query.range_s} SECONDS SLICE {query.slide_s} SECONDS]"
    sources = ", ".join(f"{stream} {window} AS {stream}" for stream in query.streams)
    keys = (f"a.key = {stream}.key" for stream in query.streams[1:])
    return f"{sources} WHERE {' AND '.join((*keys, selection(query)))}"


def spark_sources(query: JoinQuery | ComplexQuery) -> str:
    """FROM and WHERE of a query in Spark's form: tuples with each of their windows, joined on key and window.

    Everything is joined with the first stream, so that no other window is carried along.
    """
    window = f"window(ts, '{query.range_s} seconds', '{query.slide_s} seconds') AS window"
    first, *others = (f"(SELECT *, {window} FROM {stream}) AS {stream}" for stream in query.streams)
    joins = (
        f"JOIN {source} ON a.window = {stream}.window AND a.key = {stream}.key"
        for source, stream in zip(others, query.streams[1:], strict=True)
    )
    return f"{' '.join((first, *joins))} WHERE {selection(query)}"


def selection(query: JoinQuery | ComplexQuery) -> str:
    """The predicates of all streams."""
    return " AND ".join(
        condition(predicate, f"{stream}.")
        for stream, predicate in zip(query.streams, query.predicates, strict=True)
    )


def condition(predicate: Predicate, qualifier: str = "") -> str:
    """
    >>> condition((3, ">", 5), "b.")
    'b.field3 > 5'
    """
    field, operator, value = predicate
    return f"{qualifier}field{field} {operator} {value}"


def join(
    rng: Random, window_max_s: int = 10, *, star: bool = False, fields_max: int = FIELDS_MAX
) -> JoinQuery:
    """A random query of figure 7: window length random(1, window_max_s), slide random(1, length) (4.2.3).

    It selects the key and a random field of each side, or `*` with `star`.
    """
    predicates, range_s, slide_s = _drawn(rng, 2, window_max_s, fields_max)
    fields = () if star else (rng.randint(1, FIELDS), rng.randint(1, FIELDS))
    return JoinQuery(predicates, range_s, slide_s, fields)


def complex_query(
    rng: Random, window_max_s: int = 10, *, most_joins: int = MOST_JOINS, fields_max: int = FIELDS_MAX
) -> ComplexQuery:
    """A random query of section 4.7 with 1 to `most_joins` joins."""
    streams = rng.randint(1, most_joins) + 1
    predicates, range_s, slide_s = _drawn(rng, streams, window_max_s, fields_max)
    return ComplexQuery(predicates, range_s, slide_s, rng.randrange(streams))


def _drawn(
    rng: Random, streams: int, window_max_s: int, fields_max: int
) -> tuple[tuple[Predicate, ...], int, int]:
    range_s = rng.randint(1, window_max_s)
    slide_s = rng.randint(1, range_s)
    predicates = tuple(
        (rng.randint(1, FIELDS), rng.choice(OPERATORS), rng.randrange(fields_max)) for _ in range(streams)
    )
    return predicates, range_s, slide_s


class Written(Protocol):
    """A query that can be written in both forms."""

    def cql(self) -> str: ...

    def spark_sql(self) -> str: ...


def text_of(query: Written, number: int) -> str:
    """Query number so-and-so as people would write it: every other one in CQL."""
    return query.spark_sql() if number % 2 else query.cql()
