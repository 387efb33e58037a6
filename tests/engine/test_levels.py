"""What joins find is followed where it changes for good, and expected to be as usual where it is chance."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from headrace.engine.conductor.measured import Measured
from headrace.engine.conductor.watching import Books
from headrace.engine.records import Metrics
from headrace.model.grouping import MAIN
from headrace.model.metrics import OperatorMetrics, QueryCounts
from headrace.model.query import QueryId

ACCEPTED = 1_000
JOIN = QueryId(1)


def measured(number: int, joined: int, members: frozenset[QueryId] = frozenset({JOIN})) -> Measured:
    """An epoch in which the tuples of one join found so many rows."""
    accepted, rows = QueryCounts.of((JOIN,), (ACCEPTED,)), QueryCounts.of((JOIN,), (joined,))
    spent = {"a": OperatorMetrics(reduce_seconds=0.1, matched=accepted, joined=rows)}
    tuples = {"s": ACCEPTED * number}
    metrics, joins = Metrics(seconds=0.1), frozenset({JOIN})
    return Measured(
        MAIN, number, float(number), 2, members, metrics, spent, {"a": (JOIN,)}, tuples, tuples, joins
    )


def expected(found: Iterable[int]) -> tuple[Books, list[float]]:
    """(what is known after these epochs, the rows that were expected of each before it ran)."""
    books, before = Books(), list[float]()
    for number, joined in enumerate(found):
        if number:
            before.append(ACCEPTED * books.matches([JOIN])[JOIN])
        books.add(measured(number, joined))
    return books, before


def error(found: list[int]) -> float:
    """How far expectations were off, on average, once some epochs were seen."""
    _, before = expected(found)
    pairs = list(zip(before, found[1:], strict=True))[5:]
    return sum(abs(guess - seen) / seen for guess, seen in pairs) / len(pairs)


def test_a_window_that_fills_is_followed() -> None:
    rising = [min(1_000 * epoch, 6_000) for epoch in range(1, 20)]
    books, before = expected(rising)
    assert before[10] == pytest.approx(6_000, rel=0.05), "four epochs after the window is full"
    assert error(rising) < 0.06, "an average of ten epochs alone is a fifth too low"
    assert books.matches([JOIN])[JOIN] == pytest.approx(6.0, rel=0.02)


@pytest.mark.parametrize("spread", [0.3, 0.5, 0.8])
def test_chance_is_not_followed(spread: float, seed: int = 7) -> None:
    """As if there were the average alone."""
    rng = Random(seed)
    by_chance = [round(2_000 * rng.lognormvariate(0, spread)) for _ in range(300)]
    _, before = expected(by_chance)
    average, averages = float(by_chance[0]), []
    accepted = 1.0
    for found in by_chance[1:]:
        averages.append(average / accepted)
        average, accepted = 0.9 * average + found, 0.9 * accepted + 1.0
    ours, alone = (
        sum(abs(guess - seen) / seen for guess, seen in zip(guesses, by_chance[1:], strict=True))
        for guesses in (before, averages)
    )
    assert ours < 1.02 * alone, f"seed {seed}"


def test_a_shift_is_followed_and_other_members_begin_anew() -> None:
    books, before = expected([2_000] * 15 + [8_000] * 5)
    assert before[-1] == pytest.approx(8_000, rel=0.1)
    books.add(measured(30, 8_000, frozenset({JOIN, *map(QueryId, range(2, 9))})))
    assert books.levels[MAIN].factor == 1.0


def test_a_group_that_is_gone_is_forgotten() -> None:
    books, _ = expected([1_000, 2_000])
    books.forget((), [JOIN])
    assert not books.levels
    assert books.matches([JOIN])[JOIN] > 0
