"""What crash tests have in common: all blobs as files, and sessions whose upkeep is always busy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def through_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """These lives are small: every blob is handed over as a file, so that none is forgotten."""
    monkeypatch.setattr("headrace.engine.job.LARGE_BYTES", 1)


@pytest.fixture
def opens(spark: Any) -> Callable[..., Any]:
    """Opens a warehouse; whoever asks closes it."""
    from scenario import BUSY

    import headrace

    def open_busy(path: Path, **options: Any) -> Any:
        return headrace.open(path, spark=spark, progress=False, **{"upkeep": BUSY} | options)

    return open_busy
