"""Statements: the SQL face of the Python API."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.errors import SqlError
from headrace.sql import errors
from headrace.sql.cql import span_of
from headrace.sql.dialect import Token, TokenType
from headrace.sql.lexer import statement_tokens


@dataclass(frozen=True, slots=True)
class CreateStream:
    """`watermark` and the other options are as written; None where the statement does not say."""

    name: str
    schema_ddl: str
    event_time: str | None = None
    watermark: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateQuery:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class DropQuery:
    name: str


@dataclass(frozen=True, slots=True)
class ShowStreams:
    pass


@dataclass(frozen=True, slots=True)
class ShowQueries:
    pass


@dataclass(frozen=True, slots=True)
class Explain:
    """Of a query by name, of a text that begins with SELECT, WITH or FROM, or (None) of everything."""

    name_or_text: str | None = None


@dataclass(frozen=True, slots=True)
class Select:
    text: str


Statement = CreateStream | CreateQuery | DropQuery | ShowStreams | ShowQueries | Explain | Select

_QUERY_STARTS = ("SELECT", "WITH", "FROM")
_NAME_TOKENS_NOT = (TokenType.STRING, TokenType.NUMBER)


def parse_statement(text: str) -> Statement:
    """The one statement in `text`; raises SqlError with the position where it stops making sense.

    >>> parse_statement("DROP QUERY `spend per user`;")
    DropQuery(name='spend per user')
    >>> parse_statement("CREATE QUERY q AS SELECT 1 FROM s")
    CreateQuery(name='q', text='SELECT 1 FROM s')
    """
    cursor = _Cursor(text, statement_tokens(text))
    word = cursor.peek_word()
    match word:
        case "CREATE":
            return _create(cursor)
        case "DROP":
            cursor.expect("DROP")
            cursor.expect("QUERY")
            return cursor.last(DropQuery(cursor.name("query")))
        case "SHOW":
            return _show(cursor)
        case "EXPLAIN":
            return _explain(cursor)
        case _ if word in _QUERY_STARTS or word == "(":
            return Select(cursor.rest())
        case _:
            raise errors.unknown_statement(word, cursor.span())


class _Cursor:
    """A place in the tokens of one statement."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens, self.at = text, tokens, 0

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def peek_word(self) -> str:
        return "" if self.done else self.tokens[self.at].text.upper()

    def span(self) -> tuple[int, int]:
        return span_of(self.tokens[min(self.at, len(self.tokens) - 1)])

    def problem(self, wanted: str) -> SqlError:
        found = "the end" if self.done else f"'{self.tokens[self.at].text}'"
        return errors.syntax(f"expected {wanted} and found {found}", self.span())

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, word: str) -> bool:
        if self.done or self.peek_word() != word or self.tokens[self.at].token_type is TokenType.STRING:
            return False
        self.at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.problem(word)

    def name(self, what: str) -> str:
        if self.done or self.tokens[self.at].token_type in _NAME_TOKENS_NOT:
            raise self.problem(f"the name of a {what}")
        token = self.tokens[self.at]
        if token.token_type is not TokenType.IDENTIFIER and not token.text.replace("_", "a").isalnum():
            raise self.problem(f"the name of a {what}")
        return self.take().text

    def string(self, what: str) -> str:
        if self.done or self.tokens[self.at].token_type is not TokenType.STRING:
            raise self.problem(f"{what} in quotes")
        return self.take().text

    def parenthesised(self, what: str) -> str:
        """The text between an opening parenthesis here and its closing one."""
        self.expect("(")
        start, depth = self.tokens[self.at - 1].end + 1, 1
        while not self.done:
            token = self.take()
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0:
                return self.text[start : token.start].strip()
        raise self.problem(f"the closing parenthesis of {what}")

    def rest(self) -> str:
        if self.done:
            raise self.problem("a query")
        text = self.text[self.tokens[self.at].start : self.tokens[-1].end + 1]
        self.at = len(self.tokens)
        return text

    def last(self, statement: Statement) -> Statement:
        if not self.done:
            raise self.problem("the end of the statement")
        return statement


def _create(cursor: _Cursor) -> Statement:
    cursor.expect("CREATE")
    if cursor.accept("QUERY"):
        name = cursor.name("query")
        cursor.expect("AS")
        if cursor.peek_word() not in (*_QUERY_STARTS, "("):
            raise cursor.problem("SELECT")
        return CreateQuery(name, cursor.rest())
    if cursor.accept("STREAM"):
        return _create_stream(cursor)
    raise cursor.problem("STREAM or QUERY")


def _create_stream(cursor: _Cursor) -> Statement:
    name = cursor.name("stream")
    schema = cursor.parenthesised("the columns")
    if not schema:
        raise errors.syntax(f"the stream `{name}` has no columns", cursor.span())
    options: dict[str, str] = {}
    event_time = watermark = None
    while not cursor.done:
        if cursor.accept("EVENT"):
            cursor.expect("TIME")
            event_time = cursor.name("column")
        elif cursor.accept("WATERMARK"):
            watermark = cursor.string("a duration")
        elif cursor.accept("WITH"):
            options |= _options(cursor)
        else:
            raise cursor.problem("EVENT TIME, WATERMARK or WITH")
    event_time = event_time or options.pop("event_time", None)
    watermark = watermark or options.pop("watermark", None)
    return CreateStream(name, schema, event_time, watermark, options)


def _options(cursor: _Cursor) -> dict[str, str]:
    options: dict[str, str] = {}
    cursor.expect("(")
    while not cursor.accept(")"):
        key = cursor.name("option")
        while cursor.accept("."):
            key += "." + cursor.name("option")
        cursor.expect("=")
        options[key.lower()] = cursor.string(f"the value of {key}")
        if not cursor.accept(",") and cursor.peek_word() != ")":
            raise cursor.problem("',' or ')'")
    return options


def _show(cursor: _Cursor) -> Statement:
    cursor.expect("SHOW")
    if cursor.accept("STREAMS"):
        return cursor.last(ShowStreams())
    if cursor.accept("QUERIES"):
        return cursor.last(ShowQueries())
    raise cursor.problem("STREAMS or QUERIES")


def _explain(cursor: _Cursor) -> Statement:
    cursor.expect("EXPLAIN")
    if cursor.done:
        return Explain()
    if cursor.peek_word() in (*_QUERY_STARTS, "("):
        return Explain(cursor.rest())
    return cursor.last(Explain(cursor.name("query")))
