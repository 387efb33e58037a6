"""What jobs write is what `model/tables.py` says, and readers find a query's rows in it."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_tasks import SCHEMA, STREAM, mixed_query, random_value, run_epoch

from headrace.catalog.queries import QueryEntry
from headrace.engine import job
from headrace.engine.delivered import files_of
from headrace.engine.job import JobResult
from headrace.engine.result_files import parquet_options
from headrace.engine.stored import shared_rows
from headrace.log.chunks import CODEC, write_chunk
from headrace.model.epoch import FOREVER_US, NEVER_US, Epoch, StreamEpoch
from headrace.model.partitioning import even_partitioning
from headrace.model.predicate import Operand
from headrace.model.query import Aggregation, EpochId, Projection
from headrace.model.tables import (
    QUERY,
    Holding,
    JoinedTable,
    PlainTable,
    ResultTable,
    SessionTable,
    SharedRows,
    TupleTable,
    WindowTable,
    holdings,
    joined_column,
    output_column,
    table_of,
)
from headrace.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Column
from headrace.planner.group import Member, plan_group

SLOTS_FROM = 60
"""Slots begin here, so that query-sets have two words."""


@pytest.fixture(autouse=True)
def _without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "unwrap_spark_exception", nullcontext)


def one_epoch(root: Path, seed: int) -> tuple[list[QueryEntry], JobResult]:
    """Windows, sessions and filters over some tuples, run to the end of time."""
    rng = random.Random(seed)
    queries = [mixed_query(rng, n) for n in range(1, 30)]
    entries = [QueryEntry(q, slot=SLOTS_FROM + i, first_epoch=EpochId(0)) for i, q in enumerate(queries)]
    plan = plan_group([Member(e.query, e.slot or 0) for e in entries], {STREAM.name: STREAM})
    rows = [{c.name: random_value(rng, c.name) for c in STREAM.columns} | {"ts": 5} for _ in range(50)]
    chunk = write_chunk(root, "log/s", pa.Table.from_pylist(rows, schema=SCHEMA), "ts", 0)
    epoch = Epoch(EpochId(0), (StreamEpoch(STREAM.name, (chunk,), NEVER_US, FOREVER_US),))
    return entries, run_epoch(root, "main", even_partitioning(1), plan, epoch, [])


def types_of(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names and types. Which columns have NULLs differs from file to file."""
    return [(field.name, field.type) for field in schema]


@pytest.mark.parametrize("seed", range(2))
def test_stored_rows_have_the_columns_and_types_of_their_table(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    entries, result = one_epoch(tmp_path, seed)
    kinds = set[type[ResultTable]]()
    table: ResultTable
    for entry in entries:
        body, found = entry.query.plan.body, 0
        for file in files_of(result.results, entry):
            stored = pq.read_table(tmp_path / file.path)
            match body:
                case Aggregation():
                    table = table_of(body)
                    assert types_of(stored.schema) == types_of(table.schema)
                    found += int((stored.column(QUERY).to_numpy() == int(entry.query.id)).sum())
                case Projection():
                    mine = shared_rows(entry)
                    table = TupleTable(body.outputs, (mine.word,))
                    assert types_of(stored.select(table.names).schema) == types_of(table.schema)
                    columns = {name: stored.column(name).to_numpy() for name in table.names[-2:]}
                    found += int(mine.among(columns).sum())
            kinds.add(type(table))
        assert found == result.rows.get(entry.query.id), entry.query
    assert kinds == {WindowTable, SessionTable, TupleTable}


def test_files_hold_each_column_as_its_values_ask_for() -> None:
    amount, time = Operand("amount", DOUBLE), Operand("ts", TIMESTAMP)
    carried = {o: joined_column("input", 0, o) for o in (amount, time)}
    columns = tuple(Column(name, o.type) for o, name in carried.items())
    repeats, split, bare, compressed = Holding.REPEATS, Holding.SPLIT, Holding.BARE, Holding.COMPRESSED
    later = Holding.LATER
    for table, expected in (
        (WindowTable((STRING, DOUBLE), (BIGINT, DOUBLE)), [repeats] * 3 + [compressed, split, later]),
        (SessionTable((BIGINT,), (BIGINT,)), [repeats, compressed, repeats, split, split]),
        (TupleTable((amount, time), (0, 1)), [compressed] * 2 + [repeats] * 3),
        (JoinedTable(columns, (0, 1)), [compressed, split, repeats, repeats, bare, bare]),
        (PlainTable((BIGINT, STRING)), [compressed] * 2 + [repeats] * 2),
    ):
        assert holdings(table.schema) == dict(zip(table.names, expected, strict=True)), table
        options = parquet_options(table.schema)
        assert options["use_dictionary"] == [n for n, h in holdings(table.schema).items() if h is repeats]
    sums = WindowTable((), (DOUBLE,)).schema
    codecs = [parquet_options(sums, merged=merged)["compression"] for merged in (False, True)]
    assert [codec if isinstance(codec, str) else codec["a0"] for codec in codecs] == ["none", CODEC]


def test_a_column_of_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="a column amount"):
        holdings(pa.schema([("query", pa.int64()), ("amount", pa.int64())]))


def test_a_value_that_is_selected_twice_is_stored_once() -> None:
    amount = Operand("amount", DOUBLE)
    assert TupleTable((amount, amount), (0,)).names == [output_column(amount), "epoch", "qs0"]


def test_a_slot_that_is_used_again_has_only_the_rows_of_its_epochs() -> None:
    columns = {"qs1": np.array([1, 1, 1, 2, 1 << 63 - 1], np.int64), "epoch": np.array([3, 4, 6, 4, 4])}
    first, second = SharedRows(64, 3, 5), SharedRows(64, 6)
    assert first.among(columns).tolist() == [True, True, False, False, False]
    assert second.among(columns).tolist() == [False, False, True, False, False]
    assert first.since(4).among(columns).tolist() == [False, True, False, False, False]
