"""The text that runs means what was written: Spark's own reading of both decides.

We read a text with sqlglot, and what we made of it runs as pieces of text that Spark reads again. Before a shape is
used, Spark's parser reads the text as it was written and as we would write it. Where the two readings differ, we have
misunderstood something, and nothing that is derived from our tree may run: the query runs as its own text, by plain
Spark, or is refused. `docs/decisions/0018-the-text-that-was-written.md` has the reasons.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from headrace.model.errors import SqlError
from headrace.sql import errors
from headrace.sql.binding import FallbackShape, Shape
from headrace.sql.render.determined import is_determined
from headrace.sql.render.original import original_log
from headrace.sql.render.templates import Template
from headrace.sql.resolve.analysis import Analyzer
from headrace.sql.shape import Lifted
from headrace.sql.text.dialect import render_written
from headrace.sql.text.lexer import Lexed


def render_again(tree: exp.Expr, lifted: Lifted) -> str:
    """The whole text as we read it; `tree` has its literals marked and nothing resolved yet."""
    return Template.of(render_written(tree)).fill(lifted.literals, "")


def faithful(
    shape: Shape, select: exp.Select, lexed: Lexed, lifted: Lifted, rendered: str, analyzer: Analyzer
) -> Shape:
    """`shape` with the query's own text over the log where there is one, and as a fallback if we misread the text.

    Raises SqlError if we misread it and it cannot run as it is.
    """
    session = any(call.session for call in shape.calls) or any(b.session for b in lexed.brackets)
    difference = _difference(lexed, rendered, analyzer)
    fixed = difference is None and is_determined(shape.body)
    log = original_log(
        select, lexed, lifted, shape.streams, windowed=shape.windowed, session=session, fixed=fixed
    )
    if difference is None:
        return shape if log is None else replace(shape, log=log, verbatim=True, rendered=shape.log)
    if log is None or lexed.brackets:
        raise errors.misread(difference)
    reason = "Headrace does not read this text as Spark does"
    return replace(
        shape, body=FallbackShape(reason), where=None, ordered=None, plain=None, log=log, verbatim=True
    )


def or_misread(error: SqlError, lexed: Lexed, rendered: str, analyzer: Analyzer) -> SqlError:
    """What to raise for a text that was refused: that we misread it, if we did, else `error`.

    A text that differs each time it runs is no misreading: Spark puts the moment into `TIMESTAMP 'now'` while it reads.
    """
    if error.code == "NONDETERMINISTIC":
        return error
    try:
        difference = _difference(lexed, rendered, analyzer)
    except SqlError:
        return error
    return error if difference is None else errors.misread(difference)


def _difference(lexed: Lexed, rendered: str, analyzer: Analyzer) -> str | None:
    """As `Analyzer.difference`, which is not asked when both texts are the same but for the length of gaps."""
    original = lexed.unbracketed
    same = original == rendered or one_spaced(original) == one_spaced(rendered) is not None
    return None if same else analyzer.difference(original, rendered)


_QUOTING = re.compile(r"""["`\\]|--|/\*""")
_GAP = re.compile(r"[ \t\r\n]+")


def one_spaced(text: str) -> str | None:
    """The text with one blank in each gap between words, which is the same text to Spark. None where what lies in
    quotes cannot be told without a grammar.

    >>> one_spaced("SELECT  a FROM s\\nWHERE b = 'x  y'")
    "SELECT a FROM s WHERE b = 'x  y'"
    """
    if _QUOTING.search(text):
        return None
    parts = text.split("'")
    parts[::2] = [_GAP.sub(" ", part) for part in parts[::2]]
    return "'".join(parts)
