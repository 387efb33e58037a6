from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_fakes import FakeSession, Info
from headrace.service.client import RemoteSession, connect
from headrace.service.server import Service, published
from headrace.storage.warehouse import Warehouse


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(infos={"spend": Info("spend", rows=7)})


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    Warehouse(tmp_path / "w")
    return str(tmp_path / "w")


@pytest.fixture
def service(session: FakeSession, warehouse: str) -> Iterator[Service]:
    """A service on a free port, for a session without Spark."""
    with published(warehouse, "serve") as found:
        found.start(session)
        yield found


@pytest.fixture
def remote(service: Service, warehouse: str) -> RemoteSession:
    found = connect(warehouse)
    assert found is not None
    return found
