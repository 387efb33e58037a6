"""Drivers that use the JVM of the process that started them, through PYSPARK_GATEWAY_PORT.

Such a driver costs a second, not fifteen, and can be killed for real while the JVM, and the tasks it runs, live on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def attach() -> Any:
    """A session on the JVM whose gateway the environment names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    return SparkSession(SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf())))


def gateway_of(spark: Any) -> dict[str, str]:
    """The environment in which `attach` finds this session's JVM."""
    found = spark.sparkContext._gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(found.port), "PYSPARK_GATEWAY_SECRET": found.auth_token}


def run_attached(spark: Any, script: str) -> subprocess.CompletedProcess[str]:
    """A process with this script as its driver, on the JVM of `spark`."""
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **gateway_of(spark)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
