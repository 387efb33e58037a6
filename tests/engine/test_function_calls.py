"""Queries that call registered functions, as whole jobs without a JVM, against plain loops over the tuples."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from local_spark import LocalSpark

from headrace.engine import job
from headrace.engine.functions import pickled, write_function
from headrace.engine.job import Job, JobContext, JobResult, run_job
from headrace.engine.paths import plan_path
from headrace.engine.plans import plan_file
from headrace.log.chunks import write_chunk
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch, StreamEpoch
from headrace.model.functions import FunctionFile
from headrace.model.partitioning import even_partitioning
from headrace.model.plan import SharedPlan
from headrace.model.predicate import TRUE
from headrace.model.query import EpochId, Fallback, Join, JoinedRows, Projection, Query, QueryId, StreamName
from headrace.model.tables import joined_column
from headrace.model.types import DOUBLE
from headrace.planner.group import Member, plan_group
from headrace.planner.joins import Joining
from headrace.sql import ShapeCache, parse_query
from headrace.storage.warehouse import Warehouse
from sql_fakes import PURCHASES, STREAMS, FakeAnalyzer

SCHEMA = pa.schema([(c.name, c.type.arrow) for c in PURCHASES.columns])
CALLED = "calls.txt"


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "unwrap_spark_exception", nullcontext)


def value(price: float | None, country: str | None) -> float | None:
    """What the function gives for one row."""
    if price is None or country is None:
        return None
    if price == 13.0:
        raise ValueError("thirteen")
    return price * len(country)


def function(notes: Path) -> Callable[..., pa.Array]:
    def scored(prices: pa.Array, countries: pa.Array) -> pa.Array:
        with notes.open("a") as file:
            file.write(
                f"{len(prices)} {len(set(zip(prices.to_pylist(), countries.to_pylist(), strict=True)))}\n"
            )
        if pc.any(pc.equal(prices, 13.0)).as_py():
            raise ValueError("thirteen")
        return pc.multiply(prices, pc.utf8_length(countries).cast(pa.float64()))

    return scored


class World:
    def __init__(self, root: Path, body: Callable[..., pa.Array] | None = None) -> None:
        self.root, self.notes = root, root / CALLED
        warehouse = Warehouse(root / "w")
        self.warehouse = warehouse.root
        self.files: tuple[FunctionFile, ...] = (
            write_function(warehouse, "scored", DOUBLE, pickled("scored", body or function(self.notes))),
        )
        self.shapes = ShapeCache(FakeAnalyzer())
        self.shapes.register("scored", DOUBLE)

    def query(self, number: int, text: str) -> Query:
        return Query(QueryId(number), f"q{number}", parse_query(text, STREAMS, self.shapes))

    def run(self, queries: list[Query], rows: dict[str, list[dict[str, Any]]]) -> JobResult:
        plan = plan_group([Member(q, int(q.id)) for q in queries], {s.name: s for s in STREAMS.values()})
        path = plan_path("main", plan.version)
        (self.warehouse / path).parent.mkdir(parents=True, exist_ok=True)
        (self.warehouse / path).write_bytes(plan_file(plan))
        parts = []
        for name, tuples in rows.items():
            table = pa.Table.from_pylist(tuples, schema=SCHEMA)
            chunk = write_chunk(self.warehouse, f"log/{name}", table, "ts", 0)
            parts.append(StreamEpoch(StreamName(name), (chunk,), NEVER_US, FOREVER_US))
        self.plan: SharedPlan = plan
        spark: Any = LocalSpark()
        context = JobContext(spark, self.warehouse, "main", even_partitioning(2), 2, self.files)
        return run_job(context, Job(plan, path, Epoch(EpochId(0), tuple(parts)), {}, [], "a"))

    def calls(self) -> list[tuple[int, int]]:
        """(rows, distinct rows) of each call."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [(int(a), int(b)) for a, b in (line.split() for line in lines)]


def tuples(
    rng: random.Random, count: int, prices: tuple[float, ...] = (1.0, 2.0, 5.0)
) -> list[dict[str, Any]]:
    empty = dict.fromkeys(SCHEMA.names)
    return [
        empty
        | {
            "userID": rng.randint(0, 3),
            "price": rng.choice([*prices, None]),
            "country": rng.choice(["NO", "SWE", "DENMARK", None]),
            "level": rng.randint(0, 5),
            "ts": rng.randint(0, 9_000_000),
        }
        for _ in range(count)
    ]


def rows_of(world: World, result: JobResult, query: int) -> Iterator[dict[str, Any]]:
    for file in result.results:
        for row in pq.read_table(world.warehouse / file.path).to_pylist():
            if "query" in row:
                if row["query"] == query:
                    yield row
            elif row[f"qs{query // 64}"] >> query % 64 & 1:
                yield row


def over(price: float | None, country: str | None, bound: float) -> bool:
    found = value(price, country)
    return found is not None and found > bound


@pytest.mark.parametrize("seed", range(3))
def test_a_shared_call_selects_what_loops_select_and_sees_each_input_once(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng, world = random.Random(seed), World(tmp_path)
    asked = [(n, rng.choice([1.0, 5.0, 9.5]), rng.randint(0, 4)) for n in range(1, 9)]
    queries = [
        world.query(
            n,
            f"SELECT userID, COUNT(*) AS c, SUM(scored(price, country)) AS s FROM purchases WHERE "
            f"scored(price, country) > {bound} AND level > {level} GROUP BY userID, window(ts, '10 seconds')",
        )
        for n, bound, level in asked
    ]
    rows = tuples(rng, 200)
    result = world.run(queries, {"purchases": rows})
    for n, bound, level in asked:
        wanted: dict[int, tuple[int, float]] = {}
        for row in rows:
            if row["level"] > level and over(row["price"], row["country"], bound):
                count, total = wanted.get(row["userID"], (0, 0.0))
                wanted[row["userID"]] = count + 1, total + (value(row["price"], row["country"]) or 0.0)
        assert {r["k0"]: (r["a0"], r["a1"]) for r in rows_of(world, result, n)} == wanted, n
    assert world.calls() and all(rows == distinct for rows, distinct in world.calls())
    (spent,) = [spent.functions["scored"] for spent in result.operators.values()]
    lowest = min(level for _, _, level in asked)
    assert spent.rows == sum(row["level"] > lowest for row in rows) > spent.inputs > 0
    assert spent.wanted.get(1) == sum(row["level"] > asked[0][2] for row in rows)


def test_only_queries_whose_own_rows_make_a_function_fail_are_blamed(tmp_path: Path) -> None:
    world, rng = World(tmp_path), random.Random(5)
    texts = [
        "SELECT userID FROM purchases WHERE scored(price, country) > 3 AND price < 10",
        "SELECT userID FROM purchases WHERE scored(price, country) > 3 AND level > 1",
        "SELECT userID FROM purchases WHERE price < 10",
    ]
    queries = [world.query(n, text) for n, text in enumerate(texts, 1)]
    rows = [*tuples(rng, 50), tuples(rng, 1)[0] | {"price": 13.0, "country": "NO", "level": 3}]
    result = world.run(queries, {"purchases": rows})
    assert list(result.failures) == [2]
    assert result.failures[2] == "the function scored() failed: ValueError: thirteen"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda prices, countries: prices.slice(1), "values for"),
        (lambda prices, countries: countries, "it returned string, and is declared as double"),
        (lambda prices, countries: prices.to_pylist(), "it returned a list"),
        (lambda prices: prices, "TypeError"),
    ],
)
def test_nonsense_is_named(tmp_path: Path, body: Callable[..., pa.Array], said: str) -> None:
    world = World(tmp_path, body)
    query = world.query(1, "SELECT userID FROM purchases WHERE scored(price, country) > 3")
    result = world.run([query], {"purchases": tuples(random.Random(1), 20)})
    assert said in result.failures[1] and "scored()" in result.failures[1]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules of a program. What they are called is forgotten at the end."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_modules_of_the_program_that_a_function_uses_go_along(program: Path) -> None:
    (program / "of_program_b.py").write_text(
        "import pyarrow.compute as pc\n\nfactor = 2.0\n\ndef times(x):\n    return pc.multiply(x, factor)\n"
    )
    (program / "of_program_a.py").write_text(
        "import of_program_b\nfrom of_program_b import times\n\n"
        "def scored(prices, countries):\n    return times(of_program_b.times(prices))\n"
    )
    code = program / "code"
    code.write_bytes(pickled("scored", importlib.import_module("of_program_a").scored))
    script = (
        "import pickle, sys, pyarrow as pa; "
        "print(pickle.load(open(sys.argv[1], 'rb'))(pa.array([1.5]), None).to_pylist(), 'of_program_a' in sys.modules)"
    )
    done = subprocess.run(  # as a worker: the program's folder is nowhere on its path
        [sys.executable, "-c", script, str(code)], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout == "[6.0] False\n"


def test_a_function_that_workers_cannot_load_fails_its_own_queries_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pc, "of_this_machine", lambda prices, countries: prices, raising=False)
    pc.of_this_machine.__module__, pc.of_this_machine.__qualname__ = pc.__name__, "of_this_machine"  # type: ignore[attr-defined]
    world = World(tmp_path, pc.of_this_machine)  # type: ignore[attr-defined]
    monkeypatch.delattr(pc, "of_this_machine")  # workers have another version of the package
    texts = [
        "SELECT userID FROM purchases WHERE scored(price, country) > 3",
        "SELECT userID FROM purchases WHERE level > 1",
        "SELECT l.level FROM purchases [RANGE 10 SECONDS] AS l, returns [RANGE 10 SECONDS] AS r "
        "WHERE l.userID = r.userID AND scored(l.price, r.country) > 1",
    ]
    rng = random.Random(1)
    rows = {"purchases": tuples(rng, 20), "returns": tuples(rng, 20)}
    result = world.run([world.query(n, text) for n, text in enumerate(texts, 1)], rows)
    assert set(result.failures) == {1, 3}
    for reason in result.failures.values():
        assert reason.startswith(
            "the function scored() failed: Spark's workers cannot load it, AttributeError"
        )
        assert reason.endswith("install the modules that it needs where they run")


JOIN = "FROM purchases [RANGE 10 SECONDS SLIDE 10 SECONDS] AS l, returns [RANGE 10 SECONDS SLIDE 10 SECONDS] AS r"


@pytest.mark.parametrize("seed", range(3))
def test_functions_of_joined_tuples_select_what_loops_select(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng, world = random.Random(seed), World(tmp_path)
    asked = [(n, rng.choice([1.0, 5.0, 9.5]), rng.randint(0, 4)) for n in range(1, 7)]
    queries = [
        world.query(
            n,
            f"SELECT l.level, r.level AS other {JOIN} WHERE l.userID = r.userID AND l.level > {level} "
            f"AND scored(l.price, r.country) > {bound} AND l.level < r.level",
        )
        for n, bound, level in asked
    ]
    assert all(isinstance(query.plan.body, Join) and query.plan.body.then.where is None for query in queries)  # type: ignore[union-attr]
    rows = {"purchases": tuples(rng, 40), "returns": tuples(rng, 40)}
    result = world.run(queries, rows)
    for query, (n, bound, level) in zip(queries, asked, strict=True):
        wanted: Counter[Any] = Counter()
        for left, right in product(rows["purchases"], rows["returns"]):
            meets = left["userID"] == right["userID"] and level < left["level"] < right["level"]
            if meets and over(left["price"], right["country"], bound):
                wanted[left["level"], right["level"]] += 1
        body = query.plan.body
        assert isinstance(body, Join)
        joining = Joining(query.id, n, body)
        names = [
            joined_column(*joining.leaves[c.side], c.operand)
            for c in body.carried
            if c.operand.sql == "level"
        ]
        found = Counter(tuple(row[name] for name in names) for row in rows_of(world, result, n))
        assert found == wanted, n
    assert result.rows.total > 0
    assert all(rows == distinct for rows, distinct in world.calls())


def test_a_function_of_joined_tuples_that_fails_is_blamed_on_whose_rows_do_it(tmp_path: Path) -> None:
    world, rng = World(tmp_path), random.Random(2)
    texts = [
        f"SELECT l.level {JOIN} WHERE l.userID = r.userID AND scored(l.price, r.country) > 1 AND l.price < 10",
        f"SELECT l.level {JOIN} WHERE l.userID = r.userID AND scored(l.price, r.country) > 1",
    ]
    queries = [world.query(n, text) for n, text in enumerate(texts, 1)]
    bad = tuples(rng, 1)[0] | {"price": 13.0, "userID": 1}
    result = world.run(queries, {"purchases": [*tuples(rng, 20), bad], "returns": tuples(rng, 20)})
    assert list(result.failures) == [2] and "thirteen" in result.failures[2]


def test_arguments_are_calls_and_a_call_is_an_output(tmp_path: Path) -> None:
    world, rng = World(tmp_path), random.Random(3)
    text = "SELECT userID, scored(scored(price, country), country) AS s FROM purchases WHERE level > 2"
    query = world.query(1, text)
    assert isinstance(query.plan.body, Projection) and query.plan.functions == ("scored",)
    rows = tuples(rng, 40)
    result = world.run([query], {"purchases": rows})
    wanted = Counter(
        value(value(row["price"], row["country"]), row["country"]) for row in rows if row["level"] > 2
    )
    (name,) = {name for row in rows_of(world, result, 1) for name in row if name.startswith("o_")} - {
        name for row in rows_of(world, result, 1) for name, v in row.items() if isinstance(v, int)
    }
    assert Counter(row[name] for row in rows_of(world, result, 1)) == wanted


def test_constants_and_expressions_are_arguments_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    where = "l.userID = r.userID AND scored(l.price, 'NO') > 1 AND scored(r.price, lower(l.country)) > 2"
    query = world.query(
        1, f"SELECT l.level {JOIN} WHERE {where} AND scored(l.price, r.country) < scored(2.5D, 'x')"
    )
    assert isinstance(query.plan.body, Fallback)  # Spark may call any of them first
    query = world.query(2, f"SELECT l.level {JOIN} WHERE {where} AND scored(r.price, 'NO') > 1")
    body = query.plan.body
    assert isinstance(body, Join) and isinstance(body.then, JoinedRows) and body.then.where is None
    assert "lower(" in str(body.carried) and "scored(" in str(body.called)
    assert "scored(" in str(body.sides[0].where) and "scored(" in str(body.sides[1].where)
    query = world.query(
        3, f"SELECT l.level {JOIN} WHERE l.userID = r.userID AND scored(l.price + r.price, 'x') > 1"
    )
    body = query.plan.body
    assert isinstance(body, Join) and isinstance(body.then, JoinedRows) and body.called == TRUE
    assert "scored(" in (body.then.where or "")  # for whoever reads the rows
