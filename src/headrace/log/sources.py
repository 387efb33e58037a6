"""Sources: frozen descriptions of where a stream comes from, each able to build a streaming DataFrame."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from headrace.log.reader_options import check_options
from headrace.model.errors import LogError, StorageError, did_you_mean
from headrace.model.query import Stream
from headrace.sql.text.names import quote_name
from headrace.storage.warehouse import local_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


GLOB = "*?[{"
"""What makes Spark take a path for a pattern."""

FRAME = "dataframe"
"""The kind of source that only its maker can build again."""


_BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_CORRUPT_OPTION = "columnNameOfCorruptRecord"
_BY_POSITION = "enforceSchema"
"""Spark's option for CSV to take columns by their position, whatever the header calls them."""


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


CORRUPT_COLUMN = "__headrace_corrupt"
"""The text of a record that Spark could not read as the stream's columns; such records are counted by it."""


class FileFormat(Enum):
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


class OnBadFile(Enum):
    """What a source does with a file that cannot be read: go on without it, or go no further until it is mended."""

    ASIDE = "aside"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A directory (or glob) into which files are put whole; each is read once.

    `exact` means that the path names one directory, although it has characters that a glob would have.
    """

    path: str
    format: FileFormat
    options: tuple[tuple[str, str], ...] = ()
    on_bad_file: OnBadFile = OnBadFile.ASIDE
    exact: bool = False
    durable = True

    @property
    def pattern(self) -> bool:
        """Whether the path may name several directories."""
        return not self.exact and any(char in self.path for char in GLOB)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "files",
            "path": self.path,
            "format": self.format.value,
            "options": dict(self.options),
            "on_bad_file": self.on_bad_file.value,
            "exact": self.exact,
        }

    def load(self, spark: SparkSession, stream: Stream) -> DataFrame:
        columns, options = self._reading(stream)
        reader = spark.readStream.schema(columns).format(self.format.value).options(**options)
        return self._counted(reader.load(literal_path(self.path) if self.exact else self.path), stream)

    def load_names(self, spark: SparkSession) -> DataFrame:
        """The names of its files as a streaming DataFrame: one row and column for each, and no file is opened."""
        reader = spark.readStream.format("binaryFile").schema(_BINARY_FILE).options(**dict(self.options))
        return reader.load(literal_path(self.path) if self.exact else self.path).select("_metadata.file_path")

    def load_files(self, spark: SparkSession, stream: Stream, names: Sequence[str]) -> DataFrame:
        """Some of its files as a batch DataFrame, with the columns that directories name."""
        columns, options = self._reading(stream)
        reader = spark.read.schema(columns).format(self.format.value).options(**options)
        if not self.pattern:
            reader = reader.option("basePath", self.path)
        return self._counted(reader.load([literal_path(name) for name in names]), stream)

    def _reading(self, stream: Stream) -> tuple[str, dict[str, str]]:
        """(the columns to read as DDL, the options of the reader), with a column for records Spark cannot read."""
        options = {key: value for key, value in self.options if key.lower() != _CORRUPT_OPTION.lower()}
        if self.format is FileFormat.PARQUET:
            return ddl(stream), dict(self.options)
        if self.format is FileFormat.CSV and not any(key.lower() == _BY_POSITION.lower() for key in options):
            options[_BY_POSITION] = "false"
        own = self._own_corrupt_column(stream)
        columns = ddl(stream) if own else f"{ddl(stream)}, {CORRUPT_COLUMN} STRING"
        return columns, options | {_CORRUPT_OPTION: own or CORRUPT_COLUMN}

    def _own_corrupt_column(self, stream: Stream) -> str | None:
        """The stream's own column for records that Spark cannot read, if it has one."""
        lowered = {key.lower(): value for key, value in self.options}
        wanted = lowered.get(_CORRUPT_OPTION.lower(), "_corrupt_record").lower()
        return next((column.name for column in stream.columns if column.name.lower() == wanted), None)

    def _counted(self, frame: DataFrame, stream: Stream) -> DataFrame:
        own = self._own_corrupt_column(stream)
        if self.format is FileFormat.PARQUET or own is None:
            return frame
        return frame.withColumn(CORRUPT_COLUMN, frame[quote_name(own)])


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
        columns = f"{ddl(stream)}, {CORRUPT_COLUMN} STRING"
        options = {_CORRUPT_OPTION: CORRUPT_COLUMN}
        parsed = F.from_json(F.col("value").cast("string"), columns, options).alias("tuple")
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


def files(
    path: str | os.PathLike[str], format: str = "parquet", *, on_bad_file: str = "aside", **options: Any
) -> FileSource:
    """A directory of Parquet, JSON or CSV files; options are those of Spark's file stream of that format.

    A file that cannot be read is set aside: it is listed in `hr.health()` and the stream goes on without its rows.
    `on_bad_file="stop"` takes nothing more from the source until the file is removed or replaced. A path that names a
    directory as it is written is that directory, whatever characters it has; any other with `*`, `?`, `[` or `{` is a
    pattern.

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
    exact = any(char in absolute for char in GLOB) and os.path.isdir(absolute)
    form = FileFormat(str(format).lower())
    check_options(form.value, options)
    return FileSource(absolute, form, _texts(options), _on_bad_file(on_bad_file), exact)


def _on_bad_file(given: object) -> OnBadFile:
    known = [item.value for item in OnBadFile]
    if given not in known:
        hint = did_you_mean(str(given), known)
        raise LogError("SOURCE_OPTION", f"on_bad_file cannot be `{given}`", hint=hint)
    return OnBadFile(given)


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
        case {"kind": "files", "path": str(path), "format": str(form), "options": dict(options), **rest}:
            bad = OnBadFile(rest.get("on_bad_file", OnBadFile.ASIDE.value))
            return FileSource(path, FileFormat(form), _texts(options), bad, bool(rest.get("exact")))
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
