"""How a running split finds its number of splitters and its window size, from what every epoch measures.

The window is found as in the paper, by doubling until the gain is below 0.15 %, but with the stream's own tuples while
the split runs. When the rate has changed much since then, and for a while, the search begins again. The number of
splitters follows from equation 6 for every epoch. The rate of one splitter is measured with the sub-streams and the
broadcast tuples that there are, so what the equation says about going from one sub-stream to q is in it already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.optimizer.splitting.planning import LEAST_GAIN, splitters_by_heuristic

FIRST_WINDOW = 1 << 12
LARGEST_WINDOW = 1 << 20
"""Rows. A window of so many rows is more than a task gets."""

ROUND_ROWS = 50_000
"""A window size is measured with so many rows at least: timings of a few are noise."""

CHANGED = 1.5
"""When splitters are faster or slower by this factor than when the window was found, it is looked for again."""

ODD_ROUNDS = 5
"""After so many such rounds, one after the other: a busy machine makes single ones."""

HEADROOM = 2.0
"""Splitters are to keep up with a stream that comes so much faster than it does."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one epoch of a split measured: tuples, and CPU seconds of all its splitters.

    `every_s` is how long the epoch took to come: the time between its sealing and that of the one before.
    """

    rows: int
    seconds: float
    every_s: float


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """With what an epoch runs, and why. Rates are tuples per second; None before anything was measured."""

    splitters: int
    window_rows: int
    searching: bool = True
    desired: float | None = None
    one_splitter: float | None = None
    predicted: float | None = None
    """What that many splitters reach together."""


@dataclass(frozen=True, slots=True)
class Adapting:
    """What is known of a split's splitters so far. A value: `after` gives the next one."""

    window_rows: int = FIRST_WINDOW
    rounds: tuple[tuple[int, float], ...] = ()
    """(window, rate) of the search so far."""
    settled: float | None = None
    """The rate that was reached when the search ended; None while it goes on."""
    odd: int = 0
    """So many rounds in a row had quite another rate than that."""
    rows: int = 0
    seconds: float = 0.0
    one_splitter: float | None = None
    desired: float | None = None

    def after(self, seen: Seen) -> Adapting:
        """With what another epoch measured."""
        if not seen.rows or seen.seconds <= 0:
            return self
        rate = seen.rows / seen.seconds
        known = replace(
            self,
            rows=self.rows + seen.rows,
            seconds=self.seconds + seen.seconds,
            one_splitter=_smooth(self.one_splitter, rate),
            desired=None if seen.every_s <= 0 else _smooth(self.desired, HEADROOM * seen.rows / seen.every_s),
        )
        return known._next_round() if known.rows >= ROUND_ROWS else known

    def _next_round(self) -> Adapting:
        """A window size was measured well enough: go on doubling, stop, or begin again."""
        rate = self.rows / self.seconds
        fresh = replace(self, rows=0, seconds=0.0)
        if self.settled is not None:
            if max(rate / self.settled, self.settled / rate) < CHANGED:
                return replace(fresh, odd=0)
            if self.odd + 1 < ODD_ROUNDS:
                return replace(fresh, odd=self.odd + 1)
            return replace(fresh, settled=None, odd=0, rounds=(), window_rows=FIRST_WINDOW)
        rounds = (*self.rounds, (self.window_rows, rate))
        gains = len(rounds) < 2 or rate >= rounds[-2][1] * (1 + LEAST_GAIN)
        if gains and self.window_rows * 2 <= LARGEST_WINDOW:
            return replace(fresh, rounds=rounds, window_rows=self.window_rows * 2)
        best, reached = max(rounds, key=lambda measured: (measured[1], -measured[0]))
        return replace(fresh, rounds=rounds, settled=reached, window_rows=best)

    def plan(self, cores: int) -> SplitPlan:
        """With what the next epoch runs: as many splitters as equation 6 asks for, one for each core at most."""
        if self.one_splitter is None or self.desired is None:
            return SplitPlan(cores, self.window_rows)
        splitters = min(cores, splitters_by_heuristic(self.desired, self.one_splitter, 1))
        return SplitPlan(
            splitters,
            self.window_rows,
            self.settled is None,
            self.desired,
            self.one_splitter,
            splitters * self.one_splitter,
        )


def _smooth(before: float | None, now: float) -> float:
    """Half of what is new: one odd epoch changes little."""
    return now if before is None else (before + now) / 2
