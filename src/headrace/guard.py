"""What every public call of a session has in common: whose process it is, and what it says when Spark has gone.

A call costs nothing more than a look at the process's number. Only when it fails is Spark asked whether it is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.engine.errors import spark_gone
from headrace.engine.spark import is_gone, is_stopped
from headrace.model.errors import EngineError, HeadraceError

if TYPE_CHECKING:
    from headrace.session import Session

Guarded = TypeVar("Guarded", bound=type)

_NEEDS_SPARK = frozenset({"results", "to_pandas", "audit", "select", "run_available", "warm_up", "start"})
"""Calls that would go astray in a stopped Spark session before anything fails."""


def guarding(session_of: Callable[[Any], Session]) -> Callable[[Guarded], Guarded]:
    """Guard the public methods that a class has of its own. `session_of` finds the session of an instance.

    What a class inherits is as it was: a session can be closed wherever, and whether Spark is there or not.
    """

    def guard(cls: Guarded) -> Guarded:
        for name, member in list(vars(cls).items()):
            if not name.startswith("_") and callable(member):
                setattr(cls, name, _guarded(member, name, session_of))
        return cls

    return guard


def _guarded(
    method: Callable[..., Any], name: str, session_of: Callable[[Any], Session]
) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        session = session_of(self)
        if session._pid != os.getpid():
            raise forked()
        spark = session._sparks.started
        if name in _NEEDS_SPARK and spark is not None and is_stopped(spark) and not session._closed:
            raise spark_gone()
        try:
            return method(self, *args, **options)
        except Exception as error:
            spark = session._sparks.started
            if _ours(error) or session._closed or spark is None or not is_gone(spark):
                raise
            raise spark_gone() from error

    return call


def _ours(error: Exception) -> bool:
    """Whether an error is Headrace's own finding, rather than something else in Headrace's words."""
    return isinstance(error, HeadraceError) and error.__context__ is None


def forked() -> EngineError:
    return EngineError(
        "FORKED_PROCESS",
        "this session belongs to the process that this one was forked from",
        hint="open the warehouse in one process only; to read beside it, call headrace.open(path, read_only=True) here",
    )
