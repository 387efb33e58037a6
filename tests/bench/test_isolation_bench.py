"""The benchmark of policies: what is run for each figure, what is told of a run, and its judgements. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.workloads.isolation import Spread
from headrace_bench.aims import Verdict
from headrace_bench.isolation import command
from headrace_bench.isolation.cases import PANELS, POLICIES, QUICK, Case, Load, Phase, cases_of
from headrace_bench.isolation.drawing import kind_growth
from headrace_bench.isolation.feeding import feeding, steps
from headrace_bench.isolation.figures import (
    Change,
    Moment,
    Point,
    Stretch,
    Told,
    capacity_alone,
    capacity_at_once,
    empty,
    longest_gap,
    series_of,
    stretch_of,
    sustained,
)
from headrace_bench.isolation.judging import judge_isolation
from headrace_bench.isolation.reporting import read_panels
from headrace_bench.meters import Meter
from headrace_bench.pages import verdict_rows

MANY = Load("W1", (0.1, 0.1), 128)


def stretch(phase: str = "steady", cpu: float = 0.5, share: float = 1.0, seconds: float = 0.2) -> Stretch:
    names = ("w0", "w1")
    return Stretch(
        phase,
        1000.0,
        1,
        cpu,
        dict.fromkeys(names, share),
        dict.fromkeys(names, seconds),
        dict.fromkeys(names, 0.0),
    )


def told(policy: str, *stretches: Stretch, **others: Any) -> Told:
    return Told(policy, str(MANY), 128, list(stretches), **others)


@pytest.mark.parametrize("panel", [panel for panel in PANELS if not panel.startswith("10")])
def test_every_policy_is_in_every_panel(panel: str) -> None:
    by_load: dict[Load, list[str]] = {}
    for case in cases_of(panel, QUICK):
        by_load.setdefault(case.load, []).append(case.policy)
    assert all(tuple(found) == POLICIES for found in by_load.values())


def test_latency_and_queues_are_told_of_runs_that_other_figures_have_too() -> None:
    assert cases_of("11a", QUICK) == cases_of("6a", QUICK)
    assert cases_of("11b", QUICK) == cases_of("8", QUICK)


def test_event_time_goes_with_the_clock_whatever_the_rate() -> None:
    course = (Phase("slow", 1, 100), Phase("quick", 1, 1000, Spread.LOW), Phase("slow", 1, 100))
    made = list(steps(Load("W2", (0.1, 0.1), 3), course))
    assert [round(step.at, 3) for step in made] == [0, 1, 2]
    for step in made:
        assert set(step.tables) == {"auction", "bid"}
        times = step.tables["bid"]["date_time"].to_pylist()
        seconds = [at.minute * 60 + at.second + at.microsecond / 1e6 for at in times]
        assert step.at - 0.011 <= min(seconds)
        assert max(seconds) < step.at + 1
    ids = [id_ for step in made for id_ in step.tables["auction"]["id"].to_pylist()]
    assert ids == sorted(set(ids))


def test_feeding_appends_what_is_due_and_says_when_all_has_come() -> None:
    got: list[tuple[str, int]] = []
    coming = steps(Load("W3", (0.1, 0.1), 1), (Phase("one", 1, 50),))
    with feeding(lambda stream, rows: got.append((stream, rows.num_rows)), coming, Meter()) as done:
        assert done.wait(10)
    assert got == [("auction", 30)]


def course() -> list[Moment]:
    """Query a is given everything a second later; b gets nothing from 4 to 6, when it moves, and then the rest."""
    found = []
    for half in range(21):
        t = half / 2
        late = int(100 * max(0, t - 1))
        still = 300 if 4 <= t < 6 else late
        found.append(
            Moment(
                t, int(100 * t), {"a": late, "b": still}, {"a": "main", "b": "main" if t < 5 else "x"}, t / 2
            )
        )
    return found


def test_a_stretch_tells_shares_latency_growth_and_cpu() -> None:
    moments = course()
    found = stretch_of(Phase("p", 4, 100), [m for m in moments if 2 <= m.at <= 4], moments)
    assert found.rate == 100
    assert found.cpu == 0.5
    assert found.shares == {"a": 1.0, "b": 1.0}
    assert found.latency_s == {"a": 1.0, "b": 1.0}
    slow = [Moment(m.at, m.arrived, {"a": m.arrived // 4}, {"a": "x", "b": "y"}, 0.0) for m in moments]
    lagging = stretch_of(Phase("p", 4, 100), slow, slow)
    assert lagging.shares == {"a": pytest.approx(0.25, abs=0.01)}
    assert lagging.growth == {"a": pytest.approx(75.0, abs=1)}
    assert lagging.groups == 2


def test_a_gap_is_the_time_without_anything_new_around_a_move() -> None:
    moments = course()
    assert longest_gap(moments, [Change(4.5, "split", "why", 1.0)], 0.5) == 1.5
    assert longest_gap(moments, [], 0.5) is None


def test_a_series_has_a_mean_per_kind() -> None:
    points = series_of(course(), {"a": "x", "b": "y"})
    assert [point.at for point in points] == [float(at) for at in range(1, 11)]
    assert points[4].waiting == {"x": 100.0, "y": 200.0}


def test_sustained_is_the_highest_rate_at_which_nobody_is_late() -> None:
    climbed = told("full", stretch("1", seconds=0.5), stretch("2", seconds=5.0))
    assert sustained(climbed) == 1000.0
    alone = told(
        "isolated", stretch(seconds=0.2), Stretch("high", 3000.0, 1, 1.0, {}, {"w0": 0.6, "w1": 0.4}, {})
    )
    assert capacity_alone(alone) == pytest.approx(5000.0)
    assert capacity_at_once(alone, cores=0.75) == pytest.approx(2000.0), (
        "half of the way to the rate that takes one"
    )
    assert capacity_at_once(alone, cores=9.0) == pytest.approx(5000.0), "the slowest is busy all the time"


def verdicts(ours: Told, alone: Told) -> dict[str, bool]:
    return {verdict.aim.split(" ")[0]: verdict.met for verdict in judge_isolation({"6a": [alone, ours]})}


def test_aims_are_met_or_missed_by_what_was_seen() -> None:
    alone = told("isolated", stretch(cpu=12.0))
    good = told(
        "functional",
        stretch(cpu=1.0),
        series=[Point(1.0, 1, 1.0, {}, {})],
        changes=[Change(6.0, "merged", "why", 0.4)],
        error=0.1,
        split_epochs=[1],
        gap_s=0.5,
        looked=0.01,
    )
    assert all(verdicts(good, alone).values())
    bad = told(
        "functional",
        stretch(cpu=13.0, share=0.9),
        series=[Point(1.0, 1, 1.0, {}, {})],
        changes=[Change(30.0, "merged", "why", 1.4)],
        error=0.3,
        split_epochs=[3],
        looked=0.03,
    )
    assert not any(verdicts(bad, alone).values())
    twice = replace(good, case="the pulse", split_epochs=[1])
    (splits,) = (v for v in judge_isolation({"8": [twice], "11b": [twice]}) if "to a split" in v.aim)
    assert "of 1 splits" in splits.seen, "two panels tell of one run"
    short = told("functional", stretch(cpu=1.9, share=0.5))
    dear = told("isolated", replace(stretch(cpu=5.0), cpus={"w0": 1.0, "w1": 4.0}))
    aims = [v.aim for v in judge_isolation({"8": [dear, short]}) if v.binds and not v.met]
    assert aims == [
        "throughput of every query against alone, with 2 cores for all of them, in steady states"
    ], "w0 would keep up with half of the cores"
    dear = told("isolated", replace(stretch(cpu=8.0), cpus={"w0": 4.0, "w1": 4.0}))
    judged = judge_isolation({"8": [dear, short]})
    assert all(v.met for v in judged if v.binds), "each would have a core"
    (told_of,) = (v for v in judged if not v.binds)
    assert not told_of.met and "2 of 2 below" in told_of.seen
    assert [row[-1] for row in verdict_rows([told_of])] == ["told"], "nobody says that this was met"


def test_a_report_is_made_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nothing() -> Iterator[None]:
        yield

    monkeypatch.setattr(command, "own_spark", nothing)
    seen: list[Case] = []

    def play(spark: Any, case: Case, sizes: Any) -> Told:
        seen.append(case)
        made = empty(case)
        made.stretches = [stretch(phase.name) for phase in case.course]
        return made

    monkeypatch.setattr(command, "play", play)
    run = ["bench", "--workload", "isolation", "--quick", "--out", str(tmp_path), "--name", "r"]
    for figure in ("7a", "6b"):
        result = CliRunner().invoke(cli, [*run, "--figure", figure])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    page = (tmp_path / "r.md").read_text()
    assert page.index("## 6b") < page.index("## 7a")
    assert (tmp_path / "r-6b.png").exists()
    assert {case.policy for case in seen} == set(POLICIES)
    ran = len(seen)
    run[1:3] = ["isolation"]
    CliRunner().invoke(cli, [*run, "--figure", "6b", "--figure", "7", "--resume"])
    assert {case.load.selectivity for case in seen[ran:]} == {(0.01, 0.2)}, "7b alone was not there yet"
    CliRunner().invoke(cli, [*run, "--figure", "7b", "--policy", "full"])
    assert [case.policy for case in seen[ran + len(POLICIES) :]] == ["full"]
    found = read_panels(tmp_path / "r.json")["7b"]
    assert [one.policy for one in found] == list(POLICIES), "it took the place of the older one"


def test_work_that_waits_after_a_pulse_is_compared_with_that_of_isolated_queries_on_the_same_cores() -> None:
    pulse, after = (
        replace(stretch(p), cpus={"w0": 0.1, "w1": c}) for p, c in (("pulse", 3.9), ("after", 0.1))
    )
    alone = told("isolated", pulse, after, ends=[10.0, 30.0])
    seen = [Point(float(at), 1, 2.0 if at <= 15 else 0.15, {}, {}) for at in range(1, 31)]
    ours = told("functional", stretch(cpu=0.15), series=seen, ends=[10.0, 30.0])

    def judged(told_of: Told) -> Verdict:
        return next(v for v in judge_isolation({"8": [alone, told_of]}) if "in any" in v.aim)

    assert judged(ours).met, "isolated queries work off theirs until second 21"
    late = replace(ours, series=[*seen[:15], *(replace(point, cpu=2.0) for point in seen[15:])])
    assert not judged(late).met
    assert kind_growth(replace(alone, kinds={"w0": "x", "w1": "y"}), "x") == 0.0
    assert kind_growth(replace(alone, kinds={"w0": "x", "w1": "y"}), "y") == pytest.approx(
        1000 * (1 - 1.9 / 3.9)
    )


def test_who_gets_much_at_a_time_is_not_taken_to_fall_behind() -> None:
    """Its epochs take four seconds. In the last three of the phase it had nothing, and waits no longer than usual."""
    moments = [
        Moment(t / 4, 25 * t, {"q": 100 * int((t / 4 - 1.5) // 4 * 4)}, {"q": "x"}, 0.0)
        for t in range(20, 53)
    ]
    assert stretch_of(Phase("p", 8, 100), moments, moments).worst == 1.0


def test_figures_are_only_about_isolation() -> None:
    result = CliRunner().invoke(cli, ["bench", "--figure", "6"])
    assert result.exit_code == 2
    assert "--workload isolation" in result.output
