"""The options that a warehouse is opened with, checked before anything is touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace import sql
from headrace.engine.options import GroupOptions, UpkeepOptions
from headrace.log.seal import DEFAULT_MAX_EPOCH_ROWS
from headrace.model.errors import EngineError
from headrace.optimizer.grouping.policies import Policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Duration = str | timedelta

SHARING: dict[str, Policy | None] = {
    "functional": Policy.FUNCTIONAL,
    "isolated": Policy.ISOLATED,
    "full": Policy.FULL,
    "overlap": Policy.OVERLAP,
    "selectivity": Policy.SELECTIVITY,
    "manual": None,
}
"""The names of policies; with the last one, queries live where people put them, or in the main group."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `headrace.open` was asked for; its docstring says what each option means. Bad values are refused here."""

    spark: SparkSession | None = None
    master: str = "local[*,4]"
    config: dict[str, str] | None = None
    max_epoch_rows: int = DEFAULT_MAX_EPOCH_ROWS
    changelog_count: int = 100
    changelog_delay: Duration = "1 second"
    partitions: int | None = None
    backfill_tasks: int | None = None
    retention: Duration | None = "7 days"
    log_retention: Duration | None = "1 day"
    epoch_timeout: Duration | None = "10 minutes"
    query_timeout: Duration | None = "5 minutes"
    progress: bool | None = None
    read_only: bool = False
    rebuild: bool = False
    sharing: str = "functional"
    upkeep: UpkeepOptions = field(default_factory=UpkeepOptions)
    functions: Mapping[str, tuple[Callable[..., Any], str]] | None = None
    function_timeout: Duration | None = "1 minute"

    def __post_init__(self) -> None:
        if not isinstance(self.upkeep, UpkeepOptions):
            raise EngineError("BAD_OPTION", f"upkeep is {self.upkeep!r}", hint="give UpkeepOptions(...)")
        self.group  # noqa: B018 - the durations are read, so that bad ones are refused now
        self.changelog_seconds  # noqa: B018
        for name in ("max_epoch_rows", "changelog_count", "partitions", "backfill_tasks"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise EngineError("BAD_OPTION", f"{name} is {count!r}", hint="give an integer of at least 1")
        for name in ("read_only", "rebuild", "progress"):
            if getattr(self, name) not in (True, False, None):
                raise EngineError(
                    "BAD_OPTION", f"{name} is {getattr(self, name)!r}", hint="give True or False"
                )
        if not isinstance(self.master, str):
            raise EngineError(
                "BAD_OPTION", f"master is {self.master!r}", hint="give text such as 'local[*,4]'"
            )
        if self.config is not None and not isinstance(self.config, Mapping):
            raise EngineError(
                "BAD_OPTION", f"config is {self.config!r}", hint="give a dict of Spark's settings"
            )
        given = {} if self.functions is None else self.functions
        pairs = given.values() if isinstance(given, Mapping) else (given,)
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise EngineError(
                "BAD_OPTION",
                f"functions is {self.functions!r}",
                hint="give a dict of names to pairs: {'similar': (similar, 'DOUBLE')}",
            )
        if self.spark is not None and not hasattr(self.spark, "sparkContext"):
            raise EngineError("BAD_OPTION", f"spark is {self.spark!r}", hint="give a SparkSession")
        if not isinstance(self.sharing, str) or self.sharing not in SHARING:
            names = ", ".join(SHARING)
            raise EngineError("BAD_OPTION", f"sharing is {self.sharing!r}", hint=f"give one of {names}")
        if self.read_only and self.rebuild:
            raise EngineError("BAD_OPTION", "rebuild=True writes", hint="open without read_only")

    @property
    def policy(self) -> Policy | None:
        """Who shares with whom; None when only people decide that."""
        return SHARING[self.sharing]

    @property
    def group(self) -> GroupOptions:
        upkeep = replace(
            self.upkeep,
            retention_us=_retention("retention", self.retention),
            log_retention_us=_retention("log_retention", self.log_retention),
        )
        return GroupOptions(
            self.partitions,
            upkeep,
            _limit("epoch_timeout", self.epoch_timeout),
            _limit("query_timeout", self.query_timeout),
            self.backfill_tasks,
            self.max_epoch_rows,
            _limit("function_timeout", self.function_timeout),
        )

    @property
    def changelog_seconds(self) -> float:
        return _not_negative("changelog_delay", sql.parse_duration(self.changelog_delay)) / 1e6


def _retention(option: str, value: Duration | None) -> int | None:
    return None if value is None else _not_negative(option, sql.parse_duration(value))


def _limit(option: str, value: Duration | None) -> float | None:
    if value is None:
        return None
    us = sql.parse_duration(value)
    if us <= 0:
        raise EngineError("BAD_OPTION", f"{option} must be longer than nothing", hint="None means no limit")
    return us / 1e6


def _not_negative(option: str, us: int) -> int:
    if us < 0:
        raise EngineError("BAD_OPTION", f"{option} is negative")
    return us
