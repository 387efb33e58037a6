"""Pages: every error names a section that exists, and the page of the language has all of its grammar."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.statements import split_statements
from headrace.engine import analyzer
from headrace.model.errors import CatalogError, SqlError
from headrace.model.pages import page_of, pages
from headrace.sql import parse_statement
from headrace.sql.help import TOPICS, help_text
from sql_page import blocks

ROOT = Path(__file__).parents[1]
SQL_PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("named", sorted(pages()))
def test_a_page_that_errors_name_exists(named: str) -> None:
    page, _, section = named.partition("#")
    assert (ROOT / page).is_file()
    assert not section or section in anchors(ROOT / page)


def test_links_within_the_page_lead_somewhere() -> None:
    found = re.findall(r"\]\(#([^)]+)\)", SQL_PAGE)
    assert len(found) > 15
    assert set(found) <= anchors(ROOT / "docs" / "sql.md")


def codes() -> Iterator[tuple[str, str]]:
    """(kind of error, code) of every error about statements and names that the package makes."""
    for path in sorted((ROOT / "src" / "headrace").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "SqlError(" not in text and "CatalogError(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                code = node.args[0]
                if node.func.id in ("SqlError", "CatalogError") and isinstance(code, ast.Constant):
                    yield node.func.id, str(code.value)
    yield from (("SqlError", code) for code in analyzer._CODES.values())


def test_errors_about_statements_have_sections_of_their_own() -> None:
    """A new code needs a section: add it to `_SECTIONS` in model/pages.py, and the answer to docs/sql.md."""
    found = set(codes())
    assert len(found) > 30
    phases = {"SqlError": "sql", "CatalogError": "catalog"}
    default = {page_of("?", phase) for phase in phases.values()}
    general = {
        "UNKNOWN_COLUMN",
        "AMBIGUOUS_COLUMN",
        "TYPE_MISMATCH",
        "UNKNOWN_FUNCTION",
        "QUERY_EXISTS",
        "ANALYSIS",
    }
    general |= {"BAD_NAME", "NAME_TAKEN", "RESERVED_NAME"}
    missing = {code for kind, code in found if page_of(code, phases[kind]) in default and code not in general}
    assert missing == set()


def test_an_error_says_where_to_read_on() -> None:
    error = SqlError("NO_WINDOW", "a sum without a window never ends", hint="add one")
    assert str(error).splitlines()[-1] == "  see: docs/sql.md#windows"
    assert CatalogError("NEW_CODE", "something new").page == "docs/sql.md#names"


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_the_page_has_the_grammar_of_every_statement(topic) -> None:  # type: ignore[no-untyped-def]
    assert f"```text\n{topic.syntax}\n```" in SQL_PAGE
    assert topic.anchor in anchors(ROOT / "docs" / "sql.md")
    assert topic.text in help_text(topic.name)
    assert f"  {topic.name} " in help_text(None)


def test_every_example_of_the_page_is_a_statement() -> None:
    kinds = set()
    for block in blocks(SQL_PAGE):
        for statement in split_statements(block.text):
            kinds.add(type(parse_statement(statement.text)).__name__)
    assert kinds == {
        *(
            "CreateStream",
            "CreateQuery",
            "AlterNeeds",
            "DropStream",
            "DropQuery",
            "DropSplit",
            "CloseStream",
            "Describe",
            "Insert",
        ),
        *(
            "ShowStreams",
            "ShowQueries",
            "ShowGroups",
            "ShowSplits",
            "ShowEvents",
            "ShowPredictions",
            "ShowFunctions",
            "Explain",
            "Help",
            "Select",
            "MoveQuery",
            "Repartition",
        ),
    }
