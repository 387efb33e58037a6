"""Spark's grammar of expressions, where sqlglot's differs from it.

sqlglot reads many dialects with one ladder of operators. Spark's ladder is another one (`&`, `^` and `|` bind less
tightly than shifts, comparisons bind tighter than LIKE), and it has literals that sqlglot takes apart. What is read
here is read as `SqlBaseParser.g4` of Spark has it, and `dialect` writes it back as it was. Function calls stay names
with arguments: sqlglot would normalise them so that it can translate between engines, and nothing is translated here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from headrace.sql.text.nodes import JoinedStrings, Plus, Quantified, UnitsInterval, UnsignedShift

_COMPARISON, _OR, _XOR, _AND, _SHIFT, _SUM, _PRODUCT = range(7)

_OPERATORS: dict[TokenType, tuple[int, type[exp.Expr]]] = {
    TokenType.EQ: (_COMPARISON, exp.EQ),
    TokenType.NEQ: (_COMPARISON, exp.NEQ),
    TokenType.NULLSAFE_EQ: (_COMPARISON, exp.NullSafeEQ),
    TokenType.LT: (_COMPARISON, exp.LT),
    TokenType.LTE: (_COMPARISON, exp.LTE),
    TokenType.GT: (_COMPARISON, exp.GT),
    TokenType.GTE: (_COMPARISON, exp.GTE),
    TokenType.PIPE: (_OR, exp.BitwiseOr),
    TokenType.CARET: (_XOR, exp.BitwiseXor),
    TokenType.AMP: (_AND, exp.BitwiseAnd),
    TokenType.PLUS: (_SUM, exp.Add),
    TokenType.DASH: (_SUM, exp.Sub),
    TokenType.DPIPE: (_SUM, exp.DPipe),
    TokenType.STAR: (_PRODUCT, exp.Mul),
    TokenType.SLASH: (_PRODUCT, exp.Div),
    TokenType.MOD: (_PRODUCT, exp.Mod),
    TokenType.DIV: (_PRODUCT, exp.IntDiv),
}
"""How tightly each operator binds, and the node it makes."""

_EXTRA: dict[type[exp.Expr], dict[str, bool]] = {
    exp.Div: {"typed": False, "safe": True},
    exp.DPipe: {"safe": True},
}

INTERVAL_UNITS = frozenset(
    unit + plural
    for unit in ("year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond",
                 "nanosecond")
    for plural in ("", "s")
)  # fmt: skip

TYPED_LITERALS = {
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp_ltz",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "TIME": "time",
}
"""Words that make a literal of the string after them."""

_QUANTIFIERS = ("ANY", "SOME", "ALL")
_TRIM_WORDS = ("BOTH", "LEADING", "TRAILING", "FROM")
_ONLY_WORDED = ("POSITION",)
"""`position('a' IN s)` would be a call with a condition as well, so words come first."""

_WORDED_FUNCTIONS = {
    "SUBSTRING": ("FROM", "FOR"),
    "SUBSTR": ("FROM", "FOR"),
    "OVERLAY": ("PLACING", "FROM", "FOR"),
    "POSITION": ("IN",),
    "EXTRACT": ("FROM",),
    "TRIM": ("FROM",),
}
"""Calls in which a word may stand for each comma."""

_UNIT_FUNCTIONS = frozenset(
    ("DATEADD", "DATE_ADD", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "TIMEDIFF", "TIMESTAMPDIFF")
)
"""Calls whose first of three arguments is a unit of time, which is no column."""

_UNITS = frozenset(
    (
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "DAYOFYEAR",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
    )
)


class HeadraceParser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")},
        **{name: lambda self: self._parse_worded_call() for name in _WORDED_FUNCTIONS},
        **{name: lambda self: self._parse_unit_call() for name in _UNIT_FUNCTIONS},
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
    """So that `array(1, 2)[0]` is an element of the array."""

    JOINS_HAVE_EQUAL_PRECEDENCE = False
    ADD_JOIN_ON_TRUE = False
    """So that a comma stays a comma, and a join without a condition gets none."""

    SUBQUERY_PREDICATES: ClassVar[dict[TokenType, Any]] = {}
    """So that `any(...)` and `exists(...)` are calls; a subquery in them is refused like in any other call."""

    def _parse_select_query(self, *args: Any, **options: Any) -> exp.Expr | None:
        """A SELECT keeps the place of its first word, so that its text can be found again."""
        first = self._curr
        query = super()._parse_select_query(*args, **options)
        if isinstance(query, exp.Select) and first.token_type is TokenType.SELECT:
            query.meta.setdefault("select", first.start)
        return query

    # conditions: NOT condition, or a value and at most one predicate about it

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        if self._match(TokenType.NOT):
            return self.expression(exp.Not(this=self._parse_equality()))
        value = self._parse_operation()
        return None if value is None else self._parse_predicate(value)

    def _parse_predicate(self, value: exp.Expr) -> exp.Expr:
        if self._match(TokenType.IS):
            return self._parse_is_predicate(value)
        index = self._index
        negated = self._match(TokenType.NOT)
        found = self._parse_range_predicate(value)
        if found is None:
            self._retreat(index)
            return value
        if not negated:
            return found
        if isinstance(found.args.get("expression"), Quantified):
            found.set("negate", True)  # NOT LIKE ANY asks whether some pattern does not match
            return found
        return self.expression(exp.Not(this=found))

    def _parse_range_predicate(self, value: exp.Expr) -> exp.Expr | None:
        if self._match(TokenType.BETWEEN):
            low = self._parse_operation()
            self._match(TokenType.AND)
            return self.expression(exp.Between(this=value, low=low, high=self._parse_operation()))
        if self._match(TokenType.IN):
            return self._parse_in(value)
        if self._match(TokenType.RLIKE):
            return self.expression(exp.RegexpLike(this=value, expression=self._parse_operation()))
        for token, kind in ((TokenType.LIKE, exp.Like), (TokenType.ILIKE, exp.ILike)):
            if self._match(token):
                return self._parse_like(kind, value)
        return None

    def _parse_like(self, kind: type[exp.Expr], value: exp.Expr) -> exp.Expr:
        index = self._index
        if self._next.token_type is TokenType.L_PAREN and self._match_texts(_QUANTIFIERS):
            word = self._prev.text
            patterns = self._parse_wrapped_csv(self._parse_disjunction)
            if self._operator() is None:
                quantified = self.expression(Quantified(this=word, expressions=patterns))
                return self.expression(kind(this=value, expression=quantified))
            self._retreat(index)  # the pattern is computed from a function of this name
        like = self.expression(kind(this=value, expression=self._parse_operation()))
        if self._match(TokenType.ESCAPE):
            return self.expression(exp.Escape(this=like, expression=self._parse_string()))
        return like

    def _parse_is_predicate(self, value: exp.Expr) -> exp.Expr:
        negated = self._match(TokenType.NOT)
        found: exp.Expr
        if self._match_text_seq("DISTINCT", "FROM"):
            kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            other = self._parse_operation()
            return self.expression(kind(this=_apart(value), expression=_apart(other)))
        if self._match_text_seq("UNKNOWN"):
            found = exp.Var(this="UNKNOWN")
        elif self._match_set((TokenType.NULL, TokenType.TRUE, TokenType.FALSE)):
            found = self._literal()
        else:
            self.raise_error("IS is followed by NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        test = self.expression(exp.Is(this=value, expression=found))
        if not negated:
            return test
        negation = self.expression(exp.Not(this=test))
        negation.meta["postfix"] = True
        return negation

    # values: operators by how tightly they bind

    def _parse_operation(self, loosest: int = _COMPARISON) -> exp.Expr | None:
        this = self._parse_unary()
        while this is not None and (found := self._operator()) is not None and found[0] >= loosest:
            binds, kind, tokens = found
            self._advance(tokens)
            right = self._parse_operation(binds + 1)
            if right is None:
                self.raise_error("an operand is missing")
            this = self.expression(kind(this=this, expression=right, **_EXTRA.get(kind, {})))
        return this

    def _operator(self) -> tuple[int, type[exp.Expr], int] | None:
        """The operator that comes next: how tightly it binds, its node, and how many tokens it is."""
        token = self._curr
        kind = token.token_type
        if kind in (TokenType.LT, TokenType.GT):
            length = self._touching(kind)
            if length > 1:
                shifts = {2: exp.BitwiseLeftShift} if kind is TokenType.LT else _RIGHT_SHIFTS
                return (_SHIFT, shifts[length], length) if length in shifts else None
        found = _OPERATORS.get(kind)
        return None if found is None else (*found, 1)

    def _touching(self, kind: TokenType) -> int:
        """How many tokens of this kind follow each other without a gap, from the current one on."""
        tokens, index = self._tokens, self._index
        count = 1
        while (
            index + count < len(tokens)
            and tokens[index + count].token_type is kind
            and tokens[index + count].start == tokens[index + count - 1].end + 1
        ):
            count += 1
        return count

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return self._parse_operation() if this is None else this

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_operation(_OR)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._parse_operation(_SUM)

    def _parse_factor(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._parse_operation(_PRODUCT)

    def _parse_unary(self) -> exp.Expr | None:
        for token, kind in _SIGNS:
            if self._match(token):
                return self.expression(kind(this=self._parse_unary()))
        this = self._parse_typed_literal() or self._parse_type()
        while this is not None and self._match(TokenType.COLLATE):
            this = self.expression(exp.Collate(this=this, expression=self._parse_collation()))
        return this

    def _parse_collation(self) -> exp.Var:
        """The name after COLLATE, which is no column."""
        words = []
        while True:
            word = self._advance_any()
            words.append(
                f"`{self._prev.text}`" if self._prev.token_type is TokenType.IDENTIFIER else self._prev.text
            )
            if word is None or not self._match(TokenType.DOT):
                return exp.Var(this=".".join(words))

    # literals

    def _parse_typed_literal(self) -> exp.Expr | None:
        """`DATE '2024-01-01'`: a constant to Spark, where a cast of the text would be an expression."""
        word = self._curr.text.upper()
        quoted = self._curr.token_type is TokenType.IDENTIFIER
        if word not in TYPED_LITERALS or quoted or self._next.token_type is not TokenType.STRING:
            return None
        self._advance(2)
        literal = self._literal()
        cast = exp.Cast(this=literal, to=exp.DataType.build(TYPED_LITERALS[word], dialect="spark"))
        cast.meta["typed"] = word
        return self._parse_column_ops(self.expression(cast))

    def _literal(self) -> exp.Expr:
        """The literal that the token before this one is."""
        parse: Callable[[HeadraceParser, Token], exp.Expr] = self.PRIMARY_PARSERS[self._prev.token_type]
        return parse(self, self._prev)

    def _parse_primary(self) -> exp.Expr | None:
        if self._curr.token_type is not TokenType.STRING or self._next.token_type is not TokenType.STRING:
            return super()._parse_primary()
        strings = []
        while self._match(TokenType.STRING):
            strings.append(self._literal())
        return self.expression(JoinedStrings(expressions=strings))

    def _parse_interval(  # type: ignore[override]
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Expr | None:
        index = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        parts: list[exp.Expr] = []
        while (pair := self._parse_interval_part(first=not parts)) is not None:
            parts += pair
        if not parts:
            self._retreat(index)
            return None
        if self._match_text_seq("TO"):
            parts += [exp.Var(this="TO"), self._parse_var(any_token=True) or exp.Var(this="")]
        return self.expression(UnitsInterval(expressions=parts))

    def _parse_interval_part(self, *, first: bool) -> list[exp.Expr] | None:
        """A number or a string and its unit; the first string may stand alone."""
        index = self._index
        sign = self._prev.text if self._match_set((TokenType.DASH, TokenType.PLUS)) else None
        if self._match_set((TokenType.NUMBER, TokenType.STRING)):
            value = self._literal()
            alone = first and sign is None and self._prev.token_type is TokenType.STRING
            signs: list[exp.Expr] = [] if sign is None else [exp.Var(this=sign)]
            if self._curr.text.lower() in INTERVAL_UNITS:
                self._advance()
                return [*signs, value, exp.Var(this=self._prev.text)]
            if alone:
                return [value]
        self._retreat(index)
        return None

    # calls

    def _parse_unit_call(self) -> exp.Anonymous:
        """`dateadd(HOUR, 1, ts)`, and `dateadd(day, 1)` of a column `day`."""
        name, start, word = self._tokens[self._index - 2].text, self._index, self._curr
        unit = word.text.upper() in _UNITS and word.token_type is not TokenType.IDENTIFIER
        if unit and self._next.token_type is TokenType.COMMA:
            self._advance(2)
            rest = self._parse_function_args(alias=True)
            if len(rest) == 2:
                return self.expression(exp.Anonymous(this=name, expressions=[exp.Var(this=word.text), *rest]))
            self._retreat(start)
        arguments = self._parse_function_args(alias=True)
        return self.expression(exp.Anonymous(this=name, expressions=arguments))

    def _parse_worded_call(self) -> exp.Anonymous:
        """`substring(s FROM 1 FOR 2)`, and `substring(s, 1, 2)`; the words are kept for writing it again."""
        name, start = self._tokens[self._index - 2].text, self._index
        if name.upper() not in _ONLY_WORDED and self._curr.text.upper() not in _TRIM_WORDS:
            arguments = self._parse_function_args(alias=True)
            if self._match(TokenType.R_PAREN, advance=False):
                return self.expression(exp.Anonymous(this=name, expressions=arguments))
            self._retreat(start)
        words, lead = list(_WORDED_FUNCTIONS[name.upper()]), ""
        while name.upper() == "TRIM" and self._match_texts(_TRIM_WORDS):
            lead += f"{self._prev.text} "
        field = name.upper() == "EXTRACT" and self._next.token_type is TokenType.FROM
        parts = [self._parse_var(any_token=True) if field else self._parse_operation()]
        marks: list[str] = []
        while self._match(TokenType.COMMA) or (words and self._match_texts(words)):
            mark = self._prev.text
            words = words[words.index(mark.upper()) + 1 :] if mark != "," else words
            marks.append(", " if mark == "," else f" {mark} ")
            parts.append(self._parse_operation())
        call = self.expression(exp.Anonymous(this=name, expressions=parts))
        call.meta["words"] = (lead, tuple(marks))
        return call


_RIGHT_SHIFTS: dict[int, type[exp.Expr]] = {2: exp.BitwiseRightShift, 3: UnsignedShift}
_SIGNS: tuple[tuple[TokenType, type[exp.Expr]], ...] = (
    (TokenType.DASH, exp.Neg),
    (TokenType.PLUS, Plus),
    (TokenType.TILDE, exp.BitwiseNot),
)


def _apart(node: exp.Expr | None) -> exp.Expr | None:
    """`node` as an operand of `<=>`, which Spark reads from left to right."""
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node
