"""Portraits: how sessions, queries and results look in a prompt and in a notebook. None reads rows to show them."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from headrace.looking.answers import costs_in
from headrace.looking.infos import StreamInfo, cost_lines
from headrace.looking.showing import count, html_table, show_duration, show_home, show_time

if TYPE_CHECKING:
    from headrace.handles import QueryHandle
    from headrace.session import Session


def session_text(session: Session) -> str:
    return f"<headrace session on {session._warehouse.root}: {_contents(session)}>"


def session_html(session: Session) -> str:
    """Where it is, what is in it, and the streams and the newest queries as tables."""
    head = f"<p><b>headrace session</b> on {escape(str(session._warehouse.root))}: {escape(_contents(session))}</p>"
    if session._closed:
        return head
    streams, queries = session.streams(), session.queries()
    tables = [html_table(StreamInfo.HEADERS, [s.cells() for s in streams], "streams")] if streams else []
    if queries:
        shown = queries[-20:]
        title = "queries" if len(shown) == len(queries) else f"the newest 20 of {len(queries):,} queries"
        tables.append(html_table(shown[0].HEADERS, [q.cells() for q in shown], title))
    groups = session.groups()
    if len(groups) > 1:
        tables.append(html_table(groups[0].HEADERS, [g.cells() for g in groups], "groups"))
    return head + "".join(tables)


def _contents(session: Session) -> str:
    if session._closed:
        return "closed"
    live = sum(entry.live for entry in session._catalog.current())
    epoch = session._delivered.main.epoch
    ran = "no epoch has run" if epoch < 0 else f"last epoch {epoch}"
    kind = ", to read" if session._warehouse.read_only else ""
    streams = count(len(session._catalog.streams()), "stream")
    return f"{streams}, {count(live, 'live query', 'live queries')}, {ran}{kind}"


def query_text(query: QueryHandle) -> str:
    """Its status in one line, and why it is not shared."""
    if query._session._closed:
        return f"<query {query.name}>"
    sharing = query.sharing
    apart = "" if sharing.shared else f"; {sharing}"
    return f"<{query.status()}{apart}>"


def query_html(query: QueryHandle) -> str:
    return f"<p>{escape(query_text(query)[1:-1])}</p><pre>{escape(query.text)}</pre>"


def describe_stream(info: StreamInfo, source: dict[str, Any] | None) -> str:
    """A stream in one line: event time, watermark, where it comes from and what came."""
    delay = show_duration(info.watermark // timedelta(microseconds=1))
    mark = "" if info.watermark_time is None else f", now at {info.watermark_time}"
    late = f", {info.late_rows:,} of them late" if info.late_rows else ""
    closed = "; closed" if info.closed else ""
    return (
        f"stream {info.name}: event time {info.event_time}, watermark {delay} behind{mark}; "
        f"source: {_source(source)}; {count(info.rows, 'tuple')} taken in{late}{closed}"
    )


def _source(source: dict[str, Any] | None) -> str:
    if source is None:
        return "append() and INSERT INTO"
    match source.get("kind"):
        case "files":
            return f"{source['format']} files in {source['path']}"
        case "kafka":
            return f"Kafka topic {source.get('options', {}).get('subscribe', '')}".rstrip()
        case _:
            return "a streaming DataFrame"


def describe_query(query: QueryHandle) -> str:
    """A query in words: how it does, how it runs, where it lives, since when, what it costs, and its text."""
    cost = costs_in(query._session).get(int(query._id))
    spent = "" if cost is None else ", ".join(f"{what} {value}" for what, value in cost_lines(cost)) + "\n"
    return f"{query.status()}; {query.sharing}\n{_home(query)}\n{_asked(query)}{spent}{query.text}"


def _asked(query: QueryHandle) -> str:
    """A line of what somebody asked for a query; nothing if nobody did."""
    needs = query._entry().query.needs
    latency = None if needs.max_latency_s is None else show_duration(round(needs.max_latency_s * 1e6))
    asked = {"min_rate": needs.min_rate, "max_latency": latency, "priority": needs.priority or None}
    said = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in asked.items()
        if value
    ]
    return f"asked for: {', '.join(said)}\n" if said else ""


def _home(query: QueryHandle) -> str:
    """The group of a query with its lag, and the epoch that the query began with."""
    session, entry = query._session, query._entry()
    delivered, sealer, first = session._delivered, session._sealer, entry.first_epoch
    group = f"group {show_home(entry.group, entry.moving_to)}"
    if entry.live and entry.error is None:
        behind = delivered.behind(entry.group)
        group += f", {count(behind, 'epoch')} behind" if behind else ", up to date"
    if first is None:
        return f"{group}; it begins with the next epoch"
    sealed = ""
    if sealer.latest is not None and sealer.first <= first <= sealer.latest.id:
        sealed = f", sealed at {show_time(int(sealer.head(first).sealed_at) * 1_000_000)}"
    return f"{group}; it began with epoch {first}{sealed}"


def with_portrait(frame: DataFrame, query: QueryHandle) -> DataFrame:
    """The same DataFrame, which shows its query's status beside its columns."""
    looks = _LOOKS.get(type(frame))
    if looks is None:
        looks = _LOOKS[type(frame)] = type(frame.__class__.__name__, (_Looks, type(frame)), {})
    frame.__class__ = looks
    frame._headrace_query = query  # type: ignore[attr-defined]
    return frame


class _Looks:
    """What is added to Spark's DataFrame class; an eager notebook shows Spark's own table of rows."""

    _headrace_query: QueryHandle

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {type_}" for name, type_ in self.dtypes)  # type: ignore[attr-defined]
        return f"DataFrame[{columns}] of {query_text(self._headrace_query)[1:-1]}"

    def _repr_html_(self) -> str | None:
        rows = super()._repr_html_()  # type: ignore[misc]
        return (rows or "") + f"<p>{escape(repr(self))}</p>"


_LOOKS: dict[type, type] = {}
