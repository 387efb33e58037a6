"""Groups in SQL: created in one, moved, begun in the past, listed and described; and every row is Spark's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from session_samples import PER_COUNTRY, info, rows, sale, with_sales

from headrace.model.errors import HeadraceError
from headrace.notes import note_of

pytestmark = pytest.mark.spark

Open = Callable[..., Any]


def groups(hr: Any) -> dict[str, dict[str, Any]]:
    return {line["group"]: line for line in hr.execute("SHOW GROUPS").to_pylist()}


def test_a_life_in_groups(open_session: Open) -> None:
    hr = with_sales(open_session())
    hr.execute(f"CREATE QUERY counts AS {PER_COUNTRY}")
    said = hr.execute("CREATE QUERY loud IN GROUP Alerts AS SELECT id FROM sales WHERE level > 5")
    assert said == "query loud is active from the next epoch on, in group alerts"
    assert (groups(hr)["alerts"]["state"], groups(hr)["alerts"]["cursor"]) == ("forming", None)
    hr.append("sales", [sale(1), sale(2, level=9), sale(12, country="FR")])
    hr.run_available()

    listed = groups(hr)
    assert list(listed) == ["main", "alerts"]
    assert (listed["main"]["members"], listed["alerts"]["members"]) == (["counts"], ["loud"])
    assert {line["state"] for line in listed.values()} == {"running"}
    assert all((line["cursor"], line["lag_epochs"]) == (0, 0) for line in listed.values())
    assert all(line["seconds"] > 0 for line in listed.values())
    shown = {line["query"]: line["group"] for line in hr.execute("SHOW QUERIES").to_pylist()}
    assert shown == {"counts": "main", "loud": "alerts"}

    # a query that begins in the past has the rows of the tuples before it, and ends up with the others
    late = hr.create_query("SELECT id FROM sales", name="late")
    said = hr.execute(f"CREATE QUERY again IN GROUP alerts START 'earliest' AS {PER_COUNTRY}")
    assert said.endswith("and catches up with what came since the beginning of the log, in group alerts")
    hr.run_available()
    (why,) = late.status().reasons
    assert "the 3 tuples of stream sales came before: start='earliest'" in why
    hr.append("sales", [sale(25)])
    hr.run_available()
    assert rows(hr.query("again")) == rows(hr.query("counts")) == [("DE", 2), ("FR", 1)]
    assert (info(hr, "again").group, info(hr, "again").first_epoch) == ("alerts", 0)
    assert set(groups(hr)["alerts"]["members"]) == {"loud", "again"}

    # a move, and other numbers of partitions
    assert hr.execute("ALTER QUERY counts SET GROUP alerts").startswith("query counts goes to group alerts")
    assert hr.execute("ALTER WAREHOUSE SET PARTITIONS 3").startswith("keys are spread over 3 partitions")
    hr.append("sales", [sale(35), sale(47)])
    hr.run_available()
    assert info(hr, "counts").group == "alerts"
    assert (
        hr.execute("ALTER QUERY counts SET GROUP alerts")
        == "query counts lives in group alerts, and stays there"
    )
    assert {line["partitions"] for line in groups(hr).values()} == {3}
    assert rows(hr.query("again")) == rows(hr.query("counts")) == [("DE", 1), ("DE", 1), ("DE", 2), ("FR", 1)]
    note = note_of(hr.execute("DESCRIBE QUERY counts"))
    assert "group alerts, up to date; it began with epoch 0, sealed at 20" in note
    assert "CPU so far" in note
    for name in ("counts", "loud", "late", "again"):
        assert hr.query(name).audit().ok, name

    metrics = hr.query("counts").metrics()
    assert (metrics.rows, metrics.stored_rows, metrics.group, metrics.lag_epochs) == (4, 4, "alerts", 0)
    assert metrics.cost.cpu_seconds > 0 and metrics.cost.matched == 6
    assert "groups" in hr._repr_html_() and "alerts" in repr(hr.groups())


def test_what_cannot_be_is_refused(open_session: Open) -> None:
    hr = with_sales(open_session())
    for statement, code in (
        ("CREATE QUERY q IN GROUP `plain-7` AS SELECT id FROM sales", "BAD_NAME"),
        ("CREATE QUERY q IN GROUP `a/b` AS SELECT id FROM sales", "BAD_NAME"),
        ("ALTER QUERY nobody SET GROUP g", "QUERY_NOT_FOUND"),
        ("ALTER WAREHOUSE SET PARTITIONS 0", "BAD_OPTION"),
    ):
        with pytest.raises(HeadraceError) as caught:
            hr.execute(statement)
        assert caught.value.code == code and caught.value.page.startswith("docs/")
    assert hr.queries() == []
