"""How much the joins of a group find now, as a multiple of what is usual for each of them.

What is usual is an average over many epochs, so it is right where matches come and go by chance, and late where they
change for good: while windows fill, when the rate rises, when another key becomes busy.

    rows per tuple    2  3  4  5  5  5  5       2  9  1  7  3  8  2
    usual             2  2  2  2  3  3  3       5  5  5  5  5  5  5
    level            1.0 .. follows: 1.6        1.0, for what is usual predicts best

So several levels are kept that follow more or less quickly, and the one that was nearest to the last epochs counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

FOLLOWS = (0.0, 0.4, 0.8)
"""The weight of the newest epoch in each level. The first stays with what is usual."""

REMEMBERED = 0.9
"""What an older epoch's error is multiplied with when a newer one comes."""

CLEARLY = 0.75
"""A level that follows counts only if its error is less than this part of that of the usual."""

LARGEST = log(10.0)
"""No epoch says more than this: a single one may have had hardly any tuples."""


@dataclass(frozen=True, slots=True)
class Level:
    """Logarithms of the levels, and how far off each was lately."""

    levels: tuple[float, ...] = (0.0,) * len(FOLLOWS)
    errors: tuple[float, ...] = (0.0,) * len(FOLLOWS)

    def after(self, found: float, usual: float, now: float) -> Level:
        """After an epoch whose joins found so many rows, where as many were `usual` for its tuples.

        `now` is what is usual for them with this epoch counted in. A level that follows is as high as before then.
        """
        if found <= 0 or usual <= 0:
            return self
        seen, moved = max(-LARGEST, min(LARGEST, log(found / usual))), log(now / usual)
        known = list(zip(FOLLOWS, self.levels, self.errors, strict=True))
        return Level(
            tuple(
                level + follows * (seen - level) - moved if follows else 0.0 for follows, level, _ in known
            ),
            tuple(REMEMBERED * error + (1 - REMEMBERED) * abs(seen - level) for _, level, error in known),
        )

    @property
    def factor(self) -> float:
        """What matches are expected to be, as a multiple of the usual.

        >>> rising, level = (2.0, 2.4, 2.9, 3.5, 4.2), Level()
        >>> for found in rising:
        ...     level = level.after(found, usual=2.0, now=2.0)
        >>> round(level.factor, 1)
        2.0
        >>> for found in 8 * (1.0, 4.0):  # by chance, now
        ...     level = level.after(found, usual=2.0, now=2.0)
        >>> level.factor
        1.0
        """
        best = min(range(1, len(FOLLOWS)), key=lambda i: self.errors[i])
        return exp(self.levels[best]) if self.errors[best] < CLEARLY * self.errors[0] else 1.0
