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
    """Write merged result rows as one Parquet file."""
    create_file(path)
    options = parquet_options(table.schema, bare_that_repeat(table), merged=True)
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


def parquet_options(
    schema: pa.Schema, repeating: Collection[str] = (), *, merged: bool = False
) -> dict[str, Any]:
    """How result rows are written, column by column. Statistics are kept only for the column that readers skip by.

    The columns that are `repeating` are in a dictionary, whatever their names say.
    """
    held = holdings(schema) | dict.fromkeys(repeating, Holding.REPEATS)
    as_they_are = {Holding.BARE} if merged else {Holding.BARE, Holding.LATER}
    bare = {name for name, holding in held.items() if holding in as_they_are}
    split = [name for name, holding in held.items() if holding is Holding.SPLIT]
    return {
        "use_dictionary": [name for name, holding in held.items() if holding is Holding.REPEATS],
        "column_encoding": dict.fromkeys(split, "BYTE_STREAM_SPLIT") or None,
        "compression": {name: "none" if name in bare else CODEC for name in held} if bare else CODEC,
        "write_statistics": [QUERY],
    }


@dataclass(slots=True)
class _Span:
    """The queries that some rows are of, and when the last of their windows ends (None: they have none)."""

    queries: tuple[int, int] = (2**63 - 1, -1)
    latest_us: int | None = None

    def widen(self, queries: Numbers, latest_us: int | None) -> None:
        """Take in rows of some queries, and of windows that end by then."""
        least, greatest = self.queries
        self.queries = min(least, int(np.min(queries))), max(greatest, int(np.max(queries)))
        if latest_us is not None:
            self.latest_us = latest_us if self.latest_us is None else max(self.latest_us, latest_us)


@dataclass(slots=True)
class _Held:
    """Rows of a signature that wait to be written."""

    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    span: _Span = field(default_factory=_Span)


@dataclass(slots=True)
class _Open:
    """A file being written."""

    signature: str
    rel: str
    writer: pq.ParquetWriter
    schema: pa.Schema
    rows: int = 0
    span: _Span = field(default_factory=_Span)

    def write(self, held: _Held, rows: pa.Table) -> None:
        self.writer.write_table(rows.cast(self.schema), row_group_size=FLUSH_ROWS)
        self.rows += held.rows
        self.span.widen(held.span.queries, held.span.latest_us)

    def takes(self, schema: pa.Schema) -> bool:
        """Whether rows of this schema may be written: the file may have NULLs where they do."""
        return all(mine.nullable or not one.nullable for mine, one in zip(self.schema, schema, strict=True))

    def widened(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the file after this one, which takes rows of this schema and all that this file takes."""
        both = zip(self.schema, schema, strict=True)
        return pa.schema([one.with_nullable(one.nullable or mine.nullable) for mine, one in both])


class ResultWriter:
    """The result files of one task. Memory holds FLUSH_ROWS rows per signature, however many there are.

    A column that has no NULL says so in its file, which then need not note it row by row. There is one file for a
    signature, and at most one more for each column in which NULLs come later. `cpu_seconds` is what writing them has
    cost so far.
    """

    def __init__(self, root: str, name: str, epoch: int) -> None:
        self._root, self._name, self._epoch = root, name, epoch
        self.cpu_seconds = 0.0
        self._held: dict[str, _Held] = {}
        self._open: dict[str, list[_Open]] = {}

    def add(
        self,
        signature: str,
        table: pa.Table,
        queries: Numbers,
        latest_us: int | None = None,
    ) -> None:
        """Add rows of these queries. `latest_us` is the end of the last window among them."""
        began = time.process_time()
        held = self._held.setdefault(signature, _Held())
        held.span.widen(queries, latest_us)
        held.tables.append(table)
        held.rows += table.num_rows
        if held.rows >= FLUSH_ROWS:
            self._flush(signature)
        self.cpu_seconds += time.process_time() - began

    def _flush(self, signature: str) -> None:
        held = self._held.pop(signature)
        rows = pa.concat_tables(held.tables)
        schema = without_nulls(rows)
        opened = self._open.setdefault(signature, [])
        if not opened or not opened[-1].takes(schema):
            schema = opened[-1].widened(schema) if opened else schema
            opened.append(self._start(signature, schema, bare_that_repeat(rows), len(opened)))
        opened[-1].write(held, rows)

    def _start(self, signature: str, schema: pa.Schema, repeating: Collection[str], number: int) -> _Open:
        name = f"{self._name}-{number}" if number else self._name
        rel = f"results/{signature}/{name}.parquet"
        path = Path(self._root, rel)
        create_file(path)
        writer = pq.ParquetWriter(path, schema, **parquet_options(schema, repeating))
        return _Open(signature, rel, writer, schema)

    def finish(self) -> tuple[ResultFile, ...]:
        """Close the files; what the commit should say of each."""
        found, began = [], time.process_time()
        for signature in list(self._held):
            self._flush(signature)
        for file in (file for opened in self._open.values() for file in opened):
            file.writer.close()
            size, crc = written(Path(self._root, file.rel))
            record = ResultFile(
                file.signature,
                file.rel,
                file.rows,
                size,
                self._epoch,
                self._epoch,
                *file.span.queries,
                file.span.latest_us,
                checksum=crc,
            )
            found.append(record)
        self.cpu_seconds += time.process_time() - began
        return tuple(found)


def without_nulls(rows: pa.Table) -> pa.Schema:
    """The schema of result rows, where columns say that they are never NULL if none of these rows has a NULL there.

    >>> without_nulls(pa.table({"query": [1, 2], "k0": [None, 3]})).field("k0").nullable
    True
    """
    fields = zip(with_required(rows.schema), rows.columns, strict=True)
    return pa.schema([one.with_nullable(one.nullable and column.null_count > 0) for one, column in fields])
