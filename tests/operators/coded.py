"""String columns as chunks hand them out: strings, or codes and dictionaries of which no two need be alike."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pyarrow as pa

from headrace.model.predicate import Operand
from headrace.operators.common.encode import one_chunk

UNUSED = ["", "a\0", "zz"]
"""Strings that a dictionary may have although no value is one of them."""


def coded(
    values: Sequence[str | None], pieces: int, rng: random.Random, more: Sequence[str] = UNUSED
) -> pa.ChunkedArray:
    """The values in so many chunks, each with a dictionary of its own in an order of its own.

    A chunk without values, or with none but NULL, may have an empty dictionary.
    """
    bounds = sorted(rng.randint(0, len(values)) for _ in range(pieces - 1))
    chunks = []
    for low, high in zip([0, *bounds], [*bounds, len(values)], strict=True):
        known = {value for value in values[low:high] if value is not None}
        known |= {text for text in more if rng.random() < 0.5}
        texts = rng.sample(sorted(known), len(known))
        codes = [None if value is None else texts.index(value) for value in values[low:high]]
        arrays = pa.array(codes, pa.int32()), pa.array(texts, pa.string())
        chunks.append(pa.DictionaryArray.from_arrays(*arrays))
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))


def coded_columns(table: pa.Table, operands: Iterable[Operand]) -> dict[Operand, pa.ChunkedArray]:
    """The columns of a table as they may come: two of three that are strings as codes."""
    found = {}
    for operand in operands:
        column, rng = table.column(operand.sql), random.Random(f"{operand.sql} {table.num_rows}")
        if column.type == pa.string() and rng.random() < 0.67:
            column = coded(column.to_pylist(), rng.randint(1, 3), rng)
        found[operand] = column
    return found


def is_coded(column: pa.ChunkedArray | pa.Array) -> bool:
    return bool(pa.types.is_dictionary(one_chunk(column).type))
