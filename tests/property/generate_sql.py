"""Random queries over a random stream: what people write, and what they should not."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from generate_values import Field, RandomStream, quoted

from headrace.model.types import Kind

WINDOWS = (
    ("10 seconds",),
    ("5 seconds",),
    ("1 minute",),
    ("10 seconds", "5 seconds"),
    ("10 seconds", "4 seconds"),
    ("7 seconds", "3 seconds"),
    ("13 seconds", "2 seconds", "1 second"),
    ("5 seconds", "5 seconds", "2 seconds"),
    ("1500 milliseconds", "700 milliseconds"),
    ("1234567 microseconds", "500001 microseconds", "-17 microseconds"),
    ("1 hour", "25 minutes"),
)
GAPS = (
    "1 second",
    "2 seconds",
    "3 seconds",
    "5 seconds",
    "250 milliseconds",
    "1500 milliseconds",
    "1 minute",
)
NUMERIC = (Kind.INTEGER, Kind.FLOATING, Kind.DECIMAL)
ORDERS = ("=", "<>", "!=", "<", "<=", ">", ">=")
PATTERNS = ("a%", "%b", "_", "%", "", "é%", "%a%", "__", "A_", "%日%", "_%c")


@dataclass(frozen=True, slots=True)
class RandomQuery:
    """A text. `ends` is the position of the window's end in its rows (None: no window, or not selected).

    `windowed` queries deliver per window; `risky` ones may raise.
    """

    text: str
    windowed: bool
    ends: int | None = None
    risky: bool = False


class Writer:
    """Writes queries over one stream."""

    def __init__(self, rng: random.Random, stream: RandomStream, sessions: bool = False) -> None:
        self.rng, self.stream, self.sessions = rng, stream, sessions
        self.fields = stream.fields[:-1]
        self.column = "session_window" if sessions else "window"

    def query(self) -> RandomQuery:
        """One query; about half are windowed aggregations in plain form. With `sessions`, all have sessions."""
        kinds: list[tuple[Callable[[], RandomQuery], int]] = [
            (self.aggregation, 50),
            (self.cql, 14),
            (self.stateless, 0 if self.sessions else 20),
            (self.nested, 8),
            (self.values, 12),
            (self.fallback, 5),
            (self.risky, 8),
        ]
        makers, weights = zip(*kinds, strict=True)
        return self.rng.choices(makers, weights)[0]()

    # whole queries

    def aggregation(self) -> RandomQuery:
        keys = self.keys()
        windows = [self.column] if self.maybe(0.2) else []
        windows += [f"{self.column}.start AS w_start"] if self.maybe(0.5) else []
        windows += [f"{self.column}.end AS w_end"] if self.maybe(0.7) else []
        items = [*windows, *keys, *self.aggregates()]
        self.rng.shuffle(items)
        group = [*keys, self.window()]
        self.rng.shuffle(group)
        text = f"SELECT {', '.join(items)} FROM {self.stream.name}{self.where()} GROUP BY {', '.join(group)}"
        return RandomQuery(text + self.having(), True, self.end_of(items))

    def end_of(self, items: list[str]) -> int | None:
        ends = (self.column, f"{self.column}.end AS w_end")
        return next((i for i, item in enumerate(items) if item in ends), None)

    def window(self) -> str:
        if self.sessions:
            return f"session_window({self.stream.event_time.sql}, '{self.rng.choice(GAPS)}')"
        arguments = ", ".join(f"'{part}'" for part in self.rng.choice(WINDOWS))
        return f"window({self.stream.event_time.sql}, {arguments})"

    def cql(self) -> RandomQuery:
        range_, slide = self.rng.choice([(10, 5), (7, 3), (10, 4), (6, None), (13, 2)])
        word = self.rng.choice(["SLIDE", "SLICE", "slide"])
        bracket = f"[RANGE {range_} SECONDS{f' {word} {slide} SECONDS' if slide else ''}]"
        if self.sessions:
            bracket = f"[SESSION GAP {self.rng.choice(GAPS)}]"
        keys = self.keys()
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        alias = self.rng.choice(["", " AS p", " p"])
        items = [*keys, *self.aggregates()]
        text = f"SELECT {', '.join(items)} FROM {self.stream.name} {bracket}{alias}{self.where()}{group}"
        return RandomQuery(text + (self.having() if group else ""), True, 1)

    def stateless(self) -> RandomQuery:
        if self.maybe(0.25):
            items = ["*"]
        else:
            items = [
                self.rng.choice([self.pick().sql, self.value()[0]]) for _ in range(self.rng.randint(1, 4))
            ]
            items = [f"{item} AS o{i}" if self.maybe(0.5) else item for i, item in enumerate(items)]
        return RandomQuery(f"SELECT {', '.join(items)} FROM {self.stream.name}{self.where(0.9)}", False)

    def nested(self) -> RandomQuery:
        """A subquery that filters and renames."""
        chosen = self.rng.sample(self.fields, min(3, len(self.fields)))
        names = [f"n{i}" for i in range(len(chosen))]
        columns = [f"{f.sql} AS {n}" for f, n in zip(chosen, names, strict=True)]
        inner = f"SELECT {self.stream.event_time.sql} AS at, {', '.join(columns)} FROM {self.stream.name}{self.where()}"
        outer = Writer(self.rng, _renamed(self.stream, chosen, names), self.sessions)
        if not self.sessions and self.maybe(0.3):
            return RandomQuery(f"SELECT {names[0]}, at FROM ({inner}){outer.where()}", False)
        keys = outer.keys()
        items = [f"{self.column}.end", *keys, *outer.aggregates()]
        group = ", ".join([*keys, outer.window()])
        text = (
            f"SELECT {', '.join(items)} FROM ({inner}) AS sub{outer.where()} GROUP BY {group}{outer.having()}"
        )
        return RandomQuery(text, True, 0)

    def values(self) -> RandomQuery:
        """Aggregates that ask for all values of a group. What Spark leaves open (ties, the order of sets) is closed."""
        calls = [self.value_call() for _ in range(self.rng.randint(1, 3))]
        calls = [f"{call} FILTER (WHERE {self.predicate(1)})" if self.maybe(0.2) else call for call in calls]
        if self.maybe(0.3):
            calls.append(f"sort_array(collect_set({self.pick().sql}))")
        keys = self.keys()
        items = [f"{self.column}.end", *keys, *calls, *(self.aggregates() if self.maybe(0.5) else [])]
        group = ", ".join([*keys, self.window()])
        text = (
            f"SELECT {', '.join(items)} FROM {self.stream.name}{self.where()} GROUP BY {group}{self.having()}"
        )
        return RandomQuery(text, True, 0)

    def value_call(self) -> str:
        field, other = self.pick(), self.pick()
        calls = [f"count(DISTINCT {field.sql})", f"count(DISTINCT {field.sql}, {other.sql})"]
        calls += [f"max_by({field.sql}, {field.sql})", f"min_by({other.sql}, {other.sql})"]
        if (number := self.pick(*NUMERIC, summable=True)) is not None:
            fraction = self.rng.choice(["0", "0.25", "0.5", "0.9", "1", "0.333"])
            calls += [f"sum(DISTINCT {number.sql})", f"avg(DISTINCT {number.sql})", f"median({number.sql})"]
            calls += [
                f"percentile({number.sql}, {fraction})",
                f"percentile({number.sql}, array({fraction}, 1))",
            ]
        return self.rng.choice(calls)

    def fallback(self) -> RandomQuery:
        calls = [f"sort_array(collect_list({self.pick().sql}))"]
        if (number := self.pick(*NUMERIC, summable=True)) is not None:
            calls += [f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {number.sql})", f"kurtosis({number.sql})"]
        if (flag := self.pick(Kind.BOOLEAN)) is not None:
            calls += [f"bool_and({flag.sql})", f"some({flag.sql})"]
        if (whole := self.pick(Kind.INTEGER)) is not None:
            calls += [f"bit_xor({whole.sql})"]
        keys = self.keys()
        items = [f"{self.column}.end", *keys, self.rng.choice(calls), *self.aggregates()]
        group = ", ".join([*keys, self.window()])
        text = (
            f"SELECT {', '.join(items)} FROM {self.stream.name}{self.where()} GROUP BY {group}{self.having()}"
        )
        return RandomQuery(text, True, 0)

    def risky(self) -> RandomQuery:
        """Something in it may raise for some tuple, somewhere: in ANSI mode Spark would fail."""
        fragile = self.fragile()
        where, having, key, item = self.where(0.4), "", "", f"sum({fragile})"
        match self.rng.randrange(7):
            case 0 if not self.sessions:
                return RandomQuery(f"SELECT {fragile} AS x FROM {self.stream.name}{where}", False, risky=True)
            case 1:
                where = f" WHERE {fragile} > 0"
            case 2:
                where = f" WHERE {self.predicate()} AND {fragile} > 0"
            case 3:
                key = f", {fragile}"
            case 4:
                item = f"count(*) FILTER (WHERE {fragile} > 0)"
            case 5:
                having = f" HAVING {self.fragile_result()} > 0"
            case 6:
                item = self.fragile_result()
        group = f"GROUP BY {self.window()}{key}{having}"
        text = f"SELECT {self.column}.end, {item} FROM {self.stream.name}{where} {group}"
        return RandomQuery(text, True, 0, risky=True)

    def fragile(self) -> str:
        options = [f"CAST(CAST({self.stream.event_time.sql} AS STRING) AS INT)"]
        if (text := self.pick(Kind.STRING)) is not None:
            options += [f"CAST({text.sql} AS INT)", f"CAST({text.sql} AS DECIMAL(4,1))"]
        if (number := self.pick(Kind.INTEGER)) is not None:
            options += [
                f"1 / {number.sql}",
                f"{number.sql} * {number.sql}",
                f"{number.sql} + 1",
                f"10 % {number.sql}",
            ]
            options += [
                f"CAST({number.sql} AS TINYINT)",
                f"-{number.sql}",
                f"element_at(array(1, 2), {number.sql})",
            ]
        if (number := self.pick(Kind.DECIMAL)) is not None:
            options += [f"CAST({number.sql} AS DECIMAL(3,1))", f"1 / {number.sql}"]
        if (number := self.pick(Kind.FLOATING)) is not None:
            options += [f"CAST({number.sql} AS INT)", f"1 / {number.sql}"]
        return self.rng.choice(options)

    def fragile_result(self) -> str:
        field = self.pick(Kind.INTEGER) or self.pick(*NUMERIC)
        inner = "1" if field is None else field.sql
        return self.rng.choice(
            [
                f"1 / (count({inner}) - 2)",
                f"CAST(max({inner}) AS TINYINT)",
                f"max({inner}) * 1000",
                "CAST(CASE WHEN count(*) > 3 THEN 'x' ELSE '1' END AS INT)",
            ]
        )

    # clauses

    def keys(self) -> list[str]:
        count = self.rng.choice([0, 0, 1, 1, 1, 2])
        found: dict[str, None] = {}
        for _ in range(count):
            key = self.pick().sql if self.maybe(0.6) else self.value()[0]
            if not key.startswith(("'", "NULL")):
                found[key] = None
        return list(found)

    def where(self, often: float = 0.8) -> str:
        predicate = self.predicate()
        whole = "NULL OR false" if predicate == "NULL" else predicate  # WHERE NULL is no query to Spark
        return f" WHERE {whole}" if self.maybe(often) else ""

    def having(self) -> str:
        if not self.maybe(0.2):
            return ""
        options = [
            "count(*) > 2",
            "count(*) BETWEEN 1 AND 3",
            "NOT (count(*) = 1)",
            "min(1) = 1 AND count(*) < 9",
        ]
        field = self.pick(*NUMERIC, Kind.STRING, Kind.DATE)
        if field is not None:
            options += [f"max({field.sql}) >= {self.literal(field)}", f"min({field.sql}) IS NULL"]
        if (number := self.pick(*NUMERIC, summable=True)) is not None:
            options += [f"sum({number.sql}) > 0 OR count({number.sql}) = 0", f"avg({number.sql}) < 1"]
        return f" HAVING {self.rng.choice(options)}"

    def aggregates(self) -> list[str]:
        found = [self.aggregate() for _ in range(self.rng.randint(1, 3))]
        return [f"{call} AS agg{i}" if self.maybe(0.5) else call for i, call in enumerate(found)]

    def aggregate(self) -> str:
        call = self.call()
        if self.maybe(0.2):
            call = f"{call} FILTER (WHERE {self.predicate(1)})"
        if self.maybe(0.15):
            whole = self.call(integer=True)
            exact = call if call.lower().startswith(("min", "max", "count", "sum")) else whole
            call = self.rng.choice(
                [
                    f"coalesce(CAST({exact} AS STRING), 'none')",
                    f"CASE WHEN {whole} > 2 THEN 'many' ELSE 'few' END",
                    f"{whole} * 2 + count(*)",
                    f"{whole} / count(*)",
                    f"struct({call} AS x, count(*) AS n)",
                ]
            )
        return call

    def call(self, integer: bool = False) -> str:
        field = self.pick()
        counts = ["count(*)", "count(1)", f"count({field.sql})", f"count_if({self.predicate(1)})"]
        if integer or self.maybe(0.2):
            return self.rng.choice(counts)
        if self.maybe(0.35):
            value = field.sql if self.maybe(0.7) else self.value()[0]
            return f"{self.rng.choice(['min', 'max', 'MAX'])}({value})"
        number = self.pick(*NUMERIC, summable=True)
        if number is None:
            return "count(*)"
        summed = self.exact_number(number)
        calls = (
            ["sum"] * 4
            + ["avg"] * 3
            + ["mean", "var_pop", "var_samp", "variance", "stddev", "stddev_pop", "std"]
        )
        return f"{self.rng.choice(calls)}({summed})"

    def exact_number(self, number: Field) -> str:
        """The field, or an expression over it whose sums are as exact."""
        if self.maybe(0.75):
            return number.sql
        if number.kind is Kind.FLOATING:
            return self.rng.choice(
                [f"{number.sql} * 2", f"abs({number.sql})", f"coalesce({number.sql}, 0.5D)", f"-{number.sql}"]
            )
        if number.type.name in ("tinyint", "smallint"):
            return self.rng.choice(
                [f"{number.sql} % 5", f"CAST({number.sql} AS INT) + 1", f"coalesce({number.sql}, 3)"]
            )
        return self.rng.choice(
            [f"coalesce({number.sql}, 3)", f"CASE WHEN {self.predicate(1)} THEN {number.sql} END"]
        )

    # predicates

    def predicate(self, depth: int = 0) -> str:
        if depth < 3 and self.maybe(0.35):
            word = self.rng.choice([" AND ", " OR "])
            return word.join(f"({self.predicate(depth + 1)})" for _ in range(self.rng.randint(2, 3)))
        if depth < 3 and self.maybe(0.1):
            return f"NOT ({self.predicate(depth + 1)})"
        return self.rng.choice(
            [
                self.comparison,
                self.comparison,
                self.between,
                self.membership,
                self.nullness,
                self.computed,
                self.special,
            ]
        )()

    def comparison(self) -> str:
        field, op = self.comparable(), self.rng.choice(ORDERS)
        literal = self.literal(field)
        return f"{literal} {op} {field.sql}" if self.maybe(0.15) else f"{field.sql} {op} {literal}"

    def comparable(self) -> Field:
        return self.rng.choice([*self.fields, self.stream.event_time] if self.maybe(0.1) else self.fields)

    def between(self) -> str:
        field = self.comparable()
        no = self.rng.choice(["", "", "NOT "])
        return f"{field.sql} {no}BETWEEN {self.literal(field)} AND {self.literal(field)}"

    def membership(self) -> str:
        field = self.pick()
        literals = [self.literal(field, plain=True) for _ in range(self.rng.randint(1, 4))]
        literals += ["NULL"] if self.maybe(0.15) else []
        return f"{field.sql} {self.rng.choice(['', '', 'NOT '])}IN ({', '.join(literals)})"

    def nullness(self) -> str:
        field = self.comparable()
        return self.rng.choice(
            [
                f"{field.sql} IS NULL",
                f"{field.sql} IS NOT NULL",
                f"{field.sql} <=> {self.literal(field)}",
                f"NOT ({field.sql} <=> NULL)",
                f"isnull({field.sql})",
            ]
        )

    def computed(self) -> str:
        value, kind = self.value()
        match kind:
            case Kind.INTEGER:
                return f"{value} {self.rng.choice(ORDERS)} {self.rng.randrange(-3, 8)}"
            case Kind.FLOATING:
                return f"{value} {self.rng.choice(ORDERS)} {self.rng.choice(['0.5', '-1', '3e0', '0'])}"
            case Kind.STRING:
                return f"{value} {self.rng.choice(ORDERS)} {_text(self.rng.choice(['a', 'AB', 'é', '']))}"
            case _:
                return f"({value})"

    def special(self) -> str:
        options = ["true", "false", "NULL", "1 = 1", "NULL IS NULL"]
        if (text := self.pick(Kind.STRING)) is not None:
            pattern = _text(self.rng.choice(PATTERNS))
            likes = ["LIKE", "LIKE", "NOT LIKE", "ILIKE"]
            options = [
                f"{text.sql} {self.rng.choice(likes)} {pattern}",
                f"{text.sql} RLIKE '^a.*'",
            ] * 4 + options
        if (flag := self.pick(Kind.BOOLEAN)) is not None:
            options += [
                flag.sql,
                f"NOT {flag.sql}",
                f"{flag.sql} IS TRUE",
                f"{flag.sql} IS NOT FALSE",
                f"{flag.sql} < true",
            ]
        left, right = self.pick(*NUMERIC), self.pick(*NUMERIC)
        if left is not None and right is not None:
            options += [f"{left.sql} {self.rng.choice(ORDERS)} {right.sql}"] * 3
        return self.rng.choice(options)

    def value(self) -> tuple[str, Kind]:
        """A computed value that cannot raise, and its kind."""
        options: list[tuple[str, Kind]] = [
            (f"CASE WHEN {self.comparison()} THEN 1 WHEN {self.nullness()} THEN 2 END", Kind.INTEGER)
        ]
        if (text := self.pick(Kind.STRING)) is not None:
            options += [(f"{name}({text.sql})", Kind.STRING) for name in ("upper", "trim", "reverse")]
            options += [(f"length({text.sql})", Kind.INTEGER), (f"substring({text.sql}, 1, 2)", Kind.STRING)]
            options += [
                (f"concat({text.sql}, 'x')", Kind.STRING),
                (f"coalesce({text.sql}, '?')", Kind.STRING),
            ]
        if (small := self.pick(Kind.INTEGER)) is not None:
            options += [(f"{small.sql} % 3", Kind.INTEGER), (f"pmod({small.sql}, 5)", Kind.INTEGER)]
            options += [
                (f"coalesce({small.sql}, 0)", Kind.INTEGER),
                (f"try_divide({small.sql}, 2)", Kind.FLOATING),
            ]
            options += [
                (f"CAST({small.sql} AS DECIMAL(20,0)) + 1", Kind.INTEGER),
                (f"{small.sql} > 0", Kind.BOOLEAN),
            ]
        if (number := self.pick(Kind.FLOATING)) is not None:
            options += [(f"{number.sql} * 2", Kind.FLOATING), (f"abs({number.sql})", Kind.FLOATING)]
            options += [(f"{number.sql} + 0.5D", Kind.FLOATING), (f"isnan({number.sql})", Kind.BOOLEAN)]
        if (day := self.pick(Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)) is not None:
            options += [(f"{name}({day.sql})", Kind.INTEGER) for name in ("year", "month", "dayofweek")]
        if (bytes_ := self.pick(Kind.BINARY)) is not None:
            options += [(f"hex({bytes_.sql})", Kind.STRING), (f"length({bytes_.sql})", Kind.INTEGER)]
        return self.rng.choice(options)

    # literals

    def literal(self, field: Field, plain: bool = False) -> str:
        """A constant to compare `field` with: a value that occurs, one beside it, or one of another type."""
        if not field.values:
            year = self.rng.choice(["1969-12-31 23:59:50", "2024-01-01 00:00:10", "2024-01-01"])
            return (
                f"TIMESTAMP '{year}'"
                if field.kind is Kind.TIMESTAMP or self.maybe(0.5)
                else f"TIMESTAMP_NTZ '{year}'"
            )
        value = self.rng.choice(field.values)
        match field.kind:
            case Kind.BOOLEAN:
                return str(value).lower()
            case Kind.INTEGER:
                return self._integer(value, plain)
            case Kind.DECIMAL:
                return self._decimal(value, plain)
            case Kind.FLOATING:
                return self._float(value)
            case Kind.STRING:
                return _text(value.replace("\0", "0"))
            case Kind.BINARY:
                return f"X'{value.hex()}'"
            case Kind.DATE:
                return f"DATE '{value.isoformat()}'" if self.maybe(0.7) else f"'{value.isoformat()}'"
            case _:
                return self._moment(value, field.kind)

    def _integer(self, value: int, plain: bool) -> str:
        number = str(value) if value != -(2**63) else str(value + 1)
        if plain or self.maybe(0.5):
            return number
        near = value + self.rng.choice([-1, 1])
        return self.rng.choice(
            [
                f"{number}.0",
                f"{number}.5",
                f"{value}e0",
                str(near),
                f"{number}L",
                "200",
                "-129",
                "3000000000",
                "40000",
                "9.5",
            ]
        )

    def _decimal(self, value: Decimal, plain: bool) -> str:
        number = format(value, "f")
        if plain or self.maybe(0.6):
            return number
        return self.rng.choice(
            [str(int(value)), f"{number}1" if "." in number else f"{number}.1", f"{float(value)!r}D", "0.005"]
        )

    def _float(self, value: float) -> str:
        if not math.isfinite(value):
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return self.rng.choice([f"double('{name}')", f"CAST('{name}' AS FLOAT)", "1e308"])
        whole = [str(int(value))] if abs(value) < 1e15 else []
        exact = [format(Decimal(value), ".20f")] if 1e-5 < abs(value) < 1e9 else []
        return self.rng.choice(
            [f"{value!r}D", f"CAST({value!r}D AS FLOAT)", f"{value:e}", "0", *whole, *exact]
        )

    def _moment(self, value: dt.datetime, kind: Kind) -> str:
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        word = "TIMESTAMP" if kind is Kind.TIMESTAMP else "TIMESTAMP_NTZ"
        return self.rng.choice(
            [f"{word} '{text}'", f"'{text}'", f"DATE '{text[:10]}'", f"TIMESTAMP '{text}'"]
        )

    # choices

    def maybe(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, *kinds: Kind, summable: bool = False) -> Any:
        """A field of one of these kinds (any when none is given), or None when there is none."""
        fitting = [f for f in self.fields if (not kinds or f.kind in kinds) and (f.summable or not summable)]
        return self.rng.choice(fitting) if fitting else None


def _renamed(stream: RandomStream, fields: list[Field], names: list[str]) -> RandomStream:
    renamed = [Field(n, f.type, f.values, f.summable) for f, n in zip(fields, names, strict=True)]
    event = Field("at", stream.event_time.type, ())
    return RandomStream("sub", (*renamed, event), stream.delay_us)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


__all__ = ["RandomQuery", "Writer", "quoted"]
