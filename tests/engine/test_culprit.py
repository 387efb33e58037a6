"""The search for the query that makes an epoch fail: trials are played by functions, no JVM."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from headrace.engine.culprit import Search, begin, by_suspicion, find_culprit
from headrace.engine.errors import was_cancelled
from headrace.engine.failure import Failure, FailureKind, failure_of
from headrace.model import codec

ERROR = Failure(FailureKind.ERROR, "boom")
MEMORY = Failure(FailureKind.MEMORY, "OutOfMemoryError")
DIED = Failure(FailureKind.SPARK, "died")


class Died(Exception):
    """A trial took Spark with it."""


def everybody(row: list[int], bad: set[int], failure: Failure = ERROR) -> tuple[list[int], int]:
    """All culprits of a row, as an epoch finds them: quarantine one, try the rest, search on. And the trials."""
    search, found, trials = Search(1), list[int](), 0

    def fails(ids: tuple[int, ...]) -> Failure | None:
        nonlocal trials
        trials += 1
        return failure if bad & set(ids) else None

    while (left := [q for q in row if q not in found]) and fails(tuple(left)):
        search, guilty = find_culprit(begin(search, left, failure), fails, lambda _: None)
        assert guilty
        culprit = search.order[search.good]
        search = replace(search, culprits={**search.culprits, str(culprit): "x"})
        found.append(culprit)
    return found, trials


@given(st.sets(st.integers(0, 200), min_size=1), st.data())
def test_exactly_the_bad_ones_are_found_in_few_trials(row: set[int], data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.sampled_from(sorted(row)), min_size=1, max_size=4))
    for failure in (ERROR, MEMORY):
        found, trials = everybody(sorted(row), bad, failure)
        assert set(found) == bad
        assert trials <= len(bad) * (len(row).bit_length() + 3) + 1


@given(st.integers(1, 60), st.data())
def test_an_error_that_comes_once_blames_nobody_else(count: int, data: st.DataObject) -> None:
    """One trial fails by accident, whoever is in it; the culprit is found all the same."""
    culprit, accident = data.draw(st.integers(0, count - 1)), data.draw(st.integers(1, 9))
    trials = 0

    def fails(ids: tuple[int, ...]) -> Failure | None:
        nonlocal trials
        trials += 1
        return ERROR if culprit in ids or trials == accident else None

    found, guilty = find_culprit(begin(Search(1), range(count), ERROR), fails, lambda _: None)
    assert guilty and found.order[found.good] == culprit


def test_a_row_that_runs_in_the_end_has_no_culprit() -> None:
    """The epoch failed as a whole, and then never again."""
    found, guilty = find_culprit(begin(Search(1), range(8), ERROR), lambda ids: None, lambda _: None)
    assert not guilty and found.good == len(found.order)


def test_a_failure_by_the_sum_of_all_blames_nobody() -> None:
    """Three queries fit into memory, four do not."""
    row = begin(Search(1), range(8), MEMORY)
    _, guilty = find_culprit(row, lambda ids: MEMORY if len(ids) > 3 else None, lambda _: None)
    assert not guilty


def test_a_row_that_is_known_to_run_has_no_culprit() -> None:
    """Four ran in a trial; without the fifth, which was found out, they fail: not because of any of them."""
    found = Search(1, order=(1, 2, 3, 4, 5), good=4, bad=5, culprits={"5": "x"})
    _, guilty = find_culprit(begin(found, (1, 2, 3, 4), MEMORY), lambda ids: None, lambda _: None)
    assert not guilty


def test_queries_that_fail_only_together_lose_the_one_that_came_last() -> None:
    row = begin(Search(1), range(8), ERROR)
    found, guilty = find_culprit(row, lambda ids: ERROR if {2, 5} <= set(ids) else None, lambda _: None)
    assert guilty and found.order[found.good] == 5


def test_the_likely_ones_are_left_out_first() -> None:
    tried: list[tuple[int, ...]] = []

    def fails(ids: tuple[int, ...]) -> Failure | None:
        tried.append(ids)
        return ERROR if 99 in ids else None

    order, likely = by_suspicion([(99, 1), *((i, 0) for i in range(98))])
    found, _ = find_culprit(begin(Search(1), order, ERROR), fails, lambda _: None, likely)
    assert found.order[found.good] == 99
    assert tried == [tuple(range(98)), (*range(98), 99)], "without the only new one, and once more with it"


@pytest.mark.parametrize("failure", [ERROR, DIED], ids=["error", "by resources"])
@given(culprit=st.integers(0, 30))
def test_a_search_goes_on_where_the_last_process_died(failure: Failure, culprit: int) -> None:
    """Every trial with the culprit kills the process; the next one reads what was written down before it."""
    row = tuple(range(31))
    kept = codec.to_json(begin(Search(1), row, failure))
    for _lives in range(10):

        def note(search: Search) -> None:
            nonlocal kept
            kept = codec.to_json(search)

        def fails(ids: tuple[int, ...]) -> Failure | None:
            if culprit in ids:
                raise Died
            return None

        try:
            found, guilty = find_culprit(begin(codec.from_json(kept), row, failure), fails, note, died=DIED)
        except Died:
            continue
        assert guilty and found.order[found.good] == culprit
        return
    raise AssertionError("ten lives were not enough")


def test_failures_are_told_apart() -> None:
    lost = RuntimeError("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n at x")
    assert failure_of(lost).kind is FailureKind.WORKER
    assert failure_of(MemoryError()).kind is FailureKind.MEMORY
    assert str(failure_of(ValueError("no"))) == "no"
    full = OSError(28, "No space left on device")
    assert failure_of(full).kind is FailureKind.MACHINE


class Refused(PySparkException):
    """An exception as Spark gives it for an expression that fails; its text holds the value."""

    def __init__(self, value: str) -> None:
        super().__init__(f"[CAST_INVALID_INPUT] The value '{value}' cannot be cast")

    def getCondition(self) -> str:
        return "CAST_INVALID_INPUT"


@pytest.mark.parametrize(
    "value",
    [
        "OSError: No space left on device",
        "SparkException: [SPARK_JOB_CANCELLED]",
        "java.lang.OutOfMemoryError",
    ],
)
def test_what_tuples_say_is_not_taken_for_a_failure(value: str) -> None:
    error = Refused(value)
    assert failure_of(error).kind is FailureKind.ERROR
    assert not was_cancelled(error)
    assert was_cancelled(
        RuntimeError("org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 1 cancelled")
    )
