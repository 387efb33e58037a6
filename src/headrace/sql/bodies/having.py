"""HAVING as Spark runs it: a condition on the keys alone already decides which tuples are aggregated.

Spark's optimiser moves such a condition below the aggregation, so an aggregate's input is never computed for the
groups it rejects. That matters where the input may raise.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headrace.sql.bodies.conjuncts import conjuncts
from headrace.sql.bodies.windows import is_window_column
from headrace.sql.resolve.columns import Flat
from headrace.sql.resolve.functions import aggregates_in
from headrace.sql.text.dialect import render


def filter_keys_early(flat: Flat) -> Flat:
    """`flat` with the conditions of HAVING that use nothing but grouping keys in WHERE, after those that are there."""
    if not flat.group or flat.grouping_sets:
        return flat
    keys = frozenset(render(key) for key in flat.group if not _uses_window(key))
    parts = [part for node in flat.having for part in conjuncts(node)]
    early = tuple(part for part in parts if _only_keys(part, keys))
    if not early:
        return flat
    late = tuple(part for part in parts if part not in early)
    return replace(flat, where=(*flat.where, *early), having=late)


def _only_keys(node: exp.Expr, keys: frozenset[str]) -> bool:
    """Whether `node` asks for at least one key and for nothing else; a constant asks for none."""
    if node.find(exp.Column) is None or aggregates_in(node):
        return False
    return all(_within_key(found, node, keys) for found in node.find_all(exp.Column))


def _within_key(found: exp.Expr, whole: exp.Expr, keys: frozenset[str]) -> bool:
    place: exp.Expr | None = found
    while place is not None:
        if render(place) in keys:
            return True
        place = None if place is whole else place.parent
    return False


def _uses_window(node: exp.Expr) -> bool:
    return any(is_window_column(found) for found in node.find_all(exp.Column))
