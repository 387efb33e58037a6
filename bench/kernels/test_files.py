"""Checksums and compression, as they were weighed in decision 0021. Off by default: `make kernels`."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace_bench import astream

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
