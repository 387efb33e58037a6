"""SELECT over results and recent tuples: queries and streams are tables of their own names, and nothing else is read.

A statement may come from a prompt, a script or the network. So it may not read files, run scripts or call Java methods
unless whoever calls `execute` allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.errors import spark_reason
from headrace.engine.parsed import Parsed, read_parse
from headrace.model.errors import SqlError, did_you_mean
from headrace.sql import check_text, quote_name

FILES = "spark.sql.runSQLOnFiles"
"""Whether Spark takes `parquet.path` in FROM for a file."""

_FUNCTIONS = {
    "reflect": "calls a Java method",
    "try_reflect": "calls a Java method",
    "java_method": "calls a Java method",
    "from_protobuf": "reads a file",
    "to_protobuf": "reads a file",
    "read_files": "reads files",
    "from_xml": "reads a file if its options say so",
    "schema_of_xml": "reads a file if its options say so",
    "from_avro": "reads a file if its options say so",
}
_NODES = {
    "ScriptTransformation": "TRANSFORM runs a program",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER() may name anything",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER() may name anything",
}


@dataclass(frozen=True, slots=True)
class Selecting:
    """What a SELECT names, once it is known to be one and to be harmless."""

    parsed: Parsed
    allow_files: bool

    def names(self) -> frozenset[str]:
        """Tables of one word, in small letters: what may be a query or a stream."""
        return frozenset(parts[0].lower() for parts in self.parsed.relations if len(parts) == 1)


def read_select(spark: SparkSession, text: str, *, allow_files: bool) -> Selecting:
    """Look at a SELECT text without running it; SqlError when it is none, or would reach out of the warehouse."""
    check_text(text)
    body = text.rstrip().rstrip(";")
    try:
        # only a query can stand in FROM; anything else Spark would run at once
        parsed = read_parse(spark, f"SELECT 1 FROM ({body}\n)")
        read_parse(spark, body)
    except PySparkException as error:
        raise select_failed(error) from None
    if not allow_files:
        check_harmless(parsed)
    return Selecting(parsed, allow_files)


def check_own(spark: SparkSession, selecting: Selecting, known: Iterable[str]) -> None:
    """SqlError when a SELECT may read a table of Spark's own catalog: `known` are the queries and streams.

    The other names are usually those of its WITH. One that is also the name of a table is refused, whichever was meant.
    """
    if selecting.allow_files:
        return
    for name in sorted(selecting.names() - {name.lower() for name in known}):
        if spark.catalog.tableExists(quote_name(name)):
            raise SqlError(
                "NOT_ALLOWED",
                f"`{name}` is a table of Spark's catalog, and statements read only queries and streams",
                hint="in Python, execute(text, allow_files=True) allows what Spark allows; "
                "a name in WITH must be another one",
            )


def check_harmless(parsed: Parsed) -> None:
    """SqlError when a text reads files, runs programs or calls methods."""
    found = [f"{name}() {_FUNCTIONS[name]}" for name in sorted(parsed.functions & _FUNCTIONS.keys())]
    found += [_NODES[node] for node in sorted(parsed.nodes & _NODES.keys())]
    found += [f"{'.'.join(parts)} is no query and no stream" for parts in parsed.relations if len(parts) > 1]
    if found:
        raise SqlError(
            "NOT_ALLOWED",
            f"this statement is not allowed: {found[0]}",
            hint="in Python, execute(text, allow_files=True) allows what Spark allows",
        )


@contextmanager
def files_allowed(spark: SparkSession, allowed: bool) -> Iterator[None]:
    """Let what is analysed in the block take paths in FROM for files, or not."""
    before = spark.conf.get(FILES)
    spark.conf.set(FILES, str(allowed).lower())
    try:
        yield
    finally:
        spark.conf.set(FILES, str(before))


@contextmanager
def opened_tables(spark: SparkSession, tables: Iterable[tuple[str, DataFrame]]) -> Iterator[None]:
    """Let relations be tables of these names in the block; what was analysed in it goes on without them."""
    opened = []
    try:
        for name, frame in tables:
            frame.createOrReplaceTempView(quote_name(name))
            opened.append(name)
        yield
    finally:
        for name in opened:
            spark.catalog.dropTempView(name)


def analyse(spark: SparkSession, text: str, selecting: Selecting, known: Sequence[str]) -> DataFrame:
    """The rows of a SELECT; its tables are there already. Nothing is run until rows are asked for.

    `known` are the names that it may read, for the error when it names another.
    """
    try:
        with files_allowed(spark, selecting.allow_files):
            return spark.sql(text)
    except PySparkException as error:
        raise (
            _foreign(error, selecting) or _unknown(error, selecting, known) or select_failed(error)
        ) from None


def _unknown(error: PySparkException, selecting: Selecting, known: Sequence[str]) -> SqlError | None:
    """The refusal when a table is no query and no stream."""
    if "TABLE_OR_VIEW_NOT_FOUND" not in (error.getCondition() or ""):
        return None
    lowered = {name.lower() for name in known}
    missing = sorted(parts[-1] for parts in selecting.parsed.relations if parts[-1].lower() not in lowered)
    if not missing:
        return None
    hint = did_you_mean(missing[0], known) or "create a stream first: HELP CREATE STREAM"
    return SqlError("SELECT_FAILED", f"there is no query or stream `{missing[0]}`", hint=hint)


def _foreign(error: PySparkException, selecting: Selecting) -> SqlError | None:
    """The refusal when a table that was not found may have been meant as a file."""
    paths = [parts for parts in selecting.parsed.relations if len(parts) == 2]
    if selecting.allow_files or not paths or "NOT_FOUND" not in (error.getCondition() or ""):
        return None
    name = ".".join(f"`{part}`" for part in paths[0])
    return SqlError(
        "NOT_ALLOWED",
        f"there is no table {name}, and files are not read by a statement",
        hint="in Python, execute(text, allow_files=True) allows what Spark allows",
    )


def select_failed(error: Exception) -> SqlError:
    return SqlError("SELECT_FAILED", spark_reason(error))
