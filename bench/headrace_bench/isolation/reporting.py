"""The report: a page with a table and a plot per panel, and JSON with the throughput of every query of every run.

A report may be made in pieces: panels that were not run again are kept from the file of that name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from headrace_bench.isolation.cases import FUNCTIONAL, ISOLATED, LADDER, PANELS, POLICIES, PULSED, SHIFTING
from headrace_bench.isolation.deciding import REGROUPS, merge_steps, overdue
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
from headrace_bench.isolation.judging import Violated, judge_isolation, violations
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
    out: Path, name: str, facts: dict[str, Any], panels: dict[str, list[Told]], changed: Collection[str]
) -> Path:
    """Write NAME.json, NAME.md and the plots of the panels that have changed; the page's path.

    The JSON takes the place of the older one as a whole, so whoever ends a run never leaves half of it.
    """
    out.mkdir(parents=True, exist_ok=True)
    whole = {panel: panels[panel] for panel in PANELS if panel in panels}
    shown = {panel: [asdict(told) for told in found] for panel, found in whole.items()}
    rates = {name: facts.get(name) for name in ("pulse", "shift")}
    kept = {
        **facts,
        **{name: None if found is None else asdict(found) for name, found in rates.items()},
        "panels": shown,
    }
    new = out / f"{name}.json.new"
    new.write_text(json.dumps(kept) + "\n")
    new.replace(out / f"{name}.json")
    plots = {panel: f"{name}-{panel}.png" for panel in whole}
    for panel, file in plots.items():
        if panel in changed or not (out / file).exists():
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
    yield from _delays(panels)
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


OPERATIONS = {"merge": "merged", "split": "split", "resize": "tasks"}
"""The paper's reconfigurations, and the events that tell of them. Its fourth one, monitoring, is none here."""


def _delays(panels: dict[str, list[Told]]) -> Iterator[str]:
    """Table I, by operation, of every run of functional isolation. A run that several panels have counts once."""
    ours = {
        told.case or id(told): told
        for found in panels.values()
        for told in found
        if told.policy == FUNCTIONAL
    }
    runs = [told for told in ours.values() if told.series or told.changes]
    if not runs:
        return
    yield "## Table I: delays of reconfigurations"
    yield ""
    yield (
        "Seconds from a decision of functional isolation to the begin of the first epoch in the new shape. The paper's "
        "are 1.6 to 1.8 s. Where only the number of tasks changes, nobody moves: the group's next epoch has them, and "
        "no delay is measured unless queries move by the same decision. Monitoring is no reconfiguration here: the "
        "driver reads samples from the log, and no group changes for it."
    )
    yield ""
    heads = ("operation", "how often", "delays known", "median s", "most s", "not in force at the end")
    yield from table(heads, (_delay_row(name, kind, runs) for name, kind in OPERATIONS.items()))


def _delay_row(name: str, kind: str, runs: Sequence[Told]) -> tuple[str, ...]:
    changes = [change for told in runs for change in told.changes if change.kind == kind]
    delays = [change.delay_s for change in changes if change.delay_s is not None]
    late = sum(change.kind == kind for told in runs for change in overdue(told))
    return (
        name,
        str(len(changes)),
        str(len(delays)),
        f"{median(delays):.2f}" if delays else "",
        f"{max(delays):.2f}" if delays else "",
        str(late) if kind in REGROUPS else "",
    )


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
            ("queries", "policy", "tuples/s", "of isolated at once"),
            (row for told in found for row in _climb_rows(told, _climb_alone(told, found))),
        )
        yield CLIMBED
        yield ""
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


CLIMBED = (
    f"A policy's rate is the highest step at which nobody fell behind. Each step is {LADDER:g} times the one before, "
    "so a policy may sustain more, up to the next step. Rates of isolated queries lie between steps: at once, it is "
    f"the rate at which the CPU seconds that they took one after the other add up to {CORES} cores. So multiples of "
    "that may be too low by up to a step."
)


def _climb_alone(told: Told, found: Sequence[Told]) -> Told | None:
    """The climb of the same queries alone. It begins at a lower rate, so its course is another."""
    return next((one for one in found if one.policy == ISOLATED and one.load == told.load), None)


def _climb_rows(told: Told, alone: Told | None) -> Iterator[tuple[str, ...]]:
    """The rate that a run sustained, and as a multiple of that of isolated queries at once."""
    count = str(told.queries)
    if told.policy == ISOLATED:
        yield count, f"{told.policy}, the slowest alone", f"{capacity_alone(told):,.0f}", ""
        yield count, f"{told.policy}, all at once", f"{capacity_at_once(told):,.0f}", "1.00 times"
    else:
        rate, at_once_ = sustained(told), 0.0 if alone is None else capacity_at_once(alone)
        yield count, told.policy, f"{rate:,.0f}", f"{rate / at_once_:.2f} times" if at_once_ > 0 else ""


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
