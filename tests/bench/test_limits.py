"""What the report says about where the limit is: from figures that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headrace_bench.campaign import predicates, rare
from headrace_bench.limits import fit_costs, limits
from headrace_bench.systems.flink_sql import render_files, render_query, render_stream
from headrace_bench.trial import Outcome, Trial
from headrace_bench.workload import Workload


def outcomes_of(unit: tuple[float, ...]) -> list[Outcome]:
    """Trials whose CPU time is made of the given seconds per event, byte read, match, row and byte written."""
    rng = np.random.default_rng(1)
    found = []
    for queries in (1, 10, 100, 1_000, 4_000, 10_000, 10_000):
        trial = Trial("headrace", queries, rows=1_000, files=2, warm_up=0, workload=Workload.RARE)
        read, matches, rows, written = (int(queries * rng.integers(10, 1_000)) for _ in range(4))
        cpu_s = float(np.dot(unit, (trial.fed, read, matches, rows, written)))
        counts = {"bytes_read": read, "matches": matches, "bytes_written": written}
        found.append(Outcome(trial, 1.0, result_rows=rows, cpu_s=cpu_s, **counts))
    return found


def test_the_parts_that_made_the_time_are_found_again() -> None:
    unit = (1e-6, 4e-7, 2e-7, 3e-6, 0.0)
    found = outcomes_of(unit)
    amounts = np.array(
        [[o.trial.fed, o.bytes_read, o.matches, o.result_rows, o.bytes_written] for o in found], float
    )
    assert np.allclose(fit_costs(amounts, np.array([o.cpu_s for o in found])), unit, rtol=1e-6, atol=1e-12)
    lines = list(limits(found))
    assert any(line.startswith("| 10,000 |") and "bytes read" in line for line in lines)
    assert any(line.startswith("| 10,000 |") and "result rows 8" in line for line in lines)
    assert any(line.startswith("| 1 |") and "events" in line for line in lines)
    assert any("within 0 %" in line for line in lines)


def test_matches_that_nobody_goes_through_are_not_counted() -> None:
    found = outcomes_of((1e-6, 0, 5e-6, 0, 0))
    for outcome in found:
        outcome.visited = (outcome.matches or 0) / outcome.trial.fed
    found[-1].visited, found[-1].cpu_s = 0.0, 1e-6 * found[-1].trial.fed
    *_, many, cells = (line for line in limits(found) if line.startswith("| 10,000 |"))
    assert "matches 100 to 100 %" in many and "events 100 to 100 %" in cells and "| 0.00 |" in cells


def test_bytes_read_can_be_the_limit() -> None:
    (line, *_) = (
        line for line in limits(outcomes_of((1e-9, 1e-6, 0, 0, 0))) if line.startswith("| 10,000 |")
    )
    assert "bytes read 9" in line or "bytes read 100 to 100 %" in line


def test_parts_that_grow_together_are_not_told_apart() -> None:
    found = outcomes_of((1e-6, 0, 0, 3e-6, 0))
    for outcome in found:
        outcome.bytes_written = 11 * outcome.result_rows
    lines = list(limits(found))
    assert any("| result rows or bytes written" in line for line in lines)
    assert any("Not told apart" in line and "result rows or bytes written" in line for line in lines)


def test_a_section_with_few_trials_is_fitted_with_those_of_another_one() -> None:
    found = outcomes_of((1e-6, 0, 0, 3e-6, 0))
    lines = list(limits(found[:2], found))
    assert not any("nothing can be said" in line for line in lines)
    assert sum(line.startswith("| 1") and " % |" in line for line in lines) == 2


def test_few_trials_tell_no_limit() -> None:
    lines = list(limits(outcomes_of((1e-6, 0, 0, 0, 0))[:2]))
    assert any("nothing can be said" in line for line in lines)
    assert list(limits([])) == []


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
