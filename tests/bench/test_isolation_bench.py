"""The benchmark of policies: what is run for each figure, what is told of a run, and its judgements. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.engine.conductor.conductor import Conductor
from headrace.optimizer.grouping.policies import FunctionalIsolation, Policy
from headrace.workloads.isolation import Spread
from headrace_bench.aims import Verdict
from headrace_bench.isolation import alone, command, reporting
from headrace_bench.isolation.cases import PANELS, POLICIES, QUICK, Case, Load, Phase, cases_of
from headrace_bench.isolation.drawing import draw_panel, kind_growth
from headrace_bench.isolation.feeding import feeding, steps
from headrace_bench.isolation.figures import (
    Change,
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
from headrace_bench.isolation.judging import judge_isolation, violations
from headrace_bench.isolation.keeping import Moment
from headrace_bench.isolation.playing import has_failed, skipped_s, switch
from headrace_bench.isolation.pulse import Pulse
from headrace_bench.isolation.reporting import read_panels, render
from headrace_bench.meters import Meter
from headrace_bench.pages import verdict_rows

MANY = Load("W1", (0.1, 0.1), 128)
FACTS = {
    "command": "c",
    "seconds": 1.0,
    "seed": 1,
    "machine": {"cores": 2, "processor": "p", "memory_gb": 1, "system": "s", "python": "3", "load": [0.0]},
    "versions": {},
}


def stretch(
    phase: str = "steady",
    cpu: float = 0.5,
    share: float = 1.0,
    seconds: float = 0.2,
    names: tuple[str, ...] = ("w0", "w1"),
) -> Stretch:
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


def test_a_gap_is_the_time_without_anything_new_around_a_move_beyond_what_is_usual() -> None:
    moments = course()
    assert longest_gap(moments, [10.0]) == (2.0, 0.5), "b had nothing from 0 to 1.5, before its first tuple"
    assert longest_gap(moments, [3.0, 10.0]) == (2.0, 1.5), "the wait at the beginning was in another phase"
    assert longest_gap([replace(m, homes={"a": "x"}) for m in moments], [10.0]) is None


def test_a_series_has_a_mean_per_kind() -> None:
    points = series_of(course(), {"a": "x", "b": "y"})
    assert [point.at for point in points] == [float(at) for at in range(1, 11)]
    assert points[4].waiting == {"x": 100.0, "y": 200.0}
    assert points[9].shares == {"x": 1.0, "y": 1.2}, "of the last five seconds, from 5 to 10"


def test_sustained_is_the_highest_rate_at_which_nobody_is_late() -> None:
    climbed = told("full", stretch("1", seconds=0.5), stretch("2", seconds=5.0))
    assert sustained(climbed) == 1000.0
    busy = told("full", stretch("1"), replace(stretch("2", seconds=3.5), rate=1500.0))
    assert sustained(busy) == 1500.0, "epochs of two seconds that keep up"
    slower = told("full", stretch("1"), replace(stretch("2", share=0.8, seconds=2.0), rate=1500.0))
    assert sustained(slower) == 1000.0
    by_turns = told(
        "isolated", stretch(seconds=0.2), Stretch("high", 3000.0, 1, 1.0, {}, {"w0": 0.6, "w1": 0.4}, {})
    )
    assert capacity_alone(by_turns) == pytest.approx(5000.0)
    assert capacity_at_once(by_turns, cores=0.75) == pytest.approx(2000.0), (
        "half of the way to the rate that takes one"
    )
    assert capacity_at_once(by_turns, cores=9.0) == pytest.approx(5000.0), "the slowest is busy all the time"


def verdicts(ours: Told, alone: Told) -> dict[str, bool]:
    return {verdict.aim: verdict.met for verdict in judge_isolation({"6a": [alone, ours]})}


def test_aims_are_met_or_missed_by_what_was_seen() -> None:
    isolated = told("isolated", replace(stretch(cpu=12.0), cpus={"w0": 6.0, "w1": 6.0}), ends=[1.0])
    good = told(
        "functional",
        stretch(cpu=1.0),
        series=[Point(1.0, 1, 1.0, {}, {})],
        changes=[Change(6.0, "merged", "why", 0.4)],
        error=0.1,
        split_epochs=[1],
        gap_s=2.5,
        gap_more_s=0.5,
        looked=0.01,
    )
    assert all(verdicts(good, isolated).values())
    bad = told(
        "functional",
        stretch(cpu=13.0, share=0.1),
        series=[Point(1.0, 1, 13.0, {}, {})],
        changes=[Change(30.0, "merged", "why", 1.4)],
        error=0.3,
        split_epochs=[3],
        gap_s=2.5,
        gap_more_s=1.5,
        looked=0.03,
    )
    assert not any(verdicts(bad, isolated).values())
    twice = replace(good, case="the pulse", split_epochs=[1])
    (splits,) = (v for v in judge_isolation({"8": [twice], "11b": [twice]}) if "first split" in v.aim)
    assert "of 1 splits" in splits.seen, "two panels tell of one run"
    short = told("functional", stretch(cpu=1.9, share=0.5))
    dear = told("isolated", replace(stretch(cpu=5.0), cpus={"w0": 1.0, "w1": 4.0}))
    aims = [v.aim for v in judge_isolation({"8": [dear, short]}) if v.binds and not v.met]
    assert aims == [
        "throughput of every query in steady states, against what it would have if all ran isolated at the same time "
        "and shared the 2 cores",
        "epochs from back-pressure to the first split that answers it",
    ], "w0 would keep up with half of the cores"
    dear = told("isolated", replace(stretch(cpu=8.0), cpus={"w0": 4.0, "w1": 4.0}))
    judged = judge_isolation({"8": [dear, short]})
    assert all(v.met for v in judged if v.binds), "each would have a core"
    (told_of,) = (v for v in judged if not v.binds and "throughput" in v.aim)
    assert not told_of.met and "2 of 2 below" in told_of.seen
    assert [row[-1] for row in verdict_rows([told_of])] == ["told"], "nobody says that this was met"


def seen_of(name: str, panels: dict[str, list[Told]]) -> Verdict:
    (found,) = (v for v in judge_isolation(panels) if name in v.aim)
    return found


def test_who_is_slowed_and_never_split_off_is_a_miss() -> None:
    alone = told("isolated", replace(stretch(), cpus={"w0": 0.5, "w1": 0.5}))
    slow = told("functional", stretch(share=0.2))
    missed = seen_of("first split", {"8": [alone, slow]})
    assert (
        missed.seen
        == f"no split; runs that slowed somebody and split nobody off: 1 (8: {MANY}, steady: w0, w1)"
    )
    assert not missed.met
    answered = replace(slow, split_epochs=[1], case="other")
    missed = seen_of("first split", {"8": [alone, answered, slow]})
    assert missed.seen.startswith(
        "1 (median), 1 at most, of 1 splits; runs that slowed somebody and split nobody off: 1 "
    )
    assert not missed.met
    assert seen_of("first split", {"8": [alone, answered]}).met
    assert not [v for v in judge_isolation({"8": [alone, told("functional", stretch())]}) if "split" in v.aim]


def test_a_decision_that_never_came_into_force_is_a_miss() -> None:
    ends = [Point(20.0, 1, 1.0, {}, {})]
    waits = told("functional", stretch(), series=ends, changes=[Change(5.0, "split", "", None)] * 6)
    missed = seen_of("table I", {"8": [waits]})
    assert missed.seen == f"none known; 6 were not in force when the run ended, up to 15 s later (8: {MANY})"
    assert not missed.met
    quick = [
        Change(5.0, "split", "", 0.2),
        Change(19.5, "merged", "", None),
        Change(3.0, "violation", "", None),
    ]
    assert seen_of("table I", {"8": [replace(waits, changes=quick)]}).met


def test_errors_are_judged_for_every_workload() -> None:
    def ran(workload: str, error: float) -> Told:
        load = Load(workload, (0.1, 0.1), 12)
        return Told("functional", str(load), 12, [stretch()], error=error)

    judged = judge_isolation({"6": [ran("W1", 0.05), ran("W1", 0.06), ran("W1", 0.07), ran("W2", 0.29)]})
    assert {v.aim[-2:]: v.met for v in judged if v.aim.startswith("error")} == {"W1": True, "W2": False}


def test_runs_that_merge_nothing_are_told() -> None:
    def ran(case: str, groups: int, *merges: float) -> Told:
        changes = [Change(at, "merged", "", 0.1) for at in merges]
        settled = replace(stretch(), groups=groups)
        return told("functional", settled, changes=changes, merge_every_s=6.0, apart=True, case=case)

    some = seen_of("merge steps", {"10a": [ran("a", 1, 6.1), ran("b", 9)]})
    assert some.met
    assert some.seen.endswith(
        f"1 of 2 such runs merged, and 1 had several groups to the end and merged none (10a: {MANY})"
    )
    assert not seen_of("merge steps", {"10a": [ran("b", 9)]}).met


def test_both_comparisons_with_isolated_queries_are_told_beside_each_other() -> None:
    alone = told("isolated", replace(stretch(), cpus={"w0": 0.5, "w1": 0.5}))
    found = judge_isolation({"6b": [alone, told("functional", stretch())]})
    assert [(v.aim, v.binds) for v in found if v.aim.startswith("throughput")] == [
        (f"throughput of every query in steady states, against what it {what}", binds)
        for what, binds in (
            ("would have if all ran isolated at the same time and shared the 2 cores", True),
            ("had when it ran alone, with 2 cores for itself", False),
        )
    ]


class Bench:
    """The command over cases that are made up; it may be cut off before a case."""

    def __init__(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        @contextmanager
        def nothing() -> Iterator[None]:
            yield

        self.out, self.seen, self.measured = out, list[Case](), 0
        self.cut_off_after: int | None = None
        monkeypatch.setattr(command, "own_spark", nothing)
        monkeypatch.setattr(command, "play", self.play)
        monkeypatch.setattr(command, "measure_pulse", self.measure)
        monkeypatch.setattr(reporting, "draw_panel", lambda panel, found, path: path.touch())

    def play(self, spark: Any, case: Case, sizes: Any) -> Told:
        if len(self.seen) == self.cut_off_after:
            raise KeyboardInterrupt
        self.seen.append(case)
        made = empty(case)
        made.stretches = [stretch(phase.name, names=tuple(made.kinds)) for phase in case.course]
        return made

    def measure(self, spark: Any, sizes: Any) -> Pulse:
        self.measured += 1
        return Pulse(30_000 + self.measured, 15_000, 0.1)

    def run(self, *options: str) -> list[Case]:
        """The cases that this call of the command has made."""
        before = len(self.seen)
        fixed = ["bench", "isolation", "--quick", "--out", str(self.out), "--name", "r"]
        result = CliRunner().invoke(cli, [*fixed, *options])
        assert "The report is in" in result.output or self.cut_off_after is not None, result.output
        return self.seen[before:]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_report_is_made_in_pieces(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "draw_panel", draw_panel)
    made = [*bench.run("--figure", "7a"), *bench.run("--figure", "6b")]
    page = (bench.out / "r.md").read_text()
    assert page.index("## 6b") < page.index("## 7a")
    assert (bench.out / "r-6b.png").exists()
    assert {case.policy for case in made} == set(POLICIES)
    made = bench.run("--figure", "6b", "--figure", "7", "--resume")
    assert {case.load.selectivity for case in made} == {(0.01, 0.2)}, "7b alone was not there yet"
    assert [case.policy for case in bench.run("--figure", "7b", "--policy", "full")] == ["full"]
    found = read_panels(bench.out / "r.json")["7b"]
    assert [one.policy for one in found] == list(POLICIES), "it took the place of the older one"


@pytest.mark.parametrize("cut_off_after", [1, 3, 5, 6])
def test_a_run_that_is_cut_off_goes_on_with_what_is_left(bench: Bench, cut_off_after: int) -> None:
    wanted = ("--figure", "6b", "--figure", "8", "--resume")
    bench.cut_off_after = cut_off_after
    first = bench.run(*wanted)
    assert len(first) == cut_off_after
    assert first[0].policy == "isolated"
    bench.cut_off_after = None
    rest = bench.run(*wanted)
    assert len(first) + len(rest) == 2 * len(POLICIES)
    assert not set(first) & set(rest), "isolated queries were not run again either"
    assert bench.measured == 1, "the pulse has the rate that was measured first"
    panels = read_panels(bench.out / "r.json")
    assert {panel: [one.policy for one in found] for panel, found in panels.items()} == {
        "6b": list(POLICIES),
        "8": list(POLICIES),
    }
    assert bench.run(*wanted) == []


def test_figure_11_tells_of_runs_that_the_report_has(bench: Bench) -> None:
    bench.run("--figure", "6a", "--figure", "8")
    assert bench.run("--figure", "11") == []
    panels = read_panels(bench.out / "r.json")
    assert (panels["11a"], panels["11b"]) == (panels["6a"], panels["8"])
    assert (bench.out / "r-11a.png").exists()
    assert bench.measured == 1
    again = bench.run("--figure", "6a", "--policy", "full")
    assert {case.policy for case in again} == {"full"}
    panels = read_panels(bench.out / "r.json")
    assert panels["11a"] == panels["6a"], "runs that are made again are made again for both"
    assert len(bench.run("--figure", "11a", "--figure", "6a")) == len(panels["6a"]), (
        "what is asked for is run"
    )


def test_a_report_is_replaced_as_a_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run("--figure", "6b")
    before = (bench.out / "r.json").read_text()
    write = Path.write_text

    def half(self: Path, text: str) -> int:
        write(self, text[: len(text) // 2])
        raise SystemExit

    monkeypatch.setattr(Path, "write_text", half)
    bench.cut_off_after = -1
    bench.run("--figure", "6c")
    assert (bench.out / "r.json").read_text() == before


def test_table_i_has_a_row_for_every_operation() -> None:
    changes = [
        Change(1.0, "merged", "", 0.5),
        Change(2.0, "merged", "", 1.5),
        Change(3.0, "split", "", None),
        Change(4.0, "tasks", "", None),
        Change(5.0, "violation", "", None),
    ]
    ours = told("functional", stretch(), series=[Point(20.0, 1, 1.0, {}, {})], changes=changes, case="c")
    other = told("overlap", stretch(), changes=[Change(1.0, "merged", "", 9.0)])
    page = list(render("r", {**FACTS}, {"8": [other, ours], "9": [ours]}, {"8": "a.png", "9": "b.png"}))
    begin = page.index("## Table I: delays of reconfigurations")
    assert [line for line in page[begin:] if line.startswith("|")][2:5] == [
        "| merge | 2 | 2 | 1.00 | 1.50 | 0 |",
        "| split | 1 | 0 |  |  | 1 |",
        "| resize | 1 | 0 |  |  |  |",
    ]


def test_slowed_queries_are_told_of_figure_9_whoever_ran_and_not_of_climbs() -> None:
    isolated = told("isolated", replace(stretch("low"), cpus={"w0": 0.5, "w1": 0.5}))
    slow = told("functional", stretch("low", share=0.5))
    climb = [replace(one, climbs=True) for one in (isolated, slow)]
    found = list(violations({"7a": climb, "9": [isolated, slow]}))
    assert found == [("9", str(MANY), "low", {"functional": (2, 2, 0.5, 0)})]


def climbing() -> Case:
    return next(case for case in cases_of("7a", QUICK) if case.policy == "full")


@pytest.mark.parametrize(("share", "steps"), [(0.3, 2), (0.45, 2), (0.6, 3)])
def test_a_climb_stops_soon_after_somebody_falls_behind(share: float, steps: int) -> None:
    """Up to the second step everybody keeps up. After that the slowest query goes on at a part of that step's rate."""
    case, arrived, done = climbing(), 0.0, 0.0
    ends = [sum(phase.seconds for phase in case.course[: place + 1]) for place in range(len(case.course))]
    for at in range(round(ends[-1])):
        phase = next(phase for phase, end in zip(case.course, ends, strict=True) if at < end)
        arrived += phase.rate * case.load.part
        done = min(arrived, done + case.course[3].rate * case.load.part * (1.0 if at < ends[2] else share))
        if has_failed(case, Moment(float(at), round(arrived), {"w0": round(done)}, {}, 0.0)):
            break
    assert ends[2] < at <= ends[2] + 6 * steps


def test_a_step_of_a_climb_is_told_of_nearly_whole() -> None:
    case = climbing()
    assert [skipped_s(case, phase) for phase in case.course[:3]] == [4.5, 1.0, 1.0]
    assert [skipped_s(case, Phase(name, 20.0, 100)) for name in ("steady", "pulse")] == [0.0, 1.0]
    steady = cases_of("8", QUICK)[1]
    assert [skipped_s(steady, phase) for phase in steady.course] == [9.0, 12.0, 30.0]


def test_a_climb_is_told_as_a_multiple_of_isolated_queries_at_once() -> None:
    steps = [
        replace(stretch(str(rate), cpu=rate / 4000, seconds=rate / 9000), rate=rate)
        for rate in (1000.0, 4000.0)
    ]
    alone, full = (
        told("isolated", *steps, climbs=True, course="from a lower rate"),
        told("full", stretch(), climbs=True, course="x"),
    )
    page = list(render("r", {**FACTS}, {"7a": [alone, full]}, {"7a": "a.png"}))
    assert "| 128 | isolated, all at once | 8,000 | 1.00 times |" in page
    assert "| 128 | full | 1,000 | 0.12 times |" in page


def pulsed() -> tuple[Told, list[Point]]:
    """Queries alone that take 4 cores for 10 s and then 0.2, and a run that works off what waits until second 15."""
    pulse, after = (
        replace(stretch(p), cpus={"w0": 0.1, "w1": c}) for p, c in (("pulse", 3.9), ("after", 0.1))
    )
    seen = [
        Point(float(at), 1, 2.0 if at <= 15 else 0.15, {}, {"x": 9000.0 if at <= 15 else 500.0})
        for at in range(1, 41)
    ]
    return told("isolated", pulse, after, ends=[10.0, 40.0]), seen


def judged_cpu(series: list[Point]) -> list[Verdict]:
    ours = told("functional", stretch("pulse", cpu=1.9), stretch("after", cpu=0.15), series=series)
    found = judge_isolation({"8": [pulsed()[0], replace(ours, ends=[10.0, 40.0])]})
    return [v for v in found if v.aim.startswith("CPU seconds of functional")]


def test_cpu_is_compared_with_that_of_isolated_queries_on_the_same_cores() -> None:
    _, seen = pulsed()
    so_far, quiet, anyhow, phases = judged_cpu(seen)
    assert so_far.met and so_far.binds, "isolated queries work off theirs until second 21"
    assert quiet.met and quiet.binds
    assert not anyhow.binds and not phases.binds
    soon_busy = [*seen[:15], *(replace(point, cpu=2.0) for point in seen[15:])]
    so_far, quiet, *_ = judged_cpu(soon_busy)
    assert not so_far.met, "isolated queries have done everything by then"
    assert quiet.seen.startswith("10.00 times at most"), "from second 22 on nobody has anything that waits"
    assert not quiet.met
    waits = [replace(point, waiting={"x": 9000.0}) for point in soon_busy]
    assert [v.binds for v in judged_cpu(waits)] == [True, False, False], "no window is quiet"


def test_growth_of_queues_is_that_of_isolated_queries_on_the_same_cores() -> None:
    alone, _ = pulsed()
    assert kind_growth(replace(alone, kinds={"w0": "x", "w1": "y"}), "x") == 0.0
    assert kind_growth(replace(alone, kinds={"w0": "x", "w1": "y"}), "y") == pytest.approx(
        1000 * (1 - 1.9 / 3.9)
    )


def test_runs_are_compared_with_isolated_ones_of_the_same_rates_only() -> None:
    other = told("isolated", stretch(cpu=0.1), course="at another rate")
    same = told("isolated", stretch(cpu=9.0), course="this")
    ours = told("functional", stretch(cpu=1.0), course="this")
    assert [v for v in judge_isolation({"6b": [other, ours]}) if "CPU" in v.aim] == []
    (found,) = (v for v in judge_isolation({"6b": [other, same, ours]}) if "CPU" in v.aim)
    assert found.seen.startswith("0.11 times")


@pytest.mark.parametrize("panel", ["10a", "10b", "10c"])
def test_where_merging_is_told_of_queries_begin_isolated(panel: str) -> None:
    for case in cases_of(panel, QUICK):
        assert case.apart
        assert case.course[0].seconds >= 3 * case.merge_every_s


def test_merge_steps_are_told_of_runs_in_which_there_is_something_to_merge() -> None:
    ours = told("functional", stretch(), changes=[Change(13.0, "merged", "", 0.1)], merge_every_s=6.0)
    assert [v for v in judge_isolation({"6a": [ours]}) if "merge steps" in v.aim] == []
    (found,) = (v for v in judge_isolation({"10a": [replace(ours, apart=True)]}) if "merge steps" in v.aim)
    assert found.met
    late = replace(ours, apart=True, changes=[Change(19.0, "merged", "", 0.1)])
    (found,) = (v for v in judge_isolation({"10a": [late]}) if "merge steps" in v.aim)
    assert not found.met


def test_another_policy_decides_for_queries_that_began_isolated() -> None:
    conductor = Conductor(cast(Any, None), cast(Any, None), Policy.ISOLATED)
    switch(conductor, "functional")
    assert conductor.info().policy == Policy.FUNCTIONAL.value
    assert isinstance(conductor._grouper, FunctionalIsolation)


def test_a_climb_of_isolated_queries_ends_when_the_slowest_is_always_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int]] = []

    def measure(spark: Any, case: Case, phase: Phase, sizes: Any, names: list[str]) -> Stretch:
        asked.append((phase.rate, len(names)))
        busy = {name: (phase.rate / 20_000) ** 2 * (1 + place / 100) for place, name in enumerate(names)}
        none = dict.fromkeys(names, 0.0)
        return Stretch(phase.name, phase.rate, len(names), sum(busy.values()), none, busy, none, busy=busy)

    monkeypatch.setattr(alone, "measure_alone", measure)
    (case,) = (c for c in cases_of("7a", QUICK) if c.policy == "isolated")
    ran = alone.run_alone(None, case, QUICK)
    assert [rate for rate, _ in asked] == [1000, 8000, 12000, 18000, 27000], "not up to 60,750"
    assert [count for _, count in asked] == [12, 12, 4, 4, 4], (
        "the slowest, once all are too much for the cores"
    )
    assert 18_000 < capacity_alone(ran) < 20_000
    assert capacity_at_once(ran) == pytest.approx(7910, abs=1)


def test_the_other_policies_violations_are_told_beside_ours() -> None:
    isolated = told("isolated", replace(stretch(cpu=1.0), cpus={"w0": 0.5, "w1": 0.5}))
    found = [isolated, told("full", stretch(share=0.5)), told("functional", stretch())]
    page = "\n".join(render("r", {**FACTS}, {"6a": found}, {"6a": "r.png"}))
    assert f"| 6a | {MANY} | steady | 2 of 2, 50% |  |  | 0 of 2 |" in page
    assert "| 128 | full | steady | 50% | 50% | 50% | 50% | 50% | w0 50%, w1 50% |" in page


def test_rates_that_were_measured_anew_do_not_stand_beside_older_ones() -> None:
    def of(rate: int) -> list[Told]:
        return [empty(case) for case in cases_of("8", replace(QUICK, pulse_rate=rate))]

    kept = [empty(case) for case in cases_of("6b", QUICK)]
    panels = {"6b": list(kept), "8": of(20_000), "11b": of(20_000)}
    assert command.drop_others(panels, ("8",), replace(QUICK, pulse_rate=30_000)) == 10
    assert panels == {"6b": kept}
    panels = {"8": of(20_000)}
    assert command.drop_others(panels, ("8",), replace(QUICK, pulse_rate=20_000)) == 0


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
