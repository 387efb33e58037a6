"""A process beside the driver uses the memory of one epoch again in the next one."""

from __future__ import annotations

import os
import subprocess
import sys

from headrace.engine.beside import KEEP_MEMORY

EPOCHS = """
import resource
import numpy as np
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    large = [np.ones(8 << 20), np.ones(5 << 20), np.ones(9 << 20)]
    del large
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_arrays_of_any_size_are_made_where_those_of_the_epoch_before_were() -> None:
    """Three arrays of 176 MB, each of which the allocator would fetch from the system, and give back, on its own."""
    alone = {"OPENBLAS_NUM_THREADS": "1"}
    told = subprocess.run(
        [sys.executable, "-c", EPOCHS], env=os.environ | KEEP_MEMORY | alone, capture_output=True, check=True
    )
    first, *later = map(int, told.stdout.split())
    assert max(later) < 500, (first, later)
