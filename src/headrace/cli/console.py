"""How the command line speaks: results on stdout, all else on stderr, errors as code, message and hint."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from headrace.model.errors import HeadraceError, HeadraceWarning


class _Output(Console):
    """A console that leaves it to the command what happens when nobody reads its output any more."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out() -> Console:
    """The console for results. Made anew per use, so that a redirected `sys.stdout` is respected."""
    return _Output(highlight=False)


def err() -> Console:
    return Console(stderr=True, highlight=False)


_TURNING: list[Console] = []
"""The console on which a spinner turns: what is printed on another one would land beside the spinner."""


@contextmanager
def spinner(message: str, *, plain: bool = True) -> Iterator[None]:
    """Show that something slow goes on; without a terminal as one line, or not at all unless `plain`."""
    console = err()
    if console.is_terminal:
        # not `console.status`: that swaps sys.stderr, and whoever swaps it inside would lose the screen
        turning = Spinner("dots", message)
        _TURNING.append(console)
        try:
            with Live(turning, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
                yield
        finally:
            _TURNING.remove(console)
        return
    if plain:
        console.print(f"{message} ...")
    yield


def print_error(error: HeadraceError) -> None:
    where = f" (line {error.span[0]}, column {error.span[1]})" if error.span else ""
    text = Text.assemble((error.code, "bold red"), ": ", error.message, (where, "dim"))
    said = (("detail", error.detail, "default"), ("hint", error.hint, "cyan"), ("see", error.page, "dim"))
    for label, value, style in said:
        if value:
            text.append("\n").append(f"  {label}: ", "dim").append(value, style)
    err().print(text, soft_wrap=True)


def print_unexpected(error: Exception) -> None:
    """An error nobody translated: one line of what it was, never a traceback."""
    lines = str(error).strip().splitlines() or [""]
    text = Text.assemble(("UNEXPECTED", "bold red"), f": {type(error).__name__}: {lines[0]}")
    for note in (*getattr(error, "__notes__", ()), "run `headrace --debug ...` to see the traceback"):
        text.append("\n").append("  hint: ", "dim").append(str(note), "cyan")
    err().print(text, soft_wrap=True)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Print our own warnings in the block as one line each, without the line of code they came from."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **named: Any) -> None:
            if not issubclass(category, HeadraceWarning):
                return before(message, category, *where, **named)
            text = Text.assemble(("warning", "bold yellow"), ": ", str(message))
            console = _TURNING[-1] if _TURNING else err()
            return console.print(text, soft_wrap=True)

        warnings.showwarning = show
        yield


def program_name() -> str:
    """What a person types to run us again: `headrace`, or its path when that is not on PATH."""
    invoked = Path(sys.argv[0])
    if invoked.name != "headrace" or shutil.which("headrace") == str(invoked.absolute()):
        return "headrace"
    here = Path.cwd()
    absolute = invoked.absolute()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
