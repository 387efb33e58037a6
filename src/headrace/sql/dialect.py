"""Spark SQL as sqlglot reads it, with function calls left exactly as they were written.

sqlglot normalises functions so that it can translate between engines (`nvl` becomes `COALESCE`, `var_samp`
becomes `VARIANCE`). Nothing is translated here, so every call stays a name with arguments, and the text that
is rendered means to Spark what the text that was read meant.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

_SYNTAX_FUNCTIONS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM")
"""Calls whose arguments are not a comma-separated list, so the parser has to know them."""

_WORDED_FUNCTIONS = {
    "SUBSTRING": ("FROM", "FOR"),
    "SUBSTR": ("FROM", "FOR"),
    "OVERLAY": ("PLACING", "FROM", "FOR"),
    "POSITION": ("IN",),
}
"""Calls in which a word may stand for each comma."""


class HeadraceParser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{name: SparkParser.FUNCTION_PARSERS[name] for name in _SYNTAX_FUNCTIONS},
        **{name: lambda self: self._parse_worded_call() for name in _WORDED_FUNCTIONS},
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }

    def _parse_worded_call(self) -> exp.Anonymous:
        """`substring(s FROM 1 FOR 2)` is `substring(s, 1, 2)`, to Spark as well."""
        name = self._tokens[self._index - 2].text
        arguments: list[exp.Expr | None] = [*self._parse_csv(self._parse_bitwise)]
        for word in _WORDED_FUNCTIONS[name.upper()]:
            if self._match_text_seq(word):
                arguments.append(self._parse_bitwise())
        return self.expression(exp.Anonymous(this=name, expressions=arguments))


class HeadraceGenerator(SparkGenerator):
    """sqlglot does not know yet that Spark has a TIME type with a precision."""

    SUPPORTS_TEMPORAL_PRECISION = True
    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {**SparkGenerator.TYPE_MAPPING, exp.DType.TIME: "TIME"}


class Headrace(Spark):
    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        """sqlglot swallows the text after SHOW and EXPLAIN whole; ours have a grammar."""

    Parser = HeadraceParser
    Generator = HeadraceGenerator


_DIALECT = Headrace()
_KEYWORDS = frozenset(Headrace.Tokenizer.KEYWORDS)


def tokenize(text: str) -> list[Token]:
    """sqlglot's tokens of `text`; raises sqlglot's TokenError."""
    return _DIALECT.tokenize(text)


def parse(tokens: list[Token], text: str) -> list[exp.Expr | None]:
    """One tree per statement in `tokens`; raises sqlglot's ParseError. `text` is only for error messages."""
    return _DIALECT.parser().parse(tokens, text)


def render(node: exp.Expr) -> str:
    """Spark SQL text of an expression or query; does not change or copy `node`."""
    return _DIALECT.generator(normalize_functions=False, comments=False).generate(node, copy=False)


def is_keyword(name: str) -> bool:
    return name.upper() in _KEYWORDS


__all__ = ["Token", "TokenType", "is_keyword", "parse", "render", "tokenize"]
