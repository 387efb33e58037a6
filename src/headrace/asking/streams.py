"""Streams as people ask for them: created, fed, closed and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.asking.defining import DEFAULT_BOUND, define_stream
from headrace.engine.spark import active
from headrace.log.folder import FolderIngest
from headrace.log.ingest import Ingest, open_ingest
from headrace.log.sources import Source, as_source
from headrace.model.errors import LogError
from headrace.model.query import Stream
from headrace.options import Duration

if TYPE_CHECKING:
    from headrace.session import Session


def create_stream(
    session: Session,
    name: str,
    schema: str,
    event_time: str,
    watermark: Duration,
    source: Any,
    max_ahead: Duration | None,
) -> None:
    """Define a stream durably, and read its source from now on."""
    running = session._runs()
    if source is None and max_ahead == DEFAULT_BOUND:
        max_ahead = None
    stream = define_stream(running.groups.spark, name, schema, event_time, watermark, max_ahead)
    if source is None:
        session._sealer.create_stream(stream)
        return
    given = as_source(source)
    # before anything that the stream of that name keeps is touched
    session._catalog.check_new_stream(stream.name)
    ingest = _checked_ingest(session, stream, given)
    session._sealer.create_stream(stream, given.describe())
    if session._catalog.stream_ended(stream.name) is not None:
        # what a dropped stream of this name had read is forgotten only now
        ingest = _checked_ingest(session, stream, given)
    running.feeds.add(stream.name, ingest)


def drop_stream(session: Session, name: str) -> None:
    """End a stream that no live query reads, and its source."""
    running = session._runs()
    stream = session._sealer.drop_stream(name)
    running.feeds.remove(stream.name)
    session._checkup.forget(stream.name)


def attach_source(session: Session, name: str, source: Any) -> None:
    """Read a stream's source again, which was not kept in the warehouse."""
    running = session._runs()
    stream = session._catalog.stream(name)
    if session._arrivals.closed(stream.name):
        raise LogError("STREAM_CLOSED", f"stream `{stream.name}` is closed", hint="create another stream")
    if running.feeds.get(stream.name) is not None:
        raise LogError("SOURCE_ATTACHED", f"stream `{stream.name}` has its source already")
    running.feeds.add(stream.name, _checked_ingest(session, stream, as_source(source)))


def close_stream(session: Session, name: str, *, drain: bool) -> None:
    """End a stream's input. It stays open, with its source, when that cannot be read to the end."""
    running, stream = session._runs(), session._catalog.stream(name)
    session._catalog.splits.check_fed_by_hand(name)
    if drain:
        session._checkup.warn_detached(stream)
        with session._checkup.news():
            running.drain(stream)
    feed = running.feeds.get(stream.name)
    running.feeds.remove(stream.name)
    try:
        session._arrivals.close(stream.name)
    except BaseException:
        if feed is not None:  # the stream is still open, so its source goes on
            running.feeds.add(stream.name, feed.ingest)
        raise


def _checked_ingest(session: Session, stream: Stream, source: Source) -> Ingest | FolderIngest:
    jobs = session._runs().groups.spark
    ingest = open_ingest(jobs, session._warehouse, session._arrivals, stream, source)
    with active(jobs):
        ingest.check()
    return ingest
