"""INSERT INTO a stream: Spark evaluates the VALUES, each value becomes the column's type as CAST makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from headrace.engine.errors import spark_reason
from headrace.model.errors import SqlError, did_you_mean
from headrace.model.query import Stream
from headrace.model.statements import Insert
from headrace.model.tables import numbered_column, numbered_columns
from headrace.model.types import Column
from headrace.sql.text.names import quote_name

if TYPE_CHECKING:
    from headrace.session import Session


def insert_values(session: Session, statement: Insert) -> int:
    """Append the rows, all of them or none; how many there were."""
    stream = session._catalog.stream(statement.stream)
    columns = _chosen(stream, statement.columns)
    try:
        frame = session.select(f"SELECT * FROM ({statement.values}\n)")
    except SqlError as error:
        if error.code != "SELECT_FAILED":
            raise
        raise SqlError(
            "INSERT_VALUE",
            f"the values for stream `{stream.name}` cannot be read",
            detail=error.message,
            hint="write the same type of value for a column in every row",
        ) from None
    if len(frame.columns) != len(columns):
        raise SqlError(
            "INSERT_COLUMNS",
            f"each row has {len(frame.columns)} values for {len(columns)} columns of stream `{stream.name}`",
            hint=f"give values for {', '.join(column.name for column in columns)}, in this order",
        )
    try:
        rows = _typed(frame, stream, columns).toArrow()
    except Exception as error:
        raise SqlError(
            "INSERT_VALUE",
            f"a value does not fit its column of stream `{stream.name}`",
            detail=spark_reason(error),
            hint=f"DESCRIBE {quote_name(stream.name)} shows the types",
        ) from error
    return session.append(stream.name, rows)


def _chosen(stream: Stream, names: tuple[str, ...]) -> list[Column]:
    """The columns that a statement names, all of them when it names none."""
    if not names:
        return list(stream.columns)
    known = {column.name.lower(): column for column in stream.columns}
    for i, name in enumerate(names):
        if name.lower() not in known:
            raise SqlError(
                "UNKNOWN_COLUMN",
                f"stream `{stream.name}` has no column `{name}`",
                hint=did_you_mean(name, [column.name for column in stream.columns]),
            )
        if name.lower() in {other.lower() for other in names[:i]}:
            raise SqlError("AMBIGUOUS_COLUMN", f"column `{name}` is named twice", hint="name it once")
    return [known[name.lower()] for name in names]


def _typed(frame: DataFrame, stream: Stream, columns: list[Column]) -> DataFrame:
    """All columns of the stream in its order and types; NULL where the statement has no value."""
    numbered = frame.toDF(*numbered_columns(len(columns)))
    place = {column.name: numbered_column(i) for i, column in enumerate(columns)}
    return numbered.selectExpr(
        *(
            f"CAST({place.get(column.name, 'NULL')} AS {column.type.ddl}) AS {quote_name(column.name)}"
            for column in stream.columns
        )
    )
