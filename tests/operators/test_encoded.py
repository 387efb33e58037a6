"""String columns as codes and a dictionary give the same keys, regions and ranks as the strings themselves."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.plan import OperandIndex
from headrace.model.predicate import Operand
from headrace.model.types import SqlType
from headrace.operators.common.encode import OrderedStrings
from headrace.operators.common.keys import encode_keys
from headrace.operators.common.regions import region_count, regions_of

TEXTS = ["", "a", "a\0", "ab", "b", "é", "z", "\U0001f30a", "ﬀ"]
NAME = Operand("s", SqlType("string"))


def encoded(values: list[str | None], pieces: int, rng: random.Random) -> pa.ChunkedArray:
    """The values in so many chunks, each with a dictionary of its own, in which some strings do not occur."""
    bounds = sorted(rng.randint(0, len(values)) for _ in range(pieces - 1))
    chunks = []
    for low, high in zip([0, *bounds], [*bounds, len(values)], strict=True):
        known = rng.sample(TEXTS, len(TEXTS))
        codes = [None if v is None else known.index(v) for v in values[low:high]]
        chunks.append(
            pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(known, pa.string()))
        )
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_codes_stand_for_their_strings(rows: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(20):
        values = [rng.choice([None, *TEXTS]) for _ in range(rows)]
        plain, coded = pa.array(values, pa.string()), encoded(values, rng.randint(1, 3), rng)
        keys = encode_keys([coded], rows)
        assert keys.table.column(0).take(pa.array(keys.ids)).to_pylist() == values
        assert keys.table.num_rows == len(set(values)) and keys.table.column(0).type == pa.string()
        both = encode_keys([coded, pa.array(range(rows))], rows)
        assert both.table.column(0).take(pa.array(both.ids)).to_pylist() == values
        one = coded.combine_chunks()
        ordered, expected = OrderedStrings.of(one), OrderedStrings.of(plain)
        assert ordered.values == expected.values
        found, known = ordered.ranks(one), expected.ranks(plain)
        assert (found.valid is None) == (known.valid is None)
        some = np.ones(rows, bool) if known.valid is None else known.valid
        assert found.values[some].tolist() == known.values[some].tolist()
        assert found.valid is None or found.valid.tolist() == some.tolist()


@pytest.mark.parametrize("constants", [(), ("a",), ("", "a\0", "b", "é", "ﬀ")])
def test_regions_of_strings_follow_their_bytes(constants: tuple[str, ...]) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    index = OperandIndex(NAME, tuple(sorted(constants, key=lambda text: text.encode())))
    values = [rng.choice([None, *TEXTS]) for _ in range(60)]
    last = region_count(index) - 1

    def region(value: str | None) -> int:
        if value is None:
            return last
        low = sum(c.encode() < value.encode() for c in constants)
        return 2 * low + (value in constants)

    expected = [region(value) for value in values]
    for column in (pa.array(values, pa.string()), encoded(values, 3, rng)):
        assert regions_of(column, index).tolist() == expected
        assert regions_of(column.slice(0, 0), index).tolist() == []
