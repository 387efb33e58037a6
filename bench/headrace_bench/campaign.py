"""Which trials a benchmark run is made of: the comparison, the scaling curves, the probes; pure data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headrace_bench.trial import Trial
from headrace_bench.workload import Workload


@dataclass(frozen=True, slots=True)
class Curve:
    """One parameter varied while everything else stays; `unit` is what the axis says."""

    name: str
    field: str
    values: tuple[int | float, ...]
    unit: str


CURVES = (
    Curve("queries", "queries", (1, 4, 16, 64, 256, 1_000, 4_000), "queries"),
    Curve("keys", "keys", (10, 100, 1_000, 10_000, 100_000, 1_000_000), "distinct keys"),
    Curve("columns", "columns", (1, 2, 3, 4, 5), "columns compared per predicate"),
    Curve("skew", "skew", (0.0, 0.5, 1.0, 1.5), "Zipf exponent of the keys"),
    Curve("density", "rate", (5_000, 50_000, 500_000, 5_000_000), "events per second of event time"),
    Curve("epoch", "rows", (5_000, 50_000, 500_000), "tuples per epoch"),
)

BASELINES = {"spark": (1, 4, 16), "fused": (16, 100), "flink": (1, 16, 100)}
"""The numbers of queries an alternative is measured at; beyond these it takes minutes."""

HEADRACE = (1, 4, 16, 100, 1_000)
JOINED = {"headrace": (1, 4, 16, 100), "spark": (1, 4, 16), "fused": (1, 16, 100), "flink": (1, 16)}
"""The same for joins and complex queries: a single tuple makes many rows here."""

JOIN_RATE = 20_000
KEYS_PER_TUPLE = {Workload.JOIN: 3, Workload.COMPLEX: 10}
"""How many seconds pass until a key comes back, that is how many keys there are per tuple and second of a stream.

It decides how many partners a tuple has, the same for all systems: a key comes in all streams at the same time, and
again after so many seconds. With 3, a window of 1 to 10 s has one partner for a tuple to three or four, before
predicates. A complex query multiplies the partners of up to five streams: with 10, each has one or two.
"""
CONJUNCTS, USUAL_CONJUNCTS = (1, 2, 3, 4, 5), 3
PREDICATES = {
    "headrace": (1, 4, 10, 16, 100, 1_000, 10_000),
    "spark": (1, 4, 16),
    "fused": (16, 100),
    "flink": (1, 16, 100),
}
"""The numbers of queries with the usual number of conjuncts."""
QUICK_PREDICATES = {"headrace": (1_000, 100, 16, 4), "fused": (100,), "spark": (4, 16), "flink": (16, 100)}
RARE, QUICK_RARE = (10, 100, 1_000, 10_000), (100, 10_000)
PREDICATE_KEYS, RARE_KEYS = 200, 10
ALIKE_RARE = (100, 1_000)
"""Rare queries and keys that make as many result rows as the most rare queries with `RARE_KEYS` do."""
ALONE_CONJUNCT = {"spark": (1, 4)}
"""The numbers of queries of one conjunct that an alternative is measured at."""

QUICK_HEADRACE, QUICK_BASELINES = (4, 1_000), {"spark": (4,), "fused": (4,), "flink": (4,)}


@dataclass(frozen=True, slots=True)
class Section:
    """Trials that belong together: one table and one plot of the report. A curve has a `curve`."""

    name: str
    trials: tuple[Trial, ...]
    curve: Curve | None = None


def comparison(base: Trial, systems: Sequence[str], quick: bool) -> Section:
    """Every system at the numbers of queries it can take. Those that several take have their rows compared."""
    others = QUICK_BASELINES if quick else BASELINES
    trials = [
        replace(base, system=name, queries=count)
        for name in systems
        if name != "headrace"
        for count in others[name]
    ]
    counts = sorted({*(QUICK_HEADRACE if quick else HEADRACE), *(trial.queries for trial in trials)})
    if "headrace" in systems:
        trials = [replace(base, system="headrace", queries=count) for count in counts] + trials
    return Section("comparison", tuple(trials))


def joins(base: Trial, workload: Workload, systems: Sequence[str]) -> Section:
    """Every system on joins or complex queries: small files, because each tuple makes many rows.

    >>> section = joins(Trial("headrace", 1), Workload.JOIN, ("headrace", "spark"))
    >>> [(t.system, t.queries) for t in section.trials][-2:], section.trials[0].rows, section.trials[0].keys
    ([('spark', 4), ('spark', 16)], 100000, 60000)
    """
    sized = replace(
        base,
        workload=workload,
        rows=max(1_000, base.rows // 5),
        files=max(1, base.files // 2),
        warm_up=2 * base.warm_up,
        rate=JOIN_RATE,
        keys=JOIN_RATE * KEYS_PER_TUPLE[workload],
        sample=3,
    )
    trials = (replace(sized, system=name, queries=count) for name in systems for count in JOINED[name])
    return Section(workload.value, tuple(trials))


def predicates(base: Trial, systems: Sequence[str], quick: bool = False) -> Section:
    """Every system at three conjuncts, and Headrace with 1,000 queries at each number of conjuncts; at one, if quick.
    Then streaming queries of one conjunct.

    >>> section = predicates(Trial("headrace", 1), ("headrace", "fused", "flink"))
    >>> [(t.system, t.queries, t.columns) for t in section.trials][-4:]
    [('fused', 100, 3), ('flink', 1, 3), ('flink', 16, 3), ('flink', 100, 3)]
    """
    sized = replace(
        base,
        workload=Workload.PREDICATES,
        rows=max(1_000, base.rows * 2 // 5),
        files=max(1, base.files // 2),
        keys=PREDICATE_KEYS,
        columns=USUAL_CONJUNCTS,
        sample=3,
    )
    trials = []
    counts = QUICK_PREDICATES if quick else PREDICATES
    for name in systems:
        trials += [replace(sized, system=name, queries=count) for count in counts.get(name, ())]
        if name == "headrace":
            many = replace(sized, system=name, queries=1_000)
            others = CONJUNCTS[:1] if quick else CONJUNCTS
            trials += [replace(many, columns=n) for n in others if n != USUAL_CONJUNCTS]
    for name, alone in () if quick else ALONE_CONJUNCT.items():
        if name in systems:
            trials += [replace(sized, system=name, queries=count, columns=1) for count in alone]
    return Section(Workload.PREDICATES.value, tuple(trials))


def rare(base: Trial, quick: bool = False) -> Section:
    """Headrace alone with queries for one product each. Tuples are of as many products as there are queries. The last
    trial has more keys, so that few queries deliver as many rows as many do.

    >>> [(t.queries, t.products, t.keys) for t in rare(Trial("headrace", 1)).trials]
    [(10, 10, 10), (100, 100, 10), (1000, 1000, 10), (10000, 10000, 10), (100, 100, 1000)]
    """
    sized = replace(
        base,
        workload=Workload.RARE,
        rows=max(1_000, base.rows * 2 // 5),
        files=max(1, base.files // 2),
        keys=RARE_KEYS,
        sample=3,
    )
    counts = QUICK_RARE if quick else RARE
    few, keys = ALIKE_RARE
    trials = [replace(sized, queries=count) for count in counts]
    return Section(Workload.RARE.value, (*trials, replace(sized, queries=few, keys=keys)))


def curve_section(base: Trial, curve: Curve) -> Section:
    """One curve of Headrace alone: its rows are compared with plain Spark over the same files."""
    trials = tuple(
        fitted(replace(base, system="headrace", **{curve.field: value}), curve)  # type: ignore[arg-type]
        for value in curve.values
    )
    return Section(curve.name, trials, curve)


def fitted(trial: Trial, curve: Curve) -> Trial:
    """More files when epochs are small, fewer queries where they make most, latencies where their number varies.

    >>> fitted(Trial("headrace", 100, rows=5_000), CURVES[5]).files
    12
    """
    if curve.name == "epoch":
        return replace(trial, files=12)
    if curve.name == "queries":
        return replace(trial, latency=True, probe_s=8.0)
    if curve.name in ("keys", "columns"):  # 1,000 queries would make up to 1,000 rows of every tuple
        return replace(trial, queries=100)
    return trial


def campaign(
    base: Trial,
    systems: Sequence[str],
    curves: Sequence[str],
    quick: bool,
    probes: int,
    workloads: Sequence[Workload] = (Workload.AGGREGATION,),
) -> Iterator[Section]:
    """All sections of a run, the most telling first."""
    if Workload.AGGREGATION in workloads:
        yield from aggregations(base, systems, quick, probes)
    for workload in (Workload.JOIN, Workload.COMPLEX):
        if workload in workloads:
            yield joins(base, workload, systems)
    if Workload.PREDICATES in workloads:
        if (
            "headrace" in systems and quick
        ):  # what has an aim comes before what may take all the time there is
            yield rare(base, quick)
        yield predicates(base, systems, quick)
        if "headrace" in systems and not quick:
            yield rare(base)
    for curve in CURVES:
        if curve.name in curves and "headrace" in systems:
            yield curve_section(replace(base, queries=1_000, files=3, warm_up=1, sample=1), curve)


def aggregations(base: Trial, systems: Sequence[str], quick: bool, probes: int) -> Iterator[Section]:
    """The comparison, and what rates are sustained. A quick run probes rates where it compares."""
    first = comparison(base, systems, quick)
    if not (probes and "headrace" in systems):
        yield first
    elif quick:
        probed = (replace(t, probes=1, probe_s=6.0) if t.queries == 1_000 else t for t in first.trials)
        yield replace(first, trials=tuple(probed))
    else:
        yield first
        many = replace(base, system="headrace", queries=1_000, sample=1, probes=probes)
        yield Section("sustainable", (many, replace(many, queries=1, files=1, probes=0, ramp=50)))
