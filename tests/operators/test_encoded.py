"""String columns as codes and a dictionary give the same keys, regions and ranks as the strings themselves."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from coded import coded

from headrace.model.plan import OperandIndex
from headrace.model.predicate import Operand
from headrace.model.types import SqlType
from headrace.operators.common.calls import Caller, LoadedFunction
from headrace.operators.common.encode import OrderedStrings
from headrace.operators.common.keys import encode_keys
from headrace.operators.common.regions import region_count, regions_of

TEXTS = ["", "a", "a\0", "ab", "b", "é", "z", "\U0001f30a", "ﬀ"]
NAME = Operand("s", SqlType("string"))


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_codes_stand_for_their_strings(rows: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(20):
        values = [rng.choice([None, *TEXTS]) for _ in range(rows)]
        plain, codes = pa.array(values, pa.string()), coded(values, rng.randint(1, 3), rng, TEXTS)
        keys = encode_keys([codes], rows)
        assert keys.table.column(0).take(pa.array(keys.ids)).to_pylist() == values
        assert keys.table.num_rows == len(set(values)) and keys.table.column(0).type == pa.string()
        both = encode_keys([codes, pa.array(range(rows))], rows)
        assert both.table.column(0).take(pa.array(both.ids)).to_pylist() == values
        one = codes.combine_chunks()
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
    for column in (pa.array(values, pa.string()), coded(values, 3, rng, TEXTS)):
        assert regions_of(column, index).tolist() == expected
        assert regions_of(column.slice(0, 0), index).tolist() == []


def test_functions_are_given_strings_and_each_distinct_one_once() -> None:
    seen: list[pa.Array] = []

    def shout(texts: pa.Array) -> pa.Array:
        seen.append(texts)
        return pc.utf8_upper(texts)

    caller = Caller(lambda name: LoadedFunction(shout, SqlType("string")))
    call = Operand("shout(s)", SqlType("string"), function="shout", arguments=(NAME,))
    values = ["b", None, "a", "b", None, "a"]
    columns = {NAME: coded(values, 2, random.Random(4))}
    assert caller.value(call, columns, None).to_pylist() == ["B", None, "A", "B", None, "A"]
    assert caller.value(call, columns, np.array([4, 5])).to_pylist() == [None, "A"]
    assert [texts.type for texts in seen] == [pa.string()] * 2
    assert [texts.to_pylist() for texts in seen] == [["b", None, "a"], [None, "a"]]
