"""Event-time windows: `window(ts, range, slide, offset)` and `session_window(ts, gap)` as integer microseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A tumbling or sliding window, aligned as Spark aligns it.

    Windows start at `offset + k * slide` and are half-open. Invalid windows cannot be built.

    >>> Window(10, 5).starts_of(12)
    (5, 10)
    >>> Window(7, 3, 1).slice_start(12), Window(7, 3, 1).slice_start(11)
    (11, 11)
    """

    range_us: int
    slide_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.slide_us <= self.range_us:
            raise ValueError(f"window needs 0 < slide <= range, got {self.slide_us} and {self.range_us}")
        if not 0 <= self.offset_us < self.slide_us:
            object.__setattr__(self, "offset_us", self.offset_us % self.slide_us)

    @property
    def tumbles(self) -> bool:
        """Whether every moment is in exactly one window."""
        return self.slide_us == self.range_us

    @property
    def per_tuple(self) -> int:
        """How many windows hold one tuple, at most.

        >>> Window(10, 5).per_tuple, Window(11, 5).per_tuple
        (2, 3)
        """
        return -(-self.range_us // self.slide_us)

    @property
    def remainder_us(self) -> int:
        """Where, after each start, an earlier window ends; 0 when ends fall on starts."""
        return self.range_us % self.slide_us

    def last_start(self, t_us: int) -> int:
        """Start of the youngest window that contains `t_us`."""
        return t_us - (t_us - self.offset_us) % self.slide_us

    def starts_of(self, t_us: int) -> tuple[int, ...]:
        """Starts of all windows that contain `t_us`, oldest first."""
        last = self.last_start(t_us)
        count = -(-(self.range_us - (t_us - last)) // self.slide_us)
        return tuple(last - i * self.slide_us for i in reversed(range(count)))

    def slice_start(self, t_us: int) -> int:
        """Start of this window's own slice that holds `t_us`: no edge of this window lies inside it."""
        last = self.last_start(t_us)
        return last + self.remainder_us if t_us - last >= self.remainder_us else last

    def last_end(self, t_us: int) -> int:
        """End of the youngest window that contains `t_us`: after it, nobody needs the tuple."""
        return self.last_start(t_us) + self.range_us

    def ends_between(self, after_us: int, until_us: int) -> int:
        """How many windows end after one moment and not after another.

        >>> Window(10, 5).ends_between(10, 25), Window(7, 3, 1).ends_between(7, 8)
        (3, 1)
        """
        first = self.offset_us + self.range_us
        return (until_us - first) // self.slide_us - (after_us - first) // self.slide_us


@dataclass(frozen=True, slots=True, order=True)
class SessionWindow:
    """Sessions of a group: tuples of which each is at most `gap_us` after the one before.

    A session ends `gap_us` after its last tuple, so its edges depend on the data. Invalid ones cannot be built.
    """

    gap_us: int

    def __post_init__(self) -> None:
        if self.gap_us <= 0:
            raise ValueError(f"a session needs a positive gap, got {self.gap_us}")


AnyWindow = Window | SessionWindow
