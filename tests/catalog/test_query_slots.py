"""Slots follow from the sealed epochs alone, are never shared, and are reused."""

from __future__ import annotations

import dataclasses
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.queries import TRANSITIONS, QueryEntry, QueryState, QueryTable
from headrace.model import codec
from headrace.model.epoch import Change, Create, Drop, Epoch
from headrace.model.grouping import MAIN, Relocation
from headrace.model.query import EpochId, Query, QueryId
from headrace.operators.join.changelogs import changelog_set
from log_samples import PLAN


@st.composite
def histories(draw: st.DrawFn) -> list[Epoch]:
    """Epochs that create some queries and drop some that live, perhaps those of the same epoch."""
    epochs, live, next_id = list[Epoch](), set[int](), 1
    for number in range(draw(st.integers(1, 8))):
        changes: list[Change] = []
        for _ in range(draw(st.integers(0, 4))):
            if draw(st.booleans()) if live else False:
                gone = draw(st.sampled_from(sorted(live)))
                live.remove(gone)
                changes.append(Drop(QueryId(gone)))
            else:
                changes.append(Create(Query(QueryId(next_id), f"q{next_id}", PLAN)))
                live.add(next_id)
                next_id += 1
        epochs.append(Epoch(EpochId(number), (), tuple(changes), sealed_at=float(number)))
    return epochs


def holders(entries: tuple[QueryEntry, ...], epoch: int) -> dict[int, int]:
    active = [entry for entry in entries if entry.active_in(epoch)]
    found = {entry.slot: int(entry.query.id) for entry in active if entry.slot is not None}
    assert len(found) == len(active), "two queries share a slot, or an active query has none"
    return found


@given(histories())
def test_slots_are_never_shared_and_as_few_as_can_be(epochs: list[Epoch]) -> None:
    table = QueryTable()
    before: dict[int, int] = {}
    most = 0
    for epoch in epochs:
        table.apply(epoch)
        after = holders(table.entries(), epoch.id)
        kept = {slot: query for slot, query in before.items() if query in after.values()}
        assert kept.items() <= after.items(), "a query moved"
        fresh = sorted(slot for slot in after if slot not in kept)
        assert fresh == sorted(set(range(1000)) - kept.keys())[: len(fresh)]
        before, most = after, max(most, len(after))
    assert table.slots == most


@given(histories(), st.integers(0, 8))
def test_a_snapshot_in_between_changes_nothing(epochs: list[Epoch], cut: int) -> None:
    whole, first = QueryTable(), QueryTable()
    for epoch in epochs:
        whole.apply(epoch)
    for epoch in epochs[:cut]:
        first.apply(epoch)
    second = QueryTable(codec.loads(codec.dumps(first.entries())), codec.loads(codec.dumps(first.freed)))
    for epoch in epochs[cut:]:
        second.apply(epoch)
    assert second.entries() == whole.entries()


@given(histories())
def test_changelog_sets_tell_which_query_a_bit_means(epochs: list[Epoch]) -> None:
    table = QueryTable()
    for epoch in epochs:
        table.apply(epoch)
    slots = [holders(table.entries(), epoch.id) for epoch in epochs]
    for i, j in combinations(range(len(slots)), 2):
        found = changelog_set(slots[i], slots[j])
        for slot, query in slots[i].items():
            kept = all(between.get(slot) == query for between in slots[i : j + 1])
            assert bool(found >> slot & 1) == kept, "two times tell what all between them do"


@given(histories(), st.data())
def test_active_queries_are_those_of_the_entries_as_they_are(
    epochs: list[Epoch], data: st.DataObject
) -> None:
    """Answers are kept until a query changes, moves, fails or is forgotten."""
    table = QueryTable()
    for epoch in epochs:
        table.apply(epoch)
        for entry in table.entries():
            match data.draw(st.sampled_from(("stays", "moves", "fails", "goes"))):
                case "moves" if entry.group == MAIN and entry.last_epoch is None:
                    table.relocate(Relocation(entry.query.id, MAIN, "other"), int(epoch.id) + 1)
                case "fails" if entry.state is QueryState.ACTIVE:
                    table.quarantine(entry.query.id, epoch.id, "error")
                case "goes" if entry.state is QueryState.DROPPED:
                    table.remove(entry.query.id)
            for number in range(int(epoch.id) + 2):
                active = [one for one in table.entries() if one.active_in(number)]
                assert list(table.active(number)) == active
                for group in (MAIN, "other"):
                    mine = [one for one in active if one.group_at(number) == group]
                    assert list(table.active(number, group)) == mine


def test_only_declared_transitions_exist() -> None:
    entry = QueryEntry(Query(QueryId(1), "a", PLAN))
    for state in QueryState:
        for other in QueryState:
            try:
                dataclasses.replace(entry, state=state).to(other)
                allowed = True
            except ValueError:
                allowed = False
            assert allowed == (other in TRANSITIONS[state])
