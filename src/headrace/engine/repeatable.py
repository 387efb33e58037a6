"""Whether a query gives the same rows each time it runs. Spark's analysed plan says so.

Rows are computed again after a crash, by an audit and by a rebuild, so a query with `rand()` or a clock in it has no
rows to speak of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from headrace.model.errors import SqlError
from headrace.sql import errors
from headrace.sql.text.literals import names_a_moment

_MOMENTS = "now|today|tomorrow|yesterday"
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_READ = re.compile(
    rf"cast\(\s*(?:{_MOMENTS})\b[^()]* as (?:date|timestamp)\w*\)|"
    rf"(?:to_date|to_timestamp\w*|between)\([^()]*\b(?:{_MOMENTS})\b",
    re.IGNORECASE,
)
"""Text that Spark reads as the moment at which it reads it, where the plan makes a date or a timestamp of it."""


def check_repeatable(frame: DataFrame, sql: str) -> None:
    """Raise SqlError when the rows of `frame`, which is `sql`, are others each time it runs. Runs no job."""
    plan = frame._jdf.queryExecution().analyzed()
    jvm: Any = frame.sparkSession._jvm
    clock = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if not plan.deterministic():
        raise _refusal(plan, lambda found: not found.deterministic())
    if plan.containsPattern(clock):
        raise _refusal(plan, lambda found: found.containsPattern(clock))
    if any(map(names_a_moment, _QUOTED.findall(sql))) and (read := _READ.search(plan.toString())):
        raise errors.nondeterministic(f"{read.group(0)} ...")


def _nodes(tree: Any) -> Iterator[Any]:
    """A plan's operators, outermost first."""
    waiting = [tree]
    while waiting:
        yield (node := waiting.pop())
        waiting += _items(node.children())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _refusal(plan: Any, bad: Callable[[Any], bool]) -> SqlError:
    """Names the smallest expression of a plan that is `bad`."""
    found = next(item for node in _nodes(plan) for item in _items(node.expressions()) if bad(item))
    while inner := [child for child in _items(found.children()) if bad(child)]:
        found = inner[0]
    return errors.nondeterministic(str(found.sql()))
