"""SQL over several lines: only white space changes, so that the text that is shown is the text that runs."""

from __future__ import annotations

from sqlglot.errors import TokenError

from headrace.sql.text.dialect import Token, TokenType, tokenize

_CLAUSES = frozenset(
    (
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.UNION,
    )
)
_JOINS = frozenset(
    (
        TokenType.JOIN,
        TokenType.INNER,
        TokenType.LEFT,
        TokenType.RIGHT,
        TokenType.FULL,
        TokenType.CROSS,
        TokenType.OUTER,
    )
)
_QUERIES = (TokenType.SELECT, TokenType.WITH)


def arrange_sql(text: str) -> str:
    """A query with a line per clause, subqueries indented; as it is when it has comments or cannot be read.

    >>> print(arrange_sql("SELECT a FROM (SELECT * FROM s) AS t WHERE b > 1 GROUP BY a"))
    SELECT a
    FROM (
      SELECT *
      FROM s
    ) AS t
    WHERE b > 1
    GROUP BY a
    """
    try:
        tokens = tokenize(text)
    except TokenError:
        return text
    out, nested = "", list[bool]()
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        gap = text[before.end + 1 : token.start] if before else ""
        if gap.strip():
            return text
        closes = token.token_type is TokenType.R_PAREN and bool(nested) and nested.pop()
        if before and (closes or _breaks(before, token, nested)):
            gap = "\n" + "  " * sum(nested)
        elif "\n" in gap:
            gap = " "
        out += gap + text[token.start : token.end + 1]
        if token.token_type is TokenType.L_PAREN:
            following = tokens[i + 1] if i + 1 < len(tokens) else None
            nested.append(following is not None and following.token_type in _QUERIES)
    return out


def _breaks(before: Token, token: Token, nested: list[bool]) -> bool:
    """Whether a line begins with a token: clauses of a query do, words inside of a call do not."""
    if before.token_type is TokenType.L_PAREN:
        return bool(nested) and nested[-1]
    if nested and not nested[-1]:
        return False
    if token.token_type in _JOINS:
        return before.token_type not in _JOINS
    return token.token_type in _CLAUSES and before.token_type is not TokenType.DISTINCT
