"""The command `headrace bench`: what it offers, what it says when it is not there, and what documents say of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from headrace.cli import bench_command
from headrace.cli.main import cli
from headrace_bench.command import COMMANDS, bench

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "Makefile", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`headrace (bench[^`]*)`")


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Result]:
    """Calls `headrace` with these arguments, whose benchmarks run nothing."""
    monkeypatch.setattr("headrace_bench.command.run_bench", lambda options: True)
    for name in COMMANDS:
        command = bench.get_command(click.Context(bench), name)
        monkeypatch.setattr(command, "callback", lambda **options: None)
    return lambda text: CliRunner().invoke(cli, shlex.split(text))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_documents_name_only_benchmarks_that_there_are(path: Path, parse: Callable[[str], Result]) -> None:
    for text in COMMAND.findall(path.read_text(encoding="utf-8")):
        result = parse(text.replace("PATH", str(ROOT)))  # the one argument that a document leaves open
        assert result.exit_code == 0, f"`headrace {text}`: {result.output}"


@pytest.mark.parametrize("text", ["moon", "spine --moon", "--moon", "joins --kind moon"])
def test_a_benchmark_that_is_not_there_would_be_seen(text: str, parse: Callable[[str], Result]) -> None:
    assert parse(f"bench {text}").exit_code == 2


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_benchmark_explains_itself(name: str) -> None:
    result = CliRunner().invoke(cli, ["bench", name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"Usage: cli bench {name}" in result.output
    assert all(f"\n  {name} " in CliRunner().invoke(cli, ["bench", "--help"]).output for name in COMMANDS)


def test_options_of_the_comparison_are_not_lost_before_another_benchmark() -> None:
    result = CliRunner().invoke(cli, ["bench", "--rows", "5000", "spine"])
    assert result.exit_code == 2
    assert "options of spine stand after its name" in result.output


@pytest.mark.parametrize("arguments", [[], ["--help"], ["spine", "--rows", "5"], ["--quick"]])
def test_without_the_benchmarks_it_says_where_they_are(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_command, "NEEDED", ("headrace_bench_that_nobody_has",))
    monkeypatch.setattr(bench_command, "bench", bench_command.find_command())
    result = CliRunner().invoke(cli, ["bench", *arguments])
    assert result.exit_code == (0 if "--help" in arguments else 2)
    assert "make setup" in " ".join(result.output.split())
