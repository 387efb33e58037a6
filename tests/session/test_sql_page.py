"""docs/sql.md is true: every example on it runs, in order, and does what the page says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.cli.statements import split_statements
from headrace.model.errors import HeadraceError
from headrace.notes import note_of
from sql_page import blocks

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_every_example_of_the_page_runs(open_session: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "ads"
    folder.mkdir()
    shown = {"userID": 2, "campaign": "autumn", "ts": "2026-01-01T12:00:31Z"}
    (folder / "first.json").write_text(json.dumps(shown) + "\n")
    page = PAGE.read_text(encoding="utf-8").replace("/data/ads", str(folder))
    hr, count = open_session(), 0
    for block in blocks(page):
        if block.run_first:
            hr.run_available()
        for statement in split_statements(block.text):
            count += 1
            if block.refused is not None:
                with pytest.raises(HeadraceError) as caught:
                    hr.execute(statement.text)
                assert caught.value.code == block.refused, statement.text
                continue
            result = hr.execute(statement.text)
            if block.rows is not None:
                assert isinstance(result, pa.Table) and result.num_rows == block.rows, statement.text
                assert block.rows or note_of(result), "an empty table says why"
    assert count > 40
    assert {q.name for q in hr.queries() if q.state.value == "quarantined"} == set()
