"""Pictures on a real terminal: a pseudo-terminal whose echo would move the cursor."""

from __future__ import annotations

import io
import os
import pty
import sys
import termios
import warnings

import pytest
from rich.console import Console

from headrace.cli import console
from headrace.cli.screens import Picture
from headrace.model.errors import HeadraceWarning


def test_keys_do_not_show_while_a_picture_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `^C` that a terminal shows moves the cursor: the last picture would begin a line too low."""
    other, ours = pty.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as file, os.fdopen(other, "r+b", buffering=0):
        monkeypatch.setattr(sys, "stdin", file)
        monkeypatch.setattr(os, "tcgetpgrp", lambda number: os.getpgrp())

        def echoes() -> bool:
            return bool(termios.tcgetattr(ours)[3] & termios.ECHO)

        assert echoes()
        with Picture(Console(file=io.StringIO())):
            assert not echoes()
        assert echoes()
        monkeypatch.setattr(os, "tcgetpgrp", lambda number: -1)
        with Picture(Console(file=io.StringIO())):
            assert echoes(), "a process in the background leaves the terminal alone"


def test_a_warning_has_a_line_of_its_own_beside_a_spinner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        console, "err", lambda: Console(file=sys.stderr, force_terminal=True, width=80, highlight=False)
    )
    with console.told_warnings(), console.spinner("Running"):
        warnings.warn("rows may be missing", HeadraceWarning, stacklevel=1)
    lines = capsys.readouterr().err.replace("\r", "\n").splitlines()
    (line,) = [line for line in lines if "rows may be missing" in line]
    assert "Running" not in line, lines
