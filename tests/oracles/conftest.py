from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from oracle_files import folder


@pytest.fixture(scope="session")
def oracles() -> None:
    """Skips before any Spark starts."""
    folder("")


@pytest.fixture(scope="session")
def oracle_session(oracles: None, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all cases."""
    import headrace

    with headrace.open(tmp_path_factory.mktemp("oracles") / "w", spark=spark, progress=False) as session:
        yield session
