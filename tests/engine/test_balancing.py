"""Keys are spread anew when one task has most of the work: what becomes of what tasks measured."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from test_widths import opening  # noqa: F401

from headrace.engine.balancing import EPOCHS, MOST_EPOCHS, Balance
from headrace.model.grouping import MAIN
from headrace.model.partitioning import Partitioning, even_partitioning

HOT = {200: 1.0, 250: 1.0}


def group(name: str, seconds: dict[int, float], table: Partitioning) -> Any:
    """A group whose last epochs took so many seconds for these key groups."""
    found = Balance()
    for _ in range(EPOCHS):
        found.ran(seconds, table)
    return SimpleNamespace(name=name, balance=found)


def test_a_balanced_table_is_durable_and_goes_with_the_next_width(opening: Any) -> None:  # noqa: F811
    log, groups = opening()
    homes, even = log.catalog.homes, even_partitioning(2)
    assert homes.spec(MAIN, 99).partitioning == even
    why = groups.balance(group(MAIN, HOT, even))
    assert why is not None and "had 100% of the work" in why and "50% now" in why
    spec = homes.spec(MAIN, 99)
    assert spec.tasks == 2 and spec.partitioning.table[200] != spec.partitioning.table[250]
    assert groups.balance(group(MAIN, HOT, spec.partitioning)) is None, "it is balanced now"
    log.close()
    log, groups = opening()
    assert log.catalog.homes.spec(MAIN, 99) == spec, "opening again leaves it"
    groups.repartition(4)
    assert log.catalog.homes.spec(MAIN, 99).partitioning == even_partitioning(4)
    assert groups.balance(group(MAIN, HOT, even_partitioning(4))) is not None
    spec = log.catalog.homes.spec(MAIN, 99)
    assert spec.by_hand and spec.tasks == spec.partitioning.partitions == 4, "a person's width stays"
    log.close()


def test_keys_of_other_groups_stay_as_they_are(opening: Any) -> None:  # noqa: F811
    log, groups = opening()
    homes, even = log.catalog.homes, even_partitioning(2)
    assert groups.balance(group("plain-7", HOT, even)) is None, "plain Spark spreads what it runs by itself"
    assert groups.balance(group(MAIN, HOT, even)) is not None
    assert homes.spec("alerts", 99).partitioning == even, "other queries have other busy keys"
    assert groups.balance(group("auto-0", {10: 1.0, 20: 1.0}, even)) is not None
    tables = [homes.spec(name, 99).partitioning for name in (MAIN, "auto-0", "alerts")]
    assert len(set(tables)) == 3
    log.close()


def test_what_was_measured_under_another_table_says_nothing() -> None:
    even, other = even_partitioning(2), even_partitioning(3)
    balance = Balance()
    for _ in range(EPOCHS - 1):
        balance.ran(HOT, even)
    balance.ran({}, even)
    assert balance.decide(even) is None, "too few epochs"
    balance.ran(HOT, even)
    assert balance.decide(other) is None, "another table is about to be in force"
    balance.ran(HOT, other)
    assert balance.decide(other) is None, "one epoch under it"


def test_changes_that_do_not_keep_their_promise_become_rare() -> None:
    """Whatever the table, the second task is said to have everything: the division among its keys is wrong."""
    balance, table, changed = Balance(), even_partitioning(2), list[int]()
    for epoch in range(1_000):
        mine = [g for g, owner in enumerate(table.table) if owner == 1]
        balance.ran({g: 2.0 / len(mine) for g in mine}, table)
        found = balance.decide(table)
        if found is not None:
            table = found.partitioning
            changed.append(epoch)
    assert 3 <= len(changed) <= 12
    gaps = [after - before for before, after in pairwise(changed)]
    assert gaps == sorted(gaps) and max(gaps) <= MOST_EPOCHS


def test_a_promise_that_is_kept_lets_the_next_change_come_soon() -> None:
    balance, table, changed = Balance(), even_partitioning(2), 0
    for epoch in range(200):
        first, second = (200, 250) if epoch < 100 else (10, 60)
        balance.ran({first: 1.0, second: 1.0}, table)
        found = balance.decide(table)
        if found is not None:
            table, changed = found.partitioning, changed + 1
    assert 2 <= changed <= 3, "perhaps one for epochs of both kinds"
    assert table.table[10] != table.table[60]
