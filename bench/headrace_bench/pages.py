"""The lines of Markdown that all reports have: how a page begins, its tables, and its verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace_bench.aims import Verdict


def head(name: str, facts: dict[str, Any]) -> Iterator[str]:
    """What was run, for how long and on which machine."""
    machine = facts["machine"]
    yield f"# Benchmark {name}"
    yield ""
    yield f"`{facts['command']}`, {facts['seconds']:,.0f} s, seed {facts['seed']}."
    yield ""
    yield (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, {machine['system']}, Python "
        f"{machine['python']}, {', '.join(f'{k} {v}' for k, v in sorted(facts['versions'].items()))}; "
        f"load average at the start {machine['load'][0]}. "
        "Compare the figures of this page with each other, not with those of other machines."
    )
    yield ""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown; every row has as many cells as there are heads."""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        assert len(row) == len(heads), (row, heads)
        yield "| " + " | ".join(row) + " |"
    yield ""


def verdict_rows(verdicts: Iterable[Verdict]) -> Iterator[tuple[str, str, str, str]]:
    """A line per aim, under `VERDICTS`; a miss says why, and what cannot be told is no miss."""
    for v in verdicts:
        missed = v.why if v.why.startswith(UNSURE) else f"missed: {v.why}".removesuffix(": ")
        judged = "met" if v.met else missed
        yield v.aim, v.wanted, v.seen, judged if v.binds else "told"


UNSURE = "cannot tell"
"""How the reason of a verdict begins for which too little was seen. It is neither met nor missed."""

VERDICTS = ("aim", "wanted", "seen", "")
