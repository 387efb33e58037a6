"""Spark's analysis of a query's text: names and types of its columns, or the reason why it has none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import SparkSession

from headrace.engine.repeatable import check_repeatable
from headrace.engine.spark import MEANING, active, child_session
from headrace.model.errors import SqlError, did_you_mean
from headrace.model.query import Stream
from headrace.model.types import Column, SqlType
from headrace.sql.text.names import quote_name

_CODES = {
    "UNRESOLVED_COLUMN": "UNKNOWN_COLUMN",
    "UNRESOLVED_FIELD": "UNKNOWN_COLUMN",
    "FIELD_NOT_FOUND": "UNKNOWN_COLUMN",
    "UNRESOLVED_ROUTINE": "UNKNOWN_FUNCTION",
    "AMBIGUOUS_REFERENCE": "AMBIGUOUS_COLUMN",
    "DATATYPE_MISMATCH": "TYPE_MISMATCH",
    "INVALID_AGGREGATE_FILTER": "TYPE_MISMATCH",
    "INVALID_TYPED_LITERAL": "TYPE_MISMATCH",
    "CAST_INVALID_INPUT": "TYPE_MISMATCH",
    "PARSE_SYNTAX_ERROR": "SYNTAX",
}
_HINTS = {
    "TYPE_MISMATCH": "compare and combine values of the same type, or CAST one of them",
    "UNKNOWN_FUNCTION": "use one of Spark's built-in functions",
    "AMBIGUOUS_COLUMN": "give the columns different aliases",
}


_WHOLE_TEXTS = {"spark.sql.debug.maxToStringFields": str(2**31 - 1)}
"""Plans are compared as texts too, and Spark would leave out all columns but the first 25."""


class SparkAnalyzer:
    """Analyses texts in a session of its own, so that no view of ours shows up in the user's catalog."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = child_session(spark, {**MEANING, **_WHOLE_TEXTS})
        self._views: dict[str, Stream] = {}
        self._parser: Any = self.spark._jsparkSession.sessionState().sqlParser()

    def schema(self, sql: str, *streams: Stream) -> tuple[Column, ...]:
        """Columns of `sql` over empty relations named like the streams; raises SqlError. Runs no job."""
        try:
            for stream in streams:
                self._show(stream)
            frame = self.spark.sql(sql)
            fields = frame.schema.fields
            check_repeatable(frame, sql)
        except PySparkException as error:
            raise translate(error, streams) from None
        return tuple(Column(field.name, SqlType(field.dataType.simpleString())) for field in fields)

    def difference(self, original: str, rendered: str) -> str | None:
        """How Spark's reading of `rendered` differs from that of `original`; None if it does not. Runs no job.

        Plans are compared in canonical form, which knows no ids and no order of commuting operands, and as text, which
        shows how operators nest.
        """
        with active(self.spark):
            try:
                written = self._read(original)
            except PySparkException as error:
                raise translate(error, ()) from None
            try:
                again = self._read(rendered)
            except PySparkException as error:
                return f"Spark cannot read {rendered}: {translate(error, ()).message}"
            lines, others = _lines(written), _lines(again)
            if lines == others and _equal(written, again):
                return None
        pairs = [pair for pair in zip_longest(lines, others, fillvalue="nothing") if pair[0] != pair[1]]
        left, right = pairs[0] if pairs else (original, rendered)
        return f"Spark reads {left} where a rendering has {right}"

    def _read(self, sql: str) -> Any:
        """Spark's parse of a query, a plan of the JVM."""
        try:
            return self._parser.parsePlan(sql)
        except Py4JJavaError as error:
            raise convert_exception(error.java_exception) from None

    def _show(self, stream: Stream) -> None:
        if self._views.get(stream.name) == stream:
            return
        nulls = ", ".join(
            f"CAST(NULL AS {column.type.ddl}) AS {quote_name(column.name)}" for column in stream.columns
        )
        empty = self.spark.sql(f"SELECT {nulls} WHERE false")
        empty.createOrReplaceTempView(quote_name(stream.name))
        self._views[stream.name] = stream


def _lines(plan: Any) -> list[str]:
    """A plan line by line, without the ids that Spark gives to aliases and variables."""
    return [_ID.sub("", line).lstrip(" +-:") for line in plan.toString().splitlines()]


def _equal(left: Any, right: Any) -> bool:
    """Whether two unresolved plans are equal but for ids."""
    try:
        return bool(left.canonicalized().equals(right.canonicalized()))
    except Py4JJavaError:  # some expressions have no canonical form before they are resolved
        return _UNEQUAL.sub("", left.toJSON()) == _UNEQUAL.sub("", right.toJSON())


_UNEQUAL = re.compile(r'"exprId":\{[^}]*\}|"value":"\[B@[0-9a-f]+"')
"""What differs in the JSON of equal plans: ids, and where bytes are in memory (which are in the plan's text)."""

_ID = re.compile(r"#\d+L?\b")


def translate(error: PySparkException, streams: Sequence[Stream]) -> SqlError:
    """Spark's refusal in our words: a stable code, one sentence, no plan and no JVM frames."""
    condition = error.getCondition() or "ANALYSIS"
    parameters = error.getMessageParameters() or {}
    code = _CODES.get(condition.split(".")[0], "ANALYSIS")
    hint = _HINTS.get(code)
    if condition == "ASSIGNMENT_ARITY_MISMATCH":
        message = "Spark takes WHERE and a name in parentheses for an alias and its columns"
        return SqlError("SYNTAX", message, hint="leave the parentheses out", detail=f"Spark says {condition}")
    if code == "UNKNOWN_COLUMN" and "objectName" in parameters:
        name = parameters["objectName"].strip("`").split("`.`")[-1]
        known = [column.name for stream in streams for column in stream.columns]
        return SqlError(code, f"there is no column `{name}` here", hint=did_you_mean(name, known))
    return SqlError(code, _sentence(error, condition), hint=hint, detail=f"Spark says {condition}")


def _sentence(error: PySparkException, condition: str) -> str:
    """Spark's message without its condition, SQLSTATE, position and plan."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    first = lines[0] if lines else condition
    first = first.removeprefix(f"[{condition}]").strip()
    return first.split(" SQLSTATE:")[0].split("; line ")[0].rstrip(";. ") or condition
