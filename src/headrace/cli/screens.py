"""What a command shows while it runs: a picture redrawn in place on a terminal, or lines in a log or a pipe."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live


class Lines:
    """Something that prints lines: there is nothing to enter and nothing to leave."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Picture:
    """Something that draws one picture again and again in the same place, and leaves the last one on the screen."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def draw(self, picture: RenderableType) -> None:
        self._live.update(picture, refresh=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)
