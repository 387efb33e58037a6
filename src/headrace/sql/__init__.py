"""Text to query plan, and query plan to plain Spark SQL; pure, without Spark."""

from headrace.sql.analysis import Analyzer
from headrace.sql.cache import ShapeCache
from headrace.sql.durations import parse_duration
from headrace.sql.names import check_name, quote_name
from headrace.sql.query import parse_query
from headrace.sql.statements import (
    CreateQuery,
    CreateStream,
    DropQuery,
    Explain,
    Select,
    ShowQueries,
    ShowStreams,
    Statement,
    parse_statement,
)

__all__ = [
    "Analyzer",
    "CreateQuery",
    "CreateStream",
    "DropQuery",
    "Explain",
    "Select",
    "ShapeCache",
    "ShowQueries",
    "ShowStreams",
    "Statement",
    "check_name",
    "parse_duration",
    "parse_query",
    "parse_statement",
    "quote_name",
]
