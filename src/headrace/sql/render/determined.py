"""Answers that Spark leaves open, fixed in the text over the log in the way the shared operator fixes them.

Spark may give the values of `collect_set` in any order: here the array is sorted. Where several tuples have the
extreme ordering, Spark's `max_by` gives the value of any of them: here it is the greatest value, and the least for
`min_by`, with NULL below all others. Every answer to the fixed text is an answer that Spark may give to the text as it
was written, so the audit can compare with it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headrace.sql.binding import AggregationShape, BodyShape, JoinShape
from headrace.sql.resolve.columns import Flat, Item, enclosed
from headrace.sql.resolve.functions import function_name, is_aggregate
from headrace.sql.text.dialect import TokenType
from headrace.sql.text.edits import EditedText

_BY = frozenset(("min_by", "max_by"))


def is_determined(body: BodyShape) -> bool:
    """Whether a query runs as a shared aggregation, which fixes what Spark leaves open."""
    return isinstance(body, AggregationShape) or (
        isinstance(body, JoinShape) and isinstance(body.then, AggregationShape)
    )


def determined(flat: Flat) -> Flat:
    """The query with its open answers fixed."""
    return replace(
        flat,
        items=tuple(Item(item.name, _fixed(item.node)) for item in flat.items),
        having=tuple(map(_fixed, flat.having)),
    )


def _fixed(node: exp.Expr) -> exp.Expr:
    return node.copy().transform(_step, copy=False)


def _step(node: exp.Expr) -> exp.Expr:
    """What stands in place of a node; what is put in place is not looked at again."""
    call = node.this if isinstance(node, exp.Filter) else node
    if not is_aggregate(call):
        return node
    if function_name(call) == "collect_set":
        return exp.Anonymous(this="array_sort", expressions=[node.copy()])
    if call is node and function_name(call) in _BY and len(call.expressions) == 2:
        value, ordering = call.expressions
        unknown = exp.Is(this=enclosed(ordering.copy()), expression=exp.Null())
        row = exp.Anonymous(this="struct", expressions=[ordering.copy(), value.copy()])
        asked = exp.Anonymous(this="if", expressions=[unknown, exp.Null(), row])
        return exp.Anonymous(this=call.this, expressions=[value.copy(), asked])
    return node


def fix_text(text: EditedText, select: exp.Select) -> None:
    """The same in the text as it was written."""
    for call in select.find_all(exp.Anonymous):
        if not is_aggregate(call):
            continue
        if function_name(call) == "collect_set":
            first = text.index(call.meta.get("start"))
            last = text.closing(first + 1)
            if isinstance(call.parent, exp.Filter):
                last = text.closing(last + 2)
            text.insert(text.tokens[first].start, "array_sort(")
            text.insert(text.tokens[last].end + 1, ")")
        elif function_name(call) in _BY and len(call.expressions) == 2:
            _fix_by(text, text.index(call.meta.get("start")) + 1)


def _fix_by(text: EditedText, opening: int) -> None:
    """The arguments of `max_by(value, ordering)`, which open at a token."""
    last, depth, comma = text.closing(opening), 0, opening
    for index in range(opening, last):
        kind = text.tokens[index].token_type
        depth += kind in (TokenType.L_PAREN, TokenType.L_BRACKET)
        depth -= kind in (TokenType.R_PAREN, TokenType.R_BRACKET)
        if depth == 1 and kind is TokenType.COMMA:
            comma = index
    value, ordering = text.written(opening + 1, comma), text.written(comma + 1, last)
    fixed = f"if(({ordering}) IS NULL, NULL, struct({ordering}, {value}))"
    text.replace(text.tokens[comma + 1].start, text.tokens[last].start, fixed)
