"""How Spark computes over few tuples at the least cost, and how it computes for people."""

from __future__ import annotations

from typing import Any

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Expressions are interpreted, and stages follow each other in one job: compiling and planning anew take longer."""

COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
"""What Spark does by itself."""


def set_all(session: Any, settings: dict[str, str]) -> None:
    for key, value in settings.items():
        session.conf.set(key, value)
