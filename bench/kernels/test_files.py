"""Checksums and compression, as weighed in decision 0021, and string columns. Off by default: `make kernels`."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.engine.messages import Piece
from headrace.engine.tasks import read_piece
from headrace.log.chunks import write_chunk
from headrace.model.plan import OperandIndex
from headrace.model.predicate import Operand
from headrace.model.types import SqlType
from headrace.operators.common.encode import OrderedStrings, one_chunk
from headrace.operators.common.keys import encode_keys
from headrace.operators.common.regions import regions_of
from headrace_bench import astream, predicates

Benchmark = Callable[..., Any]

ROWS = 130_000
MEGABYTES = 16
DIGESTS: dict[str, Callable[[bytes], object]] = {
    "CRC-32": zlib.crc32,
    "BLAKE2": lambda data: hashlib.blake2b(data).digest(),
    "SHA-256": lambda data: hashlib.sha256(data).digest(),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_checksum_of_16_mb(benchmark: Benchmark, name: str) -> None:
    data = bytes(range(256)) * (MEGABYTES << 12)
    benchmark(lambda: DIGESTS[name](data))


@pytest.mark.parametrize("codec", ["lz4", "snappy", "zstd"])
def test_write_a_chunk(benchmark: Benchmark, codec: str, tmp_path: Path) -> None:
    table = astream.tuples(ROWS, datetime(2026, 1, 1, tzinfo=UTC), 50_000, 1_000)
    path = tmp_path / "chunk.parquet"
    benchmark(lambda: pq.write_table(table, path, compression=codec))
    benchmark.extra_info["bytes"] = path.stat().st_size  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoded", [False, True], ids=["strings", "codes"])
def test_index_string_columns(benchmark: Benchmark, encoded: bool, tmp_path: Path) -> None:
    """From a chunk of 500,000 tuples to the regions of two string columns, and the keys and ranks of a third."""
    table = predicates.tuples(500_000, datetime(2026, 1, 1, tzinfo=UTC), 50_000, 200)
    chunk = write_chunk(tmp_path, "log", table, "ts", 0)
    names = ["country", "device", "product"]
    indexes = [
        OperandIndex(Operand(name, SqlType("string")), constants)
        for name, constants in zip(names, [predicates.COUNTRIES, predicates.DEVICES], strict=False)
    ]

    def index() -> None:
        piece = Piece(chunk.path, None, None)
        read = read_piece(str(tmp_path), piece, names, names if encoded else ())
        for one in indexes:
            regions_of(read.column(one.operand.sql), one)
        encode_keys([read.column("product")], read.num_rows)
        products = one_chunk(read.column("product"))
        OrderedStrings.of(products).ranks(products)

    benchmark(index)
