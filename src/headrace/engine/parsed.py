"""What a SELECT text names, by Spark's own parse of it: relations, functions, scripts. Nothing is looked up or run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Parsed:
    """`relations` are names as their parts, `functions` in small letters; `nodes` are the classes of Spark's tree."""

    relations: frozenset[tuple[str, ...]]
    functions: frozenset[str]
    nodes: frozenset[str]


def read_parse(spark: SparkSession, text: str) -> Parsed:
    """Walk Spark's parse of `text`, subqueries and all; raises Spark's ParseException."""
    root = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    relations, functions, nodes = set(), set(), set()
    for kind, node in _walk(spark, root):
        nodes.add(kind)
        match kind:
            case "UnresolvedRelation":
                relations.add(tuple(_items(node.multipartIdentifier())))
            case "UnresolvedFunction":
                functions.add(list(_items(node.nameParts()))[-1].lower())
            case "UnresolvedTableValuedFunction":
                functions.add(list(_items(node.name()))[-1].lower())
    return Parsed(frozenset(relations), frozenset(functions), frozenset(nodes))


def _walk(spark: SparkSession, root: Any) -> Iterator[tuple[str, Any]]:
    """(class, node) of every plan and expression below and with `root`."""
    classes = spark._jvm.java.lang.Class  # type: ignore[union-attr]
    plans = classes.forName("org.apache.spark.sql.catalyst.plans.QueryPlan")
    holders = classes.forName("org.apache.spark.sql.catalyst.expressions.PlanExpression")
    left = [root]
    while left:
        node = left.pop()
        kind = node.getClass().getSimpleName()
        yield kind, node
        if kind == "Literal":
            continue
        left += _items(node.children())
        if plans.isInstance(node):
            left += _items(node.innerChildren())
            left += _items(node.expressions())
        elif holders.isInstance(node):
            left.append(node.plan())


def _items(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
