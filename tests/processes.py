"""Processes that tests start and kill: forked from one that has imported the package already.

A new interpreter takes a second to import what Headrace needs, and a test that kills five of them takes five. Python's
fork server imports it once for all tests of a run. It has no threads, so its children are as sound as new processes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, TextIO

PRELOADED = (
    "log_samples",
    "cli_fakes",
    "headrace.session",
    "headrace.cli.main",
    "headrace.service.api",
    "headrace.engine.chain",
    "headrace.engine.splits.workers",
    "uvicorn",
)

_context = multiprocessing.get_context("forkserver")


@dataclass
class Started:
    """A process that runs; `output` is what it writes to stdout and stderr."""

    process: ForkServerProcess
    output: TextIO

    def finish(self, seconds: float = 60) -> Finished:
        """Read to the end of its output, and wait for its death."""
        with self.output:
            said = self.output.read()
        self.process.join(seconds)
        code = self.process.exitcode
        assert code is not None, f"still running after {seconds} seconds:\n{said}"
        return Finished(code, said)


@dataclass(frozen=True)
class Finished:
    """How a process ended: an exit code, or minus the number of the signal that killed it."""

    returncode: int
    output: str


def start(target: Callable[..., Any], *arguments: Any, **environment: str) -> Started:
    """Call a function of a module that tests can import, in a process of its own."""
    _start_server()
    reader, writer = _context.Pipe(duplex=False)
    process = _context.Process(target=_call, args=(writer, environment, target, arguments), daemon=True)
    process.start()
    writer.close()
    with reader:
        return Started(process, os.fdopen(os.dup(reader.fileno()), encoding="utf-8"))


def run_text(script: str, *arguments: object, **environment: str) -> Finished:
    """Run Python text with these arguments, as `python -c` does."""
    return start(run_code, script, [str(argument) for argument in arguments], **environment).finish()


def run_code(script: str, arguments: Sequence[str]) -> None:
    sys.argv = ["-c", *arguments]
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})


def _call(
    writer: Connection, environment: dict[str, str], target: Callable[..., Any], arguments: Sequence[Any]
) -> None:
    os.dup2(writer.fileno(), 1)
    os.dup2(writer.fileno(), 2)
    os.environ.update(environment)
    target(*arguments)


class ForkedWorker:
    """A process that runs a program and talks through pipes, as `beside.start` gives one: forked instead of new."""

    def __init__(self, program: str) -> None:
        _start_server()
        asked, stdin = _context.Pipe(duplex=False)
        stdout, answers = _context.Pipe(duplex=False)
        self._process = _context.Process(target=_work, args=(program, asked, answers), daemon=True)
        self._process.start()
        asked.close()
        answers.close()
        with stdin, stdout:
            self.stdin = os.fdopen(os.dup(stdin.fileno()), "wb", buffering=0)
            self.stdout = os.fdopen(os.dup(stdout.fileno()), "rb", buffering=0)
        os.set_blocking(self.stdin.fileno(), False)
        self.pid, self.kill = self._process.pid, self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode


def _work(program: str, asked: Connection, answers: Connection) -> None:
    os.dup2(asked.fileno(), 0)
    os.dup2(answers.fileno(), 1)
    asked.close()
    answers.close()
    run_code(program, [])


def _start_server() -> None:
    """The server imports what it preloads with this process's modules. It takes them from its environment."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        _context.set_forkserver_preload(list(PRELOADED))
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
