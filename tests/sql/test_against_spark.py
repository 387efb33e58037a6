# ruff: noqa: E501 - a query stays on one line
"""What `sql/` says about queries, checked against Spark itself."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from sql_cases import JOINS, STAR_JOINS, THEMES

from headrace.engine.analyzer import SparkAnalyzer
from headrace.model.errors import SqlError
from headrace.model.predicate import And, Compare, Const, IsNull, Not, Operand, Or, Predicate
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Body,
    Fallback,
    Join,
    Projection,
    Stream,
    StreamName,
)
from headrace.model.types import Column, Kind, SqlType
from headrace.model.window import SessionWindow
from headrace.sql import ShapeCache, binding, parse_query
from headrace.sql.bodies import windows
from headrace.sql.bodies.windows import render_window_arguments
from headrace.sql.resolve.functions import AGGREGATES, GENERATORS
from headrace.sql.text.names import quote_name
from sql_fakes import PURCHASES, STREAMS

pytestmark = pytest.mark.spark

QUERIES = [query for theme in THEMES.values() for query in theme]
LIMITS = {"after": -(2**62), "until": 2**62, "began": -(2**62)}


@pytest.fixture(scope="module")
def cache(spark: Any) -> ShapeCache:
    return ShapeCache(SparkAnalyzer(spark))


@pytest.fixture(scope="module")
def data(spark: Any) -> Any:
    """A small `purchases` with NULLs, `returns` with the same tuples, and their logs."""
    ddl = ", ".join(f"{column.name} {column.type.name}" for column in PURCHASES.columns)
    frame = spark.createDataFrame(_rows(), ddl).coalesce(1).cache()
    logged = frame.selectExpr("*", "CAST(-4e18 AS BIGINT) AS __headrace_closed")
    views = {"purchases": frame, "returns": frame, "__headrace_log": logged, "__headrace_log1": logged}
    for name, shown in views.items():
        shown.createOrReplaceTempView(name)
    yield frame
    for name in views:
        spark.catalog.dropTempView(name)
    frame.unpersist()


def _rows() -> list[tuple[Any, ...]]:
    rng = random.Random(7)
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    return [
        (
            maybe(rng.randrange(5)),
            maybe(rng.randrange(4)),
            maybe(rng.choice([rng.uniform(0, 60), math.nan, -0.0, 3.0])),
            maybe(Decimal(rng.randrange(-99999, 99999)) / 100),
            maybe(rng.choice(["DE", "FR", "it's", "Dk", ""])),
            maybe(rng.randrange(0, 8)),
            maybe(dt.date(1985, 1, 1) + dt.timedelta(days=rng.randrange(5000))),
            maybe(rng.random() < 0.5),
            maybe(rng.choice([0.5, 3.0999999046325684, -1.0])),
            maybe(dt.datetime(2024, 1, 1) + dt.timedelta(seconds=rng.randrange(60))),
            maybe(Decimal(rng.randrange(10**20)) / 100),
            maybe(bytes([rng.randrange(3)])),
            maybe((rng.choice(["x", "y"]), rng.randrange(6))),
            maybe(start + dt.timedelta(seconds=rng.randrange(60), microseconds=rng.randrange(10**6))),
        )
        for _ in range(150)
    ]


def _bag(frame: Any) -> Counter[str]:
    return Counter(repr([_plain(value) for value in row]) for row in frame.collect())


def _types(frame: Any) -> list[str]:
    """The types of the columns; whether a field may be NULL is not part of them."""
    return [field.dataType.simpleString() for field in frame.schema.fields]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, list):  # in an order that hangs on how Spark joined the rows
        return sorted(map(_plain, value), key=repr)
    return value


@pytest.mark.parametrize("query", QUERIES)
def test_text_log_and_plan_agree(
    query: str, spark: Any, data: Any, cache: ShapeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text as plain Spark, the text over the log, and the plan's own parts give the same rows."""
    plan = parse_query(query, STREAMS, cache)
    plain = spark.sql(plan.plain_sql)
    assert (
        tuple(Column(f.name, SqlType(f.dataType.simpleString())) for f in plain.schema.fields) == plan.columns
    )
    log = spark.sql(plan.log_sql, args=LIMITS) if plan.window is not None else spark.sql(plan.log_sql)
    expected = _bag(plain)
    assert sum(expected.values()) > 0
    if plan.window is not None:
        assert _bag(_rendered(query, spark, cache, monkeypatch)) == expected
    for other in (log, *_as_planned(spark, plan.body)):
        assert _types(other) == _types(plain)
        assert _bag(other) == expected


@pytest.mark.parametrize("query", [*JOINS, *STAR_JOINS])
def test_text_log_and_plan_of_a_join_agree(
    query: str, spark: Any, data: Any, cache: ShapeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = parse_query(query, STREAMS, cache)
    plain = spark.sql(plan.plain_sql)
    try:
        expected = _bag(plain)
    except (PySparkException, Py4JJavaError) as error:  # what Spark fails on is not taken for harmless
        assert any(known in str(error) for known in ("[DIVIDE_BY_ZERO]", "[CAST_INVALID_INPUT]"))
        assert isinstance(plan.body, Fallback) or (isinstance(plan.body, Join) and plan.body.then.fragile)
        return
    assert sum(expected.values()) > 0
    if "collect_list" not in query:  # whose order is another in another plan
        assert _bag(_rendered(query, spark, cache, monkeypatch)) == expected
    for other in (spark.sql(plan.log_sql, args=LIMITS), *_as_planned(spark, plan.body)):
        assert _types(other) == _types(plain)
        assert _bag(other) == expected


def _rendered(query: str, spark: Any, cache: ShapeCache, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The rendering over the log, with the windows of each tuple made as those of dense windows are."""
    for module in (binding, windows):
        monkeypatch.setattr(module, "MAX_EXPANDED", 0)
    return spark.sql(parse_query(query, STREAMS, cache).log_sql, args=LIMITS)


def _join_sql(body: Join) -> str:
    """Joined rows with their windows, and what is asked of them."""
    if isinstance(body.then, Aggregation):
        rows = _joined_rows_sql(body, ("w_start", "w_end"))
        return _finished_sql(body.then, "w_start", "w_end", f"({rows})", "w_start, w_end")
    rows, then = _joined_rows_sql(body, ("window_start", "window_end")), body.then
    finish = ", ".join(f"{text} AS c{i}" for i, text in enumerate(then.finish))
    text = f"SELECT {finish} FROM ({rows}) WHERE {then.where or 'true'}"
    if then.groups is not None:
        text += f" GROUP BY {', '.join(then.groups)} HAVING {then.having or 'true'}"
    return text


def _joined_rows_sql(body: Join, edges: tuple[str, str]) -> str:
    sides, on = [], []
    for number, side in enumerate(body.sides):
        carried = [f"{_operand_sql(c.operand)} AS {c.name}" for c in body.carried if c.side == number]
        keys = [
            f"{_operand_sql(part)} AS key{at}_{i}_{number}"
            for at, hub in enumerate(body.hubs)
            if number in hub.sides
            for i, part in enumerate(hub.keys[hub.sides.index(number)])
        ]
        window = f"window(ts, {render_window_arguments(side.window)})"
        columns = ", ".join([*carried, *keys, f"w.end AS end{number}"])
        inner = f"SELECT *, {window} AS w FROM {side.stream} WHERE {predicate_sql(side.where)}"
        sides.append(f"(SELECT {columns} FROM ({inner}))")
        on.append(f"end0 = end{number}")
    for at, hub in enumerate(body.hubs):
        parts, first = range(len(hub.keys[0])), hub.sides[0]
        on += [f"key{at}_{i}_{first} = key{at}_{i}_{side}" for side in hub.sides[1:] for i in parts]
    for across in body.across:
        on.append(f"{body.carried[across.left].name} {across.op.value} {body.carried[across.right].name}")
    start = f"timestamp_micros(unix_micros(end0) - {body.window.range_us})"
    return f"SELECT *, {start} AS {edges[0]}, end0 AS {edges[1]} FROM {', '.join(sides)} WHERE {' AND '.join(on)}"


def _as_planned(spark: Any, body: Body) -> list[Any]:
    match body:
        case Join():
            return [spark.sql(_join_sql(body))]
        case Aggregation():
            return [spark.sql(_aggregation_sql(body))]
        case Projection():
            outputs = ", ".join(f"{_operand_sql(output)} AS c{i}" for i, output in enumerate(body.outputs))
            return [spark.sql(f"SELECT {outputs} FROM purchases WHERE {predicate_sql(body.where)}")]
        case Fallback():
            return []


def _aggregation_sql(body: Aggregation) -> str:
    function = "session_window" if isinstance(body.window, SessionWindow) else "window"
    window = f"{function}(ts, {render_window_arguments(body.window)})"
    tuples = f"purchases WHERE {predicate_sql(body.where)}"
    return _finished_sql(body, f"{window}.start", f"{window}.end", tuples, window)


def _finished_sql(body: Aggregation, start: str, end: str, relation: str, by: str) -> str:
    """The plan as SQL: operands, predicates and aggregates first, then finish and having over the result row."""
    inner = [f"{start} AS window_start", f"{end} AS window_end"]
    inner += [f"{_operand_sql(key)} AS k{i}" for i, key in enumerate(body.keys)]
    inner += [f"CAST({_aggregate_sql(a)} AS {a.type.name}) AS a{i}" for i, a in enumerate(body.aggregates)]
    keys = ", ".join([by, *(_operand_sql(key) for key in body.keys)])
    rows = f"SELECT {', '.join(inner)} FROM {relation} GROUP BY {keys}"
    finish = ", ".join(f"{text} AS c{i}" for i, text in enumerate(body.finish))
    return f"SELECT {finish} FROM ({rows}) WHERE {body.having or 'true'}"


def _aggregate_sql(aggregate: Aggregate) -> str:
    name, parts = aggregate.function.value, ["*"]
    if aggregate.input is not None:
        parts = [_operand_sql(part) for part in aggregate.input.read]
    match aggregate.function:
        case AggregateFunction.COUNT_ALL:
            name = "count"
        case AggregateFunction.MIN_BY | AggregateFunction.MAX_BY:
            parts.reverse()
        case AggregateFunction.PERCENTILE if aggregate.type.kind is Kind.NESTED:
            parts.append(f"array({', '.join(map(repr, aggregate.fractions))})")
        case AggregateFunction.PERCENTILE:
            parts.append(repr(aggregate.fractions[0]))
    distinct = "DISTINCT " if name.endswith("_distinct") else ""
    call = f"{name.removesuffix('_distinct')}({distinct}{', '.join(parts)})"
    return f"{call} FILTER (WHERE {predicate_sql(aggregate.filter)})"


def _operand_sql(operand: Operand) -> str:
    return quote_name(operand.sql) if operand.plain else f"({operand.sql})"


def predicate_sql(predicate: Predicate) -> str:
    """A predicate as comparisons in its operands' physical domains."""
    match predicate:
        case Compare(operand, op, value):
            return f"({_physical(operand)} {op.value} {_constant(operand, value)})"
        case IsNull(operand):
            return f"({_operand_sql(operand)} IS NULL)"
        case Const(value):
            return "CAST(NULL AS BOOLEAN)" if value is None else str(value)
        case And(children):
            return "(" + " AND ".join(map(predicate_sql, children)) + ")"
        case Or(children):
            return "(" + " OR ".join(map(predicate_sql, children)) + ")"
        case Not(child):
            return f"(NOT {predicate_sql(child)})"


def _physical(operand: Operand) -> str:
    text = _operand_sql(operand)
    match operand.type.kind:
        case Kind.BOOLEAN:
            return f"CAST({text} AS INT)"
        case Kind.INTEGER:
            return f"CAST({text} AS BIGINT)"
        case Kind.DECIMAL:
            return f"CAST({text} * {10**operand.type.scale} AS DECIMAL(38,0))"
        case Kind.FLOATING:
            return f"CAST({text} AS DOUBLE)"
        case Kind.DATE:
            return f"unix_date({text})"
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return f"unix_micros(CAST({text} AS TIMESTAMP))"
        case _:
            return text


def _constant(operand: Operand, value: int | float | str) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"CAST('{value!r}' AS DOUBLE)" if isinstance(value, float) else f"CAST('{value}' AS DECIMAL(38,0))"


EDGES = Stream(
    StreamName("edges"),
    tuple(
        Column(name, SqlType(type_))
        for name, type_ in (
            ("t", "tinyint"),
            ("i", "int"),
            ("b", "bigint"),
            ("f", "float"),
            ("d", "double"),
            ("m", "decimal(5,2)"),
            ("s", "string"),
            ("o", "boolean"),
            ("day", "date"),
            ("z", "timestamp"),
            ("n", "timestamp_ntz"),
            ("ts", "timestamp"),
        )
    ),
    "ts",
    0,
)
ATOMS = {
    "t": ["3", "3.5", "-128", "200", "-200.5", "3.5D", "3L", "CAST(3 AS INT)", "(3)", "NULL"],
    "i": [
        "3",
        "3.5",
        "-3.5",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "2.5D",
        "1e3",
        "3.5F",
        "3.0",
    ],
    "b": ["3", "3.5", "9223372036854775807", "-9223372036854775808", "9007199254740993", "3S"],
    "f": ["3", "3.1", "3.1F", "3.1D", "16777217", "0", "-0.0", "0.1"],
    "d": ["3", "3.1", "3.1D", "3.1F", "9007199254740993", "0", "-0.0D", "1e308", "0.1"],
    "m": ["3", "3.14", "3.141", "-3.141", "999.99", "1000", "-1000.5"],
    "s": ["'b'", "''", "'it''s'", '"b"', "'é'"],
    "o": ["TRUE", "FALSE"],
    "day": ["DATE '2020-01-01'", "'2020-01-01'", "CAST('2020-01-01' AS DATE)"],
    "z": ["TIMESTAMP '2020-01-01 00:00:00'", "'2020-01-01'", "'2020-01-01 00:00:00.000001'"],
    "n": ["TIMESTAMP_NTZ '2020-01-01 00:00:00'", "'2020-01-01'", "'2020-01-01 00:00:00.1'"],
}
NOT_ATOMS = ["b > 3.5D", "b > 1e3", "m > 3.5D", "s = 3", "z = DATE '2020-01-01'", "day < z", "s = 'a\\n'", "b IN (1, 2.5D)",
             "m > 1234567890123456789.5", "day = '2020-1-1'", "z > '2020-01-01T00:00:00Z'", "s LIKE 'b_'", "s LIKE '%b'",
             "s LIKE 'ÿ%'", "s LIKE 'b\\\\%'", "s LIKE 'b!%' ESCAPE '!'", "i LIKE '3%'", "s ILIKE 'b%'"]  # fmt: skip
TREES = [
    "i IN (1, 2, NULL)", "i NOT IN (1, 2.5)", "t IN (1, 2.5D)", "f IN (1, 3)", "f IN (3.1, 3)", "d IN (1, 3.1)", "m IN (1, 3.14)",
    "i BETWEEN 1.5 AND 3", "i NOT BETWEEN 3 AND 1", "d BETWEEN 0 AND 3.1", "day BETWEEN '2019-12-31' AND DATE '2020-01-01'",
    "z BETWEEN '2020-01-01' AND TIMESTAMP '2020-01-01 00:00:00'", "s IN ('a', 'b')", "day IN ('2020-01-01')",
    "i IS NULL OR NOT i > 3", "o IS TRUE", "o IS NOT FALSE", "o AND i > 2", "NOT o OR NULL", "i > 1 AND TRUE", "isnull(i)",
    "i <=> NULL", "i IS DISTINCT FROM 3", "NOT (i = 3.5)", "NOT (i < 3000000000)", "s LIKE 'b%' AND i > 1",
    "s NOT LIKE 'b%'", "s LIKE 'b' OR i > 3", "s LIKE '%' AND i > 1", "s LIKE ''", "s LIKE 'é%%'", "s LIKE '\U0001f600%'", "s LIKE NULL",
    "s LIKE 'bb%' OR s LIKE 'it%'", "s RLIKE 'b.*' OR i > 3", "lower(s) = 'b' OR d > 2", "d * 2 > 6 AND i > 1", "i < b OR d > 3", "length(s) > 1",
]  # fmt: skip
OPS = ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"]


def _edges(spark: Any) -> Any:
    columns = {
        "t": ["-128", "2", "3", "4", "127"],
        "i": ["-2147483648", "-4", "-3", "0", "2", "3", "4", "1000", "2147483647"],
        "b": ["-9223372036854775808", "3", "4", "9007199254740992", "9007199254740993", "9223372036854775807"],
        "f": ["'NaN'", "'-0.0'", "'0.0'", "'3.1'", "3", "'0.1'", "'16777216'", "'Infinity'", "'-Infinity'"],
        "d": ["'NaN'", "'-0.0'", "'0.0'", "'3.1'", "3", "'0.1'", "'9007199254740992'", "'1e308'", "'-Infinity'",
              "'3.0999999046325684'"],
        "m": ["-999.99", "-3.15", "-3.14", "3", "3.1", "3.14", "3.15", "999.99"],
        "s": ["''", "'a'", "'b'", "'B'", "'it''s'", "'é'", "'\U0001f600'", "'bb'", "'ba%'", "'c'", "'été'",
              "'ê'", "'\U0001f601'"],
        "o": ["TRUE", "FALSE"],
        "day": ["'2019-12-31'", "'2020-01-01'", "'2020-01-02'", "'0001-01-01'"],
        "z": ["'2019-12-31 23:59:59.999999'", "'2020-01-01'", "'2020-01-01 00:00:00.000001'"],
        "n": ["'2019-12-31 23:59:59.999999'", "'2020-01-01'", "'2020-01-01 00:00:00.1'"],
        "ts": ["'2020-01-01'"],
    }  # fmt: skip
    values = {name: [*texts, "NULL"] for name, texts in columns.items()}
    types = {column.name: column.type.name for column in EDGES.columns}
    rows = [
        "SELECT "
        + ", ".join(f"CAST({of[k % len(of)]} AS {types[name]}) AS {name}" for name, of in values.items())
        for k in range(220)
    ]
    return spark.sql(" UNION ALL ".join(rows)).coalesce(1)


def test_literals_compare_as_in_spark(spark: Any, cache: ShapeCache) -> None:
    """Every rule of `compare`, on values around the thresholds, with NULL, NaN, -0.0 and the extremes."""
    _edges(spark).createOrReplaceTempView("edges")
    atoms = [f"{name} {op} {text}" for name, texts in ATOMS.items() for text in texts for op in OPS]
    atoms += [f"{texts[0]} < {name}" for name, texts in ATOMS.items()]
    checks = []
    for text in [*atoms, *TREES, *NOT_ATOMS]:
        plan = parse_query(f"SELECT i FROM edges WHERE {text}", {"edges": EDGES}, cache)
        assert isinstance(plan.body, Projection)
        plain = all(operand.plain for operand in _operands(plan.body.where))
        if text in NOT_ATOMS:
            assert not plain, text
        elif text in atoms:
            assert plain, text
        if text in atoms or text in TREES:
            checks.append((text, predicate_sql(plan.body.where)))
    for part in range(0, len(checks), 120):
        some = checks[part : part + 120]
        wrong = ", ".join(
            f"count_if(NOT (({text}) <=> ({ours}))) AS c{i}" for i, (text, ours) in enumerate(some)
        )
        row = spark.sql(f"SELECT {wrong} FROM edges").collect()[0]
        assert [check for check, count in zip(some, row, strict=True) if count] == []
    spark.catalog.dropTempView("edges")


def _operands(predicate: Predicate) -> list[Operand]:
    match predicate:
        case Compare(operand) | IsNull(operand):
            return [operand]
        case And(children) | Or(children):
            return [operand for child in children for operand in _operands(child)]
        case Not(child):
            return _operands(child)
        case Const():
            return []


def test_decimal_averages(spark: Any, cache: ShapeCache) -> None:
    """AVG over DECIMAL is finished from SUM and COUNT exactly as Spark rounds it, at the extremes of the type."""
    for type_ in (
        "decimal(1,0)",
        "decimal(10,2)",
        "decimal(18,0)",
        "decimal(18,9)",
        "decimal(18,18)",
        "decimal(5,5)",
    ):
        of = SqlType(type_)
        biggest = Decimal(10**of.precision - 1).scaleb(-of.scale)
        unit = Decimal(1).scaleb(-of.scale)
        rng = random.Random(type_)
        values = [rng.choice([biggest, -biggest, unit, -unit, unit * rng.randrange(9)]) for _ in range(211)]
        stamp = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
        rows = [(key % 23, None if key % 11 == 0 else value, stamp) for key, value in enumerate(values)]
        ddl = f"k INT, x {type_}, ts TIMESTAMP"
        spark.createDataFrame(rows, ddl).coalesce(1).createOrReplaceTempView("purchases")
        columns = (Column("k", SqlType("int")), Column("x", of), Column("ts", SqlType("timestamp")))
        stream = Stream(StreamName("purchases"), columns, "ts", 0)
        query = (
            "SELECT k, AVG(x), AVG(x) FILTER (WHERE k > 90) FROM purchases GROUP BY k, window(ts, '1 day')"
        )
        plan = parse_query(query, {"purchases": stream}, ShapeCache(SparkAnalyzer(spark)))
        assert isinstance(plan.body, Aggregation)
        ours, theirs = spark.sql(_aggregation_sql(plan.body)), spark.sql(query)
        assert [f.dataType for f in ours.schema] == [f.dataType for f in theirs.schema]
        assert _bag(ours) == _bag(theirs)


def test_function_lists_match_spark(spark: Any) -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry()
    groups: dict[str, set[str]] = {"agg_funcs": set(), "generator_funcs": set()}
    found = registry.listFunction()
    for index in range(found.size()):
        info = registry.lookupFunction(found.apply(index))
        if info.isDefined() and info.get().getGroup() in groups:
            groups[info.get().getGroup()].add(info.get().getName())
    assert groups["agg_funcs"] - AGGREGATES == set()
    assert groups["generator_funcs"] - GENERATORS == set()


def test_dense_windows_of_times_without_a_zone(spark: Any, data: Any, cache: ShapeCache) -> None:
    stream = replace(PURCHASES, name=StreamName("purchases"), event_time="seen")
    data.createOrReplaceTempView("purchases")  # another test has shown other rows under this name
    query = "SELECT window, COUNT(DISTINCT level) AS n FROM purchases GROUP BY window(seen, '5 seconds', '50 milliseconds')"
    plan = parse_query(query, {"purchases": stream}, cache)
    log = spark.sql(plan.log_sql, args=LIMITS)
    assert log.schema.simpleString() == spark.sql(query).schema.simpleString()
    assert _bag(log) == _bag(spark.sql(query))
    some = {
        "after": 1_704_067_210_000_000,
        "until": 1_704_067_211_000_000,
    }  # a second of 2024-01-01, of 20 window ends
    ends = {row["window"]["end"] for row in spark.sql(plan.log_sql, args=some).collect()}
    assert len(ends) == 20
    assert ends == {row["window"]["end"] for row in log.collect()} & ends


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("SELECT price FROM purchases WHERE paid = 3", "TYPE_MISMATCH", "paid = 3"),
        ("SELECT price + address FROM purchases", "TYPE_MISMATCH", "price + address"),
        ("SELECT SUM(country) FILTER (WHERE price) FROM purchases GROUP BY window(ts, '1 hour')", "TYPE_MISMATCH", ""),
        ("SELECT price FROM purchases WHERE price", "TYPE_MISMATCH", "price"),
        ("SELECT bogus(price) FROM purchases", "UNKNOWN_FUNCTION", "bogus"),
        ("SELECT price FROM purchases WHERE born > DATE '2020-13-45'", "TYPE_MISMATCH", "2020-13-45"),
        ("SELECT address.street FROM purchases", "UNKNOWN_COLUMN", "street"),
        ("SELECT price, COUNT(*) FROM purchases GROUP BY window(ts, '1 hour')", "ANALYSIS", "price"),
        ("SELECT price FROM purchases WHERE SUM(price) > 3", "ANALYSIS", "sum(price)"),
        ("SELECT street FROM purchases [RANGE 1 DAY]", "UNKNOWN_COLUMN", "street"),
    ],
)  # fmt: skip
def test_spark_refusals_are_translated(text: str, code: str, word: str, cache: ShapeCache) -> None:
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS, cache)
    assert caught.value.code == code, caught.value.render()
    assert word in caught.value.message
    assert "\n" not in caught.value.message and "org.apache" not in caught.value.render()


def test_the_users_catalog_stays_clean(spark: Any) -> None:
    analyzer = SparkAnalyzer(spark)
    hidden = Stream(StreamName("hidden stream"), PURCHASES.columns, "ts", 0)
    assert analyzer.schema("SELECT price FROM `hidden stream`", hidden) == (
        Column("price", SqlType("double")),
    )
    assert "hidden stream" not in {table.tableName for table in spark.sql("SHOW TABLES").collect()}
