"""Looking at a session from outside: SELECT, EXPLAIN, status, audit, and the reason why a result is empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from headrace.asking.creating import parse
from headrace.catalog.queries import QueryEntry
from headrace.engine.costs import QueryCost
from headrace.engine.files import check_results
from headrace.engine.logview import LogReader
from headrace.engine.spark import active
from headrace.engine.stored import ResultReader
from headrace.looking.explaining import PENDING, cost_lines, query_head, query_lines
from headrace.looking.facts import FactFinder
from headrace.looking.recent import recent_tuples
from headrace.looking.selecting import analyse, check_own, opened_tables, read_select
from headrace.looking.sharing import Sharing, sharing_of
from headrace.looking.showing import Text, count
from headrace.looking.status import QueryFacts, QueryStatus, describe_window, status_of, why_empty
from headrace.model.grouping import MAIN
from headrace.model.plan import SharedPlan
from headrace.model.query import Fallback, Query, QueryId, StreamName
from headrace.model.statistics import Statistics
from headrace.model.ways import FamilyWay
from headrace.planner.explain import explain_plan, explain_query
from headrace.planner.group import Member, plan_group
from headrace.planner.strategies import choice_of, default_choice
from headrace.planner.summary import summarize_plan, summarize_query
from headrace.results.audit import AuditReport, audit_query
from headrace.results.direct import direct_frame
from headrace.results.newest import Newest, newest_rows
from headrace.results.view import query_frame

if TYPE_CHECKING:
    import pandas as pd

    from headrace.session import Session


def fact_finder(session: Session) -> FactFinder:
    return FactFinder(
        session._catalog,
        session._arrivals,
        session._sealer,
        session._delivered,
        session.health(),
        session._checkup.errors(),
    )


def sharing_in(session: Session, entry: QueryEntry) -> Sharing:
    if not isinstance(entry.query.plan.body, Fallback):
        return Sharing(shared=True)  # without a look at all the others
    return sharing_of(
        entry.query.plan, session._delivered, session.recent_epochs(), session._catalog.current()
    )


def plan_of(session: Session, group: str) -> SharedPlan:
    """The plan that a group runs with. A reader, who has no groups, makes it of what the last commit says."""
    if session._running is not None:
        return session._running.groups.get(group).plan_now()
    catalog, delivered = session._catalog, session._delivered
    entries = [e for e in catalog.current() if e.live and e.error is None and e.group == group]
    streams = {stream.name: stream for stream in catalog.streams()}
    arrived = {StreamName(n): rows for n, (rows, _) in delivered.totals(delivered.sealed).items()}
    members = (Member(e.query, e.slot or 0) for e in entries)
    strategies = delivered.commit_of(group).strategies
    return plan_group(members, streams, Statistics.of_arrivals(arrived), strategies)


def ways_of(session: Session, group: str) -> tuple[FamilyWay, ...]:
    """How tuples found their queries in the last epochs of a group. A reader, who has no groups, does not know."""
    return () if session._running is None else session._running.groups.get(group).ways()


def explain_entry(session: Session, entry: QueryEntry, *, verbose: bool) -> Text:
    """How one query runs; lanes, families and cells only when `verbose`."""
    plan = plan_of(session, entry.group)
    choice = choice_of(entry.query, session._delivered.commit_of(entry.group).strategies.by_query())
    if verbose:
        return Text(explain_query(entry.query, plan, choice, ways_of(session, entry.group)))
    facts = facts_in(session, entry)
    delays = {str(stream.name): stream.watermark_us for stream in session._streams_by_name(entry).values()}
    lines = query_lines(facts, sharing_in(session, entry), session._delivered.commit_of(entry.group), delays)
    return Text(summarize_query(entry.query, plan, choice, query_head(facts), lines))


def explain_text(session: Session, text: str, *, verbose: bool) -> Text:
    """How a text would run; nothing is created."""
    query = Query(QueryId(0), PENDING, parse(session, text))
    choice = default_choice(query.plan.body)
    if verbose:
        return Text(explain_query(query, None, choice))
    sharing = sharing_in(session, QueryEntry(query))
    lines = [] if query.plan.window is None else [("windows", describe_window(query.plan.window))]
    lines += [] if sharing.shared else [("cost", str(sharing.cost))]
    return Text(summarize_query(query, None, choice, f"query {PENDING}", lines))


def explain_session(session: Session, *, verbose: bool) -> Text:
    """The shared plans of all queries that are or will be active, a group at a time."""
    entries = [entry for entry in session._catalog.current() if entry.live and entry.error is None]
    names = {int(entry.query.id): entry.query.name for entry in session._catalog.current()}
    lived_in = {entry.group for entry in entries}
    groups = sorted(lived_in or {MAIN}, key=lambda name: (name != MAIN, name))
    texts = []
    for group in groups:
        plan, commit = plan_of(session, group), session._delivered.commit_of(group)
        text = (
            explain_plan(plan, ways_of(session, group))
            if verbose
            else summarize_plan(plan, names, cost_lines(None, commit))
        )
        texts.append(text if groups == [MAIN] else f"group {group}, {text}")
    return Text("\n\n".join(texts))


def select_in(session: Session, text: str, *, allow_files: bool) -> DataFrame:
    """The rows of a SELECT over results and recent tuples; nothing is run until they are asked for."""
    reader = session._reader
    with session._sparks.lock, active(reader):
        selecting = read_select(reader, text, allow_files=allow_files)
        check_own(reader, selecting, session._catalog.names())
        with opened_tables(reader, _tables(session, selecting.names())):
            return analyse(reader, text, selecting, session._catalog.names())


def _tables(session: Session, names: Iterable[str]) -> Iterator[tuple[str, DataFrame]]:
    """The queries and streams among some names, as relations."""
    catalog = session._catalog
    for name in sorted(names):
        if catalog.has_query(name):
            yield name, results_in(session, catalog.entry(name))
        elif catalog.has_stream(name):
            recent = recent_tuples(catalog.stream(name), session._sealer, session._arrivals)
            yield name, recent.frame(session._reader, session._warehouse.root)


def results_in(session: Session, entry: QueryEntry) -> DataFrame:
    """All rows of a query; nothing is run until they are asked for."""
    session._check_open()
    session._checkup.warn_reader(entry)
    view = session._delivered.view(entry)
    check_results(session._warehouse.root, view.files)
    with active(session._reader):
        return query_frame(_result_reader(session, entry), entry, view)


def _result_reader(session: Session, entry: QueryEntry) -> ResultReader:
    return ResultReader(session._reader, session._warehouse.root, session._streams_by_name(entry))


def direct_in(session: Session, entry: QueryEntry) -> pd.DataFrame | None:
    """All rows of a query without a Spark job; None when Spark has to finish them."""
    session._check_open()
    files = session._delivered.results(entry)
    check_results(session._warehouse.root, files)
    found = direct_frame(session._warehouse.root, entry, files)
    if found is not None:
        session._checkup.warn_reader(entry)
    return found


def facts_in(session: Session, entry: QueryEntry) -> QueryFacts:
    """What is known of a query; its rows are those that a reader gets."""
    rows = session._counts.of([entry])[int(entry.query.id)]
    return replace(fact_finder(session).query(entry), rows=rows)


def status_in(session: Session, entry: QueryEntry) -> QueryStatus:
    return status_of(facts_in(session, entry))


def why_empty_entry(session: Session, entry: QueryEntry) -> str:
    """Why a query whose reader got no row has none."""
    return "; ".join(why_empty(fact_finder(session).empty(entry)))


def why_empty_select(session: Session, text: str) -> str:
    """Why a SELECT has no row: what is to say of each query and stream it names."""
    names = sorted(read_select(session._reader, text, allow_files=True).names())
    catalog, found = session._catalog, []
    for name in names:
        if catalog.has_query(name):
            entry = catalog.entry(name)
            status = status_in(session, entry)
            found.append(f"query {entry.query.name}: {status.why}" if status.reasons else _unmatched(status))
        elif catalog.has_stream(name):
            found.append(_stream_note(session, name))
    return "\n".join(found) or "the SELECT itself has no rows"


def _unmatched(status: QueryStatus) -> str:
    return (
        f"query {status.name} has delivered {count(status.rows, 'row')}: either none of them fits this SELECT, "
        "or they are of windows that are still open"
    )


def _stream_note(session: Session, name: str) -> str:
    stream = session._catalog.stream(name)
    recent = recent_tuples(stream, session._sealer, session._arrivals)
    if not recent.rows:
        return f"stream {stream.name} has no tuples in the log"
    which = "" if recent.whole else "newest "
    return f"stream {stream.name}: none of its {recent.rows:,} {which}tuples fits this SELECT"


def newest_in(session: Session, entry: QueryEntry, limit: int, after: int | None) -> Newest:
    """The newest rows of a query, for those who watch it."""
    session._check_open()
    with active(session._reader):
        return newest_rows(_result_reader(session, entry), entry, session._delivered, limit, after)


def costs_in(session: Session) -> dict[int, QueryCost]:
    """What each query has cost so far, by its id; nothing in a session that only reads."""
    running = session._running
    return {} if running is None else running.costs.costs


def audit_in(session: Session, entry: QueryEntry) -> AuditReport:
    """What a query delivered beside what plain Spark gives for the same tuples."""
    session._check_open()
    streams, index = session._streams_by_name(entry), session._delivered.index
    log = LogReader(session._auditor, session._warehouse.root, streams, index)
    # the background run may commit meanwhile: judge by one moment, and by what is known of the query after it
    view = session._delivered.view(entry)
    entry = session._catalog.entry_of(entry.query.id)
    with session._sparks.auditing, active(session._auditor):
        report = audit_query(log, session._sealer, entry, view)
    return replace(report, inputs=session._checkup.sources(entry.query.plan.streams))
