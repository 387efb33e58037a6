"""The facade people import: `headrace.open(path)` gives a `Session` on a warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace import sql
from headrace.asking.creating import WantedQuery, create_queries, create_query, needs_of
from headrace.asking.defining import DEFAULT_BOUND
from headrace.asking.functions import FunctionInfo, function_infos, register_function
from headrace.asking.splits import (
    Expression,
    Wanted,
    alter_split,
    attach_split,
    create_split,
    drop_split,
    restart_split,
)
from headrace.asking.starting import Start
from headrace.asking.statements import execute
from headrace.asking.streams import attach_source, close_stream, create_stream, drop_stream
from headrace.engine.splits.code import RowFunction, SplitCode
from headrace.guard import guarding
from headrace.handles import QueryHandle
from headrace.health import Health
from headrace.log.append import append
from headrace.looking.answers import explain_session, explain_text, select_in
from headrace.looking.events import EventInfo, SharingInfo, event_infos, sharing_info
from headrace.looking.group_info import GroupInfo
from headrace.looking.grouped import check_group, group_infos
from headrace.looking.infos import (
    QueryInfo,
    QueryMetrics,
    SessionMetrics,
    StreamInfo,
    query_infos,
    session_metrics,
    stream_infos,
)
from headrace.looking.portrait import session_html, session_text
from headrace.looking.showing import Listing, Text
from headrace.looking.splits import SplitHandle, SplitInfo, split_infos
from headrace.model.errors import SqlError
from headrace.model.splitting import SplitOperator
from headrace.open_warehouse import OpenWarehouse
from headrace.options import Duration
from headrace.running.totals import EpochInfo, Totals


@guarding(lambda session: session)
class Session(OpenWarehouse):
    """An open warehouse. Thread-safe; use it as a context manager, or call `close()`.

    This is only the front: what a call does is a function of `headrace.asking`, `headrace.running` or
    `headrace.looking` that takes the session.

    One that was opened `read_only` sees what was committed when it was opened, beside any writer, and starts Spark only
    when rows are asked for.
    """

    # streams

    def create_stream(
        self,
        name: str,
        schema: str,
        *,
        event_time: str,
        watermark: Duration = "0 seconds",
        source: Any = None,
        if_not_exists: bool = False,
        max_ahead: Duration | None = DEFAULT_BOUND,
    ) -> None:
        """Define a stream. `schema` is Spark DDL; `source` None means that `append` feeds it.

        With `if_not_exists`, a stream of that name stays as it is. A tuple dated more than `max_ahead` ahead of the
        clock does not move the watermark. The default is one hour for sources (a day where the event time has no zone),
        and no bound for `append`; None means no bound.
        """
        self._runs()
        if if_not_exists and self._catalog.has_stream(name):
            return
        create_stream(self, name, schema, event_time, watermark, source, max_ahead)

    def drop_stream(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a stream that no live query reads; its name is free, results that came of it stay."""
        self._runs()
        if if_exists and not self._catalog.has_stream(name):
            return
        drop_stream(self, name)

    def attach_source(self, name: str, source: Any) -> None:
        """Give a reopened stream its streaming DataFrame again: DataFrames are not kept in the warehouse."""
        attach_source(self, name, source)

    def append(self, stream: str, data: Any) -> int:
        """Add rows (pandas, pyarrow, Spark DataFrame, list of dicts) durably; the next epoch takes them in."""
        self._runs()
        self._catalog.splits.check_fed_by_hand(stream)
        return append(self._warehouse, self._arrivals, self._catalog.stream(stream), data)

    def close_stream(self, name: str, *, drain: bool = True) -> None:
        """No more input: with the next epoch the watermark goes to infinity and every window closes.

        What the stream's source has now is taken first; when it cannot be, the stream stays open and the error names
        what is unread. `drain=False` closes without it.
        """
        close_stream(self, name, drain=drain)

    def stream(self, name: str) -> StreamInfo:
        """One stream, as `streams()` lists it."""
        wanted = self._catalog.stream(name).name
        return next(info for info in self.streams() if info.name == wanted)

    def streams(self) -> list[StreamInfo]:
        """Every stream, with its watermark and row counts as of the last sealed epoch."""
        return stream_infos(self._catalog, self._arrivals, self._sealer, self._checkup)

    # queries

    def create_query(
        self,
        text: str,
        name: str | None = None,
        *,
        replace: bool = False,
        if_not_exists: bool = False,
        group: str | None = None,
        start: Start | None = None,
        min_rate: float | None = None,
        max_latency: Duration | None = None,
        priority: int = 0,
    ) -> QueryHandle:
        """Ask for a query; returns at once. It is active from the next epoch on.

        With `replace`, a live query of that name ends where the new one begins. With `if_not_exists`, it stays.

        It shares its work with the queries of `group`, which is made when there is none of that name. Queries of other
        groups do not slow it down. Without a group it starts where it slows nobody, as far as that is known, and may be
        moved when that changes (see `sharing` of `headrace.open`). If nothing can be shared, it has a group of its own.

        With `start`, the query lives from that moment on, as if it had been created then: 'earliest', a time (UTC), or
        '2 hours ago'. It catches up in a group of its own, and then joins the others.

        `min_rate` asks for so many tuples per second, and `max_latency` for being no further behind the input. When it
        does not get that, `events()` tells. A query of higher `priority` has its group run first when many wait.
        """
        needs = needs_of(min_rate, max_latency, priority)
        query = create_query(self, WantedQuery(text, name, replace, if_not_exists, group, start, needs))
        return QueryHandle(self, query.name, query.id)

    def create_queries(
        self,
        queries: Iterable[str | tuple[str, str]],
        *,
        replace: bool = False,
        group: str | None = None,
        min_rate: float | None = None,
        max_latency: Duration | None = None,
        priority: int = 0,
    ) -> list[QueryHandle]:
        """Ask for many queries at once, each a text or a pair of name and text: all of them, or none.

        It is quicker than one by one, because they become durable together. An error says which query it is about.
        The options are as in `create_query`, and hold for each of the queries.
        """
        needs = needs_of(min_rate, max_latency, priority)
        made = create_queries(self, queries, replace=replace, group=group, needs=needs)
        return [QueryHandle(self, query.name, query.id) for query in made]

    def register_function(
        self, name: str, function: Callable[..., Any], type: str, cost: float | None = None
    ) -> None:
        """Let queries call a function of your own, from now on and anywhere in their texts.

        It takes a `pyarrow.Array` for each argument and returns one of the same length, of `type`, which is Spark DDL.
        The value of a row must follow from that row's arguments alone, and be the same each time: rows are computed
        again after a crash and by audits. `cost` is an estimate in CPU seconds per row, until calls are measured.

        Name and type are kept in the warehouse, the code is not. Register it again after opening: queries that call it
        wait for that, and lose nothing.
        """
        register_function(self, name, function, type, cost)

    def functions(self) -> list[FunctionInfo]:
        """Every registered function, with the live queries that call it."""
        return function_infos(self)

    def groups(self) -> list[GroupInfo]:
        """Every sharing group: its members, how far it is, what its epochs cost, what it saves, and why it is so."""
        errors, events, recent = self._checkup.errors(), self._events.all(), self.recent_epochs()
        running = self._running
        most, info = (
            (None, None) if running is None else (running.groups.backfill_tasks, running.conducting.info())
        )
        return group_infos(self._catalog, self._delivered, self._sealer, recent, errors, events, most, info)

    def sharing(self) -> SharingInfo:
        """How queries come to share: the policy, how well the load was predicted, and how long changes took."""
        return sharing_info(self._running)

    def events(self) -> list[EventInfo]:
        """What was decided about groups, and which query does not get what was asked for it; oldest first."""
        return event_infos(self._events.all())

    def move_query(self, name: str, group: str) -> None:
        """Let a query live in another group, which is made when there is none of that name.

        It changes groups when both have reached the same epoch, and delivers all its rows meanwhile.
        """
        self._runs()
        self._catalog.request_move(name, check_group(group))

    def set_needs(
        self,
        name: str,
        *,
        min_rate: float | None = None,
        max_latency: Duration | None = None,
        priority: int = 0,
    ) -> None:
        """Ask for something else for a query from the next epoch on, in place of all that was asked for before."""
        self._runs()
        needs = needs_of(min_rate, max_latency, priority)
        self._catalog.request_needs(name, lambda _: needs)

    def repartition(self, partitions: int) -> None:
        """Spread the keys of all groups over so many partitions from the next epoch on: tasks that run side by side.

        State moves along. It stays so when the warehouse is opened again, unless `partitions` is given then. A policy
        (`sharing`) may give the groups that it made another number later.
        """
        self._runs().groups.repartition(partitions)

    def drop_query(self, name: str, *, if_exists: bool = False) -> None:
        """Ask for a query to end with the current epoch; its results stay."""
        self._runs()
        if if_exists and not self._catalog.has_live(name):
            return
        self._catalog.request_drop(name)

    def query(self, name: str) -> QueryHandle:
        query = self._catalog.query(name)
        return QueryHandle(self, query.name, query.id)

    def queries(self) -> list[QueryInfo]:
        """Every query, oldest first, with its state, and its error when it was quarantined."""
        entries = self._catalog.entries()
        return query_infos(entries, self._counts.of(entries), self._catalog, self._checkup)

    def explain(self, text: str | None = None, *, verbose: bool = False) -> Text:
        """The shared plan of all queries that are or will be active; or how one text would run.

        With `verbose` in the engine's own words: operators, lanes and families.
        """
        if text is not None:
            return explain_text(self, text, verbose=verbose)
        return explain_session(self, verbose=verbose)

    def execute(self, statement: str, *, allow_files: bool = False) -> str | pa.Table:
        """Run one SQL statement of the Headrace language; text, or a table for SELECT, SHOW and DESCRIBE.

        An empty table says why it is empty: `headrace.notes.note_of(table)`. A statement reads no files, runs no
        programs and calls no Java methods unless `allow_files` is set. `docs/sql.md` describes the language.
        """
        return execute(self, statement, allow_files=allow_files)

    def select(self, text: str, *, allow_files: bool = False) -> DataFrame:
        """Spark SQL over results and recent tuples: every query and every stream is a table of its own name."""
        self._check_open()
        return select_in(self, text, allow_files=allow_files)

    # splits

    def create_split(
        self,
        name: str,
        stream: str,
        q: int,
        *,
        operator: Callable[[], SplitOperator],
        route: Expression | None = None,
        broadcast: Expression | None = None,
        schema: str | None = None,
        outputs: Mapping[str, str] | None = None,
        order_by: str | Sequence[str] | None = None,
        wants: str | None = None,
        event_time: str | None = None,
        watermark: Duration = "0 seconds",
        time_limit: Duration | None = "1 minute",
    ) -> SplitHandle:
        """Run an operator of your own over a stream that is cut into `q` sub-streams, from the next epoch on.

        `operator` is a class (see `headrace.model.splitting.SplitOperator`): every sub-stream has an instance. A tuple
        goes to the sub-stream that `route` names (0 to q - 1), to all of them where `broadcast` is TRUE, and nowhere
        where neither says so. Both are SQL over the stream's columns, or functions from an Arrow batch to one value per
        row. Tuples for which the SQL predicate `wants` is not TRUE are never moved.

        Tuples are handed over when the watermark has passed them, in the order of their event time, then by the columns
        of `order_by`, then as they arrived. The rows that the operator gives are a stream again, named like the split,
        with the columns of `schema`; or, with `outputs` (schemas by the kind of rows), one stream `<name>_<kind>` for
        each. `event_time` names their event time, by default the column that is named like the stream's. Rows may be up
        to `watermark` older than the stream's own watermark.

        Code is not kept: after opening the warehouse again, call it with the same definition to go on.
        """
        split = create_split(
            self,
            Wanted(
                *(name, stream, q, operator, route, broadcast, schema, outputs, order_by, wants, event_time),
                *(watermark, time_limit),
            ),
        )
        return SplitHandle(self, split.name)

    def split(self, name: str) -> SplitHandle:
        return SplitHandle(self, self._catalog.splits.get(name).name)

    def splits(self) -> list[SplitInfo]:
        """Every split, oldest first, with its state, and its error when it is quarantined."""
        return Listing(split_infos(self))

    def attach_split(
        self,
        name: str,
        operator: Callable[[], SplitOperator],
        *,
        route: RowFunction | None = None,
        broadcast: RowFunction | None = None,
    ) -> SplitHandle:
        """Give a split its operator again after opening, without its definition, which the warehouse has.

        Route and broadcast are given where they are functions. `create_split` with the same definition does so too.
        """
        return SplitHandle(self, attach_split(self, name, SplitCode(operator, route, broadcast)).name)

    def alter_split(self, name: str, q: int, *, route: Expression | None = None) -> None:
        """Let a split have `q` sub-streams from its next epoch on, with another route if one is given.

        Its operator takes its state apart and puts it together again: `split_state(state, q)` gives the parts of one
        instance's state by their new sub-stream, and `merge_state(states)` makes one of several. Tuples that wait for
        the watermark are routed anew. Nothing is lost, whenever the process ends.
        """
        alter_split(self, name, q, route)

    def restart_split(self, name: str) -> None:
        """Let a quarantined split run again, from its last commit on: no tuple is lost, and none counts twice."""
        restart_split(self, name)

    def drop_split(self, name: str, *, if_exists: bool = False) -> None:
        """End a split. Its output streams stay, and get no more input."""
        self._runs()
        if if_exists and self._catalog.splits.find(name) is None:
            return
        drop_split(self, name)

    # running

    def run_available(self) -> int:
        """Read all sources, flush query changes, seal everything pending and run it; how many epochs that took.

        Warns of files that were set aside and of tuples that are odd. A source that cannot be read keeps nothing else
        from being run; its error is raised after that.
        """
        running = self._runs()
        with self._checkup.news():
            return running.run_available()

    def warm_up(self) -> None:
        """Start Spark's Python workers now; otherwise the first epoch waits for them, about ten seconds."""
        self._runs().warm_up()

    def start(self, interval: Duration = "1 second") -> None:
        """Run in the background: every interval, whatever has arrived becomes an epoch."""
        self._runs().start(sql.parse_duration(interval) / 1e6)

    def stop(self) -> None:
        """Stop running in the background; the epoch under way is finished first."""
        if self._running is not None:
            self._running.stop()

    def metrics(self) -> SessionMetrics:
        """Counters for a live view; cheap. `health()` says whether something is wrong."""
        return session_metrics(self._delivered, self._running.totals if self._running else Totals())

    def health(self) -> Health:
        """What is broken: the state of the run, of every source and of every query. Lists folders, runs no job."""
        return self._checkup.health()

    def recent_epochs(self) -> list[EpochInfo]:
        """What each of the last 4,000 epochs since opening cost and delivered, oldest first."""
        return Listing(self._running.totals.recent if self._running else ())

    def __repr__(self) -> str:
        return session_text(self)

    def _repr_html_(self) -> str:
        return session_html(self)


__all__ = ["QueryHandle", "QueryInfo", "QueryMetrics", "Session", "SessionMetrics", "SqlError", "StreamInfo"]
