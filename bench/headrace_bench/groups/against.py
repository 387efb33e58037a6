"""Two checkouts of Headrace in turns: the spine of this benchmark, run in processes that import one or the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
import headrace_bench
from headrace.model.errors import EngineError
from headrace_bench.groups.figures import Against, Sizes

OURS = Path(headrace.__file__).parents[1]
BENCH = Path(headrace_bench.__file__).parents[1]

Spine = Callable[[Path], list[dict[str, Any]]]
"""Runs the spine with the Headrace of a folder; what `headrace bench spine --json` prints."""


def compare_checkouts(older: Path, sizes: Sizes, spine: Spine, note: Callable[[str], None]) -> list[Against]:
    """Seconds per epoch of both checkouts. Who begins a round changes, so that a machine's moods hit both."""
    seen: dict[tuple[int, Path], list[float]] = defaultdict(list)
    for number in range(sizes.rounds):
        for source in (OURS, older) if number % 2 else (older, OURS):
            note(
                f"round {number + 1} of {sizes.rounds}: {'this checkout' if source == OURS else 'the older one'}"
            )
            for run in spine(source):
                seen[run["spine"]["queries"], source].append(run["seconds"])
    counts = sorted({queries for queries, _ in seen})
    return [Against(count, tuple(seen[count, OURS]), tuple(seen[count, older])) for count in counts]


def run_spine_of(source: Path, sizes: Sizes) -> list[dict[str, Any]]:
    """The spine in a process of its own that imports Headrace from a folder."""
    options = {
        "queries": f"1,{sizes.queries}",
        "rows": sizes.feed.rows,
        "keys": sizes.feed.keys,
        "rate": sizes.feed.rate,
        "epochs": sizes.epochs,
        "seed": sizes.seed,
    }
    given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    ended = subprocess.run(
        [sys.executable, "-m", "headrace_bench.spine", "--json", *given],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (source, BENCH)))},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise EngineError(
            "BENCH_SPINE",
            f"the spine of {source} ended with code {ended.returncode}",
            hint="its own words are above",
        )
    found: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    for run in found:
        if not Path(run["package"]).is_relative_to(source):
            raise EngineError("BENCH_SPINE", f"{run['package']} was measured in place of {source}")
    return found
