"""One Spark session for the whole run, started when the first test asks for it."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from interpreted import COMPILED, INTERPRETED

# machines are shared, so time is no property; HEADRACE_EXAMPLES=1000 looks harder
settings.register_profile(
    "headrace",
    deadline=None,
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",  # what CI checks does not change by itself
)
settings.load_profile("headrace")

# What is imported and collected stays until the end. Without looking through it for garbage again and again, collecting
# takes a third less time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


# Tests end long before it pays to optimise Java code a second time, and it takes much of their CPU time. Drivers
# that tests start inherit it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

collect_ignore_glob = ["*conftest.py"]
"""Conftest files of several folders have one module name, so they are not collected for doctests."""


NEEDS_SPARK = ("spark", "cluster", "crash")

WITHOUT_SPARK = f"not ({' or '.join(NEEDS_SPARK)})"
"""What `make unit` asks for."""

_ALL_NEED_SPARK = re.compile(rf"^pytestmark = .*pytest\.mark\.({'|'.join(NEEDS_SPARK)})\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests all need Spark is not even imported where none of them runs."""
    if config.option.markexpr != WITHOUT_SPARK or collection_path.suffix != ".py":
        return None
    return True if _ALL_NEED_SPARK.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="of the tests that need Spark, run every Nth function of each file, with its first parameters",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a fair sample of what needs Spark: every file stays in, and the same tests each time."""
    every = config.getoption("--sample")
    if every > 1:
        left_out = set(_left_out(items, every))
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _left_out(items: list[pytest.Item], every: int) -> Iterator[pytest.Item]:
    functions: dict[Path, dict[str, int]] = {}
    for item in items:
        if not any(item.get_closest_marker(name) for name in NEEDS_SPARK):
            continue
        seen = functions.setdefault(item.path, {})
        name = getattr(item, "originalname", item.name)
        first = name not in seen
        number = seen.setdefault(name, len(seen))
        if not first or number % every:
            yield item


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The run's session, on HEADRACE_TEST_MASTER. It and its children let Spark interpret expressions: over few tuples
    that is several times as fast as compiling them.
    """
    from headrace.engine.spark import start_session

    session = start_session(
        os.environ.get("HEADRACE_TEST_MASTER", "local[2]"),
        {"spark.driver.memory": "1g", **INTERPRETED},
    )
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def place_of_small_epochs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every other test with `spark`, small epochs run in the driver's own worker, as people's do. In the rest,
    in those with `spark_jobs` and on a cluster, every epoch is a Spark job. Which test is which follows from its name.
    """
    if "spark" not in request.fixturenames:
        return
    from headrace.engine import group
    from headrace.engine.own_worker import OWN_WORKER
    from headrace.optimizer.place import Place

    on_cluster = "HEADRACE_TEST_MASTER" in os.environ
    if on_cluster or "spark_jobs" in request.fixturenames or crc32(request.node.nodeid.encode()) % 2:
        monkeypatch.setattr(group, "decide_place", lambda work: Place.SPARK)
    else:
        assert OWN_WORKER.wait_until_ready(60)


@pytest.fixture(autouse=True)
def how_spark_computes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every fourth test with `spark`, and in those with `spark_compiles`, epochs and readers of results compile
    expressions, as they do for people. What is compared with them is interpreted, unless it was asked for.
    """
    if "spark" not in request.fixturenames:
        return
    asked = "spark_compiles" in request.fixturenames
    if asked or crc32(request.node.nodeid.encode()) // 2 % 4 == 0:
        from headrace import sparks

        for name in ("READING", "EPOCH_JOBS", *(["AUDITING"] if asked else [])):
            monkeypatch.setattr(sparks, name, {**COMPILED, **getattr(sparks, name)})


@pytest.fixture
def spark_compiles() -> None:
    """What a test asks for that is about how Spark computes: it compiles expressions, as it does for people."""


@pytest.fixture
def spark_jobs() -> None:
    """What a test asks for that is about Spark jobs: no epoch of it runs in the driver's own worker."""


@pytest.fixture
def open_session(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens `tmp_path/<name>` on the run's Spark session; whatever is open at the end is closed."""
    import headrace

    opened: list[Any] = []

    def opens(name: str = "warehouse", **options: Any) -> Any:
        opened.append(headrace.open(tmp_path / name, spark=spark, **{"progress": False, **options}))
        return opened[-1]

    yield opens
    for session in opened:
        session.close()
