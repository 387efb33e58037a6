"""The report: a page with a table and a plot per panel, and JSON with the throughput of every query of every run.

A report may be made in pieces: panels that were not run again are kept from the file of that name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace_bench.isolation.cases import ISOLATED, PANELS, PULSED
from headrace_bench.isolation.drawing import draw_panel, kind_growth
from headrace_bench.isolation.figures import (
    Change,
    Point,
    Stretch,
    Told,
    capacity_alone,
    capacity_at_once,
    slowed,
    sustained,
)
from headrace_bench.isolation.judging import judge_isolation
from headrace_bench.isolation.pulse import Pulse
from headrace_bench.pages import VERDICTS, head, table, verdict_rows


def read_panels(path: Path) -> dict[str, list[Told]]:
    """The panels of a report that is there; none if it is not."""
    if not path.exists():
        return {}
    return {
        panel: [_told(one) for one in found]
        for panel, found in json.loads(path.read_text())["panels"].items()
    }


def read_pulse(path: Path) -> Pulse | None:
    """The pulse of a report that is there, so that all of its runs have the same; None before it was measured."""
    found = json.loads(path.read_text()).get("pulse") if path.exists() else None
    return None if found is None else Pulse(**found)


def told_pulse(pulse: Pulse) -> str:
    """What the rate of the pulse comes from."""
    text = (
        f"By its CPU seconds, full sharing sustains {pulse.sustained:,} events/s with all cores, as measured before "
        f"the runs. The pulse has {pulse.rate:,}. Queries without a function take {pulse.light:.2f} cores of that."
    )
    return (
        text
        if pulse.tells
        else f"{text} That is so much that this figure tells nothing: everybody falls behind."
    )


def _told(data: dict[str, Any]) -> Told:
    lists: dict[str, type[Any]] = {"stretches": Stretch, "series": Point, "changes": Change}
    values: dict[str, Any] = {
        key: [lists[key](**one) for one in value] if key in lists else value for key, value in data.items()
    }
    return Told(**values)


def write_report(
    out: Path, name: str, facts: dict[str, Any], panels: dict[str, list[Told]], changed: str
) -> Path:
    """Write NAME.json, NAME.md and the plot of the panel that has changed; the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    whole = {panel: panels[panel] for panel in PANELS if panel in panels}
    shown = {panel: [asdict(told) for told in found] for panel, found in whole.items()}
    pulse = facts.get("pulse")
    kept = {**facts, "pulse": None if pulse is None else asdict(pulse), "panels": shown}
    (out / f"{name}.json").write_text(json.dumps(kept) + "\n")
    plots = {panel: f"{name}-{panel}.png" for panel in whole}
    for panel, file in plots.items():
        if panel == changed or not (out / file).exists():
            draw_panel(panel, whole[panel], out / file)
    page = out / f"{name}.md"
    page.write_text("\n".join(render(name, facts, whole, plots)) + "\n")
    return page


def render(
    name: str, facts: dict[str, Any], panels: dict[str, list[Told]], plots: dict[str, str]
) -> Iterator[str]:
    yield from head(name, facts)
    yield (
        "A second stands for ten of the paper's: windows are 6 s long and groups are merged every 6 s. Isolated "
        "queries ran one after the other, each with all cores, because the machine cannot run them at once; their "
        "CPU seconds are added up. Where that is more than there are cores, a query's isolated throughput is what it "
        "would have if all shared these evenly, each up to what it needs; `slowed` counts the queries below 95 % of "
        "it. CPU seconds are those of all processes, without what it took to make events. Shares "
        "and CPU are those of the last half of a phase, or of all of a steady one."
    )
    yield ""
    yield "## Aims"
    yield ""
    yield from table(VERDICTS, verdict_rows(judge_isolation(panels)))
    for panel, found in panels.items():
        yield f"## {panel}: {PANELS[panel]}"
        yield ""
        yield f"![{panel}]({plots[panel]})"
        yield ""
        if panel in PULSED and facts.get("pulse") is not None:
            yield told_pulse(facts["pulse"])
            yield ""
        yield from panel_table(panel, found)


HEADS = (
    "queries",
    "policy",
    "phase",
    "tuples/s",
    "groups",
    "cores",
    "of tasks",
    "worst",
    "mean",
    "slowed",
    "latency s",
)


def panel_table(panel: str, found: list[Told]) -> Iterator[str]:
    if panel.startswith("7"):
        yield from table(
            ("queries", "policy", "tuples/s"), (row for told in found for row in _climb_rows(told))
        )
        return
    if panel == "11b":
        kinds = sorted({kind for told in found for kind in told.kinds.values()})
        rows = [(told.policy, *(f"{kind_growth(told, kind):,.0f}" for kind in kinds)) for told in found]
        yield from table(("policy", *(f"{kind}: tuples/s more that wait" for kind in kinds)), rows)
        return
    alone = {told.load: told for told in found if told.policy == ISOLATED}
    yield from table(HEADS, (row for told in found for row in _rows(panel, told, alone.get(told.load))))
    if panel in ("8", "9"):
        yield from table(
            ("policy", "after s", "event", "took s", "why"),
            (
                (
                    told.policy,
                    f"{change.at:.0f}",
                    change.kind,
                    "" if change.delay_s is None else f"{change.delay_s:.2f}",
                    change.reason,
                )
                for told in found
                for change in told.changes
            ),
        )


def _climb_rows(told: Told) -> Iterator[tuple[str, str, str]]:
    if told.policy == ISOLATED:
        yield str(told.queries), f"{told.policy}, the slowest alone", f"{capacity_alone(told):,.0f}"
        yield str(told.queries), f"{told.policy}, all at once", f"{capacity_at_once(told):,.0f}"
    else:
        yield str(told.queries), told.policy, f"{sustained(told):,.0f}"


def _rows(panel: str, told: Told, alone: Told | None) -> Iterator[tuple[str, ...]]:
    tuned = {"10a": f" ({told.threshold:g})", "10b": f" (every {told.merge_every_s:g} s)"}.get(panel, "")
    isolated = {} if alone is None else {one.phase: one for one in alone.stretches}
    for one in told.stretches:
        if one.phase != "settling":
            same = isolated.get(one.phase)
            yield (
                str(told.queries),
                told.policy + tuned,
                one.phase,
                f"{one.rate:,.0f}",
                str(one.groups),
                f"{one.cpu:.2f}",
                f"{one.tasks:.2f}",
                f"{one.worst:.2f}",
                f"{one.mean:.2f}",
                "" if same is None or told is alone else str(len(slowed(one, same))),
                f"{max(one.latency_s.values()):.2f}",
            )
