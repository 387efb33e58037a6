"""WHERE as Spark runs it: one conjunct after the other, and none after the first that is not TRUE.

`a AND b` as an expression also evaluates `b` where `a` is NULL; a filter does not. That matters where `b` may raise.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.sql.bodies.registered import guard_calls


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """What a filter on `node` splits into, in order; a negated OR is split as Spark's optimiser splits it."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        inner = waiting.pop().unnest()
        negated = inner.this.unnest() if isinstance(inner, exp.Not) else None
        if isinstance(inner, exp.And):
            waiting += [inner.expression, inner.this]
        elif isinstance(negated, exp.Not):
            waiting.append(negated.this)
        elif isinstance(negated, exp.Or):
            waiting += [exp.Not(this=_operand(part.copy())) for part in (negated.expression, negated.this)]
        else:
            found.append(inner)
    return found


def in_order(node: exp.Expr, harmless: Callable[[exp.Expr], bool]) -> exp.Expr:
    """An expression that is TRUE where `node` is and evaluates no conjunct that Spark's filter would not.

    Conjuncts are kept apart only where the later one may raise, so that long conditions do not nest deeply.
    """
    runs: list[list[exp.Expr]] = []
    for part in conjuncts(node):
        if runs and harmless(part):
            runs[-1].append(part)
        else:
            runs.append([part])
    if len(runs) == 1:
        return node
    ordered: exp.Expr | None = None
    for run in reversed(runs):
        whole = run[0].copy()
        for part in run[1:]:
            whole = exp.And(this=_operand(whole), expression=_operand(part.copy()))
        if ordered is None:
            ordered = whole
        else:
            ordered = exp.Case(ifs=[exp.If(this=whole, true=guard_calls(whole, ordered))])
    assert ordered is not None
    return ordered


def _operand(node: exp.Expr) -> exp.Expr:
    """`node` as an operand of AND or NOT; not copied."""
    return node if isinstance(node, exp.And | exp.Column | exp.Paren) else exp.Paren(this=node)
