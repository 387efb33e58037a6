"""Spark SQL as it is read and written here: sqlglot with Spark's own grammar of expressions (see `grammar`).

What is read is written so that it means to Spark what it meant before. At creation that is also compared with Spark's
own reading (see `fidelity`), because nobody knows all that sqlglot takes for something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import rename_func
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.tokenizer_core import Token, TokenType

from headrace.sql.text.grammar import HeadraceParser
from headrace.sql.text.nodes import JoinedStrings, Plus, Quantified, UnitsInterval, UnsignedShift
from headrace.sql.text.patterns import Patterns

_SYMBOLS = frozenset(("/*+", "==", "::", "||", "|>", ">=", "<=", "<>", "!=", "<=>", "->", "=>"))
"""What Spark reads as one token. sqlglot knows more: to it, `~~a` is LIKE and `a&<b` an operator on ranges."""

_NUMBER_SUFFIXES = frozenset(("L", "S", "Y", "D", "F", "BD"))


def _between(operator: str) -> Callable[[SparkGenerator, exp.Binary], str]:
    return lambda self, node: self.binary(node, operator)


def _like(word: str) -> Callable[[SparkGenerator, exp.Binary], str]:
    return lambda self, node: self.binary(node, f"NOT {word}" if node.args.get("negate") else word)


class HeadraceGenerator(SparkGenerator):
    SUPPORTS_TEMPORAL_PRECISION = True
    """sqlglot does not know yet that Spark has a TIME type with a precision."""

    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {**SparkGenerator.TYPE_MAPPING, exp.DType.TIME: "TIME"}
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Any]] = {
        # sqlglot rewrites QUALIFY and other clauses that older Sparks lack; here a SELECT is written as it was read
        **{kind: write for kind, write in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select},
        # after a word such as ARRAY, Spark takes >> for the end of a type: our texts have conditions of several queries
        exp.BitwiseLeftShift: rename_func("SHIFTLEFT"),
        exp.BitwiseRightShift: rename_func("SHIFTRIGHT"),
        UnsignedShift: rename_func("SHIFTRIGHTUNSIGNED"),
        exp.DPipe: _between("||"),
        exp.Div: _between("/"),
        exp.IntDiv: _between("DIV"),
        exp.Mod: _between("%"),
        exp.NullSafeEQ: _between("<=>"),
        exp.Like: _like("LIKE"),
        exp.ILike: _like("ILIKE"),
        exp.RegexpLike: _between("RLIKE"),
        exp.Escape: _between("ESCAPE"),
        Plus: lambda self, node: f"+{self.sql(node, 'this')}",
        UnitsInterval: lambda self, node: f"INTERVAL {self.expressions(node, sep=' ', flat=True)}",
        JoinedStrings: lambda self, node: self.expressions(node, sep=" ", flat=True),
        Quantified: lambda self, node: f"{node.name} ({self.expressions(node, flat=True)})",
        exp.HexString: lambda self, node: f"X'{node.this}'",
    }

    def not_sql(self, expression: exp.Not) -> str:
        test = expression.this
        if expression.meta.get("postfix") and isinstance(test, exp.Is):
            return f"{self.sql(test, 'this')} IS NOT {self.sql(test, 'expression')}"
        return super().not_sql(expression)

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        word = expression.meta.get("typed")
        if word is not None:
            return f"{word} {self.sql(expression, 'this')}"
        return super().cast_sql(expression, safe_prefix)

    def bracket_sql(self, expression: exp.Bracket) -> str:
        return f"{self.sql(expression, 'this')}[{self.expressions(expression, flat=True)}]"

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        words = expression.meta.get("words")
        if words is None:
            return super().anonymous_sql(expression)
        lead, marks = words
        first, *others = (self.sql(argument) for argument in expression.expressions)
        rest = "".join(mark + text for mark, text in zip(marks, others, strict=True))
        return f"{expression.name}({lead}{first}{rest})"


class WrittenGenerator(HeadraceGenerator):
    """Writes what was read as it was written, for one query alone."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Any]] = {
        **HeadraceGenerator.TRANSFORMS,
        exp.BitwiseLeftShift: _between("<<"),
        exp.BitwiseRightShift: _between(">>"),
        UnsignedShift: _between(">>>"),
    }


class Headrace(Spark):
    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        """sqlglot swallows the text after SHOW and EXPLAIN whole; ours have a grammar."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if word[0].isalpha() or word in _SYMBOLS
        }

    Parser = HeadraceParser
    Generator = HeadraceGenerator


_DIALECT = Headrace()
_KEYWORDS = frozenset(Headrace.Tokenizer.KEYWORDS)


def read_tokens(text: str) -> list[Token]:
    """sqlglot's tokens of `text`, with literals of several of them as one; raises sqlglot's TokenError."""
    tokens = _DIALECT.tokenize(text)
    out: list[Token] = []
    for token in tokens:
        before = out[-1] if out else None
        if before is not None and _is_fraction(out, token):
            out[-1] = Token(
                TokenType.NUMBER, f".{token.text}", before.line, token.col, before.start, token.end
            )
        elif before is not None and _is_hex(before, token):
            out[-1] = Token(
                TokenType.HEX_STRING, token.text, before.line, before.col, before.start, token.end
            )
        elif len(out) > 1 and _is_suffix(out[-2], out[-1], token):
            number = out[-2]
            del out[-1]
            out[-1] = Token(
                TokenType.NUMBER, number.text + token.text, number.line, number.col, number.start, token.end
            )
        else:
            out.append(token)
    return out


def _is_fraction(tokens: list[Token], number: Token) -> bool:
    """`.5`, where the point is not that of a column's field."""
    point, before = tokens[-1], tokens[-2] if len(tokens) > 1 else None
    if point.token_type is not TokenType.DOT or number.token_type is not TokenType.NUMBER:
        return False
    touches = before is not None and before.end + 1 == point.start
    return point.end + 1 == number.start and not (touches and before is not None and _ends_name(before))


def _ends_name(token: Token) -> bool:
    """Whether a field may follow."""
    closing = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.IDENTIFIER, TokenType.VAR)
    return token.token_type in closing or token.text[-1:].isalnum()


def _is_hex(word: Token, string: Token) -> bool:
    """`X '10'`, with a space that sqlglot does not expect."""
    return (
        string.token_type is TokenType.STRING and word.token_type is TokenType.VAR and word.text in ("x", "X")
    )


def _is_suffix(number: Token, cast: Token, suffix: Token) -> bool:
    """sqlglot makes `128::TINYINT` of `128Y`, of which `-128Y` is no longer a TINYINT."""
    return (
        number.token_type is TokenType.NUMBER
        and cast.token_type is TokenType.DCOLON
        and cast.start == suffix.start
        and suffix.text.upper() in _NUMBER_SUFFIXES
    )


_PATTERNS = Patterns(read_tokens)


def tokenize(text: str) -> list[Token]:
    """As `read_tokens`, quickly for texts that differ from one before in their literals only."""
    return _PATTERNS.tokens(text)


def parse(tokens: list[Token], text: str) -> list[exp.Expr | None]:
    """One tree per statement in `tokens`; raises sqlglot's ParseError. `text` is only for error messages."""
    return _DIALECT.parser().parse(tokens, text)


def render(node: exp.Expr) -> str:
    """Spark SQL text of an expression or query; does not change or copy `node`."""
    return _DIALECT.generator(normalize_functions=False, comments=False).generate(node, copy=False)


def render_written(node: exp.Expr) -> str:
    """As `render`, with nothing in another form than it was read in; for comparing readings."""
    generator = WrittenGenerator(dialect=_DIALECT, normalize_functions=False, comments=False)
    return generator.generate(node, copy=False)


def is_keyword(name: str) -> bool:
    return name.upper() in _KEYWORDS


__all__ = [
    "HeadraceParser",
    "Token",
    "TokenType",
    "is_keyword",
    "parse",
    "read_tokens",
    "render",
    "render_written",
    "tokenize",
]
