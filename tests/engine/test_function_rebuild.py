"""State that is made anew from the log calls functions too. Where one fails, the commit stays as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from local_spark import LocalSpark
from test_function_calls import SCHEMA, World, tuples

from headrace.catalog.queries import QueryEntry
from headrace.engine import job
from headrace.engine.paths import commits_dir
from headrace.engine.rebuild import Beginning, Ground, rebuild_commit
from headrace.engine.records import no_commit
from headrace.log.chunks import write_chunk
from headrace.model.epoch import NEVER_US, Epoch, StreamEpoch
from headrace.model.errors import EngineError
from headrace.model.grouping import MAIN, GroupSpec
from headrace.model.partitioning import even_partitioning
from headrace.model.query import EpochId, StreamName
from headrace.storage.warehouse import Warehouse
from sql_fakes import STREAMS

TEXT = (
    "SELECT userID, COUNT(*) AS n FROM purchases WHERE scored(price, country) > 3 "
    "GROUP BY userID, window(ts, '10 seconds')"
)


def failing(prices: pa.Array, countries: pa.Array) -> pa.Array:
    raise MemoryError("too many rows at once")


@pytest.mark.parametrize("body", [None, failing])
def test_a_rebuild_in_which_a_function_fails_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: Callable[..., pa.Array] | None
) -> None:
    monkeypatch.setattr(job, "unwrap_spark_exception", nullcontext)
    world = World(tmp_path, body)
    entry = QueryEntry(world.query(1, TEXT), slot=1, first_epoch=EpochId(0))
    table = pa.Table.from_pylist(tuples(random.Random(1), 60), schema=SCHEMA)
    chunk = write_chunk(world.warehouse, "log/purchases", table, "ts", 0)
    epoch = Epoch(EpochId(0), (StreamEpoch(StreamName("purchases"), (chunk,), NEVER_US, NEVER_US),))
    functions = SimpleNamespace(check=lambda queries: None, files=lambda: world.files)
    catalog: Any = SimpleNamespace(
        streams=lambda epoch: list(STREAMS.values()),
        active_entries=lambda epoch, group: [entry],
        functions=functions,
        homes=SimpleNamespace(regroupings=lambda group, after, until: []),
    )
    sealer: Any = SimpleNamespace(first=0, epoch=lambda number: epoch, epochs=lambda first, last: [epoch])
    spark: Any = LocalSpark()
    ground = Ground(spark, Warehouse(world.warehouse), catalog, sealer)
    beginning = Beginning(1, [], GroupSpec(MAIN, 2, even_partitioning(2)))
    if body is None:
        assert rebuild_commit(ground, no_commit(MAIN), beginning).segments
        assert (world.warehouse / commits_dir(MAIN)).exists()
        return
    with pytest.raises(EngineError) as told:
        rebuild_commit(ground, no_commit(MAIN), beginning)
    assert told.value.code == "EPOCH_FAILED"
    assert "query `q1`: the function scored() failed: MemoryError" in str(told.value.detail)
    assert not (world.warehouse / commits_dir(MAIN)).exists()
