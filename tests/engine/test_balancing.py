"""Keys are spread anew when one task has most of the work: what tasks measure, and what becomes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from test_widths import opening  # noqa: F401

from headrace.engine.balancing import EPOCHS, Loads
from headrace.model.grouping import MAIN
from headrace.model.partitioning import even_partitioning


def group(name: str, loads: dict[int, float]) -> Any:
    """A group whose last epochs had such loads."""
    found = Loads()
    for _ in range(EPOCHS):
        found.ran(loads)
    return SimpleNamespace(name=name, loads=found)


def test_a_balanced_table_is_durable_and_goes_with_the_next_width(opening: Any) -> None:  # noqa: F811
    log, groups = opening()
    hot = {200: 1.0, 250: 1.0}
    assert log.catalog.homes.spec(MAIN, 99).partitioning == even_partitioning(2)
    why = groups.balance(group(MAIN, hot))
    assert why is not None and "had 100% of the work" in why and "50% now" in why
    spec = log.catalog.homes.spec(MAIN, 99)
    assert spec.tasks == 2 and spec.partitioning.table[200] != spec.partitioning.table[250]
    assert groups.balance(group(MAIN, hot)) is None, "it is balanced now"
    log.close()
    log, groups = opening()
    assert log.catalog.homes.spec(MAIN, 99) == spec, "opening again leaves it"
    groups.repartition(4)
    assert log.catalog.homes.spec(MAIN, 99).partitioning == even_partitioning(4)
    assert groups.balance(group(MAIN, hot)) is not None
    spec = log.catalog.homes.spec(MAIN, 99)
    assert spec.by_hand and spec.tasks == spec.partitioning.partitions == 4, "a person's width stays"
    log.close()


def test_a_few_epochs_are_waited_for_and_others_are_left_alone(opening: Any) -> None:  # noqa: F811
    log, groups = opening()
    young = Loads()
    young.ran({200: 9.0})
    young.ran({})
    assert young.decide(even_partitioning(2)) is None
    plain = group("plain-7", {200: 1.0, 250: 1.0})
    assert groups.balance(plain) is None, "plain Spark spreads what it runs by itself"
    log.close()


def test_an_own_table_of_a_group_leaves_the_main_group_alone(opening: Any) -> None:  # noqa: F811
    log, groups = opening()
    assert groups.balance(group("auto-0", {200: 1.0, 250: 1.0})) is not None
    homes = log.catalog.homes
    assert homes.spec(MAIN, 99).partitioning == even_partitioning(2) != homes.spec("auto-0", 99).partitioning
    log.close()
