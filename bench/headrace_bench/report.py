"""A run as one JSON file, a Markdown page with tables, and plots.

`python -m headrace_bench.report NAME.json` writes the page of a JSON file anew. The plots stay.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace_bench.aims import judge
from headrace_bench.campaign import Curve, Section
from headrace_bench.limits import limits
from headrace_bench.pages import VERDICTS, head, table, verdict_rows
from headrace_bench.plots import NAMES, draw
from headrace_bench.run import Finished
from headrace_bench.trial import Outcome, Probe, Trial
from headrace_bench.workload import Workload

VERSION = 1

COMPARED = (
    "system",
    "queries",
    "events/s",
    "overall/s",
    "CPU s",
    "MB read",
    "MB shuffled",
    "MB written",
    "result rows",
    "peak MB",
    "deployed in s",
)
PROBED = (
    "",
    "events/s",
    "latency p50 s",
    "p95",
    "max",
    "age grows s/s",
    "requests acknowledged",
    "deployed p50 s",
    "max",
)
ALONE = (
    "events/s",
    "overall/s",
    "result rows/s",
    "CPU s per M events",
    "MB shuffled",
    "MB written",
    "worker MB",
    "latency p50 s",
    "p95",
)


def write_report(folder: Path, name: str, facts: dict[str, Any], finished: Sequence[Finished]) -> Path:
    """Write NAME.json, NAME.md and the plots; the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(to_json(facts, finished)) + "\n")
    plots = draw(folder, name, finished)
    page = folder / f"{name}.md"
    page.write_text(render(name, facts, finished, plots))
    return page


def to_json(facts: dict[str, Any], finished: Sequence[Finished]) -> dict[str, Any]:
    """Everything but the sampled rows, which have been compared."""
    sections = []
    for one in finished:
        outcomes = [asdict(outcome) | {"sample": {}} for outcome in one.outcomes]
        curve = asdict(one.section.curve) if one.section.curve else None
        sections.append(
            {
                "left_out": one.left_out,
                "name": one.section.name,
                "curve": curve,
                "outcomes": outcomes,
                "differences": one.differences,
            }
        )
    return {"version": VERSION, **facts, "sections": sections}


def read_report(path: Path) -> tuple[dict[str, Any], list[Finished]]:
    """A report's JSON again, to render it anew."""
    found = json.loads(path.read_text())
    finished = []
    for section in found.pop("sections"):
        outcomes = [Outcome.of(outcome) for outcome in section["outcomes"]]
        curve = section["curve"] and Curve(**section["curve"] | {"values": tuple(section["curve"]["values"])})
        trials = tuple(outcome.trial for outcome in outcomes)
        texts = (section["differences"], section.get("left_out", []))
        finished.append(Finished(Section(section["name"], trials, curve), outcomes, *texts))
    return found, finished


def render_again(path: Path) -> str:
    """The page of a report's JSON, with the plots that lie beside it."""
    facts, finished = read_report(path)
    files = {"comparison-phases": "phases", "sustainable": "ages"}
    sections = (s for one in finished for s in (one.section.name, f"{one.section.name}-phases"))
    named = {section: f"{path.stem}-{files.get(section, section)}.png" for section in sections}
    plots = {section: plot for section, plot in named.items() if path.with_name(plot).exists()}
    return render(path.stem, facts, finished, plots)


# the page


def render(name: str, facts: dict[str, Any], finished: Sequence[Finished], plots: dict[str, str]) -> str:
    sections = [line for one in finished for line in _section(one, plots)]
    return "\n".join([*head(name, facts), *_aims(finished), *sections]) + "\n"


def _aims(finished: Sequence[Finished]) -> Iterator[str]:
    verdicts = judge(finished)
    if not verdicts:
        return
    yield "## Aims"
    yield ""
    yield from table(VERDICTS, verdict_rows(verdicts))


def is_ours(outcome: Outcome) -> bool:
    return outcome.trial.system == "headrace" and not outcome.failure


def _section(one: Finished, plots: dict[str, str]) -> Iterator[str]:
    match one.section.name:
        case "comparison":
            yield from _comparison(one)
            if probed := [outcome for outcome in one.outcomes if outcome.probes]:
                yield from _sustainable(probed)
        case "sustainable":
            yield from _sustainable(one.outcomes)
        case Workload.JOIN | Workload.COMPLEX:
            yield from _joins(one)
        case Workload.PREDICATES:
            yield from _predicates(one)
        case Workload.RARE:
            yield from _rare(one)
        case _:
            yield from _curve(one)
    for text in one.left_out:
        yield f"**Not compared:** {text}"
        yield ""
    for text in one.differences:
        yield f"**Rows differ:** {text}"
        yield ""
    for plot in (plots.get(one.section.name), plots.get(f"{one.section.name}-phases")):
        if plot:
            yield f"![{one.section.name}]({plot})"
            yield ""


def _comparison(one: Finished) -> Iterator[str]:
    first = one.outcomes[0].trial
    yield "## The same files, the same rows"
    yield ""
    yield (
        f"AStream's tuples, {first.keys:,} keys, {first.rate:,} events per second of event time, windows of 1 to "
        f"{first.window_max_s} s, one random predicate and aggregate per query. {first.warm_up} files of "
        f"{first.rows:,} tuples warm every system up, then {first.files} are there at once. The rows of {first.sample} "
        "queries were compared between all systems that ran the same queries."
    )
    yield ""
    yield from table(
        COMPARED,
        (_row(outcome) for outcome in one.outcomes),
    )
    yield from _ratios(one.outcomes)


JOINED = {
    Workload.JOIN: (
        "Joins",
        "AStream's figure 7: two streams joined on their key in one window, a random predicate on each side.",
    ),
    Workload.COMPLEX: (
        "Complex queries",
        "AStream's section 4.7: two to six streams under a predicate each, joined on their key in one window, and a "
        "sum per key and window of what is joined.",
    ),
}


def _joins(one: Finished) -> Iterator[str]:
    first = one.outcomes[0].trial
    title, about = JOINED[first.workload]
    yield f"## {title}"
    yield ""
    yield (
        f"{about} {first.rate:,} events per second of event time in each stream, {first.keys:,} keys, so that a key "
        f"comes back every {first.keys / first.rate:g} s; windows of 1 to {first.window_max_s} s. Each stream has "
        f"files of {first.rows:,} tuples: {first.warm_up} to warm up with, then {first.files} at once. Events are those"
        f" of all streams. The rows of {first.sample} queries were compared."
    )
    yield ""
    yield from table(COMPARED, (_row(outcome) for outcome in one.outcomes))
    yield from _ratios(one.outcomes)


def _predicates(one: Finished) -> Iterator[str]:
    first = one.outcomes[0].trial
    yield "## Predicates as people write them"
    yield ""
    yield (
        "Conjunctions over five columns, three of them strings: equality with one of 5, 40 or 10,000 values, IN, "
        f"ranges, prefixes, OR; {first.keys:,} keys, windows of 1 to {first.window_max_s} s. {first.warm_up} files of "
        f"{first.rows:,} tuples warm every system up, then {first.files} are there at once. The rows of {first.sample} "
        "queries were compared between all systems that ran the same queries."
    )
    yield ""
    yield from table(("conjuncts", *COMPARED), ((f"{o.trial.columns}", *_row(o)) for o in one.outcomes))
    yield from _ratios([o for o in one.outcomes if o.trial.columns == first.columns])
    yield from limits([o for o in one.outcomes if is_ours(o)])


def _rare(one: Finished) -> Iterator[str]:
    first = one.outcomes[0].trial
    yield "## Rare predicates"
    yield ""
    yield (
        "Each query is for one product and half of the prices, and there are as many products as queries: a tuple "
        f"matches one query or none, whatever their number. Windows of 1 to {first.window_max_s} s. {first.warm_up} "
        f"files of {first.rows:,} tuples warm the system up, then {first.files} are there at once."
    )
    yield ""
    yield from table(("keys", *COMPARED), ((f"{o.trial.keys:,}", *_row(o)) for o in one.outcomes))
    yield from limits([o for o in one.outcomes if is_ours(o)])


def _row(outcome: Outcome) -> tuple[str, ...]:
    trial = outcome.trial
    if outcome.failure:
        return (NAMES[trial.system], f"{trial.queries:,}", outcome.failure, *[""] * (len(COMPARED) - 3))
    moved = (outcome.bytes_read, outcome.bytes_shuffled, outcome.bytes_written)
    return (
        NAMES[trial.system],
        f"{trial.queries:,}",
        f"{outcome.throughput:,.0f}",
        f"{outcome.overall:,.0f}",
        f"{outcome.cpu_s:,.1f}",
        *("" if size is None else f"{size / 2**20:,.0f}" for size in moved),
        f"{outcome.result_rows:,}",
        ", ".join(f"{kind} {size:,.0f}" for kind, size in sorted(outcome.peak_mb.items())),
        f"{outcome.deploy_s:.1f}",
    )


def _ratios(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What the comparison was made for, against the aims where there are some."""
    good = [outcome for outcome in outcomes if not outcome.failure]
    most = max((o for o in good if o.trial.system == "headrace"), key=lambda o: o.trial.queries, default=None)
    if most is None or all(o.trial.system == "headrace" for o in good):
        return
    yield f"Overall throughput of Headrace at {most.trial.queries:,} queries against the best of:"
    yield ""
    for system in ("spark", "fused", "flink"):
        found = [o for o in good if o.trial.system == system]
        if found:
            best = max(found, key=lambda o: o.overall)
            yield (
                f"* {NAMES[system]} (at {best.trial.queries:,} queries): {most.overall / best.overall:,.0f} times; "
                f"at the same {best.trial.queries:,} queries: {_same(good, best)}"
            )
    alone = {o.trial.system: o.throughput for o in good if o.trial.queries == 1}
    if "headrace" in alone and "spark" in alone:
        yield f"* plain Spark with one query: {alone['headrace'] / alone['spark']:.1f} times with one query too"
    yield ""


def _same(outcomes: Sequence[Outcome], best: Outcome) -> str:
    ours = [o for o in outcomes if o.trial.system == "headrace" and o.trial.queries == best.trial.queries]
    return f"{ours[0].overall / best.overall:,.1f} times" if ours else "not measured"


def _sustainable(outcomes: Sequence[Outcome]) -> Iterator[str]:
    outcome = outcomes[0]
    yield f"## What {outcome.trial.queries:,} queries sustain"
    yield ""
    if outcome.failure:
        yield f"No figures: {outcome.failure}."
        yield ""
        return
    yield (
        "Tuples come at a fixed rate and wait in a queue until those before them are acknowledged; a rate is sustained "
        f"when the age of the oldest tuple without results does not keep growing over {outcome.trial.probe_s:.0f} s."
    )
    yield ""
    probes = [("sustained" if p.sustained else "not sustained", p) for p in outcome.probes]
    named: tuple[tuple[str, Probe | None], ...] = (
        ("half the sustainable rate", outcome.half),
        ("20 queries come and go every 2 s (SC2)", outcome.churn),
    )
    named += (("1,000 queries more at once (burst)", outcome.burst),)
    named += tuple((f"from 1 query, {o.trial.ramp} more every second (SC1)", o.ramp) for o in outcomes)
    probes += [(text, probe) for text, probe in named if probe is not None]
    yield from table(
        PROBED,
        (_probe_row(text, probe) for text, probe in probes),
    )
    yield f"Highest rate that was sustained: **{outcome.sustainable:,} events/s**."
    yield ""


def _probe_row(text: str, probe: Probe) -> tuple[str, ...]:
    latency, deployed = probe.latencies, probe.deployments
    return (
        text,
        f"{probe.rate:,}",
        _seconds(latency, "p50"),
        _seconds(latency, "p95"),
        _seconds(latency, "max"),
        f"{probe.growth:.2f}",
        _requests(probe),
        _seconds(deployed, "p50"),
        _seconds(deployed, "max"),
    )


def _requests(probe: Probe) -> str:
    """How many creations and deletions took effect, and how many of them a second."""
    if not probe.requests:
        return ""
    per_second = probe.acknowledged / probe.seconds if probe.seconds else 0.0
    return f"{probe.acknowledged:,} of {probe.requests:,} ({per_second:,.0f}/s)"


def _seconds(found: dict[str, float], name: str) -> str:
    return f"{found[name]:.2f}" if name in found else ""


def _curve(one: Finished) -> Iterator[str]:
    curve = one.section.curve
    assert curve is not None
    first = one.outcomes[0].trial
    yield f"## Headrace by {curve.unit}"
    yield ""
    if curve.name != "queries":
        yield f"{first.queries:,} queries."
        yield ""
    yield from table(
        (curve.unit, *ALONE),
        (_curve_row(getattr(o.trial, curve.field), o) for o in one.outcomes),
    )


def _curve_row(value: float, outcome: Outcome) -> tuple[str, ...]:
    shown = f"{value:,}"
    if outcome.failure:
        return (shown, outcome.failure, *[""] * (len(ALONE) - 1))
    fed = outcome.trial.fed
    share = outcome.trial.files / (outcome.trial.files + outcome.trial.warm_up)
    return (
        shown,
        f"{outcome.throughput:,.0f}",
        f"{outcome.overall:,.0f}",
        f"{share * outcome.result_rows / outcome.seconds:,.0f}",
        f"{outcome.cpu_s / fed * 1e6:.2f}",
        f"{(outcome.bytes_shuffled or 0) / 2**20:,.0f}",
        f"{(outcome.bytes_written or 0) / 2**20:,.0f}",
        f"{outcome.peak_mb.get('worker', 0):,.0f}",
        *(_seconds(outcome.half.latencies if outcome.half else {}, name) for name in ("p50", "p95")),
    )


def summary(finished: Sequence[Finished]) -> Iterator[tuple[Trial, str]]:
    """A line per trial for the terminal."""
    for one in finished:
        for outcome in one.outcomes:
            text = outcome.failure or f"{outcome.throughput:,.0f} events/s, {outcome.overall:,.0f} overall"
            if outcome.sustainable:
                text += f", {outcome.sustainable:,} sustainable"
            yield outcome.trial, text


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        Path(argument).with_suffix(".md").write_text(render_again(Path(argument)))
