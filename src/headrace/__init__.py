"""Headrace: thousands of continuous SQL queries over the same streams as a few shared Spark jobs."""

from headrace.model.errors import HeadraceError
from headrace.session import QueryHandle, Session, open

__version__ = "0.1.0"
__all__ = ["HeadraceError", "QueryHandle", "Session", "open"]
