"""Where streams come from: `files(...)` and `kafka(...)` describe sources for `create_stream(source=...)`."""

from headrace.log.sources import FileSource, KafkaSource, files, kafka

__all__ = ["FileSource", "KafkaSource", "files", "kafka"]
