"""How splitters and windows adapt: pure, with made-up measurements."""

from __future__ import annotations

import pytest

from headrace.optimizer.splitting.adapting import (
    FIRST_WINDOW,
    HEADROOM,
    LARGEST_WINDOW,
    ODD_ROUNDS,
    ROUND_ROWS,
    Adapting,
    Seen,
)


def run(adapting: Adapting, rate_of: dict[int, float] | float, epochs: int, **other: float) -> Adapting:
    """Epochs whose splitters reach a rate that depends on the window."""
    for _ in range(epochs):
        rate = rate_of if isinstance(rate_of, float) else rate_of[adapting.window_rows]
        given = {"every_s": 1.0, **other}
        adapting = adapting.after(Seen(ROUND_ROWS, ROUND_ROWS / rate, **given))
    return adapting


def test_the_window_doubles_until_it_gains_nothing_and_the_best_is_kept() -> None:
    rates = {FIRST_WINDOW: 1e6, FIRST_WINDOW * 2: 2e6, FIRST_WINDOW * 4: 2.5e6, FIRST_WINDOW * 8: 2.501e6}
    found = run(Adapting(), rates, 4)
    assert [window for window, _ in found.rounds] == list(rates)
    assert found.window_rows == FIRST_WINDOW * 8 and found.settled is not None
    assert not found.plan(2).searching
    assert run(found, 2.4e6, 5).window_rows == FIRST_WINDOW * 8, "small changes are noise"


def test_the_search_ends_at_the_largest_window() -> None:
    rates = {FIRST_WINDOW << n: 1e6 * 2**n for n in range(20)}
    found = run(Adapting(), rates, 30)
    assert found.window_rows == LARGEST_WINDOW


def test_another_rate_begins_the_search_again() -> None:
    settled = run(Adapting(), 1e6, 2)
    assert settled.settled == pytest.approx(1e6) and settled.window_rows == FIRST_WINDOW
    assert run(settled, 4e5, ODD_ROUNDS - 1).settled and run(run(settled, 4e5, 3), 1e6, 1).odd == 0
    slower = run(settled, 4e5, ODD_ROUNDS)
    assert slower.settled is None and slower.rounds == ()
    assert run(slower, 4e5, 2).settled == pytest.approx(4e5)


def test_few_rows_end_no_round() -> None:
    few = Adapting().after(Seen(10, 0.1, 1.0))
    assert few.rounds == () and few.one_splitter == pytest.approx(100)
    assert few.after(Seen(0, 0.0, 1.0)) == few


def test_splitters_follow_equation_6_with_what_was_measured() -> None:
    assert Adapting().plan(8).splitters == 8, "before anything is known"
    # 50,000 tuples a second with headroom 2, by splitters that do 20,000 each
    known = run(Adapting(), 20_000.0, 3)
    assert known.desired == pytest.approx(HEADROOM * ROUND_ROWS)
    assert known.plan(64).splitters == 5
    assert known.plan(64).predicted == pytest.approx(100_000)
    assert known.plan(4).splitters == 4, "one for each core at most"
