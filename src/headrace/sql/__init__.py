"""Text to query plan, and query plan to plain Spark SQL; pure, without Spark."""

from headrace.sql.analysis import Analyzer
from headrace.sql.cache import ShapeCache
from headrace.sql.durations import parse_duration
from headrace.sql.names import check_name, quote_name
from headrace.sql.query import parse_query

__all__ = ["Analyzer", "ShapeCache", "check_name", "parse_duration", "parse_query", "quote_name"]
