"""A campaign's trials, the check of rows, and the report: no system is run here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headrace_bench.aims import Verdict, judge
from headrace_bench.campaign import CURVES, campaign
from headrace_bench.report import read_report, render, render_again, write_report
from headrace_bench.run import Finished, differences, left_out
from headrace_bench.trial import Outcome, Probe, Trial, feed
from headrace_bench.workload import Workload

REPORTS = Path(__file__).parents[2] / "bench" / "reports"
SINCE = "2026-11-19"
"""Pages of runs before this day stay as they were rendered then."""

BASE = Trial("headrace", 1, rows=1_000, files=2)
FACTS = {
    "command": "headrace bench",
    "seconds": 12.3,
    "seed": 1,
    "started": "2026-01-01T00:00:00+00:00",
    "versions": {"spark": "4.3.0"},
    "machine": {
        "cores": 2,
        "processor": "a processor",
        "memory_gb": 24,
        "system": "Linux",
        "python": "3.11",
        "load": [0.1, 0.1, 0.1],
    },
}


def outcome(
    system: str, queries: int, seconds: float, rows: list[tuple[int, int, float]] | None = None
) -> Outcome:
    trial = replace(BASE, system=system, queries=queries)
    sample = {0: [(10, 1, 2.0)] if rows is None else rows}
    return Outcome(
        trial, seconds, sample=sample, peak_mb={"driver": 100.0}, phases_s={"map": 1.0, "reduce": 2.0}
    )


def test_a_campaign_measures_headrace_wherever_it_measures_others() -> None:
    comparison, probes, *curves = campaign(BASE, ("headrace", "spark", "fused"), ("keys", "skew"), False, 4)
    by_system = {
        name: [t.queries for t in comparison.trials if t.system == name]
        for name in ("headrace", "spark", "fused")
    }
    assert {*by_system["spark"], *by_system["fused"]} <= set(by_system["headrace"])
    assert by_system["spark"] == [1, 4, 16] and 1_000 in by_system["headrace"]
    assert probes.trials[0].probes == 4
    assert [section.name for section in curves] == ["keys", "skew"]
    assert [trial.keys for trial in curves[0].trials] == list(CURVES[1].values)
    assert all(trial.skew == 0 for trial in curves[0].trials)


def test_a_quick_campaign_is_short() -> None:
    sections = list(campaign(BASE, ("headrace", "spark", "fused"), (), True, 1))
    assert sum(len(section.trials) for section in sections) <= 9


def test_joins_are_measured_when_asked_for() -> None:
    systems, kinds = ("headrace", "spark", "fused"), (Workload.JOIN, Workload.COMPLEX)
    join, complex_queries = campaign(BASE, systems, (), False, 4, kinds)
    assert (join.name, complex_queries.name) == ("join", "complex")
    assert {trial.workload for trial in join.trials} == {Workload.JOIN}
    ours = {trial.queries for trial in join.trials if trial.system == "headrace"}
    assert {trial.queries for trial in join.trials} <= ours and {1, 100} <= ours
    assert len({replace(trial, system="", queries=1) for trial in join.trials}) == 1, "the same files for all"
    assert [section.name for section in campaign(BASE, systems, (), False, 0)] == ["comparison"]


def test_figures_of_other_rows_are_taken_back() -> None:
    same = outcome("spark", 4, 2.0, [(10, 1, 2.0 + 1e-13)])
    other = outcome("fused", 4, 2.0, [(10, 1, 2.5)])
    unlike = outcome("spark", 16, 2.0, [(10, 1, 7.0)])
    found = list(differences([outcome("headrace", 4, 1.0), same, other, unlike]))
    assert len(found) == 1 and "fused lacks 1 rows of headrace" in found[0]
    assert other.failure == "its rows differ from those of headrace"
    assert same.failure is None and unlike.failure is None


def test_rows_of_windows_that_a_system_leaves_open_are_not_compared_and_that_is_said() -> None:
    ours = outcome("headrace", 4, 1.0, [(10, 1, 2.0), (20, 1, 3.0)])
    theirs = outcome("spark", 4, 1.0, [(10, 1, 2.0)])
    assert len(list(differences([ours, theirs]))) == 1
    theirs = replace(theirs, failure=None, closed_us={0: 15})
    assert list(differences([ours, theirs])) == []
    (said,) = left_out([ours, theirs])
    assert "query 0 of 4: spark" in said and "1 of 2 rows" in said
    wrong = replace(theirs, sample={0: [(10, 1, 2.5)]})
    assert len(list(differences([ours, wrong]))) == 1
    assert list(left_out([ours, replace(theirs, closed_us={0: 20})])) == []


def test_a_report_names_ratios_failures_and_differences(tmp_path: Path) -> None:
    outcomes = [outcome("headrace", n, s) for n, s in ((1, 1.0), (4, 1.0), (100, 2.0))]
    outcomes += [
        outcome("spark", 1, 1.0),
        outcome("spark", 4, 4.0),
        Outcome(replace(BASE, system="fused", queries=16), failure="too slow"),
    ]
    probes = [
        Probe(1_000, 10, sustained=True, latencies={"p50": 0.5}, ages=[(0.0, 0.1), (1.0, 0.2)]),
        Probe(2_000, ages=[(0.0, 1.0), (1.0, 3.0)]),
    ]
    sustained = outcome("headrace", 1_000, 1.0)
    sustained.probes, sustained.half = probes, probes[0]
    sections = list(campaign(BASE, ("headrace", "spark", "fused"), ("skew",), False, 2))
    curve = [replace_trial(outcome("headrace", 100, 1.0), skew) for skew in (0.0, 1.0)]
    finished = [
        Finished(sections[0], outcomes, ["query 0 of 16: ..."]),
        Finished(sections[1], [sustained]),
        Finished(sections[2], curve),
    ]
    page = write_report(tmp_path, "run", FACTS, finished)
    text = page.read_text()
    assert "| Headrace | 100 | 1,000 | 100,000 |" in text
    assert "(at 1 queries): 50 times" in text
    assert "plain Spark with one query: 1.0 times" in text
    assert "too slow" in text and "**Rows differ:** query 0 of 16" in text
    assert "**1,000 events/s**" in text
    for plot in ("comparison", "phases", "ages", "skew"):
        assert (tmp_path / f"run-{plot}.png").stat().st_size > 1_000
        assert f"(run-{plot}.png)" in text
    facts, again = read_report(tmp_path / "run.json")
    plots = {"sustainable": "run-ages.png", "skew": "run-skew.png"}
    plots |= {"comparison": "run-comparison.png", "comparison-phases": "run-phases.png"}
    assert render("run", facts, again, plots) == text
    assert render_again(tmp_path / "run.json") == text


def committed_pages() -> list[str]:
    """The names of pages of `headrace bench` itself."""
    found = (path for path in REPORTS.glob("*.json") if path.stem >= SINCE)
    return sorted(path.stem for path in found if "sections" in json.loads(path.read_text()))


@pytest.mark.parametrize("name", committed_pages())
def test_committed_pages_are_what_their_figures_say(name: str) -> None:
    """After a change of the text of pages, `python -m headrace_bench.report` renders them again."""
    path = REPORTS / f"{name}.json"
    assert render_again(path) == path.with_suffix(".md").read_text()


def replace_trial(found: Outcome, skew: float) -> Outcome:
    found.trial = replace(found.trial, skew=skew)
    return found


def test_a_trial_draws_the_same_queries_and_tuples_for_everybody() -> None:
    mine, theirs = replace(BASE, queries=20), replace(BASE, queries=20, system="spark")
    assert mine.drawn() == theirs.drawn()
    assert mine.table(1).equals(theirs.table(1))
    assert mine.sampled() == [0, 4, 8, 12, 16]
    assert mine.last_closed_us() == int(mine.table(3)["ts"][-1].value)


def test_trials_share_files_of_the_same_tuples_only(tmp_path: Path) -> None:
    small = replace(BASE, rows=10, files=1, warm_up=1)
    first = small.write_files(tmp_path)
    assert replace(small, system="spark", queries=9).write_files(tmp_path) == first
    for other in (replace(small, rows=20), replace(small, skew=1.0), replace(small, keys=3)):
        assert not {*flat(other.write_files(tmp_path))} & {*flat(first)}


def flat(files: list[list[Path]]) -> list[Path]:
    return [path for paths in files for path in paths]


def test_a_join_s_trial_has_a_file_of_every_stream_at_a_time(tmp_path: Path) -> None:
    trial = replace(BASE, workload=Workload.JOIN, queries=7, rows=100, files=1, warm_up=1, keys=10)
    assert trial.streams == ("a", "b") and trial.fed == 200
    files = trial.write_files(tmp_path / "data")
    assert [[path.parent.name for path in paths] for paths in files] == [["a", "b"]] * 2
    left, right = trial.table(0, "a"), trial.table(0, "b")
    assert left["key"].equals(right["key"]) and not left["field1"].equals(right["field1"])
    feed(files, tmp_path / "feed")
    assert sorted(str(path.relative_to(tmp_path / "feed")) for path in (tmp_path / "feed").glob("*/*")) == [
        *("a/000000.parquet", "a/000001.parquet", "b/000000.parquet", "b/000001.parquet")
    ]


def test_a_complex_trial_feeds_the_streams_that_are_read() -> None:
    trials = [replace(BASE, workload=Workload.COMPLEX, queries=n, seed=1) for n in (1, 100)]
    assert trials[1].streams == ("a", "b", "c", "d", "e", "f")
    assert trials[0].streams == trials[0].drawn()[0].streams


def test_joined_rows_are_compared_for_some_keys() -> None:
    many = replace(BASE, workload=Workload.JOIN, keys=60_000)
    assert sum(map(many.compares, range(60_000))) == 1_000
    assert all(map(replace(many, keys=10).compares, range(10)))
    assert all(map(replace(many, workload=Workload.AGGREGATION).compares, range(100)))


@pytest.mark.parametrize("queries", [1, 3])
def test_few_queries_are_all_sampled(queries: int) -> None:
    assert replace(BASE, queries=queries).sampled() == list(range(queries))


def test_aims_say_what_was_missed_and_why() -> None:
    ours = [replace(outcome("headrace", n, 1.0), result_rows=8_000, cpu_s=2.0) for n in (1, 1_000)]
    theirs = [outcome("spark", 1, 2.0), outcome("spark", 4, 40.0), outcome("fused", 100, 20.0)]
    comparison, probes, *_ = campaign(BASE, ("headrace",), (), False, 4)
    live = replace(
        outcome("headrace", 1_000, 1.0),
        half=Probe(500, latencies={"p50": 2.0}),
        burst=Probe(500, requests=1_000, deployments={"max": 1.5}),
    )
    verdicts = judge([Finished(comparison, [*ours, *theirs]), Finished(probes, [live])])
    assert [(v.seen, v.met) for v in verdicts] == [
        ("2,000 times", True),
        ("200 times", True),
        ("1.00 times", True),
        ("2.00 times", True),
        ("1.5 s", True),
        ("2.00 s", False),
    ]
    slow = Outcome(replace(BASE, system="flink", queries=100, limit_s=100.0), failure="TooSlow: 1 of 2,000")
    (late,) = judge([Finished(comparison, [ours[1], slow])])
    assert late.met and late.seen == "more than 1,000 times: it did not finish"
    missed = judge([Finished(comparison, [ours[1], outcome("spark", 16, 0.1)])])
    assert [(v.seen, v.met) for v in missed] == [("6 times", False)]
    assert "96.0 times short" in missed[0].why and "2.0 result rows" in missed[0].why
    ours[1].tasks_s = {"reading": 0.1, "matching": 0.1, "closing": 0.3, "writing": 0.5}
    (missed_by,) = judge([Finished(comparison, [ours[1], outcome("spark", 16, 0.1)])])
    assert missed_by.why.endswith("writing them is 40 % of it.")
    page = render("run", FACTS, [Finished(comparison, [ours[1], outcome("spark", 16, 0.1)])], {})
    assert "missed: 96.0 times short" in page


def test_aims_compare_growth_with_result_rows() -> None:
    _, _, keys = campaign(BASE, ("headrace",), ("keys",), False, 4)
    found = [
        Outcome(trial, 1.0, result_rows=rows, cpu_s=cpu)
        for trial, rows, cpu in zip(keys.trials, (10, 100), (1.0, 4.0), strict=False)
    ]
    (verdict,) = judge([Finished(keys, found)])
    assert verdict.met and verdict.seen == "4.0 times" and "10.0 times" in verdict.wanted


def test_joins_have_a_section_and_aims_of_their_own(tmp_path: Path) -> None:
    (section,) = campaign(BASE, ("headrace", "spark", "fused"), (), False, 0, (Workload.JOIN,))
    seconds = {"headrace": {1: 1.0, 100: 2.0}, "spark": {1: 2.0, 16: 80.0}, "fused": {100: 8.0}}
    found = [
        Outcome(
            trial,
            seconds[trial.system][trial.queries],
            cpu_s=5.0 if trial.queries == 100 else 1.0,
            result_rows=trial.queries,
        )
        for trial in section.trials
        if trial.queries in seconds[trial.system]
    ]
    verdicts = judge([Finished(section, found)])
    assert [(v.seen, v.met) for v in verdicts] == [
        ("100 times", True),
        ("4 times", False),
        ("5.0 times", False),
    ]
    assert verdicts[0].aim.startswith("overall throughput at 100 join queries against a streaming query each")
    assert "result rows grow 100 times" in verdicts[2].why
    page = write_report(tmp_path, "run", FACTS, [Finished(section, found)]).read_text()
    assert "## Joins" in page and "so that a key comes back every 3 s" in page and "(run-join.png)" in page
    facts, again = read_report(tmp_path / "run.json")
    assert render("run", facts, again, {"join": "run-join.png"}) == page


def test_a_system_that_did_not_finish_its_joins_counts_as_slow_as_its_time() -> None:
    (section,) = campaign(BASE, ("headrace", "fused"), (), False, 0, (Workload.JOIN,))
    ours = next(t for t in section.trials if t.system == "headrace" and t.queries == 100)
    slow = Outcome(replace(ours, system="fused", limit_s=100.0), failure="TooSlow: 1 of 2,000")
    verdicts = judge([Finished(section, [Outcome(ours, 1.0, result_rows=1), slow])])
    assert [v.seen for v in verdicts] == ["more than 100 times: it did not finish"]


def test_predicates_are_judged_by_their_conjuncts_and_against_what_is_written_by_hand() -> None:
    section, rare = campaign(BASE, ("headrace", "spark", "fused"), (), False, 0, (Workload.PREDICATES,))
    shown = {(t.system, t.queries, t.columns) for t in section.trials}
    assert {("headrace", 10_000, 3), ("headrace", 1_000, 1), ("fused", 100, 3), ("spark", 16, 3)} <= shown
    seconds = {("headrace", 1_000, 1): 1.0, ("headrace", 1_000, 3): 5.0, ("fused", 100, 3): 2.0}
    outcomes = [
        Outcome(trial, seconds.get((trial.system, trial.queries, trial.columns), 3.0), cpu_s=1.0)
        for trial in section.trials
    ]
    finished = [Finished(section, outcomes)]
    assert [(v.seen, v.met) for v in judge(finished)] == [
        ("0.20 times", False),
        ("4 times", False),
        ("750 times", True),
    ]
    page = render("x", FACTS, finished, {})
    assert "## Predicates as people write them" in page
    assert "| 5 | Headrace | 1,000 |" in page
    costs = {(10, 10): 1.0, (100, 10): 1.0, (1_000, 10): 1.2, (10_000, 10): 1.6, (100, 1_000): 1.25}
    counts = {(100, 10): 10, (10_000, 10): 530, (100, 1_000): 530}
    known = [
        Outcome(
            t,
            3.0,
            cpu_s=costs[t.queries, t.keys],
            result_rows=counts.get((t.queries, t.keys), 0),
            matches=9,
            bytes_read=9,
            bytes_written=9,
        )
        for t in rare.trials
    ]
    assert [(v.seen, v.met, v.binds) for v in judge([Finished(rare, known)])] == [
        ("1.28 times, with 1.0 times the result rows", True, True),
        ("1.60 times, with 53.0 times the result rows", False, True),
    ]
    page = render("x", FACTS, [Finished(rare, known)], {})
    assert "## Rare predicates" in page and "| 1,000 | Headrace | 100 |" in page


def test_streaming_queries_are_compared_at_one_conjunct_too() -> None:
    section, _ = campaign(BASE, ("headrace", "spark"), (), False, 0, (Workload.PREDICATES,))
    seconds = {("headrace", 1_000): 1.0, ("spark", 1): 2.0, ("spark", 4): 4.0}
    outcomes = [
        Outcome(t, seconds[t.system, t.queries], cpu_s=1.0)
        for t in section.trials
        if t.columns == 1 and (t.system, t.queries) in seconds
    ]
    assert [(v.wanted, v.seen, v.met) for v in judge([Finished(section, outcomes)])] == [
        ("600 times", "1,000 times", True)
    ]


def test_an_epoch_of_many_queries_is_judged_at_the_size_that_the_aim_has() -> None:
    base = replace(BASE, rows=500_000)
    (section, *_) = campaign(base, ("headrace",), (), False, 0)

    def seen(*sizes: int) -> Verdict:
        """One query took a second per epoch, and many took three, but their overall time was 2.5 times as long."""
        found = [
            Outcome(
                replace(base, queries=queries), overall, result_rows=1, epochs=[(rows, s) for rows in sizes]
            )
            for queries, overall, s in ((1, 1.0, 1.0), (1_000, 2.5, 3.0))
        ]
        (verdict,) = (v for v in judge([Finished(section, found)]) if "against one query" in v.aim)
        return verdict

    judged = seen(500_000, 500_000, 500_000, 1_000_000)
    assert judged.binds and not judged.met and judged.seen == "3.00 times" and "500,000 events" in judged.aim
    for told, size in (
        (seen(500_000, 500_000, 1_000_000), "epochs of 500,000 to 1,000,000 events"),
        (seen(1_000_000, 1_000_000, 1_000_000), "epochs of 1,000,000 events"),
        (seen(), "epochs of unknown size"),
    ):
        assert not told.binds and told.seen == "2.50 times" and told.aim.endswith(f"query, in {size}")


def curves_of(*names: str) -> list[Finished]:
    """Curves at whose settings a worker took 900 MB."""
    _, _, *sections = campaign(BASE, ("headrace",), names, False, 4)
    return [
        Finished(
            section,
            [Outcome(t, 1.0, result_rows=9, cpu_s=1.0, peak_mb={"worker": 900}) for t in section.trials],
        )
        for section in sections
    ]


def memory_of(finished: list[Finished]) -> Verdict:
    (verdict,) = (v for v in judge(finished) if v.aim.startswith("memory"))
    return verdict


def test_workers_are_judged_at_every_setting_of_the_curves() -> None:
    curves = curves_of("keys", "columns", "density")
    assert memory_of(curves).met and memory_of(curves).binds
    curves[0].outcomes[1].peak_mb = {"worker": 2_100}
    assert not memory_of(curves).met and "2,100 MB at most" in memory_of(curves).seen
    curves[0].outcomes[1] = Outcome(curves[0].outcomes[1].trial, failure="it ended with code 1")
    assert not memory_of(curves).met and "1 of 15 settings did not end" in memory_of(curves).seen


def test_memory_that_was_seen_at_some_curves_is_told_and_not_met() -> None:
    verdict = memory_of(curves_of("keys", "density"))
    assert not verdict.met and not verdict.binds
    assert verdict.seen.startswith("not seen: this run lacks curves over columns. 900 MB at most")
    every = curves_of("keys", "columns", "density")
    every[2].outcomes[3] = Outcome(every[2].outcomes[3].trial, failure="left out: this run's time was over")
    assert memory_of(every).seen.startswith("not seen: this run lacks curves over density")
