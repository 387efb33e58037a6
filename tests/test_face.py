"""The public face without Spark: options of `open`, and texts that show values to people."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest

import headrace
from headrace.model.errors import EngineError, HeadraceError
from headrace.options import Options
from headrace.sql.text.arrange import arrange_sql
from headrace.sql.text.dialect import tokenize


def test_every_option_of_open_is_named_typed_and_explained() -> None:
    signature = inspect.signature(headrace.open)
    options = [p for name, p in signature.parameters.items() if name != "path"]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in options)
    assert all(p.annotation not in (inspect.Parameter.empty, "Any") for p in options)
    documented = inspect.getdoc(headrace.open) or ""
    assert [p.name for p in options if f"    {p.name}: " not in documented] == []
    assert {p.name for p in options} == set(Options.__dataclass_fields__)
    defaults = Options()
    for p in options:
        if p.name != "upkeep":
            assert p.default == getattr(defaults, p.name), p.name


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_epoch_rows": 0},
        {"changelog_count": 0},
        {"partitions": 0},
        {"retention": timedelta(days=-1)},
        {"log_retention": "-1 day"},
        {"changelog_delay": "-1 second"},
        {"changelog_delay": "soon"},
        {"read_only": True, "rebuild": True},
    ],
)
def test_bad_options_are_refused_before_anything_is_touched(tmp_path, wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(HeadraceError, match=r"BAD_OPTION|BAD_DURATION"):
        headrace.open(tmp_path / "new", **wrong)
    assert not (tmp_path / "new").exists()
    assert EngineError("BAD_OPTION", "x").page == "docs/troubleshooting.md#options"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, b FROM s WHERE a > 1 GROUP BY a HAVING COUNT(*) FILTER (WHERE b > 1) > 1",
        "SELECT EXTRACT(hour FROM ts), substring(x FROM 1 FOR 2) FROM s WHERE a IS DISTINCT FROM b",
        "SELECT * FROM (SELECT *, window(ts, '10 seconds') AS w FROM l) AS l LEFT OUTER JOIN r ON l.w = r.w",
        "WITH t AS (SELECT ' FROM  x ' AS a FROM s) SELECT `GROUP BY` FROM t",
        "SELECT -- why\n a FROM s",
        "SELECT 'open",
    ],
)
def test_laying_out_a_text_changes_nothing_but_white_space(text: str) -> None:
    arranged = arrange_sql(text)
    if arranged == text:
        assert "--" in text or "open" in text
        return
    before, after = tokenize(text), tokenize(arranged)
    assert [(t.token_type, t.text) for t in before] == [(t.token_type, t.text) for t in after]
    assert all(line == line.rstrip() for line in arranged.splitlines())
    assert "\nFROM s" in arranged or "FROM t" in arranged or "JOIN" in arranged
