"""Texts with holes: rendered once per shape, filled once per query."""

from __future__ import annotations

from dataclasses import dataclass

HOLE = "\x00"
"""Brackets the number of a literal (or WINDOW_HOLE) in rendered text; a text to parse never contains it."""

WINDOW_HOLE = f"{HOLE}w{HOLE}"
"""Stands for the duration arguments of `window(...)`."""


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

    def fill(self, literals: tuple[str, ...], window: str) -> str:
        """The text with literal `n` in hole `n` and `window` as the arguments of the window."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        out = list(self.pieces)
        for index in range(1, len(out), 2):
            out[index] = window if out[index] == "w" else literals[int(out[index])]
        return "".join(out)
