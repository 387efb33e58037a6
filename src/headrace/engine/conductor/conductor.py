"""The conductor: on a clock that it is given, it asks the controller who should share with whom, and has it done.

It runs beside the epochs and holds none of them up. What it decides becomes wishes of queries, which the groups fulfil
when their cursors meet.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.catalog.events import EventBook
from headrace.engine.conductor.facts import (
    LiveQuery,
    facts_of,
    functions_of,
    grouping_of,
    only_measured,
    operator_of,
    usual_parts,
)
from headrace.engine.conductor.measured import Measured
from headrace.engine.conductor.memory import MEANING, Learnt
from headrace.engine.conductor.needs import Course, unmet
from headrace.engine.conductor.placing import Room, Rooms
from headrace.engine.conductor.predicting import Correction, Prediction, compare, corrected, predict
from headrace.engine.conductor.promises import Promises
from headrace.engine.conductor.reading import EpochReader
from headrace.engine.conductor.room import idle_cores, width_of
from headrace.engine.conductor.stage import Stage
from headrace.engine.conductor.statistics import Knowledge
from headrace.engine.conductor.telling import (
    Violated,
    left_behind,
    note_change,
    note_violations,
    only_telling,
)
from headrace.engine.conductor.under_way import UnderWay
from headrace.engine.conductor.watching import Books, came_since, group_epochs, while_lagging
from headrace.model.events import EventKind
from headrace.model.grouping import MAIN, auto_number
from headrace.model.query import Fallback, Needs, QueryId, QueryPlan
from headrace.optimizer.grouping.calibration import (
    Calibration,
    PredictionError,
    observe,
    recall_calibration,
)
from headrace.optimizer.grouping.costs import Coefficients
from headrace.optimizer.grouping.monitor import GroupHealth, watch_group
from headrace.optimizer.grouping.policies import FunctionalIsolation, Grouper, Policy, grouper_of
from headrace.optimizer.grouping.settings import Scaling, Settings, follow_overhead
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.statistics import GroupEpoch, Statistics
from headrace.optimizer.grouping.throughput import Violation, violations
from headrace.optimizer.grouping.timetable import Timetable, decide
from headrace.optimizer.grouping.values import (
    Decision,
    FunctionName,
    Grouping,
    GroupName,
    Placed,
    QueryFacts,
    Resized,
    relocations,
)
from headrace.optimizer.grouping.wording import count_queries

_LOGGER = logging.getLogger(__name__)

DEFAULTS = Settings(bounded=True)

EARLY = 0.1
"""When a group begins to fall behind, the next look is not waited for. Two looks are this part of the usual time apart
at least.
"""

COSTS_KEPT = 1_000
"""When costs of more operators or functions are known, those that no query has are forgotten."""

NOTED = 20
"""So many events are written of one call that creates queries."""


@dataclass(frozen=True, slots=True)
class ConductorInfo:
    """What the conductor has done since the warehouse was opened.

    `looked_s` is the CPU time of its looks, and of finding that nothing is due.
    """

    policy: str
    looks: int
    looked_s: float
    median_error: float | None
    median_cost_error: float | None
    errors: tuple[PredictionError, ...]
    delays_s: tuple[float, ...]
    saves: Mapping[str, float] = field(default_factory=dict)
    """By the last look: the CPU seconds per second that queries of each group would need more if each ran alone."""


@dataclass(slots=True)
class _State:
    """What the conductor remembers between two looks."""

    timetable: Timetable
    calibration: Calibration = field(default_factory=Calibration)
    predicted: dict[str, Prediction] = field(default_factory=dict)
    corrections: dict[str, Correction] = field(default_factory=dict)
    health: dict[GroupName, GroupHealth] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    rooms: Rooms | None = None
    tasks: dict[str, int] = field(default_factory=dict)
    violated: Violated = field(default_factory=dict)
    under_way: UnderWay = field(default_factory=UnderWay)
    overhead_s: float | None = None
    """What an epoch is taken to cost by itself, as it was measured; None before it was."""
    next_number: int = 0
    """Groups that new queries begin in have smaller numbers, also those that the catalog does not know of yet."""
    looks: int = 0
    looked_s: float = 0.0
    looked_at: float = float("-inf")
    hurried: set[str] = field(default_factory=set)
    """Groups that fell behind and were looked at for that reason, or by a look that was due anyway."""


class Conductor:
    """Decides for one open warehouse. Thread-safe; `measured` waits for nobody, and `place` for a look only if there is
    no room that is easily found.

    `interval_s` is how often an epoch is sealed. `grouper` is for tests that want decisions of their own.
    """

    def __init__(
        self,
        stage: Stage,
        events: EventBook,
        policy: Policy | None,
        settings: Settings = DEFAULTS,
        clock: Callable[[], float] = time.time,
        grouper: Grouper | None = None,
    ) -> None:
        self._stage, self._events, self._policy, self._clock = stage, events, policy, clock
        self._grouper = grouper or (None if policy is None else grouper_of(policy))
        self._settings, self.interval_s = settings, settings.scaling.interval_s
        self._lock, self._placing = threading.RLock(), threading.Lock()
        self._fresh: deque[Measured] = deque()
        self._promises = Promises()  # only who holds `_placing` may ask
        self._books, self._knowledge, self._course = Books(), Knowledge(stage), Course()
        self._state = _State(Timetable.start(clock(), settings))

    @property
    def decides(self) -> bool:
        """Whether there is a policy. If not, nobody reads what is measured."""
        return self._grouper is not None

    def use(self, settings: Settings) -> None:
        """Decide by other settings from now on; the next looks are due by these."""
        with self._lock:
            self._settings = settings
            self._state.timetable = Timetable.start(self._clock(), settings)

    def measured(self, epoch: Measured) -> None:
        """An epoch of a group was committed. Called by whoever ran it."""
        self._fresh.append(epoch)

    def info(self) -> ConductorInfo:
        """What is told of groups is about those that are still there."""
        with self._lock:
            state, there = self._state, self._books.epochs
            errors = tuple(error for error in state.calibration.errors if error.group in there)
            calibration = replace(state.calibration, errors=errors)
            return ConductorInfo(
                "manual" if self._policy is None else self._policy.value,
                state.looks,
                state.looked_s,
                calibration.median_error(),
                calibration.median_cost_error(),
                errors,
                state.under_way.delays_s,
                {name: one.saves for name, one in state.predicted.items() if one.saves is not None},
            )

    def learnt(self) -> Learnt:
        """What is worth keeping when the warehouse is closed."""
        with self._lock:
            books = self._books
            return Learnt(
                self._state.calibration.kept(),
                {str(query): count for query, count in books.accepted.items()},
                {str(query): count for query, count in books.joined.items()},
                {str(query): str(name) for query, name in books.functions.items()},
                MEANING,
            )

    def recall(self, learnt: Learnt) -> None:
        """Go on from what was learnt before."""
        with self._lock:
            self._state.calibration = recall_calibration(learnt.calibration)
            self._books.accepted = {QueryId(int(query)): count for query, count in learnt.accepted.items()}
            self._books.joined = {QueryId(int(query)): count for query, count in learnt.joined.items()}
            self._books.functions = {
                QueryId(int(query)): FunctionName(name) for query, name in learnt.functions.items()
            }

    # looking

    @property
    def due(self) -> bool:
        """Whether something is to be looked at now."""
        table = self._state.timetable
        if self._grouper is None:
            return self._clock() >= table.watch_at
        return bool(self._fresh) or self._clock() >= min(table.watch_at, table.merge_at)

    def look(self, *, early: bool = False) -> Decision | None:
        """Do what is due now; what was decided, None when it was not time. `early`, only if a group began to lag."""
        with self._lock:
            began = time.thread_time()
            try:
                return self._look(self._clock(), early)
            finally:
                self._state.looked_s += time.thread_time() - began

    def _look(self, now: float, early: bool) -> Decision | None:
        """`look`, by whoever holds the lock."""
        if self._grouper is None:
            self._fresh.clear()  # nobody would ever read or forget it
            return self._only_watch(now)
        self._take_in()
        table = self._hurried(now)
        waits = table is self._state.timetable if early else now < min(table.watch_at, table.merge_at)
        if waits:
            return None
        queries = self._queries(now)
        self._forget(queries)
        self._knowledge.look(queries, self._books, now, self._settings.watch_every_s)
        self._observe(queries)
        situation = self._situation(queries, self._knowledge.statistics)
        if isinstance(self._grouper, FunctionalIsolation):
            situation = only_measured(situation)
        if now >= self._state.timetable.watch_at:
            self._state.hurried = self._books.lagging(self.interval_s)
        self._state.looked_at = now
        self._state.timetable, decision = decide(self._grouper, table, now, situation)
        self._state.rooms = Rooms(situation)
        names = {query.id: query.name for query in queries}
        self._carry_out(situation, decision, names, now)
        behind = list(violations(situation))
        self._tell_violations(queries, now, [*behind, *left_behind(situation, behind)])
        self._state.predicted = predict(
            situation, self._knowledge.rate, self._epoch_s(queries), self._state.corrections
        )
        self._state.looks += 1
        return decision

    def _forget(self, queries: Sequence[LiveQuery]) -> None:
        """Keep only what is known of groups and queries that are there, and of costs that some of them have.

        What others cost is kept, too, as long as that is not much: they may come again.
        """
        state = self._state
        self._books.forget({query.group for query in queries}, (query.id for query in queries))
        state.seen = {name: epoch for name, epoch in state.seen.items() if name in self._books.epochs}
        costs = state.calibration
        if max(len(costs.scans), len(costs.functions)) > COSTS_KEPT:
            read = {operator_of(query.plan) for query in queries}
            read |= {part for parts in self._books.parts().values() for part in parts}
            called = {
                *self._books.functions.values(),
                *(n for query in queries for n in query.plan.functions),
            }
            state.calibration = replace(
                costs,
                scans={operator: sums for operator, sums in costs.scans.items() if operator in read},
                joins={operator: sums for operator, sums in costs.joins.items() if operator in read},
                functions={name: sums for name, sums in costs.functions.items() if name in called},
            )

    def _only_watch(self, now: float) -> Decision | None:
        """Without a policy nothing is decided, but it is told who does not get what was asked for."""
        table = self._state.timetable
        if now < table.watch_at:
            return None
        self._state.timetable = replace(table, watch_at=now + self._settings.watch_every_s)
        self._tell_violations(self._stage.queries(), now)
        return Decision(Grouping())

    def _tell_violations(
        self, queries: Sequence[LiveQuery], now: float, others: Iterable[Violation] = ()
    ) -> None:
        """An event for each query that does not get what was asked for, and for `others`.

        What was decided holds whether people can be told of that or not. So trouble is logged, and not raised.
        """
        try:
            asking = [query for query in queries if query.needs.asks]
            homes = sorted({query.home for query in asking})
            self._course.note(now, self._stage.arrived() if homes else {}, self._stage.standings(homes))
            found = [*others, *unmet(asking, self._course, self.interval_s)]
            live = {query.id: query for query in queries}
            self._state.violated = note_violations(self._events, found, self._state.violated, live, now)
        except Exception as error:
            _LOGGER.warning("nobody is told which queries do not get what was asked for: %s", error)

    def _hurried(self, now: float) -> Timetable:
        """When to look next: at once if a group has begun to fall behind since the last look, once for each group."""
        state = self._state
        new = self._books.lagging(self.interval_s) - state.hurried
        if not new or now - state.looked_at < EARLY * self._settings.watch_every_s:
            return state.timetable
        state.hurried |= new
        return replace(state.timetable, watch_at=min(now, state.timetable.watch_at))

    def _queries(self, now: float) -> list[LiveQuery]:
        """The queries that run. What was decided a moment ago counts already: no epoch may have taken it in yet."""
        targets = self._state.under_way.targets(now)
        found = self._stage.queries()
        return [
            replace(query, group=targets[query.id], moving=True)
            if query.id in targets and not query.apart
            else query
            for query in found
        ]

    def _take_in(self) -> None:
        """Note the epochs that were run since the last look, and the decisions that are in force by them."""
        while self._fresh:
            measured = self._fresh.popleft()
            self._books.add(measured)
            self._state.under_way.arrive(measured, self._events)

    def _observe(self, queries: Sequence[LiveQuery]) -> None:
        """How groups fare by their last epochs, and what the new ones among these teach."""
        state = self._state
        operators = {query.id: found for query in queries if (found := operator_of(query.plan)) is not None}
        counted = set(self._books.functions.values())
        reader = EpochReader(operators, self._knowledge.statistics.regions, counted)
        arrived = self._stage.arrived()
        new: list[GroupEpoch] = []
        state.health = {}
        for name, kept in self._books.epochs.items():
            epochs = group_epochs(tuple(kept), reader, self.interval_s)
            if epochs:
                health = watch_group(while_lagging(tuple(kept), epochs, self.interval_s))
                more = came_since(kept[-1], arrived, operators)
                state.health[GroupName(name)] = replace(health, lag=health.lag + more)
                last = state.seen.get(name, -1)
                new += [epoch for epoch in epochs if epoch.epoch > last and epoch.processed]
                state.seen[name] = epochs[-1].epoch
        self._calibrate(new)
        if (overhead := self._books.overhead_s()) is not None:
            before = overhead if state.overhead_s is None else state.overhead_s
            state.overhead_s = follow_overhead(before, overhead)

    def _situation(self, queries: Sequence[LiveQuery], statistics: Statistics) -> Situation:
        stage, state = self._stage, self._state
        groups, costs = {query.group for query in queries}, self._costs(queries)
        tasks = stage.tasks(groups) | {name: n for name, n in state.tasks.items() if name in groups}
        return Situation(
            grouping_of(queries, tasks, stage.cores, max(stage.next_number(), state.next_number)),
            self._facts((query for query in queries if not query.apart), costs),
            statistics,
            state.health,
            costs,
            self._settings_now(),
        )

    def _costs(self, queries: Iterable[LiveQuery]) -> Coefficients:
        """What work costs, as it was measured. Of functions that were not called yet, it is what people said."""
        measured = self._state.calibration.coefficients(self._epoch_s(queries))
        return measured.with_estimates(self._stage.function_costs())

    def _facts(self, queries: Iterable[LiveQuery], costs: Coefficients) -> dict[QueryId, QueryFacts]:
        found, books = list(queries), self._books
        functions = functions_of(found, books.functions, books.accepted, costs)
        parts = books.parts()
        running = ((operator_of(query.plan), parts[query.id]) for query in found if query.id in parts)
        return facts_of(found, self._stage.cores, functions, parts, usual_parts(running))

    def _epoch_s(self, queries: Iterable[LiveQuery]) -> float:
        """How far epochs are apart. Groups that catch up, or that plain Spark runs, have a pace of their own."""
        groups = {query.group for query in queries if not query.apart}
        return self._books.epoch_s(groups) or self.interval_s

    def _settings_now(self) -> Settings:
        """The settings, with what an epoch was seen to cost by itself.

        Groups are merged when they have come about as far as each other. A query of one that is far behind the other
        would be on its way for as long as it takes to catch up, and nothing would be gained meanwhile.
        """
        scaling = self._settings.scaling
        found = scaling.overhead_s if self._state.overhead_s is None else self._state.overhead_s
        budget = self._settings.task_budget or self._stage.cores
        return replace(
            self._settings,
            scaling=Scaling(min(0.8 * self.interval_s, found), self.interval_s, scaling.serial),
            task_budget=budget,
            cores=self._stage.cores,
            meet_within_s=min(self._settings.meet_within_s, 2 * self.interval_s),
        )

    def _calibrate(self, epochs: Sequence[GroupEpoch]) -> None:
        """Compare new epochs with what was predicted, and learn from them."""
        state = self._state
        members = {name: kept[-1].members for name, kept in self._books.epochs.items() if kept}
        errors = compare(state.predicted, epochs, members, state.calibration)
        state.calibration = observe(state.calibration, epochs).with_errors(errors)
        state.corrections = corrected(state.corrections, state.predicted, epochs, members)

    # having it done

    def _carry_out(
        self, situation: Situation, decision: Decision, names: Mapping[QueryId, str], now: float
    ) -> None:
        """Wishes for the queries that are to live elsewhere, tasks for groups, and an event for every change.

        What has been asked for is remembered before anybody is told of it.
        """
        under_way = None
        if moves := relocations(situation.grouping, decision.grouping):
            self._stage.move([(move.query, move.target) for move in moves])
            under_way = self._state.under_way.decided(now, {move.query: move.target for move in moves})
        widths = self._give_tasks(situation, decision.grouping)
        numbers: list[int] = []
        for change in decision.changes:
            if not isinstance(change, Resized) or change.group in widths:
                with only_telling():
                    numbers.append(
                        note_change(self._events, change, situation.grouping, decision.grouping, names, now)
                    )
        if under_way is not None:
            under_way.events = numbers

    def _give_tasks(self, situation: Situation, grouping: Grouping) -> set[str]:
        """Let groups run with what was decided for them; the groups that run with more or fewer tasks by that."""
        self._state.tasks = {group.name: group.tasks for group in grouping.groups if not group.apart}
        now = self._stage.tasks(self._state.tasks)
        idle = idle_cores(situation, grouping)
        changed: set[str] = set()
        for name, tasks in self._state.tasks.items():
            free = idle[GroupName(name)]
            wanted = width_of(tasks, free, self._stage.cores, len(grouping.groups), now.get(name, 0))
            if now.get(name) != wanted:
                self._stage.resize(name, wanted)
                changed.add(name)
        return changed

    # new queries

    def place(self, wanted: Sequence[tuple[QueryPlan, Needs]]) -> list[str | None]:
        """The group that each new query starts in; None for where it would start without anybody's decision."""
        places: list[str | None] = [None] * len(wanted)
        fresh = [i for i, (plan, _) in enumerate(wanted) if not isinstance(plan.body, Fallback)]
        functional, rooms = self._policy is Policy.FUNCTIONAL, self._state.rooms
        if (
            self._grouper is None
            or not fresh
            or (functional and (rooms is None or not rooms.situation.health))
        ):
            return places  # nobody can be slowed before anything has been measured
        with self._placing:
            guests = [
                LiveQuery(self._promises.number(), f"new {i}", wanted[i][0], MAIN, wanted[i][1])
                for i in fresh
            ]
            room = self._find_room(rooms, guests) if functional and rooms is not None else None
            if room is None:
                with self._lock:
                    homes = self._decide_places(guests)
            else:
                homes = dict.fromkeys(guests, room.group)
            if rooms is None:
                newest = max((query.id for query in self._stage.queries()), default=QueryId(-1))
            else:
                newest = rooms.newest
            self._promises.add(self._clock(), homes, newest)
            for i, guest in zip(fresh, guests, strict=True):
                places[i] = homes[guest]
            if room is not None and room.group != MAIN:
                text = f"{count_queries(len(guests))} began here: {room.reason}"
                with only_telling():
                    self._events.add(self._clock(), EventKind.PLACED, room.group, text)
            return places

    def _find_room(self, rooms: Rooms, guests: Sequence[LiveQuery]) -> Room | None:
        """The group that can take new queries without a look at all others, by what was known at the last look.

        What has been let in since then takes room already. It waits for no look that is under way.
        """
        costs = rooms.situation.costs.with_estimates(self._stage.function_costs())
        functions = functions_of(guests, {}, (), costs)
        facts = facts_of(guests, self._stage.cores, functions, {}, rooms.usual_parts)
        return rooms.take(facts, self._knowledge.samples_of(guests, rooms.usual_matches), costs)

    def _decide_places(self, guests: Sequence[LiveQuery]) -> dict[LiveQuery, str]:
        """Where the policy puts new queries when it looks at all groups, and at those that are about to begin."""
        assert self._grouper is not None
        now = self._clock()
        there = self._queries(now)
        known = [*there, *self._promises.left(now, there)]
        statistics = self._knowledge.with_queries([*known, *guests], self._books)
        situation = self._situation(known, statistics)
        living = [query for query in known if not query.apart]
        situation = replace(situation, queries=self._facts([*living, *guests], situation.costs))
        decision = self._grouper.place(situation, [guest.id for guest in guests])
        self._state.tasks |= {
            group.name: group.tasks for group in decision.grouping.groups if not group.apart
        }
        numbers = [auto_number(group.name) for group in decision.grouping.groups]
        used = (1 + number for number in numbers if number is not None)
        self._state.next_number = max(used, default=0)
        reasons: dict[tuple[str, str], int] = defaultdict(int)
        for change in decision.changes:
            if isinstance(change, Placed) and change.group != MAIN:
                reasons[change.group, change.reason] += 1
        for (group, reason), count in list(reasons.items())[:NOTED]:
            text = f"{count_queries(count)} began here: {reason}"
            with only_telling():
                self._events.add(self._clock(), EventKind.PLACED, group, text)
        homes = decision.grouping.by_query()
        return {guest: homes[guest.id].name for guest in guests}
