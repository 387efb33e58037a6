from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from cli_fakes import FakeSession, Info
from headrace.service.client import RemoteSession, connect
from headrace.service.server import Service, published
from headrace.storage.warehouse import Warehouse


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, FakeSession]]:
    """One service for all tests of a module: stopping one takes a fifth of a second."""
    warehouse = str(tmp_path_factory.mktemp("service") / "w")
    Warehouse(warehouse)
    session = FakeSession()
    with published(warehouse, "serve") as found:
        found.start(session)
        yield found, session


@pytest.fixture
def session(shared: tuple[Service, FakeSession]) -> FakeSession:
    """The session behind the service, as new."""
    fresh, found = FakeSession(infos={"spend": Info("spend", rows=7)}), shared[1]
    for name in vars(found).keys() - {field.name for field in fields(FakeSession)}:
        delattr(found, name)  # a method that a test has replaced
    vars(found).update(vars(fresh))
    return found


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A warehouse that nobody runs."""
    Warehouse(tmp_path / "w")
    return str(tmp_path / "w")


@pytest.fixture
def service(shared: tuple[Service, FakeSession], session: FakeSession) -> Service:
    """A service on a free port, for a session without Spark."""
    return shared[0]


@pytest.fixture
def remote(service: Service) -> RemoteSession:
    found = connect(service.warehouse)
    assert found is not None
    return found
