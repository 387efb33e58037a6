"""SIGKILL at every durable step of catalog and log, then reopen: nothing lost, nothing doubled."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from log_samples import PLAN, PURCHASES, open_log, run_script

pytestmark = pytest.mark.crash

WRITER = """
import sys
from log_samples import PLAN, PURCHASES, open_log
log = open_log(sys.argv[1])
if not log.catalog.streams():
    log.catalog.create_stream(PURCHASES, None)
for step in range(int(sys.argv[2])):
    log.append(100 * step, 100 * step + 1, max_chunk_rows=1)
    print("appended", step, flush=True)
    log.catalog.request_create(None, PLAN)
    log.catalog.flush()
    print("flushed", step, flush=True)
    log.sealer.seal(1)
    print("sealed", step, flush=True)
    log.sealer._log.pack(100, more_than=2)
    log.catalog.checkpoint()
"""

POINTS = [
    f"{name}.{when}:{nth}"
    for name in ("arrival", "request", "changelog", "seal", "snapshot")
    for when in ("before", "after")
    for nth in (1, 3)
] + ["pack.before", "pack.after", "pack.after:2"]


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_reopened(tmp_path: Path, point: str) -> None:
    died = run_script(WRITER, tmp_path, 8, kill_at=point)
    assert died.returncode == -signal.SIGKILL, died.output
    promised = died.output.splitlines()
    log = open_log(tmp_path)
    log.catalog.flush()
    while log.sealer.seal(1) is not None:
        pass
    epochs = list(log.sealer.epochs())
    assert [epoch.id for epoch in epochs] == list(range(len(epochs)))

    times = [chunk.min_us for epoch in epochs for part in epoch.streams for chunk in part.chunks]
    appended = len(times) // 2
    assert times == [100 * step + i for step in range(appended) for i in (0, 1)]
    assert appended - sum(line.startswith("appended") for line in promised) in (0, 1)

    queries = [entry.query.id for entry in log.catalog.entries()]
    assert queries == list(range(1, len(queries) + 1))
    assert len(queries) - sum(line.startswith("flushed") for line in promised) in (0, 1)
    assert [entry.slot for entry in log.catalog.entries()] == list(range(len(queries)))

    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("log/purchases/*")}
    assert files == {chunk.path for epoch in epochs for part in epoch.streams for chunk in part.chunks}
    assert not list(tmp_path.rglob(".tmp-*"))

    assert log.catalog.request_create(None, PLAN).id == len(queries) + 1
    log.append(10_000)
    log.catalog.flush()
    assert log.sealer.seal() is not None
    log.close()


def test_killed_twice_at_the_same_point(tmp_path: Path) -> None:
    for _ in range(2):
        died = run_script(WRITER, tmp_path, 8, kill_at="arrival.before:2")
        assert died.returncode == -signal.SIGKILL, died.output
    log = open_log(tmp_path)
    while log.sealer.seal() is not None:
        pass
    chunks = [chunk for epoch in log.sealer.epochs() for part in epoch.streams for chunk in part.chunks]
    assert len({chunk.path for chunk in chunks}) == len(chunks) == 4
    assert len(list(tmp_path.glob("log/purchases/*"))) == 4
    assert log.catalog.streams() == (PURCHASES,)
    log.close()


def test_undisturbed(tmp_path: Path) -> None:
    assert run_script(WRITER, tmp_path, 2).returncode == 0
    log = open_log(tmp_path)
    assert len(log.catalog.entries()) == 2
    log.close()
