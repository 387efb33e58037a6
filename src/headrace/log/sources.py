"""Sources: frozen descriptions of where a stream comes from, each able to build a streaming DataFrame."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from headrace.catalog.warehouse import local_directory
from headrace.model.errors import LogError, StorageError, did_you_mean
from headrace.model.query import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


GLOB = "*?[{"
"""What makes Spark take a path for a pattern."""

FRAME = "dataframe"
"""The kind of source that only its maker can build again."""


class Source(Protocol):
    @property
    def durable(self) -> bool:
        """Whether `describe` is enough to build it again."""
        ...

    def describe(self) -> dict[str, Any]:
        """JSON data that `source_from` understands."""
        ...

    def load(self, spark: SparkSession, stream: Stream) -> DataFrame:
        """A streaming DataFrame whose columns fit the stream."""
        ...


class FileFormat(Enum):
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A directory (or glob) into which files are put whole; each is read once."""

    path: str
    format: FileFormat
    options: tuple[tuple[str, str], ...] = ()
    durable = True

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "files",
            "path": self.path,
            "format": self.format.value,
            "options": dict(self.options),
        }

    def load(self, spark: SparkSession, stream: Stream) -> DataFrame:
        reader = spark.readStream.schema(ddl(stream)).format(self.format.value)
        return reader.options(**dict(self.options)).load(self.path)


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A Kafka topic whose values are JSON objects with the stream's columns. Needs Spark's Kafka package."""

    options: tuple[tuple[str, str], ...]
    durable = True

    def describe(self) -> dict[str, Any]:
        return {"kind": "kafka", "options": dict(self.options)}

    def load(self, spark: SparkSession, stream: Stream) -> DataFrame:
        from pyspark.sql import functions as F

        messages = spark.readStream.format("kafka").options(**dict(self.options)).load()
        parsed = F.from_json(F.col("value").cast("string"), ddl(stream)).alias("tuple")
        return messages.select(parsed).select("tuple.*")


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A streaming DataFrame of the user's own; the user hands it in again when the warehouse is reopened."""

    frame: DataFrame
    durable = False

    def describe(self) -> dict[str, Any]:
        return {"kind": FRAME}

    def load(self, spark: SparkSession, stream: Stream) -> DataFrame:
        return self.frame


def files(path: str | os.PathLike[str], format: str = "parquet", **options: Any) -> FileSource:
    """A directory of Parquet, JSON or CSV files; options are those of Spark's file stream of that format.

    >>> files("/data/in", "csv", header=True).describe()["options"]
    {'header': 'true'}
    """
    known = [item.value for item in FileFormat]
    if str(format).lower() not in known:
        hint = did_you_mean(str(format), known)
        raise LogError("SOURCE_FORMAT", f"files have no format `{format}`", hint=hint)
    try:
        absolute = str(local_directory(os.fspath(path)))
    except StorageError:
        absolute = os.fspath(path)
    return FileSource(absolute, FileFormat(str(format).lower()), _texts(options))


def kafka(**options: Any) -> KafkaSource:
    """A Kafka source; options are those of Spark's Kafka stream, without the `kafka.` or with it.

    >>> kafka(bootstrap_servers="broker:9092", subscribe="purchases").options
    (('kafka.bootstrap.servers', 'broker:9092'), ('subscribe', 'purchases'))
    """
    servers = "kafka.bootstrap.servers"
    renamed = {(servers if key == "bootstrap_servers" else key): options[key] for key in options}
    if servers not in renamed:
        hint = "bootstrap_servers='host:9092'"
        raise LogError("SOURCE_OPTION", "a Kafka source needs bootstrap_servers", hint=hint)
    if not {"subscribe", "subscribePattern", "assign"} & renamed.keys():
        raise LogError("SOURCE_OPTION", "a Kafka source needs a topic", hint="subscribe='topic'")
    return KafkaSource(_texts(renamed))


def source_from(description: Mapping[str, Any]) -> Source:
    """The source a description describes; LogError when only its maker can build it again."""
    match description:
        case {"kind": "files", "path": str(path), "format": str(form), "options": dict(options)}:
            return FileSource(path, FileFormat(form), _texts(options))
        case {"kind": "kafka", "options": dict(options)}:
            return KafkaSource(_texts(options))
        case {"kind": kind} if kind == FRAME:
            raise LogError(
                "SOURCE_NOT_DURABLE",
                "the source of this stream is a DataFrame of another session",
                hint="hand the streaming DataFrame in again with attach_source",
            )
    raise LogError("SOURCE_UNKNOWN", f"no source is described by {dict(description)}")


def as_source(given: Any) -> Source:
    """What create_stream accepts as a source: a source object, or a Spark streaming DataFrame."""
    if isinstance(given, FileSource | KafkaSource | FrameSource):
        return given
    if getattr(given, "isStreaming", None) is True:
        return FrameSource(given)
    if hasattr(given, "isStreaming"):
        hint = "use readStream, or append() it"
        raise LogError("SOURCE_BATCH", "this DataFrame is not streaming", hint=hint)
    raise LogError(
        "SOURCE_UNKNOWN",
        f"a {type(given).__name__} is no source",
        hint="give a Spark streaming DataFrame, sources.files(...) or sources.kafka(...)",
    )


def read_files(spark: SparkSession, stream: Stream, source: FileSource, names: Sequence[str]) -> DataFrame:
    """Some Parquet files of a source as a batch DataFrame, with the columns that directories name."""
    reader = spark.read.schema(ddl(stream)).options(**dict(source.options))
    if not any(char in source.path for char in GLOB):
        reader = reader.option("basePath", source.path)
    return reader.parquet(*map(literal_path, names))


def literal_path(path: str) -> str:
    """A path that Spark's globbing takes literally."""
    return "".join(f"\\{char}" if char in "*?[]{}\\" else char for char in path)


def ddl(stream: Stream) -> str:
    """The stream's columns as Spark reads a schema."""
    return ", ".join(f"`{column.name.replace('`', '``')}` {column.type.ddl}" for column in stream.columns)


def _texts(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, _text(value)) for key, value in options.items()))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
