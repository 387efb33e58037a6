"""Text to query plan, and query plan to plain Spark SQL; pure, without Spark."""

from headrace.sql.analysis import Analyzer
from headrace.sql.cache import ShapeCache
from headrace.sql.durations import parse_duration
from headrace.sql.help import help_text
from headrace.sql.lexer import check_text
from headrace.sql.names import check_name, quote_name
from headrace.sql.query import parse_query
from headrace.sql.statements import (
    CloseStream,
    CreateQuery,
    CreateStream,
    Describe,
    DropQuery,
    DropStream,
    Explain,
    Help,
    IfPresent,
    Insert,
    Select,
    ShowQueries,
    ShowStreams,
    Statement,
    parse_statement,
)

__all__ = [
    "Analyzer",
    "CloseStream",
    "CreateQuery",
    "CreateStream",
    "Describe",
    "DropQuery",
    "DropStream",
    "Explain",
    "Help",
    "IfPresent",
    "Insert",
    "Select",
    "ShapeCache",
    "ShowQueries",
    "ShowStreams",
    "Statement",
    "check_name",
    "check_text",
    "help_text",
    "parse_duration",
    "parse_query",
    "parse_statement",
    "quote_name",
]
