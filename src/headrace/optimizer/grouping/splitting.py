"""Algorithm 2: what to do about a group in which somebody is slower than alone.

First the queries that cause back-pressure leave, or those of an operator that others do not use. Without back-pressure
the group gets more tasks, up to what its members would have alone. If these are not enough, the queries that are
penalised leave.

Where all groups share the cores that there are, what is best for everybody is done instead (`shared_cores.py`): more
tasks for one group would be fewer for the others.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.model.query import QueryId
from headrace.optimizer.grouping.monitor import GroupHealth
from headrace.optimizer.grouping.packing import make_room
from headrace.optimizer.grouping.provisioning import tasks_for
from headrace.optimizer.grouping.shared_cores import Outlook, best_parting
from headrace.optimizer.grouping.situation import Situation
from headrace.optimizer.grouping.throughput import (
    fair_tasks,
    isolated_load,
    isolated_share,
    penalised_queries,
)
from headrace.optimizer.grouping.values import (
    Change,
    Decision,
    FunctionName,
    Grouping,
    OperatorId,
    Resized,
    SharingGroup,
    SplitCause,
    SplitOff,
)
from headrace.optimizer.grouping.wording import why_foreign, why_lags, why_more, why_penalised, why_pressed


def decide_splits(situation: Situation) -> Decision:
    """What is done for every group with a penalised query, as one decision. Other groups stay as they are."""
    if situation.settings.cores is not None:
        return _part_on_shared_cores(situation)
    grouping, changes, fair = situation.grouping, list[Change](), fair_tasks(situation)
    for group in situation.grouping.groups:
        penalised = () if group.apart else penalised_queries(situation, group, fair)
        if penalised:
            grouping, change = _help(replace(situation, grouping=grouping), group, penalised, fair)
            changes += [] if change is None else [change]
    return make_room(situation, Decision(grouping, tuple(changes)))


def _part_on_shared_cores(situation: Situation) -> Decision:
    """What is done where all groups share the cores: at most one split for each group that falls behind.

    Groups beyond what the driver can start would only wait for it. So nobody leaves when there are as many. Of a group
    that has processed nothing lately it is not known what it needs.
    """
    grouping, changes = situation.grouping, list[Change]()
    behind = [
        (health.share, group)
        for group in grouping.groups
        if not group.apart
        and (health := situation.health.get(group.name)) is not None
        and health.lags
        and health.throughput > 0
    ]
    if not behind:
        return Decision(situation.grouping)
    outlook = Outlook.of(situation)
    for share, group in sorted(behind, key=lambda one: (one[0], one[1].name)):
        now = replace(situation, grouping=grouping)
        parting = None
        if len(group.members) > 1 and len(grouping.groups) < situation.settings.max_groups:
            parting = best_parting(now, group, outlook)
        if parting is not None:
            grouping, change = split_off(
                now, group, parting.leaving, parting.cause, parting.why, together=True
            )
            assert change is not None
            outlook = outlook.parted(group, parting, change.into[0])
            changes.append(change)
        elif (more := _more_tasks(now, group, situation.health[group.name])) is not None:
            why = why_lags(group.tasks, more, share)
            grouping = grouping.replaced([group.name], [replace(group, tasks=more)])
            changes.append(Resized(group.name, group.tasks, more, why))
    return Decision(grouping, tuple(changes))


def _help(
    situation: Situation, group: SharingGroup, penalised: tuple[QueryId, ...], fair: float
) -> tuple[Grouping, Change | None]:
    health = situation.health[group.name]
    culprits, functions, narrow = causing_queries(situation, group, health)
    if culprits and (narrow or len(culprits) < len(group.members)):
        why = why_pressed(len(culprits), tuple(sorted(functions)), health.share)
        return split_off(situation, group, culprits, SplitCause.BACK_PRESSURE, why)
    strangers, operator = foreign_queries(situation, group, health, penalised)
    if operator is not None:
        why = why_foreign(len(strangers), operator, health.share)
        return split_off(situation, group, strangers, SplitCause.BACK_PRESSURE, why, together=True)
    more = _more_tasks(situation, group, health)
    if more is not None:
        why = why_more(group.tasks, more, health.share, len(penalised))
        grown = situation.grouping.replaced([group.name], [replace(group, tasks=more)])
        return grown, Resized(group.name, group.tasks, more, why)
    fastest = max(isolated_share(situation, query, fair) for query in penalised)
    why = why_penalised(len(penalised), health.share, fastest, group.tasks)
    return split_off(situation, group, penalised, SplitCause.PENALTY, why)


def _more_tasks(situation: Situation, group: SharingGroup, health: GroupHealth) -> int | None:
    """The tasks that would be enough; None if the group may not have them.

    A group that still lags with the tasks that should be enough gets all it may have: the model was wrong about it. So
    a group is given more at most twice before it is split.
    """
    most = situation.isolated_tasks(group.members)
    budget = situation.settings.task_budget
    if budget is not None:
        most = min(most, group.tasks + budget - situation.grouping.tasks)
    if most <= group.tasks:
        return None
    load = health.busy / health.share if health.share > 0 else float(most)
    wanted = max(isolated_share(situation, query) for query in group.members)
    spread = 1 + situation.settings.scaling.serial * (group.tasks - 1)
    needed = tasks_for(wanted * load / spread, most, situation.settings)
    return needed if needed > group.tasks else most


def causing_queries(
    situation: Situation, group: SharingGroup, health: GroupHealth
) -> tuple[tuple[QueryId, ...], frozenset[FunctionName], bool]:
    """The members whose work after the shared part holds the group up, and their functions; none if nothing does.

    A function that cannot use as many tasks as it needs always leaves: more tasks would not help. The last value says
    whether there is one. Then its queries have to be parted from each other, too. If the shared part
    would keep up by itself, the dearest work leaves first, until the rest would keep up. Finishing a query's own rows
    is such work too.

    A group may be held up by one busy task while its other tasks rest. Then the rest would keep up by what all tasks
    can do, and nobody would leave. So if the group is held up all the same, its dearest function leaves, unless the
    shared part is so much dearer that the busy task is likely to be busy with that.
    """
    if health.share <= 0:
        return (), frozenset(), False  # nothing was processed, so nothing is known of what held it up
    pressed = health.pressed(group.tasks, situation.settings)
    after = sorted(_after(situation, group, health), key=lambda one: (-one[0], one[1]))
    left = health.busy / health.share
    room = situation.settings.scaling.useful(group.tasks) * (1 - situation.settings.headroom)
    gone: set[QueryId] = set()
    functions: set[FunctionName] = set()
    narrow = any(too_narrow for *_, too_narrow in after)
    for load, queries, function, too_narrow in after:
        if too_narrow or (pressed and left > room):
            left -= load
            gone.update(queries)
            functions.update([] if function is None else [function])
    if pressed and not gone:
        called = [one for one in after if one[2] is not None and 2 * one[0] * health.share >= health.shared]
        for _, queries, function, _ in called[:1]:
            gone.update(queries)
            functions.update([] if function is None else [function])
    return tuple(sorted(gone)), frozenset(functions), narrow


def foreign_queries(
    situation: Situation, group: SharingGroup, health: GroupHealth, penalised: tuple[QueryId, ...]
) -> tuple[tuple[QueryId, ...], OperatorId | None]:
    """The queries of an operator that holds others up which do not use it, and that operator; none if there is none.

    Queries of different operators may be in one group, because a group costs something by itself. For those that do not
    use an operator, its work is nothing that they share. So the dearest one leaves, as long as somebody who is
    penalised does not use it. Its queries stay together.
    """
    users: dict[OperatorId, list[QueryId]] = {}
    for query in group.members:
        operator = situation.queries[query].operator
        if operator is not None:
            users.setdefault(operator, []).append(query)
    if len(users) < 2 or not health.operators:
        return (), None
    dearest = max(users, key=lambda operator: (health.operators.get(operator, 0.0), operator))
    mine = set(users[dearest])
    if all(query in mine for query in penalised) or health.operators.get(dearest, 0.0) * 2 < health.shared:
        return (), None
    return tuple(sorted(mine)), dearest


_After = tuple[float, tuple[QueryId, ...], FunctionName | None, bool]


def _after(situation: Situation, group: SharingGroup, health: GroupHealth) -> list[_After]:
    """Load at full rate, queries and function of each piece of work after the shared part; whether it is too narrow."""
    users: dict[FunctionName, list[QueryId]] = {}
    for query in group.members:
        function = situation.queries[query].function
        if function is not None:
            users.setdefault(function, []).append(query)
    after: list[_After] = []
    for function, queries in users.items():
        load = health.functions.get(function, 0.0) / health.share
        widths = [w for q in queries if (w := situation.queries[q].width) is not None]
        narrow = bool(widths) and load > min(widths) * (1 - situation.settings.tolerance)
        after.append((load, tuple(queries), function, narrow))
    for query in group.members:
        alone = isolated_load(situation, query)
        after.append((alone.finishing if alone else 0.0, (query,), None, False))
    return [one for one in after if one[0] > 0]


def split_off(
    situation: Situation,
    group: SharingGroup,
    queries: tuple[QueryId, ...],
    cause: SplitCause,
    why: str,
    *,
    together: bool = False,
) -> tuple[Grouping, SplitOff | None]:
    """The queries in groups of their own, each with what it would have alone, and the rest in the old group.

    Those that stay `together` are one group, with the tasks that the old one had.

    The rest keeps its tasks as long as these are no more than it would have alone. When all members leave, the last of
    them stays where it is. There may be more groups then than the driver can run: whoever calls sees to that. None
    when nobody would be parted from anybody.
    """
    gone = set(queries)
    rest = tuple(query for query in group.members if query not in gone)
    sets = [queries] if together else [(query,) for query in queries]
    everybody = not rest
    if everybody:
        rest = sets.pop()
    if not sets:
        return situation.grouping, None
    shapes = [(s, situation.isolated_tasks(s)) for s in sets]
    if together:
        shapes = [(s, min(tasks, group.tasks)) for s, tasks in shapes]
    grouping, made = situation.grouping.named(shapes)
    left = replace(group, members=rest, tasks=_tasks_of_rest(situation, group, rest))
    moved = tuple(sorted(query for new in made for query in new.members))
    change = SplitOff(group.name, moved, tuple(new.name for new in made), cause, why, everybody)
    return grouping.replaced([group.name], [left, *made]), change


def _tasks_of_rest(situation: Situation, group: SharingGroup, rest: tuple[QueryId, ...]) -> int:
    most = situation.isolated_tasks(rest)
    return most if len(rest) == 1 else min(group.tasks, most)
