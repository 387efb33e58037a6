"""What accepted queries become; HEADRACE_REWRITE_GOLDENS=1 writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sql_cases import JOINS, THEMES
from sql_describe import describe

from headrace.sql import ShapeCache, parse_query
from sql_fakes import STREAMS, FakeAnalyzer

GOLDENS = Path(__file__).parent / "goldens"


@pytest.mark.parametrize(("theme", "queries"), [*THEMES.items(), ("joins", JOINS)])
def test_golden(theme: str, queries: list[str]) -> None:
    text = "\n".join(map(_section, queries))
    path = GOLDENS / f"{theme}.sql"
    if os.environ.get("HEADRACE_REWRITE_GOLDENS"):
        path.write_text(text)
    assert path.read_text() == text


def _section(query: str) -> str:
    plan = parse_query(query, STREAMS, ShapeCache(FakeAnalyzer()))
    plan_lines = "\n".join(f"--   {line}" for line in describe(plan.body).splitlines())
    plain = "" if plan.plain_sql == query else f"-- plain\n{plan.plain_sql};\n"
    return f"-- query\n{query};\n{plan_lines}\n{plain}-- log\n{plan.log_sql};\n"
