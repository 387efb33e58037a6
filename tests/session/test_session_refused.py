"""Every bad query is refused with its reason, and neither the catalog nor a file changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from session_samples import files_below, sale, with_sales

from headrace.model.errors import CatalogError, HeadraceError, SqlError

pytestmark = pytest.mark.spark

Open = Callable[..., Any]

MEGABYTE = "SELECT id FROM sales WHERE level = 1" + " OR level = 1" * 80_000
WINDOW = "GROUP BY window(ts, '10 seconds')"

REFUSED: list[tuple[str, str, str]] = [
    # text, code, something the message or the hint says
    ("SELECT id FROM sales WHERE (level > 1", "SYNTAX", "line 1, column"),
    ("SELEC id FROM sales", "SYNTAX", "line 1, column 1"),
    ("SELECT id\nFROM sales\nWHERE level >", "SYNTAX", "line 3"),
    ("SELECT id FROM sale", "UNKNOWN_STREAM", "did you mean `sales`?"),
    ("SELECT prise FROM sales", "UNKNOWN_COLUMN", "did you mean `price`?"),
    ("SELECT id FROM sales WHERE upper(cuntry) = 'DE'", "UNKNOWN_COLUMN", "did you mean `country`?"),
    ("SELECT x FROM (SELECT id AS x, level AS X FROM sales)", "AMBIGUOUS_COLUMN", "x"),
    ("SELECT id FROM sales WHERE level > ts", "TYPE_MISMATCH", "CAST"),
    ("SELECT id + country FROM sales WHERE ts + 1.5 > 3", "TYPE_MISMATCH", ""),
    ("SELECT id FROM sales WHERE country", "TYPE_MISMATCH", ""),
    (f"SELECT SUM(level > 1) FROM sales {WINDOW}", "TYPE_MISMATCH", ""),
    ("SELECT id FROM sales WHERE nosuch(level) > 1", "UNKNOWN_FUNCTION", "nosuch"),
    ("SELECT upper(country, 1) FROM sales", "ANALYSIS|TYPE_MISMATCH|WRONG", "upper"),
    ("SELECT COUNT(*) FROM sales", "NO_WINDOW", "window(ts, '10 seconds')"),
    ("SELECT country, SUM(price) FROM sales GROUP BY country", "NO_WINDOW", "SUM(price)"),
    ("SELECT country, price FROM sales GROUP BY country, window(ts, '10 seconds')", "ANALYSIS", "price"),
    ("SELECT COUNT(*) FROM sales GROUP BY window(ts, '0 seconds')", "BAD_WINDOW", "range"),
    ("SELECT COUNT(*) FROM sales GROUP BY window(ts, '-1 seconds')", "BAD_WINDOW", "range"),
    ("SELECT COUNT(*) FROM sales GROUP BY window(ts, '5 seconds', '0 seconds')", "BAD_WINDOW", "slide"),
    ("SELECT COUNT(*) FROM sales GROUP BY window(ts, '5 seconds', '-5 seconds')", "BAD_WINDOW", "slide"),
    (
        "SELECT COUNT(*) FROM sales GROUP BY window(ts, '5 seconds', '6 seconds')",
        "BAD_WINDOW",
        "slide 6 seconds",
    ),
    ("SELECT COUNT(*) FROM sales [RANGE 0 SECONDS]", "BAD_WINDOW", "range"),
    ("SELECT COUNT(*) FROM sales [RANGE 5 SECONDS SLIDE 6 SECONDS]", "BAD_WINDOW", "slide"),
    ("SELECT id FROM sales; SELECT id FROM sales", "TWO_STATEMENTS", "line 1, column 21"),
    ("", "EMPTY_TEXT", "no statement"),
    (" \n-- only a remark", "EMPTY_TEXT", "no statement"),
    (MEGABYTE, "TEXT_TOO_LONG", "bytes"),
    ("SELECT a.id FROM sales a JOIN sales b ON a.id = b.id", "NO_WINDOW", "join"),
    ("SELECT id FROM sales ORDER BY id", "UNSUPPORTED", "ORDER BY"),
    ("SELECT rand() FROM sales", "NONDETERMINISTIC", "rand"),
    ("DROP QUERY taken", "NOT_A_QUERY", "DROP"),
]

NAMES = ["", "  ", "it's", 'say "x"', "a`b", "a/b", "..", "a\\b", "a\nb", "x" * 200, "__headrace_x", 5]


@pytest.fixture
def hr(open_session: Open) -> Any:
    """A session with a stream, a query that ran, and nothing pending."""
    session = with_sales(open_session())
    session.create_query("SELECT id FROM sales", name="taken")
    session.append("sales", [sale(1)])
    session.run_available()
    return session


def unchanged(session: Any, path: Path) -> Callable[[], bool]:
    """Tells whether catalog, plan and files are as they are now."""

    def state() -> tuple[Any, ...]:
        return (
            session.queries(),
            session.streams(),
            session.explain(),
            list(session._catalog._waiting),
            files_below(path),
        )

    before = state()
    return lambda: state() == before


def test_bad_text_changes_nothing(hr: Any, tmp_path: Path) -> None:
    same = unchanged(hr, tmp_path)
    for text, code, words in REFUSED:
        with pytest.raises(SqlError, match=code) as caught:
            hr.create_query(text, name="bad")
        shown = caught.value.render()
        assert words in shown, shown
        assert len(shown) < 1000, shown
        assert "Traceback" not in shown and "org.apache" not in shown, shown
        assert same(), text[:100]
    assert hr.run_available() == 0


@pytest.mark.parametrize("text", [None, 5, b"SELECT id FROM sales"])
def test_what_is_no_text_changes_nothing(text: Any, hr: Any, tmp_path: Path) -> None:
    same = unchanged(hr, tmp_path)
    with pytest.raises(SqlError, match="NOT_TEXT"):
        hr.create_query(text)
    with pytest.raises(SqlError, match="NOT_TEXT"):
        hr.execute(text)
    assert same()


def test_bad_names_change_nothing(hr: Any, tmp_path: Path) -> None:
    same = unchanged(hr, tmp_path)
    for name in NAMES:
        with pytest.raises(CatalogError, match="BAD_NAME"):
            hr.create_query("SELECT id FROM sales", name=name)
        assert same(), repr(name)
    for name in ("taken", "TAKEN"):
        with pytest.raises(CatalogError, match="QUERY_EXISTS"):
            hr.create_query("SELECT id FROM sales", name=name)
        assert same()


def test_the_same_good_text_works_after_every_refusal(hr: Any) -> None:
    for text, _, _ in REFUSED:
        with pytest.raises(HeadraceError):
            hr.create_query(text, name="good")
    query = hr.create_query("SELECT id FROM sales WHERE level > 0", name="good")
    hr.append("sales", [sale(2)])
    hr.run_available()
    assert query.to_pandas().id.tolist() == [2]
