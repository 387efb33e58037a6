"""Where an error's answer is written down: every error names a section of a page in `docs/`."""

from __future__ import annotations

_SQL = "docs/sql.md"
_TROUBLE = "docs/troubleshooting.md"
_SPLITS = "docs/splits.md"

_PHASES = {
    "sql": f"{_SQL}#create-query",
    "catalog": f"{_SQL}#names",
    "log": f"{_TROUBLE}#input",
    "engine": f"{_TROUBLE}#epochs",
    "storage": f"{_TROUBLE}#the-warehouse",
    "headrace": _TROUBLE,
}
"""Where to look when a code has no section of its own."""

_SECTIONS = {
    "create-stream": ("STREAM_EXISTS", "GIVEN_TWICE"),
    "columns-and-types": ("BAD_SCHEMA", "STREAM_INVALID", "INSERT_COLUMNS"),
    "event-time-and-watermark": ("NO_EVENT_TIME", "EVENT_TIME_TYPE", "BAD_WATERMARK", "NOT_EVENT_TIME"),
    "sources": ("SOURCE_FORMAT", "SOURCE_MISSING", "SOURCE_OPTION", "SOURCE_ATTACHED"),
    "create-query": (
        "QUERY_EXISTS",
        "UNKNOWN_COLUMN",
        "AMBIGUOUS_COLUMN",
        "TYPE_MISMATCH",
    ),
    "functions": (
        "UNKNOWN_FUNCTION",
        "BAD_FUNCTION",
        "FUNCTION_EXISTS",
        "FUNCTION_IN_USE",
        "FUNCTION_MISSING",
        "MODULE_FAILED",
        "FUNCTION_NOT_SENT",
        "FUNCTION_DAMAGED",
    ),
    "groups": ("QUERY_QUARANTINED",),
    "start": ("BAD_START", "START_EXPIRED"),
    "windows": ("NO_WINDOW", "BAD_WINDOW", "TWO_WINDOWS", "WINDOW_TOO_DENSE"),
    "what-is-refused": (
        "UNSUPPORTED",
        "NONDETERMINISTIC",
        "NOT_A_QUERY",
        "MISREAD",
        "VALUE_TOO_BIG",
        "TOO_MANY_AGGREGATES",
    ),
    "insert-into": ("INSERT_VALUE",),
    "select": ("SELECT_FAILED",),
    "show": ("QUERY_NOT_FOUND", "STREAM_NOT_FOUND", "UNKNOWN_STREAM"),
    "drop-query": ("QUERY_DROPPED", "QUERY_LIVE"),
    "drop-stream": ("STREAM_IN_USE",),
    "names": ("BAD_NAME", "NAME_TAKEN", "RESERVED_NAME"),
    "durations": ("BAD_DURATION",),
    "help": ("UNKNOWN_STATEMENT", "NO_HELP", "SYNTAX"),
    "texts": ("EMPTY_TEXT", "NOT_TEXT", "TEXT_TOO_LONG", "TWO_STATEMENTS", "SYNTAX_ERROR"),
    "what-a-statement-may-not-do": ("NOT_ALLOWED",),
}
_SPLIT_SECTIONS = {
    "what-you-say": ("BAD_SPLIT", "SPLIT_EXISTS", "SPLIT_NOT_PORTABLE"),
    "living-with-it": (
        *(
            "SPLIT_UNKNOWN",
            "SPLIT_KIND",
            "SPLIT_WAITS",
            "SPLIT_FIXED",
            "STREAM_OF_SPLIT",
            "SPLIT_ROUTE",
            "SPLIT_ROUTE_CHANGES",
        ),
        *("SPLIT_EXPRESSION", "SPLIT_OPERATOR", "SPLIT_OUTPUT", "SPLIT_TIMEOUT", "SPLIT_STATE_DAMAGED"),
    ),
}
_PAGES = {code: f"{_SPLITS}#{section}" for section, codes in _SPLIT_SECTIONS.items() for code in codes}
_PAGES |= {code: f"{_SQL}#{section}" for section, codes in _SECTIONS.items() for code in codes} | {
    "RESULTS_UNREADABLE": f"{_TROUBLE}#results",
    "RESULT_DAMAGED": f"{_TROUBLE}#results",
    "AUDIT_FAILED": f"{_TROUBLE}#results",
    "AUDIT_LOG_EXPIRED": f"{_TROUBLE}#results",
    "READ_ONLY": f"{_TROUBLE}#the-warehouse",
    "SESSION_CLOSED": f"{_TROUBLE}#the-warehouse",
}


def page_of(code: str, phase: str) -> str:
    """The page, and the section of it, that answers an error.

    >>> page_of("NO_WINDOW", "sql"), page_of("EPOCH_FAILED", "engine")
    ('docs/sql.md#windows', 'docs/troubleshooting.md#epochs')
    """
    if code == "BAD_OPTION":
        return f"{_SQL}#sources" if phase == "sql" else f"{_TROUBLE}#options"
    return _PAGES.get(code) or _PHASES.get(phase, _TROUBLE)


def pages() -> frozenset[str]:
    """Every page and section that an error can name."""
    return frozenset((*_PAGES.values(), *_PHASES.values(), f"{_SQL}#sources", f"{_TROUBLE}#options"))
