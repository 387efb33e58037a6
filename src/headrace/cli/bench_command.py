"""The front door of `headrace bench`: the benchmarks themselves are a package of the repository, `headrace_bench`."""

from __future__ import annotations

from importlib.util import find_spec

import click

from headrace.model.errors import EngineError

NEEDED = ("headrace_bench", "psutil", "matplotlib")
"""What an installed Headrace does not have: the benchmarks, and the packages that only they use."""

HINT = "run `make setup` in a checkout of Headrace's repository, or `pip install --editable '.[bench]'` there"


def find_command() -> click.Command:
    """The command of the benchmarks, or one that says how to get them."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return absent(missing[0])
    from headrace_bench.command import bench

    return bench


def absent(package: str) -> click.Command:
    """A command that takes any arguments, and says that a package is missing and where it comes from."""

    def refuse(arguments: tuple[str, ...]) -> None:
        raise EngineError(
            "BENCH_PACKAGES",
            f"{package} is not installed",
            detail="the benchmarks are in the repository and not in the package that people install",
            hint=HINT,
        )

    return click.Command(
        "bench",
        context_settings={"ignore_unknown_options": True},
        params=[click.Argument(["arguments"], nargs=-1)],
        callback=refuse,
        help=f"Measure Headrace and what people would use instead.\n\nIt is not installed here: {HINT}.",
    )


bench = find_command()
