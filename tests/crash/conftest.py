"""Sessions whose upkeep is always busy, on the run's Spark session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def opens(spark: Any) -> Callable[..., Any]:
    """Opens a warehouse; whoever asks closes it."""
    from scenario import BUSY

    import headrace

    def open_busy(path: Path, **options: Any) -> Any:
        return headrace.open(path, spark=spark, progress=False, **{"upkeep": BUSY} | options)

    return open_busy
