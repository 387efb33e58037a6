"""What arrays are called. Kernels need the names alone, and with them no Arrow, whose import starts a thread."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = Array
Floats = Array
Bools = Array
"""What an array holds is said by name only: numpy's element types do not survive indexing and arithmetic in mypy."""
