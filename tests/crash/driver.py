"""A process that plays the scenario and may be killed: python driver.py WAREHOUSE [MASTER].

Without a master it drives the JVM of the process that started it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import scenario
from attached import attach

import headrace
from headrace.engine import job


def main(warehouse: str, master: str | None = None) -> None:
    job.LARGE_BYTES = 1  # type: ignore[attr-defined]  # every blob is a file, as in the tests beside this
    options: dict[str, Any] = {"upkeep": scenario.BUSY, "progress": False}
    if master is None:
        options["spark"] = attach()
    else:
        options["master"] = master
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
            os.environ.pop(name, None)
    hr = headrace.open(warehouse, **options)
    scenario.play(hr)
    print("played", flush=True)
    hr.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
