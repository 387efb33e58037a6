# ruff: noqa: E501 - a query stays on one line
"""How long a thousand creations take: `PYTHONPATH=tests python tests/sql/measure_parse.py`; not a test."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from headrace.sql import Analyzer, ShapeCache, parse_query
from sql_fakes import STREAMS, FakeAnalyzer

SHAPES: tuple[Callable[[random.Random], str], ...] = (
    lambda r: (
        f"SELECT gemPackID, SUM(price) AS s, COUNT(*) AS n FROM purchases WHERE price > {r.random() * 10:.2f} AND userID BETWEEN {r.randrange(900)} AND {r.randrange(900)} GROUP BY gemPackID, window(ts, '{r.randrange(5, 20)} seconds', '5 seconds') HAVING COUNT(*) > {r.randrange(9)}"
    ),
    lambda r: (
        f"SELECT userID, AVG(price), MAX(amount) FROM purchases WHERE country = 'c{r.randrange(99)}' OR level IN ({r.randrange(9)}, {r.randrange(9)}) GROUP BY userID, window(ts, '{r.randrange(5, 20)} seconds')"
    ),
    lambda r: (
        f"SELECT userID, price, ts FROM purchases WHERE gemPackID = {r.randrange(99)} AND price < {r.randrange(9)}.5"
    ),
    lambda r: (
        f"SELECT country, SUM(price) FROM purchases [RANGE {r.randrange(5, 20)} SECONDS SLIDE 5 SECONDS] WHERE level > {r.randrange(9)} GROUP BY country"
    ),
)


def measure(analyzer: Analyzer, count: int = 1000) -> tuple[float, int]:
    """Seconds for `count` creations over a new cache, and the number of shapes they had."""
    rng, cache = random.Random(1), ShapeCache(analyzer)
    texts = [rng.choice(SHAPES)(rng) for _ in range(count)]
    start = time.perf_counter()
    for text in texts:
        parse_query(text, STREAMS, cache)
    return time.perf_counter() - start, len(cache)


if __name__ == "__main__":
    seconds, shapes = measure(FakeAnalyzer())
    print(f"{seconds:.2f} s for 1,000 queries of {shapes} shapes: {seconds:.2f} ms each")
