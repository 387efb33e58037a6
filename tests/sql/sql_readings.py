"""A text as we read it: what Spark's parser is asked to compare."""

from __future__ import annotations

from headrace.sql.render.fidelity import render_again
from headrace.sql.render.templates import literal_hole
from headrace.sql.shape import lift
from headrace.sql.text.dialect import parse
from headrace.sql.text.lexer import lex
from headrace.sql.text.literals import mark_literals


def read_again(text: str) -> tuple[str, str]:
    """(the text as Spark reads it, the text as we write it again); raises SqlError or sqlglot's ParseError."""
    lexed = lex(text)
    lifted = lift(lexed)
    tree = parse(lexed.tokens, lexed.source)[0]
    assert tree is not None
    texts = {s: literal_hole(s) if s in lifted.lifted else raw for s, raw in enumerate(lifted.literals)}
    mark_literals(tree, lifted.slots, texts)
    return lexed.unbracketed, render_again(tree, lifted)
