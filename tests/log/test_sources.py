"""Sources as data: what they refuse, and what they ask of Spark."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import sources
from headrace.log.sources import ddl
from headrace.model.errors import LogError
from log_samples import PURCHASES


class FakeReader:
    """Records the calls that a source makes on a DataStreamReader."""

    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}

    @property
    def readStream(self) -> FakeReader:
        return self

    def schema(self, text: str) -> FakeReader:
        self.calls["schema"] = text
        return self

    def format(self, name: str) -> FakeReader:
        self.calls["format"] = name
        return self

    def options(self, **options: str) -> FakeReader:
        self.calls["options"] = options
        return self

    def load(self, path: str | None = None) -> FakeReader:
        self.calls["path"] = path
        return self


def test_files_are_read_with_the_stream_schema() -> None:
    reader = FakeReader()
    sources.files("/data/in", "csv", header=True, sep=";", maxFilesPerTrigger=2).load(reader, PURCHASES)  # type: ignore[arg-type]
    assert reader.calls == {
        "schema": "`userID` bigint, `price` double, `ts` timestamp, __headrace_corrupt STRING",
        "format": "csv",
        "options": {
            "header": "true",
            "sep": ";",
            "maxFilesPerTrigger": "2",
            "enforceSchema": "false",
            "columnNameOfCorruptRecord": "__headrace_corrupt",
        },
        "path": "/data/in",
    }


def test_kafka_options() -> None:
    source = sources.kafka(bootstrap_servers="a:1,b:2", subscribe="t", startingOffsets="earliest")
    assert dict(source.options) == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "subscribe": "t",
        "startingOffsets": "earliest",
    }
    assert sources.kafka(**{"kafka.bootstrap.servers": "a:1", "subscribePattern": "t.*"}).options


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sources.files("/in", "parquets"), "no format `parquets`"),
        (lambda: sources.files("/in", "csv", heder=True), "(?s)no option `heder`.*did you mean `header`"),
        (lambda: sources.files("/in", "json", header=True), "format json have no option `header`"),
        (lambda: sources.kafka(subscribe="t"), "needs bootstrap_servers"),
        (lambda: sources.kafka(bootstrap_servers="a:1"), "needs a topic"),
    ],
)
def test_incomplete_sources_are_refused(make: Any, message: str) -> None:
    with pytest.raises(LogError, match=message):
        make()


def test_a_relative_path_is_made_absolute() -> None:
    assert sources.files("in").path.startswith("/")


def test_odd_column_names_are_quoted() -> None:
    assert ddl(PURCHASES).startswith("`userID` bigint")
