"""What a command shows while it runs: a picture redrawn in place on a terminal, or lines in a log or a pipe."""

from __future__ import annotations

import os
import sys
import termios
from types import TracebackType
from typing import Any, Self

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


class SilentKeys:
    """Keys that are pressed do not show: `^C` would move the cursor, and the last picture would be drawn askew."""

    def __init__(self) -> None:
        self._before: tuple[int, list[Any]] | None = None

    def __enter__(self) -> Self:
        try:
            keyboard = sys.stdin.fileno()
            # one that is in the background would be stopped for touching the terminal
            if os.isatty(keyboard) and os.tcgetpgrp(keyboard) == os.getpgrp():
                self._before = (keyboard, termios.tcgetattr(keyboard))
                silent = termios.tcgetattr(keyboard)
                silent[3] &= ~termios.ECHO
                termios.tcsetattr(keyboard, termios.TCSADRAIN, silent)
        except (OSError, ValueError, termios.error):  # no terminal, then nothing shows anyway
            self._before = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            keyboard, settings = self._before
            termios.tcsetattr(keyboard, termios.TCSADRAIN, settings)


class Picture:
    """Something that draws one picture again and again in the same place, and leaves the last one on the screen."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._keys = SilentKeys()

    def draw(self, picture: RenderableType) -> None:
        self._live.update(picture, refresh=True)

    def __enter__(self) -> Self:
        self._keys.__enter__()
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)
        self._keys.__exit__(kind, error, trace)
