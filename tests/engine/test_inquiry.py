"""What a group does when an epoch fails: the runner is a fake, the record is real, no JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog.queries import QueryEntry, QueryState
from headrace.engine.errors import epoch_cancelled
from headrace.engine.failure import EpochTrouble, Failure, FailureKind, spark_died
from headrace.engine.inquiry import Inquiry
from headrace.engine.job import JobResult
from headrace.engine.paths import search_path
from headrace.model.epoch import Chunk, Epoch, StreamEpoch
from headrace.model.errors import EngineError
from headrace.model.functions import FunctionSpec
from headrace.model.query import EpochId, Query, QueryId, StreamName
from headrace.model.types import BIGINT
from headrace.storage.warehouse import Warehouse
from log_samples import PLAN

SEARCH = search_path("main")

ERROR = Failure(FailureKind.ERROR, "'utf-8' codec can't encode character")
EPOCH = Epoch(EpochId(3), ())


class Gone:
    """The Spark context of a process that died."""

    _jsc = property(lambda self: self)

    def sc(self) -> Any:
        raise ConnectionRefusedError


class There(Gone):
    def sc(self) -> Any:
        return SimpleNamespace(isStopped=lambda: False)


@dataclass
class FakeRunner:
    """Plays trials: `bad` queries make an epoch fail in some way, `base` makes it fail without any query."""

    bad: dict[int, Failure] = field(default_factory=dict)
    base: Failure | None = None
    stuck: bool = False
    query_seconds: float | None = 60.0
    trials: list[list[int]] = field(default_factory=list)
    limits: list[float | None] = field(default_factory=list)
    spark: Any = field(default_factory=lambda: SimpleNamespace(sparkContext=There()))

    def take_thread(self, epoch: Epoch) -> None: ...

    def width(self, epoch: Epoch) -> int:
        return 2

    def answers(self) -> bool:
        return not self.stuck

    def check_without_queries(self, epoch: Epoch) -> None:
        if self.base is not None:
            raise EpochTrouble(self.base)

    def plan(self, epoch: int, entries: Any) -> Any:
        return None

    def run_shared(self, epoch: Any, plan: Any, entries: Any, *rest: Any) -> tuple[JobResult, dict[int, str]]:
        ids = [int(entry.query.id) for entry in entries]
        self.trials.append(ids)
        self.limits.append(rest[2] if rest else None)
        for id_ in ids:
            if id_ in self.bad:
                raise EpochTrouble(self.bad[id_])
        return JobResult(), {}

    def discard(self, result: Any, commit: Any) -> None: ...


class FakeCatalog:
    """Active queries by id; those that were quarantined are out. `costs` is what functions are said to cost."""

    def __init__(
        self, count: int, *, dropping: tuple[int, ...] = (), costs: Mapping[str, float] | None = None
    ) -> None:
        specs = [FunctionSpec(name, BIGINT, cost) for name, cost in (costs or {}).items()]
        self.functions = SimpleNamespace(specs=lambda: specs)
        self.entries = {
            i: QueryEntry(
                Query(QueryId(i), f"q{i}", PLAN),
                QueryState.ACTIVE,
                i,
                EpochId(3 if i == count else 0),
                dropping=i in dropping,
            )
            for i in range(1, count + 1)
        }

    def change(self, id_: int, **plan: Any) -> None:
        """Let a query have another plan."""
        entry = self.entries[id_]
        self.entries[id_] = replace(entry, query=replace(entry.query, plan=replace(entry.query.plan, **plan)))

    def active_entries(self, epoch: int, group: str = "main") -> tuple[QueryEntry, ...]:
        return tuple(self.entries.values())

    def entry_of(self, id_: int) -> QueryEntry:
        return self.entries[id_]


def opened(path: Path, runner: FakeRunner, catalog: FakeCatalog) -> Inquiry:
    return Inquiry("main", runner, Warehouse(path), catalog, 600.0)  # type: ignore[arg-type]


def run(inquiry: Inquiry, runner: FakeRunner, catalog: FakeCatalog) -> dict[int, str]:
    """The loop of a group over one epoch: everybody who is left out before it runs, with the reason."""
    out = inquiry.known(EPOCH)
    for _ in range(100):
        for id_ in out:
            catalog.entries.pop(id_, None)
        try:
            inquiry.check(EPOCH)
            runner.run_shared(EPOCH, None, catalog.active_entries(3))
            inquiry.settled()
            return out
        except EpochTrouble as trouble:
            out |= inquiry.find(EPOCH, (), trouble)
    raise AssertionError("it goes on for ever")


@pytest.mark.parametrize(
    "kind", [FailureKind.ERROR, FailureKind.MEMORY, FailureKind.WORKER, FailureKind.TIME]
)
def test_the_culprits_are_quarantined_with_the_reason_and_the_epoch_runs(
    tmp_path: Path, kind: FailureKind
) -> None:
    runner = FakeRunner({2: Failure(kind, "why"), 7: Failure(kind, "why")})
    catalog = FakeCatalog(9)
    out = run(opened(tmp_path, runner, catalog), runner, catalog)
    assert out.keys() == {2, 7}
    for reason in out.values():
        assert "why" in reason and "epoch 3 runs without this query" in reason
    assert not Warehouse(tmp_path).exists(SEARCH), "nothing is left of the trouble"


def test_what_fails_once_is_tried_again(tmp_path: Path) -> None:
    runner, catalog = FakeRunner(), FakeCatalog(3)
    assert opened(tmp_path, runner, catalog).find(EPOCH, (), EpochTrouble(ERROR)) == {}
    assert runner.trials == []


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ERROR, "EPOCH_FAILED"),
        (Failure(FailureKind.TIME, "slow"), "SPARK_STUCK"),
        (spark_died(), "SPARK_GONE"),
    ],
)
def test_what_fails_without_any_query_is_no_querys_fault(tmp_path: Path, failure: Failure, code: str) -> None:
    runner, catalog = FakeRunner({1: ERROR}, base=failure), FakeCatalog(3)
    with pytest.raises(EngineError) as caught:
        run(opened(tmp_path, runner, catalog), runner, catalog)
    assert caught.value.code == code and caught.value.hint


def test_an_error_that_goes_away_while_it_is_searched_for_costs_nobody_anything(tmp_path: Path) -> None:
    class Twice(FakeRunner):
        """The first two runs fail; after that everything is in order."""

        def run_shared(
            self, epoch: Any, plan: Any, entries: Any, *_: Any
        ) -> tuple[JobResult, dict[int, str]]:
            self.bad = {1: ERROR} if len(self.trials) < 2 else {}
            return super().run_shared(epoch, plan, entries)

    runner, catalog = Twice(), FakeCatalog(5)
    assert run(opened(tmp_path, runner, catalog), runner, catalog) == {}


def test_an_epoch_that_fails_although_its_trials_run_is_an_error(tmp_path: Path) -> None:
    """It must not be tried for ever."""
    runner, catalog = FakeRunner(), FakeCatalog(5)
    inquiry = opened(tmp_path, runner, catalog)
    assert [inquiry.find(EPOCH, (), EpochTrouble(ERROR)) for _ in range(2)] == [{}, {}]
    with pytest.raises(EngineError) as caught:
        inquiry.find(EPOCH, (), EpochTrouble(ERROR))
    assert caught.value.code == "EPOCH_FAILED"


def test_a_full_disk_is_no_querys_fault(tmp_path: Path) -> None:
    runner = FakeRunner({1: Failure(FailureKind.MACHINE, "No space left on device")})
    catalog = FakeCatalog(3)
    with pytest.raises(EngineError) as caught:
        run(opened(tmp_path, runner, catalog), runner, catalog)
    assert caught.value.code == "EPOCH_FAILED" and "No space left" in str(caught.value)
    assert len(runner.trials) == 1, "nobody was tried"


def test_memory_that_all_use_together_is_no_querys_fault(tmp_path: Path) -> None:
    class Together(FakeRunner):
        def run_shared(
            self, epoch: Any, plan: Any, entries: Any, *_: Any
        ) -> tuple[JobResult, dict[int, str]]:
            if len(entries) > 3:
                raise EpochTrouble(Failure(FailureKind.MEMORY, "OutOfMemoryError"))
            return JobResult(), {}

    runner, catalog = Together(), FakeCatalog(6)
    inquiry = opened(tmp_path, runner, catalog)
    with pytest.raises(EngineError) as caught:
        run(inquiry, runner, catalog)
    assert "no query is to blame" in str(caught.value) and "drop" in str(caught.value.hint)
    for id_ in (1, 2, 3):
        entry = catalog.entries[id_]
        catalog.entries[id_] = QueryEntry(
            entry.query, entry.state, entry.slot, entry.first_epoch, dropping=True
        )
    out = run(inquiry, runner, catalog)
    assert out.keys() == {1, 2, 3}, "a drop takes effect for an epoch that cannot be run"
    assert all(reason.startswith("dropped before epoch 3") for reason in out.values())


def test_an_epoch_that_is_slow_by_the_sum_of_all_runs_without_a_limit(tmp_path: Path) -> None:
    slow = Failure(FailureKind.TIME, "it did not end")

    class Slow(FakeRunner):
        def run_shared(
            self, epoch: Any, plan: Any, entries: Any, *_: Any
        ) -> tuple[JobResult, dict[int, str]]:
            if len(entries) > 3 and inquiry.seconds(EPOCH) is not None:
                raise EpochTrouble(slow)
            return JobResult(), {}

    runner, catalog = Slow(), FakeCatalog(6)
    inquiry = opened(tmp_path, runner, catalog)
    assert run(inquiry, runner, catalog) == {}
    assert inquiry.seconds(EPOCH) is None and inquiry.seconds(Epoch(EpochId(4), ())) == 600.0


def with_functions(
    path: Path, runner: FakeRunner, catalog: FakeCatalog, whole: float | None = 600.0
) -> Inquiry:
    return Inquiry("main", runner, Warehouse(path), catalog, whole, 60.0)  # type: ignore[arg-type]


def holding(number: int = 3, **tuples: int) -> Epoch:
    """An epoch with so many tuples of streams; `own` is the one that queries read unless somebody says otherwise."""
    streams = {StreamName(str(PLAN.streams[0]) if name == "own" else name): n for name, n in tuples.items()}
    return Epoch(
        EpochId(number),
        tuple(StreamEpoch(name, (Chunk("c", n, 0, None, None),), 0, 0) for name, n in streams.items()),
    )


def test_epochs_in_which_functions_are_called_have_a_limit_of_their_own(tmp_path: Path) -> None:
    hangs = Failure(FailureKind.TIME, "it did not end")
    runner, catalog = FakeRunner({2: hangs}, query_seconds=300.0), FakeCatalog(5)
    inquiry = with_functions(tmp_path, runner, catalog)
    assert inquiry.seconds(holding(own=10)) == 600.0, "nobody calls one"
    catalog.change(2, functions=("stuck",))
    assert inquiry.seconds(holding(own=10)) == inquiry.seconds(holding(own=100_000)) == 60.0
    assert inquiry.seconds(holding(own=300_000)) == 180.0, "it may be dear, and need not hang"
    assert inquiry.seconds(holding(own=10_000_000)) == 600.0
    out = run(inquiry, runner, catalog)
    assert out.keys() == {2}
    tried = [i for i, trial in enumerate(runner.trials) if 2 in trial]
    assert len(tried) == 3, "each of these takes as long as its limit"
    assert [runner.limits[i] for i in tried[1:]] == [pytest.approx(60.0, abs=1), pytest.approx(300.0, abs=1)]
    assert inquiry.seconds(holding(own=10)) == 600.0, "the others go on as before"


@pytest.mark.parametrize(
    ("calls", "own", "alone"), [(True, None, 600.0), (False, None, None), (False, 300.0, 300.0)]
)
def test_the_last_trial_ends_if_anybody_wants_it_to(
    tmp_path: Path, calls: bool, own: float | None, alone: float | None
) -> None:
    runner = FakeRunner({2: Failure(FailureKind.TIME, "it did not end")}, query_seconds=own)
    catalog = FakeCatalog(5)
    if calls:
        catalog.change(2, functions=("stuck",))
    assert run(with_functions(tmp_path, runner, catalog), runner, catalog).keys() == {2}
    limit = runner.limits[runner.trials.index([2])]
    assert limit == (None if alone is None else pytest.approx(alone, abs=1))


def test_tuples_that_are_read_without_a_function_take_time_too(tmp_path: Path) -> None:
    catalog = FakeCatalog(5)
    catalog.change(2, functions=("f",), streams=(StreamName("few"),))
    inquiry = with_functions(tmp_path, FakeRunner(), catalog)
    assert inquiry.seconds(holding(own=500_000, few=10)) == pytest.approx(300.0, rel=1e-3)
    assert inquiry.seconds(holding(unread=500_000, few=10)) == 60.0, "nobody reads these"


def test_without_a_limit_for_epochs_functions_have_none(tmp_path: Path) -> None:
    catalog = FakeCatalog(1)
    catalog.change(1, functions=("f",))
    assert with_functions(tmp_path, FakeRunner(), catalog, None).seconds(holding(own=10)) is None


def test_epochs_have_ten_times_what_the_last_ones_took(tmp_path: Path) -> None:
    catalog = FakeCatalog(1)
    catalog.change(1, functions=("f",))
    inquiry = with_functions(tmp_path, FakeRunner(), catalog)
    inquiry.ran(holding(own=10), catalog.active_entries(3), 2.0)
    assert inquiry.seconds(holding(own=100_000)) == 200.0, "at most two seconds for each 10,000"
    inquiry.ran(holding(own=100_000), catalog.active_entries(3), 30.0)
    assert inquiry.seconds(holding(own=10)) == 300.0
    assert inquiry.seconds(holding(own=190_000)) == pytest.approx(570.0), "30 seconds for each 100,000"
    for _ in range(40):
        inquiry.ran(holding(own=1_000), catalog.active_entries(3), 0.1)
    assert inquiry.seconds(holding(own=10)) == 60.0, "that was long ago"


def test_what_a_function_is_said_to_cost_counts_before_anything_ran(tmp_path: Path) -> None:
    catalog = FakeCatalog(2, costs={"dear": 0.0008, "unused": 1.0})
    catalog.change(1, functions=("dear",))
    inquiry = with_functions(tmp_path, FakeRunner(), catalog)
    assert inquiry.seconds(holding(own=100_000)) == 460.0, "80 s of CPU on two cores, ten times"


@pytest.mark.parametrize("count", [1, 4])
def test_a_function_that_is_only_slow_costs_nobody_anything(tmp_path: Path, count: int) -> None:
    class Slow(FakeRunner):
        """Whatever calls the function takes two minutes."""

        def run_shared(
            self, epoch: Any, plan: Any, entries: Any, *rest: Any
        ) -> tuple[JobResult, dict[int, str]]:
            seconds = rest[2] if rest else inquiry.seconds(EPOCH)
            calls = any(entry.query.plan.functions for entry in entries)
            self.bad = {1: Failure(FailureKind.TIME, "slow")} if calls and (seconds or 999) < 120 else {}
            return super().run_shared(epoch, plan, entries, *rest)

    runner, catalog = Slow(query_seconds=300.0), FakeCatalog(count)
    catalog.change(1, functions=("f",))
    inquiry = with_functions(tmp_path, runner, catalog)
    assert inquiry.seconds(EPOCH) == 60.0
    assert run(inquiry, runner, catalog) == {}
    inquiry.ran(EPOCH, catalog.active_entries(3), 120.0)
    assert inquiry.seconds(holding(4, own=10)) == 600.0, "the next epoch is not stopped for that"


def test_the_query_that_was_dropped_is_left_out_before_anybody_is_searched(tmp_path: Path) -> None:
    runner, catalog = FakeRunner({2: ERROR}), FakeCatalog(4, dropping=(2,))
    out = run(opened(tmp_path, runner, catalog), runner, catalog)
    assert out.keys() == {2} and out[2].startswith("dropped before epoch 3 was run: 'utf-8'")
    assert runner.trials == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 3, 4]]


def test_when_spark_dies_again_and_again_the_next_process_searches_and_ends(tmp_path: Path) -> None:
    """Each death is a process: it notes what it was doing, and the next one goes on from there."""
    codes: list[str] = []
    for _life in range(12):
        runner, catalog = FakeRunner({5: spark_died()}), FakeCatalog(9)
        try:
            out = run(opened(tmp_path, runner, catalog), runner, catalog)
            break
        except EngineError as error:
            codes.append(error.code)
    assert out.keys() == {5} and "Spark died" in out[5]
    assert set(codes) == {"SPARK_GONE"} and 3 <= len(codes) <= 8, codes


def test_a_new_query_that_kills_spark_costs_two_lives_and_its_trial(tmp_path: Path) -> None:
    for _life in range(3):
        runner, catalog = FakeRunner({9: spark_died()}), FakeCatalog(9)
        with pytest.raises(EngineError):
            run(opened(tmp_path, runner, catalog), runner, catalog)
    runner, catalog = FakeRunner({9: spark_died()}), FakeCatalog(9)
    assert run(opened(tmp_path, runner, catalog), runner, catalog).keys() == {9}


def test_spark_that_is_stuck_is_told_and_the_next_process_searches_at_once(tmp_path: Path) -> None:
    hang = Failure(FailureKind.TIME, "it did not end within 60 s")
    runner, catalog = FakeRunner({9: hang}, stuck=True), FakeCatalog(9)
    with pytest.raises(EngineError) as caught:
        run(opened(tmp_path, runner, catalog), runner, catalog)
    assert caught.value.code == "SPARK_STUCK"
    runner = FakeRunner({9: hang})
    assert run(opened(tmp_path, runner, FakeCatalog(9)), runner, FakeCatalog(9)).keys() == {9}
    assert runner.trials[0] == list(range(1, 9)), "it began with everybody but the new one"


def test_a_query_that_runs_by_itself_and_kills_spark_is_found(tmp_path: Path) -> None:
    runner, catalog = FakeRunner(), FakeCatalog(2)
    inquiry = opened(tmp_path, runner, catalog)
    inquiry.fallback_begins(2)
    assert not Warehouse(tmp_path).exists(SEARCH), "nothing is written while all is well"
    with pytest.raises(EngineError):
        inquiry.find(EPOCH, (), EpochTrouble(spark_died()))
    inquiry = opened(tmp_path, runner, catalog)
    assert inquiry.known(EPOCH) == {}
    inquiry.check(EPOCH)
    inquiry.fallback_begins(1)
    inquiry.fallback_begins(2)
    assert inquiry.known(EPOCH) == {}, "a fallback that this process has begun may only have been stopped"
    assert opened(tmp_path, runner, catalog).known(EPOCH).keys() == {2}


def test_a_torn_record_is_forgotten(tmp_path: Path) -> None:
    Warehouse(tmp_path).replace(SEARCH, b"{")
    assert opened(tmp_path, FakeRunner(), FakeCatalog(1)).known(EPOCH) == {}
    assert not Warehouse(tmp_path).exists(SEARCH)


def test_a_trial_that_somebody_stops_is_not_taken_for_a_failure(tmp_path: Path) -> None:
    class Stopped(FakeRunner):
        def run_shared(
            self, epoch: Any, plan: Any, entries: Any, *_: Any
        ) -> tuple[JobResult, dict[int, str]]:
            if len(entries) < 9:
                raise epoch_cancelled(3)
            raise EpochTrouble(ERROR)

    runner, catalog = Stopped(), FakeCatalog(9)
    with pytest.raises(EngineError) as caught:
        run(opened(tmp_path, runner, catalog), runner, catalog)
    assert caught.value.code == "EPOCH_CANCELLED"
    again = FakeRunner({9: ERROR})
    assert run(opened(tmp_path, again, catalog), again, catalog).keys() == {9}, (
        "nobody else was blamed for it"
    )
