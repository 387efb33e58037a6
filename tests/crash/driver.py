"""A process that plays the scenario and may be killed: python driver.py WAREHOUSE [MASTER].

Without a master it drives the JVM of the process that started it, through PYSPARK_GATEWAY_PORT: then a driver costs a
second, not fifteen, and can be killed for real while the JVM, and the tasks it runs, live on.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import scenario

import headrace


def attach() -> Any:
    """A session on the JVM whose gateway the environment names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    conf = SparkConf(_jconf=java.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=java, conf=conf))


def main(warehouse: str, master: str | None = None) -> None:
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
