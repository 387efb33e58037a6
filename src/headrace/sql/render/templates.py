"""Texts with holes: rendered once per shape, filled once per query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HOLE = "\x00"
"""Brackets the number of a literal, or the name of a hole, in rendered text; a text to parse never contains it."""

WINDOW_HOLE = f"{HOLE}w{HOLE}"
"""Stands for the duration arguments of `window(...)`."""

LONGEST_HOLE = f"{HOLE}longest{HOLE}"
"""Stands for the longest range of a join's windows, as an interval."""

_NONE: Mapping[str, str] = MappingProxyType({})


def copies_hole(side: int, *, live: bool) -> str:
    """Stands for what gives each tuple of one side its windows; see `windows.window_copies`."""
    return f"{HOLE}{'live' if live else 'all'}{side}{HOLE}"


def side_hole(side: int) -> str:
    """Stands for the duration arguments of the window of one side of a join."""
    return f"{HOLE}w{side}{HOLE}"


def literal_hole(slot: int) -> str:
    return f"{HOLE}{slot}{HOLE}"


@dataclass(frozen=True, slots=True)
class Template:
    """`pieces` alternate between fixed text and the name of a hole.

    >>> Template.of(f"price > {literal_hole(0)} AND x").fill(("3",), "")
    'price > 3 AND x'
    """

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Template:
        return cls(tuple(text.split(HOLE)))

    @property
    def fixed(self) -> bool:
        return len(self.pieces) == 1

    def fill(self, literals: tuple[str, ...], window: str, others: Mapping[str, str] = _NONE) -> str:
        """The text with literal `n` in hole `n`, `window` as the arguments of the window, and `others` by name."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        out = list(self.pieces)
        for index in range(1, len(out), 2):
            name = out[index]
            out[index] = window if name == "w" else literals[int(name)] if name.isdigit() else others[name]
        return "".join(out)
