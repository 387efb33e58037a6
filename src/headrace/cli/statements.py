"""SQL text to single statements, from a string, a script or a prompt; tokens decide, not characters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from headrace.model.errors import SqlError


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its semicolon, and the line of the script it starts at, from 1 on."""

    text: str
    line: int


def split_statements(script: str) -> tuple[Statement, ...]:
    """The statements of a script, in order; comments and empty statements between them are dropped.

    >>> [s.text for s in split_statements("SHOW STREAMS; -- done;\\n SELECT ';' FROM spend;")]
    ['SHOW STREAMS', "SELECT ';' FROM spend"]
    """
    found: list[Statement] = []
    pending: list[Token] = []
    for token in (*_tokens(script), None):
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            pending.append(token)
        elif pending:
            start, end = pending[0].start, pending[-1].end
            found.append(Statement(script[start : end + 1], script.count("\n", 0, start) + 1))
            pending = []
    return tuple(found)


def is_complete(text: str) -> bool:
    """Whether a prompt's text ends with the semicolon that ends a statement.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1")
    (True, False, False)
    """
    try:
        tokens = _tokens(text)
    except SqlError:
        return False
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


LEAVE = frozenset({"quit", "exit", r"\q"})
READS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "(", "SHOW", "EXPLAIN", "DESCRIBE", "DESC", "HELP"})


def only_reads(statement: str) -> bool:
    """Whether a statement leaves the warehouse as it is, by its first word.

    >>> only_reads("-- look\\nselect * from spend"), only_reads("DROP QUERY spend")
    (True, False)
    """
    tokens = _tokens(statement)
    return bool(tokens) and tokens[0].text.upper() in READS


def is_help(statement: str) -> bool:
    """Whether a statement asks for help, which needs no warehouse."""
    tokens = _tokens(statement)
    return bool(tokens) and tokens[0].text.upper() == "HELP"


def help_for(statement: str) -> str:
    from headrace.model.statements import Help
    from headrace.sql import help_text, parse_statement

    parsed = parse_statement(statement)
    assert isinstance(parsed, Help)
    return help_text(parsed.topic)


def read_prompt(
    read: Callable[[str], str], run: Callable[[str], None], cleared: Callable[[], None] = lambda: None
) -> None:
    """Read statements with `read(prompt)` and `run` each, until end of input or `quit`.

    Ctrl-C forgets what was typed, be it a line or the lines before it, and `cleared` is called; it never leaves. Words
    that need no semicolon are `help`, alone or with a topic, and those that leave.
    """
    buffer = ""
    while True:
        try:
            line = read("headrace> " if not buffer else "     ...> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            buffer = ""
            cleared()
            continue
        words = line.strip().rstrip(";").split()
        if not buffer and len(words) == 1 and words[0].lower() in LEAVE:
            return
        if not buffer and words and words[0].lower() in {"help", "?", r"\h", r"\?"}:
            run(" ".join(["HELP", *words[1:]]))
            continue
        buffer = f"{buffer}\n{line}" if buffer else line
        if not buffer.strip():
            buffer = ""
        elif is_complete(buffer):
            text, buffer = buffer, ""
            for statement in split_statements(text):
                run(statement.text)


def _tokens(text: str) -> list[Token]:
    try:
        return sqlglot.tokenize(text, read="spark")
    except SqlglotError as error:
        raise SqlError(
            "SYNTAX_ERROR",
            "the text cannot be split into statements",
            detail=str(error),
            hint="look for a quote or comment that is not closed",
        ) from error
