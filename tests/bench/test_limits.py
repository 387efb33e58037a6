"""What the report says about where the limit is: what tasks measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace_bench.campaign import predicates, rare
from headrace_bench.limits import NO_CLOCKS, limits
from headrace_bench.systems.flink_sql import render_files, render_query, render_stream
from headrace_bench.trial import Outcome, Trial
from headrace_bench.workload import Workload

TRIAL = Trial("headrace", 1_000, rows=1_000, files=2, warm_up=2, workload=Workload.RARE)
SEEN = Outcome(
    TRIAL,
    1.0,
    cpu_s=0.01,
    result_rows=2_000,
    matches=8_000,
    visited=1.5,
    bytes_read=400_000,
    bytes_written=80_000,
    tasks_s={"reading": 0.001, "matching": 0.002, "closing": 0.001, "writing": 0.004},
)


def test_a_trial_says_what_its_events_are_and_what_tasks_do() -> None:
    (row,) = (line for line in limits([SEEN]) if line.startswith("| 1,000 |"))
    counts = "| 1,000 | 1 | 100 | 2.00 | 1.50 | 0.500 | 20.0 | 5.00 |"
    assert row == f"{counts} 10 % | 20 % | 10 % | **40 %** | 20 % |"


def test_trials_without_clocks_have_no_shares_and_the_page_says_so() -> None:
    older = replace(SEEN, tasks_s={})
    lines = list(limits([older]))
    assert NO_CLOCKS in lines and not any(" % " in line for line in lines)
    *_, row = (line for line in limits([SEEN, older]) if line.startswith("| 1,000 |"))
    assert row.endswith("| 5.00 |  |  |  |  |  |")
    assert list(limits([replace(SEEN, bytes_read=None)])) == []


def test_flink_gets_the_columns_and_predicates_of_the_workload() -> None:
    trial = predicates(Trial("headrace", 1), ("flink",)).trials[-1]
    tables = render_files("a", Path("/x"), 10, trial.workload.ddl)
    assert "`country` STRING" in tables and "`price` BIGINT" in tables and tables.count("ts TIMESTAMP") == 1
    assert "`product`" in render_stream("a", trial.workload.ddl)
    for query in trial.drawn()[:20]:
        text = render_query(query)
        assert f"WHERE {query.where} GROUP BY" in text and "(amount" in text.replace("CAST(", "(")


def test_rare_queries_ask_for_products_that_there_are() -> None:
    for trial in rare(Trial("headrace", 1, rows=10_000)).trials[:2]:
        table = trial.table(0)
        products = set(table["product"].to_pylist())
        assert products == {f"p{n:04}" for n in range(trial.queries)}
        asked = {query.where.split("'")[1] for query in trial.drawn()}
        assert asked == products
