"""Rows that are read without Spark, from files of before and after a query-set got its second word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog.queries import QueryEntry, QueryState
from headrace.engine.records import ResultFile
from headrace.model.predicate import TRUE, Operand
from headrace.model.query import EpochId, Projection, Query, QueryId, QueryPlan, StreamName
from headrace.model.types import BIGINT
from headrace.results.direct import count_tuples


def test_rows_of_before_a_word_of_slots_was_needed_are_nobodys(tmp_path: Path) -> None:
    """Merging files that lack the word with files that have it leaves NULLs in it."""
    plan = QueryPlan("", (StreamName("s"),), Projection(TRUE, (Operand("i", BIGINT),)), (), "", "")
    entry = QueryEntry(Query(QueryId(1), "q", plan), QueryState.ACTIVE, 70, EpochId(0))
    old = pa.table({"epoch": np.zeros(3, np.int64), "qs0": np.full(3, -1, np.int64)})
    new = pa.table({"epoch": np.ones(2, np.int64), "qs0": [0, 0], "qs1": [1 << 6, 0]})
    files = []
    for name, table in (("old", old), ("merged", pa.concat_tables([old, new], promote_options="default"))):
        pq.write_table(table, tmp_path / name)
        files.append(ResultFile("t", name, table.num_rows, 1, 0, 1, 1, 1, None))
    assert count_tuples(tmp_path, entry, files) == 1
