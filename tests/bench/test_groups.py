"""The benchmark of groups against a session without Spark, whose behaviour is known, and its judgements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace_bench.epochs import Feed
from headrace_bench.groups import command, measures
from headrace_bench.groups.against import OURS, compare_checkouts
from headrace_bench.groups.figures import Against, Backfill, Beside, Event, Seen, Sizes
from headrace_bench.groups.judging import judge_beside, judge_event, judge_groups
from headrace_bench.pages import verdict_rows

SIZES = Sizes(Feed(20, keys=3), queries=10, moved=4, epochs=2, backfill_rows=200, beside_rows=20)
EVENT = Event("ten move", (0.5, 0.7, 0.6), 1.5, (0.6, 0.6), 0.01, 1, exact=True)


@dataclass
class Fake:
    """A session whose moves take effect after so many epochs, and whose epochs end as soon as they begin."""

    options: dict[str, Any]
    delay: int = 1
    exact: bool = True
    waiting: int = 0
    epoch: int = 0
    homes: dict[str, str] = field(default_factory=dict)
    moves: list[tuple[int, str, str]] = field(default_factory=list)
    texts: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    spread: int = 2
    live: bool = False
    asked: list[str] = field(default_factory=list)

    def create_stream(self, *_: Any, **__: Any) -> None: ...

    def create_query(self, text: str, name: str, **options: Any) -> Any:
        self.texts[name] = text, options
        self.homes[name] = "main" if name.startswith("q") else "own"
        return SimpleNamespace(name=name)

    def append(self, stream: str, table: Any) -> None:
        self.waiting += 1
        if self.live:
            self.run_available()

    def run_available(self) -> int:
        ran, self.waiting = self.waiting, 0
        for _ in range(ran):
            self.epoch += 1
            for due, name, group in self.moves:
                if due <= self.epoch:
                    self.homes[name] = group
        return ran

    def recent_epochs(self) -> list[Any]:
        return []

    def groups(self) -> list[Any]:
        names = sorted(set(self.homes.values()))
        members = {group: [name for name, home in self.homes.items() if home == group] for group in names}
        shown = {"cursor": self.epoch, "lag_epochs": 3, "partitions": self.spread}
        return [SimpleNamespace(name=name, members=members[name], **shown) for name in names]

    def move_query(self, name: str, group: str) -> None:
        self.moves.append((self.epoch + self.delay, name, group))

    def repartition(self, number: int) -> None:
        self.spread = number

    def queries(self) -> list[Any]:
        return [SimpleNamespace(name=name, shared=self.homes[name] != "own") for name in self.texts]

    def query(self, name: str) -> Any:
        self.asked.append(name)
        audit = lambda: SimpleNamespace(ok=self.exact)  # noqa: E731
        return SimpleNamespace(audit=audit, results=lambda: SimpleNamespace(count=lambda: 5))

    def start(self, interval: str) -> None:
        self.live = True

    def stop(self) -> None:
        self.live = False


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    """The sessions that were opened. What stands for Spark is the delay of a move."""
    found: list[Fake] = []

    @contextmanager
    def warehouse(spark: Any, **options: Any) -> Iterator[Fake]:
        found.append(Fake(options, delay=spark or 1))
        yield found[-1]

    monkeypatch.setattr(measures, "warehouse", warehouse)
    return found


@pytest.mark.parametrize(("delay", "effect"), [(1, 1), (3, 3), (100, 0)])
def test_a_move_is_seen_with_the_epoch_it_takes_effect_with(
    opened: list[Fake], delay: int, effect: int
) -> None:
    event = measures.measure_move(delay, SIZES)
    assert event.effect == effect
    assert [name for _, name, _ in opened[0].moves] == ["q0", "q2", "q4", "q6"]
    assert len(event.before) == 2 and len(event.after) == max(0, (effect or measures.MOST_EPOCHS) - 1) + 2
    assert opened[0].asked == ["q0"], "the rows of one that moved are audited"


def test_partitions_change_between_two_epochs(opened: list[Fake]) -> None:
    event = measures.measure_repartition(None, SIZES)
    assert opened[0].options == {"partitions": 2} and opened[0].spread == 4
    assert event.effect is None and event.exact


def test_partitions_that_stay_as_they_are_are_no_measure(
    opened: list[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fake, "repartition", lambda self, number: None)
    with pytest.raises(ValueError, match="not spread over 4"):
        measures.measure_repartition(None, SIZES)


def test_a_backfill_reads_what_was_live_and_what_warmed_up(opened: list[Fake]) -> None:
    found = measures.measure_backfill(None, replace(SIZES, backfill_tasks=1))
    hr = opened[0]
    assert hr.options == {"max_epoch_rows": 20, "backfill_tasks": 1}
    assert hr.texts["late"] == (hr.texts["live"][0], {"start": "earliest"})
    assert (found.live_rows, found.rows, hr.epoch) == (160, 200, 10)


def test_unshared_queries_come_beside_shared_ones(opened: list[Fake]) -> None:
    found = measures.measure_beside(None, SIZES)
    assert (found.shared, found.unshared, found.lag_epochs) == (42, 8, 3)
    assert len(found.alone) == SIZES.epochs and len(found.beside) == measures.BESIDE_EPOCHS * SIZES.epochs
    assert found.progress == len(found.beside) * found.unshared
    assert not opened[0].live


def test_queries_that_are_shared_after_all_are_no_measure(opened: list[Fake]) -> None:
    with measures.warehouse(None) as hr:
        hr.create_query("", "q0")
        hr.create_query("", "apart0")
        measures.check_sharing(hr, ["apart0"])
        with pytest.raises(ValueError, match="q0, apart0"):
            measures.check_sharing(hr, ["q0"])


def test_checkouts_take_turns_and_medians_are_compared() -> None:
    older, turns = Path("older"), []

    def spine(source: Path) -> list[dict[str, Any]]:
        turns.append("ours" if source == OURS else "theirs")
        return [
            {"spine": {"queries": n}, "seconds": n * (1.0 if source == OURS else 0.5) + len(turns)}
            for n in (10, 1)
        ]

    few, many = compare_checkouts(older, replace(SIZES, rounds=3), spine, lambda text: None)
    assert turns == ["theirs", "ours", "ours", "theirs", "theirs", "ours"]
    assert (few.queries, many.queries) == (1, 10)
    assert many.ours == (12.0, 13.0, 16.0) and many.theirs == (6.0, 9.0, 10.0)
    assert many.ratio == pytest.approx(13 / 9)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (EVENT, ""),
        (replace(EVENT, effect=None), ""),
        (replace(EVENT, effect=2), "late"),
        (replace(EVENT, effect=0), "never"),
        (replace(EVENT, next=1.9), "0.30 s too much"),
        (replace(EVENT, exact=False), "rows differ"),
    ],
)
def test_an_event_is_judged_by_when_it_took_effect_what_it_added_and_its_rows(event: Event, why: str) -> None:
    verdict = judge_event(event)
    assert verdict.met == (why == "")
    assert why in verdict.why


def test_shared_queries_may_take_twice_as_long_beside_others() -> None:
    assert judge_beside(Beside(42, 8, (0.5,), (1.0,), 3, 0)).met
    assert not judge_beside(Beside(42, 8, (0.7,), (6.9,), 3, 0)).met
    assert not judge_beside(Beside(42, 8, (0.7,), (0.7,), 0, 9)).met, "the others starved"


SEEN = Seen(
    SIZES,
    [Against(1, (1.0,), (1.0,)), Against(1_000, (1.2,), (1.0,))],
    EVENT,
    Backfill(80, 1.0, 5, 100, 1.0, 5),
    Beside(42, 8, (0.5,), (0.6,), 5, 2),
    replace(EVENT, what="2 partitions become 4", effect=None),
)


def test_the_report_has_a_line_per_aim_and_every_second_behind_it(tmp_path: Path) -> None:
    machine = {
        "cores": 2,
        "processor": "p",
        "memory_gb": 1,
        "system": "s",
        "python": "3",
        "load": [0.0],
    }
    facts = {
        "command": "headrace bench groups",
        "seconds": 1.0,
        "seed": 1,
        "machine": machine,
        "versions": {},
    }
    verdicts = judge_groups(SEEN)
    assert [row[3] for row in verdict_rows(verdicts)] == ["met", "missed: 20 % slower", *["met"] * 4]
    page = command.write_report(tmp_path, "x", facts, SEEN, verdicts).read_text()
    assert (
        "| epoch time at 1,000 queries against the older checkout | at most 1.05 times | 1.20 times" in page
    )
    assert "| beside unshared ones | 0.60 |" in page
    assert "| then: ten move | 1.50 0.60 0.60 |" in page
    assert (tmp_path / "x.json").exists()


def test_the_command_runs_what_was_asked_for_and_fails_when_an_aim_is_missed(
    opened: list[Fake], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def spark() -> Iterator[int]:
        yield 3

    monkeypatch.setattr(command, "own_spark", spark)
    small = ["bench", "groups", "--rows", "20", "--queries", "10", "--moved", "2", "--epochs", "1"]
    result = CliRunner().invoke(cli, [*small, "--only", "move", "--out", str(tmp_path), "--name", "x"])
    assert result.exit_code == 1, result.output
    assert "it took effect late" in " ".join((tmp_path / "x.md").read_text().split())
    result = CliRunner().invoke(cli, [*small, "--only", "repartition"])
    assert result.exit_code == 0, result.output


def test_an_older_checkout_must_be_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["bench", "groups", "--against", str(tmp_path)])
    assert result.exit_code == 2 and "src/headrace" in result.output
    result = CliRunner().invoke(cli, ["bench", "groups", "--only", "against"])
    assert result.exit_code == 2 and "--against PATH" in result.output
