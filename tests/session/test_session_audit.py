"""The audit can fail: whatever is wrong in the results or the log shows, with the rows that differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from session_samples import PER_COUNTRY, at, rows, sale, with_sales

from headrace.model.errors import StorageError
from tampering import rewrite, set_value

pytestmark = pytest.mark.spark

Open = Callable[..., Any]


def result_path(session: Any, path: Path, query: str) -> Path:
    (file,) = session._delivered.results(session.query(query)._entry())
    return path / "warehouse" / str(file.path)


@pytest.fixture
def hr(open_session: Open) -> Any:
    session = with_sales(open_session())
    session.create_query(PER_COUNTRY, name="counts")
    session.create_query("SELECT id, price FROM sales", name="tuples")
    session.create_query(PER_COUNTRY.replace("COUNT(*)", "size(collect_list(id))"), name="alone")
    session.append("sales", [sale(1), sale(2), sale(3, country="FR"), sale(11)])
    session.run_available()
    return session


def test_a_changed_count_is_found(hr: Any, tmp_path: Path) -> None:
    for info in hr.queries():
        assert hr.query(info.name).audit().ok
    path = result_path(hr, tmp_path, "counts")
    found = pq.read_table(path)
    row = found.column("a0").to_pylist().index(2)
    rewrite(path, lambda table: set_value(table, "a0", row, 3))
    report = hr.query("counts").audit()
    assert not report.ok
    assert report.missing == ({"country": "DE", "n": 2},)
    assert report.unexpected == ({"country": "DE", "n": 3},)
    assert (report.missing_rows, report.unexpected_rows) == (1, 1)
    assert (report.expected_rows, report.actual_rows) == (2, 2)
    assert "DIFFERS" in str(report)
    assert hr.query("alone").audit().ok


def test_a_changed_float_is_found_and_noise_in_its_last_digits_is_not(hr: Any, tmp_path: Path) -> None:
    path = result_path(hr, tmp_path, "tuples")
    (price,) = (
        name for name in pq.read_schema(path).names if pq.read_schema(path).field(name).type == pa.float64()
    )
    rewrite(path, lambda table: set_value(table, price, 0, 1.0 + 1e-13))
    assert hr.query("tuples").audit().ok
    rewrite(path, lambda table: set_value(table, price, 0, 1.0 + 1e-7))
    report = hr.query("tuples").audit()
    assert not report.ok
    assert len(report.missing) == len(report.unexpected) == 1
    assert report.unexpected[0]["price"] == 1.0 + 1e-7


def test_a_row_too_few_and_a_row_twice_are_found(hr: Any, tmp_path: Path) -> None:
    path = result_path(hr, tmp_path, "alone")
    rewrite(path, lambda table: table.slice(0, 1))
    report = hr.query("alone").audit()
    assert (report.ok, report.missing_rows, report.unexpected_rows) == (False, 1, 0)
    path = result_path(hr, tmp_path, "counts")
    rewrite(path, lambda table: table.take([0, *range(table.num_rows - 1)]))
    report = hr.query("counts").audit()
    assert (report.ok, report.missing_rows, report.unexpected_rows) == (False, 1, 1)


def test_a_changed_tuple_in_the_log_is_found(hr: Any, tmp_path: Path) -> None:
    (chunk,) = hr._sealer.latest.of("sales").chunks
    rewrite(tmp_path / "warehouse" / chunk.path, lambda table: set_value(table, "country", 0, "NL"))
    report = hr.query("counts").audit()
    assert report.missing_rows == 2 and report.unexpected_rows == 1
    assert {"country": "NL", "n": 1} in report.missing


def test_all_differences_are_counted_and_the_first_shown(open_session: Open, tmp_path: Path) -> None:
    hr = with_sales(open_session())
    hr.create_query("SELECT id FROM sales", name="q")
    hr.append("sales", [sale(second) for second in range(100)])
    hr.run_available()
    rewrite(result_path(hr, tmp_path, "q"), lambda table: table.slice(0, 10))
    report = hr.query("q").audit()
    assert (report.missing_rows, report.unexpected_rows) == (90, 0)
    assert 0 < len(report.missing) <= 20


def test_a_file_of_another_size_is_an_error_that_names_it(hr: Any, tmp_path: Path) -> None:
    path = result_path(hr, tmp_path, "counts")
    path.write_bytes(path.read_bytes() + b"\0")
    for call in (hr.query("counts").audit, hr.query("counts").to_pandas):
        with pytest.raises(StorageError, match=path.name):
            call()


def test_the_audit_does_not_depend_on_the_order_of_rows_or_epochs(open_session: Open) -> None:
    hr = with_sales(open_session(), watermark="20 seconds")
    query = hr.create_query(PER_COUNTRY, name="q")
    for second in (15, 3, 12, 1, 14, 2):
        hr.append("sales", [sale(second, country=None if second % 2 else "DE")])
        hr.run_available()
    hr.close_stream("sales")
    hr.run_available()
    assert rows(query) == [("DE", 1), ("DE", 2), (None, 1), (None, 2)]
    assert query.audit().ok


def test_window_edges_are_audited_too(open_session: Open, tmp_path: Path) -> None:
    hr = with_sales(open_session())
    hr.create_query("SELECT COUNT(*) AS n FROM sales [RANGE 10 SECONDS]", name="q")
    hr.append("sales", [sale(1), sale(11)])
    hr.run_available()
    assert rows(hr.query("q")) == [(at(0), at(10), 1)]
    rewrite(result_path(hr, tmp_path, "q"), lambda table: set_value(table, "window_end", 0, at(20)))
    report = hr.query("q").audit()
    assert report.missing == ({"window_start": at(0), "window_end": at(10), "n": 1},)
    assert report.unexpected == ({"window_start": at(10), "window_end": at(20), "n": 1},)


def test_what_is_left_of_terms_that_cancel_is_no_difference(open_session: Open, tmp_path: Path) -> None:
    """The four tuples have a correlation of 0; another order of adding them gives -1.8e-17."""
    session = with_sales(open_session())
    text = "SELECT {} AS c FROM sales GROUP BY window(ts, '10 seconds')"
    session.create_query(text.format("corr(level, price)"), name="corr")
    session.create_query(text.format("max(price - 2)"), name="greatest")
    session.append(
        "sales", [sale(1, -1, 1.0), sale(2, 1, 1.0), sale(3, -1, -1.0), sale(4, 1, -1.0), sale(30)]
    )
    session.run_available()
    path = result_path(session, tmp_path, "corr")
    (column,) = (f.name for f in pq.read_schema(path) if f.type == pa.float64())
    for value, ok in ((-1.8e-17, True), (1e-6, False)):
        rewrite(path, lambda table, value=value: set_value(table, column, 0, value))
        assert session.query("corr").audit().ok is ok, value
    assert session.query("greatest").audit().ok
