"""Sessions: runs of rows that follow each other within a gap."""

from __future__ import annotations

import numpy as np
from numba import int64

from headrace.operators.common.arrays import Ints
from headrace.operators.compiled.compiling import compiled, given, made

_ROWS = (given(int64), given(int64), given(int64), given(int64))


@compiled((*_ROWS, int64, made(int64), made(int64), made(int64)))
def find_runs(
    order: Ints, groups: Ints, starts: Ints, lasts: Ints, gap: int, first: Ints, until: Ints, count: Ints
) -> None:
    """Run i begins at place `first[i]` of `order` and lasts until the moment `until[i]`; `count[0]` says how many.

    A run ends where the next row is of another group, or starts later than the gap after all before it.
    """
    runs, reach, before = 0, np.int64(0), np.int64(0)
    for place in range(len(order)):
        row = order[place]
        same = place > 0 and groups[row] == before
        if same and starts[row] - gap <= reach:
            reach = max(reach, lasts[row])
            until[runs - 1] = reach
        else:
            reach = max(reach, lasts[row]) if same else lasts[row]
            first[runs], until[runs] = place, reach
            runs += 1
        before = groups[row]
    count[0] = runs
