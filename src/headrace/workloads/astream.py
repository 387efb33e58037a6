"""The generators of AStream's evaluation (SIGMOD 2019, section 4.2): tuples and random queries."""

from __future__ import annotations

from datetime import datetime
from random import Random

import numpy as np
import pyarrow as pa

STREAM = "a"
FIELDS = 5
DDL = "key BIGINT, " + "".join(f"field{i} BIGINT, " for i in range(1, FIELDS + 1)) + "ts TIMESTAMP"
EVENT_TIME = "ts"

FIELDS_MAX = 1_000
"""Fields and the constants they are compared with lie in [0, FIELDS_MAX) unless told otherwise."""

OPERATORS = ("=", ">", "<", ">=", "<=")
AGGREGATES = ("SUM", "COUNT", "AVG", "MIN", "MAX")


def tuples(
    n: int, start: datetime, rate: int, keys: int, fields_max: int = FIELDS_MAX, seed: int = 0, first: int = 0
) -> pa.Table:
    """Tuples number `first` to `first + n` of a stream that runs at `rate` per second from `start` on.

    Keys come in turn 0 .. keys - 1, fields are uniform in [0, fields_max), event time is in order (4.2.1).

    >>> from datetime import UTC
    >>> tuples(5, datetime(2026, 1, 1, tzinfo=UTC), 10, keys=3)["key"].to_pylist()
    [0, 1, 2, 0, 1]
    """
    number = np.arange(first, first + n, dtype=np.int64)
    rng = np.random.default_rng((seed, first))
    event_us = int(start.timestamp() * 1_000_000) + number * 1_000_000 // rate
    columns = {"key": pa.array(number % keys)}
    for i in range(1, FIELDS + 1):
        columns[f"field{i}"] = pa.array(rng.integers(0, fields_max, n))
    columns["ts"] = pa.array(event_us).cast(pa.timestamp("us", tz="UTC"))
    return pa.table(columns)


def aggregation_query(
    rng: Random, window_max_s: int = 10, *, fields_max: int = FIELDS_MAX, stream: str = STREAM
) -> str:
    """Figure 8: SUM of the first field per key, under one random predicate and window, in CQL or Spark form.

    The key is selected too, so that a result row can be told from its neighbours.
    """
    return _query(rng, "SUM(field1)", window_max_s, fields_max, stream)


def mixed_aggregation_query(
    rng: Random, window_max_s: int = 10, *, fields_max: int = FIELDS_MAX, stream: str = STREAM
) -> str:
    """Figure 8 with a random aggregate of a random field in place of SUM(FIELD1)."""
    aggregate = f"{rng.choice(AGGREGATES)}(field{rng.randint(1, FIELDS)})"
    return _query(rng, aggregate, window_max_s, fields_max, stream)


def random_predicate(rng: Random, fields_max: int = FIELDS_MAX) -> str:
    """A random field, operator and value (section 4.2.2)."""
    return f"field{rng.randint(1, FIELDS)} {rng.choice(OPERATORS)} {rng.randrange(fields_max)}"


def _query(rng: Random, aggregate: str, window_max_s: int, fields_max: int, stream: str) -> str:
    """Window length is random(1, window_max_s) and slide random(1, length), in whole seconds (4.2.3)."""
    length_s = rng.randint(1, window_max_s)
    slide_s = rng.randint(1, length_s)
    where = random_predicate(rng, fields_max)
    if rng.random() < 0.5:
        return (
            f"SELECT key, {aggregate} AS value "
            f"FROM {stream} [RANGE {length_s} SECONDS SLICE {slide_s} SECONDS] "
            f"WHERE {where} GROUP BY key"
        )
    return (
        f"SELECT key, {aggregate} AS value FROM {stream} WHERE {where} "
        f"GROUP BY key, window(ts, '{length_s} seconds', '{slide_s} seconds')"
    )
