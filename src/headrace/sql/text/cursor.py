"""A cursor over the tokens of one statement: what statements are read with."""

from __future__ import annotations

from headrace.model.errors import SqlError
from headrace.sql import errors
from headrace.sql.text.cql import span_of
from headrace.sql.text.dialect import Token, TokenType

_NAME_TOKENS_NOT = (TokenType.STRING, TokenType.NUMBER)
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


class Cursor:
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

    def accept(self, *words: str) -> bool:
        """Go past these words if all of them come next; a name in backquotes is no word of the language."""
        following = self.tokens[self.at : self.at + len(words)]
        if [token.text.upper() for token in following] != list(words):
            return False
        if any(token.token_type in _QUOTED for token in following):
            return False
        self.at += len(words)
        return True

    def sees(self, *words: str) -> bool:
        """Whether one of these words comes next."""
        return not self.done and self.peek_word() in words and self.tokens[self.at].token_type not in _QUOTED

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.problem(" ".join(words))

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

    def value(self, what: str) -> str:
        """A number, which may have a sign, or a text in quotes, or NONE."""
        sign = "-" if self.accept("-") else ""
        if not self.done and self.tokens[self.at].token_type is TokenType.NUMBER:
            return sign + self.take().text
        if not sign and self.accept("NONE"):
            return "none"
        return self.string(f"{what}: a number, NONE, or a text")

    def whole_number(self, what: str) -> int:
        token = None if self.done else self.tokens[self.at]
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            raise self.problem(f"a whole number {what}")
        return int(self.take().text)

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

    def end(self) -> None:
        """Refuse whatever follows the statement."""
        if not self.done:
            raise self.problem("the end of the statement")

    @property
    def at_last(self) -> bool:
        """Whether only one token is left."""
        return self.at == len(self.tokens) - 1

    def words(self) -> str:
        """Whatever is left as words in capitals, without punctuation."""
        words = [token.text.upper() for token in self.tokens[self.at :]]
        self.at = len(self.tokens)
        return " ".join(word for word in words if word.replace("_", "").replace(" ", "").isalnum())
