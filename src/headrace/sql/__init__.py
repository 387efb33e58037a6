"""Text to query plan, and query plan to plain Spark SQL; pure, without Spark."""

from headrace.model.statements import (
    AlterNeeds,
    AlterSplit,
    CloseStream,
    CreateQuery,
    CreateStream,
    Describe,
    DropQuery,
    DropSplit,
    DropStream,
    Explain,
    Help,
    IfPresent,
    Insert,
    MoveQuery,
    Repartition,
    Select,
    ShowEvents,
    ShowFunctions,
    ShowGroups,
    ShowPredictions,
    ShowQueries,
    ShowSplits,
    ShowStreams,
    Statement,
)
from headrace.sql.cache import ShapeCache
from headrace.sql.help import help_text
from headrace.sql.query import parse_query
from headrace.sql.resolve.analysis import Analyzer
from headrace.sql.statements import parse_statement
from headrace.sql.text.durations import parse_duration
from headrace.sql.text.lexer import check_text
from headrace.sql.text.names import check_name, quote_name

__all__ = [
    "AlterNeeds",
    "AlterSplit",
    "Analyzer",
    "CloseStream",
    "CreateQuery",
    "CreateStream",
    "Describe",
    "DropQuery",
    "DropSplit",
    "DropStream",
    "Explain",
    "Help",
    "IfPresent",
    "Insert",
    "MoveQuery",
    "Repartition",
    "Select",
    "ShapeCache",
    "ShowEvents",
    "ShowFunctions",
    "ShowGroups",
    "ShowPredictions",
    "ShowQueries",
    "ShowSplits",
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
