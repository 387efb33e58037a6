from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_fakes import FakeSession
from headrace.cli.main import cli
from headrace.storage.warehouse import Warehouse

Run = Callable[..., Result]


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A directory that is a warehouse already."""
    Warehouse(tmp_path / "w")
    return str(tmp_path / "w")


@pytest.fixture
def run(session: FakeSession, warehouse: str) -> Run:
    """Run a command line against the fake session, on the warehouse unless it names another one."""

    def invoke(*arguments: str, **options: object) -> Result:
        where = () if "--warehouse" in arguments or arguments[0] == "bench" else ("--warehouse", warehouse)
        return CliRunner().invoke(cli, [*arguments, *where], obj=session.open, **options)  # type: ignore[arg-type]

    return invoke
