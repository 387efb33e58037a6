"""Result files: rows of many queries in one Parquet file per type signature, written as they come."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.records import ResultFile
from headrace.log.chunks import CODEC
from headrace.model.metrics import Numbers
from headrace.model.tables import QUERY, Holding, holdings, with_required
from headrace.storage.checksums import written
from headrace.storage.private import create_file

FLUSH_ROWS = 1 << 17
"""So many rows are held back before they are written as a row group: few enough that memory is used again."""


MERGED_GROUP_ROWS = 1 << 15
"""Rows of a row group in merged files. These are sorted by query, so whoever reads one query skips most groups."""


def write_results(table: pa.Table, path: Path) -> None:
    """Write result rows as one Parquet file."""
    create_file(path)
    options = parquet_options(table.schema, bare_that_repeat(table))
    pq.write_table(table, path, row_group_size=MERGED_GROUP_ROWS, **options)


LOOKED_ROWS, FEW_ROWS = 1 << 12, 1 << 4
"""A column's first rows are looked at. Values repeat where each is on so many of them, on average, or on more."""


def bare_that_repeat(table: pa.Table) -> frozenset[str]:
    """The columns that files of such tables hold bare, but whose values repeat in this one, as far as one sees.

    Query-sets of joined rows are so where queries differ in few predicates. In a dictionary they take a byte or less,
    and no longer to write.
    """
    some = table.slice(0, LOOKED_ROWS)
    bare = (name for name, holding in holdings(table.schema).items() if holding is Holding.BARE)
    return frozenset(name for name in bare if FEW_ROWS * len(some.column(name).unique()) <= some.num_rows)


def parquet_options(schema: pa.Schema, repeating: Collection[str] = ()) -> dict[str, Any]:
    """How result rows are written, column by column. Statistics are kept only for the column that readers skip by.

    The columns that are `repeating` are in a dictionary, whatever their names say.
    """
    held = holdings(schema) | dict.fromkeys(repeating, Holding.REPEATS)
    bare = {name for name, holding in held.items() if holding in (Holding.PACKED, Holding.BARE)}
    packed = [name for name, holding in held.items() if holding is Holding.PACKED]
    return {
        "use_dictionary": [name for name, holding in held.items() if holding is Holding.REPEATS],
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED") or None,
        "compression": {name: "none" if name in bare else CODEC for name in held} if bare else CODEC,
        "write_statistics": [QUERY],
    }


@dataclass(slots=True)
class _Open:
    """A file being written."""

    rel: str
    writer: pq.ParquetWriter
    schema: pa.Schema
    held: list[pa.Table] = field(default_factory=list)
    held_rows: int = 0
    rows: int = 0
    queries: tuple[int, int] = (2**63 - 1, -1)
    latest_us: int | None = None

    def flush(self) -> None:
        if self.held:
            rows = pa.concat_tables(self.held)
            self.writer.write_table(rows.cast(self.schema), row_group_size=FLUSH_ROWS)
            self.held, self.held_rows = [], 0


class ResultWriter:
    """The result files of one task. Memory holds FLUSH_ROWS rows per signature, however many there are.

    `cpu_seconds` is what writing them has cost so far.
    """

    def __init__(self, root: str, name: str, epoch: int) -> None:
        self._root, self._name, self._epoch = root, name, epoch
        self.cpu_seconds = 0.0
        self._open: dict[str, _Open] = {}

    def add(
        self,
        signature: str,
        table: pa.Table,
        queries: Numbers,
        latest_us: int | None = None,
    ) -> None:
        """Add rows of these queries. `latest_us` is the end of the last window among them."""
        began = time.process_time()
        file = self._open.get(signature) or self._start(signature, table)
        least, greatest = file.queries
        file.queries = min(least, int(np.min(queries))), max(greatest, int(np.max(queries)))
        file.latest_us = (
            latest_us if file.latest_us is None or latest_us is None else max(file.latest_us, latest_us)
        )
        file.rows += table.num_rows
        file.held.append(table)
        file.held_rows += table.num_rows
        if file.held_rows >= FLUSH_ROWS:
            file.flush()
        self.cpu_seconds += time.process_time() - began

    def _start(self, signature: str, table: pa.Table) -> _Open:
        rel = f"results/{signature}/{self._name}.parquet"
        path = Path(self._root, rel)
        create_file(path)
        schema = with_required(table.schema)
        writer = pq.ParquetWriter(path, schema, **parquet_options(schema, bare_that_repeat(table)))
        self._open[signature] = _Open(rel, writer, schema)
        return self._open[signature]

    def finish(self) -> tuple[ResultFile, ...]:
        """Close the files; what the commit should say of each."""
        found, began = [], time.process_time()
        for signature, file in self._open.items():
            file.flush()
            file.writer.close()
            size, crc = written(Path(self._root, file.rel))
            record = ResultFile(
                signature,
                file.rel,
                file.rows,
                size,
                self._epoch,
                self._epoch,
                *file.queries,
                file.latest_us,
                checksum=crc,
            )
            found.append(record)
        self.cpu_seconds += time.process_time() - began
        return tuple(found)
