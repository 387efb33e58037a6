"""The kernels that go over the tuples of runs against plain loops, on random input with NaN, -0.0 and empty cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_compiled_windows import rng_of, same

from headrace.operators.compiled.accepted import add_accepted, keep_accepted, merge_accepted
from headrace.operators.windows.lanes.moments import MomentsLogic
from headrace.operators.windows.prepared import ask_bits

Array = np.ndarray[Any, Any]
CASES = [(0, 1, 1, 0), (1, 1, 1, 0), (40, 9, 5, 62), (60, 70, 70, 0), (60, 130, 100, 13), (30, 65, 3, 64)]
"""(tuples, state columns, how many of them are asked for, from which one on at least)."""


def drawn(tuples: int, columns: int, asked: int, first: int, rng: np.random.Generator) -> Any:
    """(sets, which column accepts which tuple, runs, the columns that are asked for, a row for each of them)."""
    columns += first
    accepted = rng.random((columns, tuples)) < 0.4
    padded = np.zeros((tuples, -(-columns // 64) * 64), bool)
    padded[:, :columns] = accepted.T
    sets = np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little").view(np.uint64).T)
    low = rng.integers(0, tuples + 1, 12)
    runs = np.stack([low, np.minimum(low + rng.integers(0, 5, 12), tuples)])
    mine = np.sort(rng.choice(np.arange(first, columns), asked, replace=True))
    return sets, accepted, runs, mine, rng.integers(0, 3, asked)


def each(
    accepted: Array, runs: Array, mine: Array, rows: Array, act: Callable[[int, int, int, int], None]
) -> None:
    for run, (low, high) in enumerate(runs.T.tolist()):
        for tuple_ in range(low, high):
            for entry, (column, row) in enumerate(zip(mine.tolist(), rows.tolist(), strict=True)):
                if accepted[column, tuple_]:
                    act(entry, row, tuple_, run)


@pytest.mark.parametrize("case", CASES)
@np.errstate(over="ignore", invalid="ignore")
def test_numbers_of_accepted_tuples_are_added_and_compared(case: tuple[int, int, int, int]) -> None:
    rng = rng_of()
    sets, accepted, runs, mine, rows = drawn(*case, rng)
    ints = rng.choice([-(2**62), -1, 0, 7, 2**62], (3, case[0]))
    floats = rng.choice([0.0, -0.0, np.nan, np.inf, 1.5], (3, case[0]))
    for values in (ints, floats):
        found, wanted = (np.zeros((len(mine), 12), values.dtype) for _ in range(2))

        def add(
            entry: int, row: int, tuple_: int, run: int, values: Array = values, wanted: Array = wanted
        ) -> None:
            wanted[entry, run] += values[row, tuple_]

        each(accepted, runs, mine, rows, add)
        for asked in ask_bits(mine, rows):
            add_accepted(sets, runs, asked.first, asked.mask, asked.entries, asked.measures, values, found)
        assert same(found, wanted)
    for least in (True, False):
        found, wanted = (np.full((len(mine), 12), 2**63 - 1 if least else -(2**63)) for _ in range(2))
        better = min if least else max

        def keep(
            entry: int, row: int, tuple_: int, run: int, wanted: Array = wanted, better: Any = better
        ) -> None:
            wanted[entry, run] = better(wanted[entry, run], ints[row, tuple_])

        each(accepted, runs, mine, rows, keep)
        for asked in ask_bits(mine, rows):
            arguments = (asked.first, asked.mask, asked.entries, asked.measures)
            keep_accepted(sets, runs, *arguments, ints, least, found)
        assert same(found, wanted)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("odd", [False, True])
@np.errstate(invalid="ignore")
def test_moments_of_accepted_tuples_are_merged(case: tuple[int, int, int, int], odd: bool) -> None:
    """Also those that are no number, and zeros with a sign: `odd` ones."""
    rng = rng_of()
    sets, accepted, runs, mine, rows = drawn(*case, rng)
    shape = (3, case[0])
    counts, means, spreads = rng.integers(0, 3, shape), rng.random(shape), rng.random(shape)
    if odd:
        means = rng.choice(
            [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5], shape, p=[0.05, 0.05, 0.05, 0.4, 0.2, 0.25]
        )
    logic = MomentsLogic(0)
    into, picked = logic.zeros((len(mine), 12)), dict[tuple[int, int], list[tuple[int, int]]]()
    each(accepted, runs, mine, rows, lambda e, row, t, run: picked.setdefault((e, run), []).append((row, t)))
    for asked in ask_bits(mine, rows):
        arguments = (
            asked.first,
            asked.mask,
            asked.entries,
            asked.measures,
            asked.measures,
            asked.measures + 3,
        )
        both = np.concatenate([means, spreads])
        merge_accepted(sets, runs, *arguments, counts, both, into["n"], into["v"], into["q"])
    for (entry, run), pairs in picked.items():
        known = np.array([pair for pair in pairs if counts[pair]], np.int64).reshape(-1, 2)
        at = tuple(known.T)
        total = int(counts[at].sum())
        assert into["n"][entry, run] == total
        if total == 0:
            continue
        found = {part: into[part][entry, run] for part in ("v", "q")}
        if not np.isfinite(means[at]).all():
            assert np.isnan(found["q"]) and not np.isfinite(found["v"])
            continue
        mean = (counts[at] * means[at]).sum() / total
        spread = (spreads[at] + counts[at] * (means[at] - mean) ** 2).sum()
        assert np.isclose(found["v"], mean) and np.isclose(found["q"], spread)
        if len(known) == 1:  # nothing was added to it
            assert np.signbit(found["v"]) == np.signbit(means[at][0])
    assert into["n"].sum() == sum(counts[pair] for pairs in picked.values() for pair in pairs)
