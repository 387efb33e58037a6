"""Headrace: thousands of continuous SQL queries over the same streams as a few shared Spark jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.model.errors import HeadraceError, HeadraceWarning
from headrace.model.version import VERSION as __version__

if TYPE_CHECKING:
    from headrace.handles import QueryHandle
    from headrace.opening import open
    from headrace.session import Session

__all__ = ["HeadraceError", "HeadraceWarning", "QueryHandle", "Session", "__version__", "open"]


def __getattr__(name: str) -> Any:
    """The session is loaded on first use: Spark's workers import the kernels only."""
    match name:
        case "open":
            from headrace.opening import open

            return open
        case "Session":
            from headrace.session import Session

            return Session
        case "QueryHandle":
            from headrace.handles import QueryHandle

            return QueryHandle
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
