"""Random queries with functions and scores equal Spark's, while queries change groups and keys change partitions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from headrace.model.types import SqlType
from similar_cases import COLUMNS, SECOND, Ask, embed, tuples
from thorough import seeds

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([(name, SqlType(type_).arrow) for name, type_ in COLUMNS])
WINDOW = "window(ts, '10 seconds', '5 seconds')"


def weigh(texts: pa.Array, numbers: pa.Array) -> pa.Array:
    """Letters times a number; NULL where one of them is."""
    pairs = zip(texts.to_pylist(), numbers.to_pylist(), strict=True)
    return pa.array([None if t is None or n is None else float(len(t) * n) for t, n in pairs], pa.float64())


def random_text(rng: random.Random, number: int) -> str:
    """A query that calls a function somewhere, or joins by a score."""
    bound, low = rng.choice([0, 3, 6.5, 12]), rng.randint(0, 4)
    call = rng.choice(["weigh(text, n)", "weigh(upper(text), n)", "weigh(text, n + 1)"])
    window = "[RANGE 10 SECONDS SLIDE 5 SECONDS]"
    sides = f"FROM offers {window} AS l, wishes {window} AS r WHERE l.n = r.n"
    kinds = (
        f"SELECT n, COUNT(*) AS c, SUM({call}) AS s FROM offers WHERE {call} > {bound} GROUP BY n, {WINDOW}",
        f"SELECT id, {call} AS w FROM offers WHERE n > {low} AND ({call} <= {bound} OR id % 3 = 0)",
        f"SELECT n, MAX(id) AS m FROM wishes WHERE n >= {low} AND coalesce({call}, 1) * 2 > {bound} "
        f"GROUP BY n, {WINDOW}",
        f"SELECT n, COUNT(*) AS c FROM offers GROUP BY n, {WINDOW} HAVING weigh(max(text), n) > {bound}",
        f"SELECT l.id, r.id AS other {sides} AND weigh(l.text, r.n) > {bound} AND l.n > {low}",
        f"SELECT r.n, COUNT(*) AS c {sides} AND weigh(r.text, l.n) >= {bound} GROUP BY r.n",
    )
    return Ask(rng, number).text() if rng.random() < 0.4 else rng.choice(kinds)


@pytest.mark.parametrize("seed", seeds(1))
def test_random_functions_and_scores_equal_spark(seed: int, open_session: Callable[..., Any]) -> None:
    print(f"seed {seed}")
    rng, hr = random.Random(seed), open_session()
    ddl = ", ".join(f"{name} {type_.upper()}" for name, type_ in COLUMNS)
    for stream in ("offers", "wishes"):
        hr.create_stream(stream, ddl, event_time="ts", watermark="2 seconds")
    hr.register_function("weigh", weigh, "DOUBLE")
    hr.register_function("embed", embed, "ARRAY<FLOAT>")
    queries = [hr.create_query(random_text(rng, n), name=f"q{n}") for n in range(12)]
    for epoch in range(3):
        for number, stream in enumerate(("offers", "wishes")):
            rows = tuples(rng, 40, 1_000 * epoch + 100 * number)
            for row in rows:
                row["ts"] += 8 * epoch * SECOND
            hr.append(stream, pa.Table.from_pylist(rows, schema=SCHEMA))
        hr.run_available()
        hr.repartition(rng.choice([1, 2, 3]))
        hr.move_query(rng.choice(queries).name, rng.choice(["main", "other"]))
    for stream in ("offers", "wishes"):
        hr.close_stream(stream)
    hr.run_available()
    found = 0
    for query in queries:
        report = query.audit()
        assert report.ok, f"{query.text}: {report}"
        found += report.actual_rows
    assert found > 50
