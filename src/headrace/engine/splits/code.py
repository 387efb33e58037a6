"""The code of a split: operator, and routes that are functions. It travels to tasks as a pickle and is kept nowhere."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from headrace.engine.sending import dumped
from headrace.model.errors import CatalogError
from headrace.model.splitting import SplitOperator

RowFunction = Callable[[pa.RecordBatch], Any]
"""From tuples to one value for each: an Arrow array, a numpy array or a list."""


@dataclass(frozen=True, slots=True)
class SplitCode:
    """What a person gave as code. `operator` makes a new instance."""

    operator: Callable[[], SplitOperator]
    route: RowFunction | None = None
    broadcast: RowFunction | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """Code as tasks get it."""

    data: bytes
    key: str


def pack(name: str, code: SplitCode) -> Packed:
    """Make code ready to travel; CatalogError when it cannot."""
    try:
        data = dumped(code)
    except Exception as error:
        raise CatalogError(
            "SPLIT_NOT_PORTABLE",
            f"the operator or a function of split `{name}` cannot be sent to Spark's workers",
            detail=f"{type(error).__name__}: {error}",
            hint="it must not hold open files, locks, sessions or threads: make them in open()",
        ) from error
    return Packed(data, hashlib.sha256(data).hexdigest())


@lru_cache(maxsize=16)
def unpack(packed: Packed) -> SplitCode:
    """The code in a worker; kept, since an epoch needs it every time."""
    found: SplitCode = pickle.loads(packed.data)
    return found
