"""The report: a page with a table and a plot per panel, and JSON with the throughput of every query of every run.

A report may be made in pieces: panels that were not run again are kept from the file of that name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace_bench.isolation.cases import ISOLATED, PANELS, POLICIES, PULSED, SHIFTING
from headrace_bench.isolation.drawing import draw_panel, kind_growth
from headrace_bench.isolation.figures import (
    CORES,
    SLOWER,
    Change,
    Point,
    Stretch,
    Told,
    at_once,
    capacity_alone,
    capacity_at_once,
    same_alone,
    slowed,
    sustained,
)
from headrace_bench.isolation.judging import Violated, judge_isolation, merge_steps, violations
from headrace_bench.isolation.pulse import SHIFT_OVER, Pulse, Shift
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


def read_shift(path: Path) -> Shift | None:
    """The rate of figure 9 of a report that is there; None before it was measured."""
    found = json.loads(path.read_text()).get("shift") if path.exists() else None
    return None if found is None else Shift(**found)


def told_shift(shift: Shift) -> str:
    """What the rate of figure 9 comes from."""
    return (
        f"With the filter attribute spread at its worst ({shift.worst}), epochs of full sharing take a second for what "
        f"comes in a second at {shift.sustained:,} events/s, as measured before the runs. The rate is {SHIFT_OVER:g} "
        f"times that, {shift.rate:,} events/s."
    )


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
    rates = {name: facts.get(name) for name in ("pulse", "shift")}
    kept = {
        **facts,
        **{name: None if found is None else asdict(found) for name, found in rates.items()},
        "panels": shown,
    }
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
    for text in (MEASURED, COMPARED, *_pieces(panels)):
        yield text
        yield ""
    yield "## Aims"
    yield ""
    yield from table(VERDICTS, verdict_rows(judge_isolation(panels)))
    yield from _violations(panels)
    for panel, found in panels.items():
        yield f"## {panel}: {PANELS[panel]}"
        yield ""
        yield f"![{panel}]({plots[panel]})"
        yield ""
        if panel in PULSED and facts.get("pulse") is not None:
            yield told_pulse(facts["pulse"])
            yield ""
        if panel in SHIFTING and facts.get("shift") is not None:
            yield told_shift(facts["shift"])
            yield ""
        yield from panel_table(panel, found)
        yield from every_query(panel, found)


MEASURED = (
    "A second stands for ten of the paper's: windows are 6 s long and groups are merged every 6 s. Isolated queries "
    "ran one after the other, each with all cores, because the machine cannot run them at once; their CPU seconds are "
    "added up. A part of these is what an epoch costs by itself, whatever comes in it, so isolated execution is dear "
    "here where the rate is low. Where they are more than there are cores, a query's isolated throughput is what it "
    "would have if all shared these evenly, each up to what it needs; `slowed` counts the queries below 95 % of it. "
    "CPU seconds are those of all processes, without what it took to make events. Shares and CPU are those of the last "
    "half of a phase, or of all of a steady one. A share is the rate from the end of one epoch to that of another, "
    "against the rate from one step of the input to another. A query that gets later by less than a step, or makes it "
    "good again, has kept up. If a stretch is too short to tell that from a share below 95 %, the verdict is `cannot "
    "tell`. `tasks` are those with which all groups run an epoch (the paper's definition 2), `of tasks` are their CPU "
    "seconds per second. Latency is how old the newest tuple is that the slowest query has; that of isolated queries "
    "is computed, as the time of an epoch and half a second, in which input waits for its epoch on average."
)

COMPARED = (
    "CPU seconds, never more than isolated: isolated queries ran one after the other, each with all cores, so none of "
    f"them ever had to wait. All at once they would have {CORES} cores, as functional isolation has, and in a pulse "
    "they would fall behind and work that off afterwards. What they would take second by second is computed from what "
    "each took while it ran alone. Against that, two things are judged: the CPU seconds since the start of a run, at "
    "every second of it from the tenth on, and those of any 10 s in which neither side works off what waits. Whoever "
    "does less when there is much to do does the rest later, so other 10 s, and phases by themselves, are told and not "
    "judged."
)


def _pieces(panels: dict[str, list[Told]]) -> Iterator[str]:
    """A sentence if the runs of this page were not made at once."""
    made: dict[str, list[str]] = {}
    for panel, found in panels.items():
        for told in found:
            names = made.setdefault(told.made or "at an unknown time", [])
            if panel not in names:
                names.append(panel)
    if len(made) > 1:
        parts = "; ".join(f"{', '.join(names)} {when}" for when, names in sorted(made.items()))
        yield f"The runs of this page were not made at once: {parts}."


def _violations(panels: dict[str, list[Told]]) -> Iterator[str]:
    """Every policy's queries below 95 % of their isolated throughput, beside those of functional isolation."""
    rows = [
        (panel, load, phase, *(_slowed_cell(by_policy.get(policy)) for policy in POLICIES[1:]))
        for panel, load, phase, by_policy in violations(panels)
    ]
    if rows:
        yield "## Slowed queries"
        yield ""
        yield (
            f"How many queries were given less than {SLOWER:.0%} of what they would have isolated, and the least that "
            "any of them was given. An empty cell is a policy that did not run. `unsure` are queries of which the "
            "stretch was too short to tell."
        )
        yield ""
        yield from table(("panel", "queries", "phase", *POLICIES[1:]), rows)


def _slowed_cell(found: Violated | None) -> str:
    if found is None:
        return ""
    count, of, worst, doubted = found
    text = f"{count} of {of}, {worst:.0%}" if count else f"0 of {of}"
    return f"{text}, {doubted} unsure" if doubted else text


def every_query(panel: str, found: list[Told]) -> Iterator[str]:
    """The throughput of every query of every run: the spread of their shares, and each one that was slowed by name."""
    rows = []
    for told in found:
        alone = same_alone(told, found)
        isolated = {} if alone is None else {one.phase: one for one in alone.stretches}
        for one in told.stretches:
            if one.phase != "settling":
                rows.append(
                    (
                        str(told.queries),
                        told.policy + _tuned(panel, told),
                        one.phase,
                        *(f"{share:.0%}" for share in quartiles(one.shares)),
                        _below(one, isolated.get(one.phase)),
                    )
                )
    if rows:
        yield "Throughput of every query, as a part of its input:"
        yield ""
        heads = ("queries", "policy", "phase", "least", "quarter", "median", "three quarters", "most")
        yield from table((*heads, f"below {SLOWER:.0%} of isolated (of all input, without such)"), rows)


def quartiles(shares: Mapping[str, float]) -> tuple[float, ...]:
    """The least, the quartiles and the most.

    >>> quartiles({"a": 1.0, "b": 0.5, "c": 0.7, "d": 0.9, "e": 0.8})
    (0.5, 0.7, 0.8, 0.9, 1.0)
    """
    ranked = sorted(shares.values())
    return tuple(ranked[round(part * (len(ranked) - 1) / 4)] for part in range(5))


NAMED = 24


def _below(one: Stretch, alone: Stretch | None) -> str:
    """The queries that were slowed, each with its share; where queries ran alone only, or climbed, those below all."""
    bounds = dict.fromkeys(one.shares, 1.0) if alone is None or alone is one else at_once(alone)
    low = [query for query, share in one.shares.items() if share < SLOWER * bounds.get(query, 1.0)]
    names = ", ".join(f"{query} {one.shares[query]:.0%}" for query in low[:NAMED])
    return f"{names} and {len(low) - NAMED} more" if len(low) > NAMED else names


HEADS = (
    "queries",
    "policy",
    "phase",
    "tuples/s",
    "groups",
    "cores",
    "of tasks",
    "tasks",
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
    yield from table(HEADS, (row for told in found for row in _rows(panel, told, same_alone(told, found))))
    if panel.startswith("10"):
        yield from table(MERGING, (_merging_row(panel, told) for told in found))
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


MERGING = (
    "policy",
    "workload",
    "merges",
    "merge steps until settled",
    "looks, CPU against the time of epochs",
    "the same with a look every 10 s",
)


def _merging_row(panel: str, told: Told) -> tuple[str, ...]:
    return (
        told.policy + _tuned(panel, told),
        told.load,
        str(sum(change.kind == "merged" for change in told.changes)),
        str(merge_steps(told) or ""),
        f"{told.looked_raw:.2%}",
        f"{told.looked:.2%}",
    )


def _tuned(panel: str, told: Told) -> str:
    return {"10a": f" ({told.threshold:g})", "10b": f" (every {told.merge_every_s:g} s)"}.get(panel, "")


def _climb_rows(told: Told) -> Iterator[tuple[str, str, str]]:
    if told.policy == ISOLATED:
        yield str(told.queries), f"{told.policy}, the slowest alone", f"{capacity_alone(told):,.0f}"
        yield str(told.queries), f"{told.policy}, all at once", f"{capacity_at_once(told):,.0f}"
    else:
        yield str(told.queries), told.policy, f"{sustained(told):,.0f}"


def _rows(panel: str, told: Told, alone: Told | None) -> Iterator[tuple[str, ...]]:
    tuned = _tuned(panel, told)
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
                f"{one.per_epoch:.0f}" if one.per_epoch else "",
                f"{one.worst:.2f}",
                f"{one.mean:.2f}",
                "" if same is None or told is alone else str(len(slowed(one, same))),
                f"{max(one.latency_s.values()):.2f}",
            )
