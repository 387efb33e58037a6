"""What is run: the cases behind each figure of FunShare's section VI, scaled in time and rate to a small machine.

The paper's windows are 60 s long, groups are merged every 60 s and looked at every 10 s. Here a second stands for ten
of the paper's. So windows are 6 s long and groups are merged every 6 s. Epochs are not scaled: looks are 2 s apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.workloads.isolation import RangeQuery, Spread, draw_queries, from_start

RANGE_S = 6
WATCH_S, MERGE_S = 2.0, 6.0

ISOLATED = "isolated"
FUNCTIONAL = "functional"
POLICIES = (ISOLATED, "full", "overlap", "selectivity", FUNCTIONAL)

RATES = {"W1": 8_000, "W2": 2_000, "W3": 1_000}
"""Events per second of each workload. In the paper it is what a query alone can sustain. Here 128 queries that share
have to do with the cores that one has alone, so the rates are far below that. A part of what an isolated query takes is
what an epoch costs by itself, most of it in W2: the report says so.
"""

PROPORTIONS = {"W1": (1, 3, 1), "W2": (1, 3, 46), "W3": (1, 3, 1)}
"""People, auctions and bids of a round. Where bids are not read, there are few."""

PULSE = 8
"""In figure 8 the rate rises by so many times, unless it was measured what full sharing can sustain (`pulse.py`)."""

SHIFTED = 0.5
"""In figure 9 the rate is so many times the usual one, unless it was measured what full sharing can sustain
(`pulse.py`). Ranges are half of the domain on average.
"""

LADDER = 1.5
"""In figure 7 the rate begins with the usual one, and rises by this factor, step by step, until somebody falls behind.
Joins grow by its square."""

LOWER = 8
"""Isolated queries begin at a rate so many times lower: what many epochs cost by themselves may take all cores."""


@dataclass(frozen=True, slots=True)
class Load:
    """Which queries: so many of a workload, each with a random range of the filter attribute."""

    workload: str
    selectivity: tuple[float, float]
    queries: int
    seed: int = 1
    nested: bool = False

    def draw(self) -> dict[str, RangeQuery]:
        """The queries by name."""
        drawn = draw_queries(self.workload, self.queries, self.selectivity, self.seed, RANGE_S)
        if self.nested:
            drawn = from_start(drawn, self.seed)
        return {f"w{number}": query for number, query in enumerate(drawn)}

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(sorted({stream for query in self.draw().values() for stream in query.streams}))

    @property
    def part(self) -> float:
        """The part of the events that the queries read: rates are those of all events.

        >>> Load("W1", (0.1, 0.1), 4).part, Load("W2", (0.1, 0.1), 4).part
        (0.8, 0.98)
        """
        parts = dict(zip(("person", "auction", "bid"), PROPORTIONS[self.workload], strict=True))
        return sum(parts[stream] for stream in self.streams) / sum(parts.values())

    def __str__(self) -> str:
        low, high = (f"{share:.0%}" for share in self.selectivity)
        share = "nested ranges" if self.nested else low if low == high else f"{low} to {high}"
        return f"{self.workload}, {self.queries} queries, {share}"


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run: so many seconds at a rate, with the filter attribute spread in a way."""

    name: str
    seconds: float
    rate: int
    spread: Spread = Spread.UNIFORM


@dataclass(frozen=True, slots=True)
class Case:
    """One run: queries, input and a policy. It `climbs` if it ends with the first phase in which somebody falls behind.

    An isolated case is not run as one: its queries run one after the other, each alone. With `apart`, queries begin
    isolated, in as many groups as the driver can run, and the policy takes over when the clock starts.
    """

    load: Load
    course: tuple[Phase, ...]
    policy: str
    threshold: float = 1.0
    merge_every_s: float = MERGE_S
    climbs: bool = False
    apart: bool = False

    @property
    def alone(self) -> bool:
        return self.policy == ISOLATED


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run. `counts` are the numbers of queries of panel 6a; other panels have `others`.

    Runs settle for `settle_s` and are steady for `steady_s`. It takes some 20 s to tell a share of 93 % from all input.
    Before the pulse, in it and after it there are `before_s`, `pulse_s` and `after_s`: what waits then is worked off
    afterwards. The filter attribute is spread in each way for `shift_s`. `pulse_rate` is that of the pulse, and
    `shift_rate` that of figure 9: both are measured before the first run.
    """

    counts: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    others: tuple[int, ...] = (8, 32, 128)
    settle_s: float = 20.0
    steady_s: float = 20.0
    pulse: int = 48
    shifted: int = 32
    before_s: float = 24.0
    pulse_s: float = 36.0
    after_s: float = 90.0
    pulse_rate: int = PULSE * RATES["W2"]
    shift_s: float = 36.0
    shift_rate: int = round(SHIFTED * RATES["W1"])
    tuned: int = 128
    rungs: int = 8
    alone_epochs: int = 4
    seed: int = 1


FULL = Sizes()
QUICK = Sizes(
    (4, 128),
    (12,),
    9.0,
    20.0,
    pulse=12,
    shifted=16,
    before_s=18.0,
    pulse_s=24.0,
    after_s=60.0,
    shift_s=18.0,
    tuned=32,
    rungs=6,
    alone_epochs=3,
)

SELECTIVITIES = {
    "a": ("W1", (0.1, 0.1)),
    "b": ("W1", (0.01, 0.01)),
    "c": ("W1", (0.01, 0.2)),
    "d": ("W2", (0.1, 0.1)),
    "e": ("W3", (0.1, 0.1)),
}
"""The panels of figure 6."""

PANELS = {
    "6a": "resources at a fixed rate: W1, 10 %",
    "6b": "resources at a fixed rate: W1, 1 %",
    "6c": "resources at a fixed rate: W1, 1 to 20 %",
    "6d": "resources at a fixed rate: W2, 10 %",
    "6e": "resources at a fixed rate: W3, 10 %",
    "7a": "sustainable rate with all cores: W1, 10 %",
    "7b": "sustainable rate with all cores: W1, 1 to 20 %",
    "8": "a pulse of the rate: W2",
    "9": "two shifts of the filter attribute: W1",
    "10a": "merge thresholds: W1, 10 %",
    "10b": "merge frequencies: W1, 10 %",
    "10c": "from isolated groups to shared ones: every workload",
    "11a": "latency: W1, 10 %",
    "11b": "growth of queues in a pulse: W2",
}
"""Panels by the paper's numbers. Table I is told with figures 8 and 9. The paper has no 10c: it says in section VI-E
that groups settled within two merge steps on all workloads.
"""


PULSED = {"8", "11b"}
"""Panels with a pulse, whose rate is measured first."""

SHIFTING = {"9"}
"""The panel with shifts. Its rate is measured first, too."""


SAME = {"11a": "6a", "11b": "8"}
"""Panels that tell of the runs of others."""


def panels_of(figures: tuple[str, ...]) -> tuple[str, ...]:
    """The panels of these figures, in the paper's order; all of them if none is named.

    >>> panels_of(("7", "8"))
    ('7a', '7b', '8')
    >>> panels_of(("6a",))
    ('6a',)
    """
    return tuple(
        panel for panel in PANELS if not figures or panel in figures or panel.rstrip("abcde") in figures
    )


def cases_of(panel: str, sizes: Sizes) -> tuple[Case, ...]:
    """The runs behind a panel. Panels may have runs in common; these are made once."""
    return tuple(dict.fromkeys(_cases(panel, sizes)))


def _cases(panel: str, sizes: Sizes) -> Iterator[Case]:
    match panel:
        case "6a" | "11a":
            yield from _steady("a", sizes.counts, sizes)
        case "6b" | "6c" | "6d" | "6e":
            yield from _steady(panel[1], sizes.others, sizes)
        case "7a" | "7b":
            yield from _climbs("a" if panel == "7a" else "c", sizes)
        case "8" | "11b":
            yield from _pulse(sizes)
        case "9":
            yield from _shifts(sizes)
        case "10a":
            yield from (_merging("a", sizes, threshold=cap) for cap in (0.5, 0.7, 0.9, 1.0))
        case "10b":
            yield from (_merging("a", sizes, merge_every_s=every) for every in (2.0, 6.0, 12.0))
        case "10c":
            yield from (_merging(letter, sizes) for letter in SELECTIVITIES)
        case _:
            raise ValueError(f"there is no panel {panel}")


def _steadily(workload: str, sizes: Sizes) -> tuple[Phase, ...]:
    rate = RATES[workload]
    return Phase("settling", sizes.settle_s, rate), Phase("steady", sizes.steady_s, rate)


SETTLED = 3.5
"""After so many merge steps a run that began with isolated groups is taken to be settled."""


def _merging(letter: str, sizes: Sizes, threshold: float = 1.0, merge_every_s: float = MERGE_S) -> Case:
    """Functional isolation that begins with isolated groups, so that there is something to merge."""
    workload, selectivity = SELECTIVITIES[letter]
    settling, steady = _steadily(workload, sizes)
    settling = replace(settling, seconds=max(settling.seconds, round(SETTLED * merge_every_s)))
    load = Load(workload, selectivity, sizes.tuned, sizes.seed)
    return Case(load, (settling, steady), FUNCTIONAL, threshold, merge_every_s, apart=True)


def _steady(letter: str, counts: tuple[int, ...], sizes: Sizes) -> Iterator[Case]:
    workload, selectivity = SELECTIVITIES[letter]
    for count in counts:
        for policy in POLICIES:
            yield Case(Load(workload, selectivity, count, sizes.seed), _steadily(workload, sizes), policy)


def _climbs(letter: str, sizes: Sizes) -> Iterator[Case]:
    """The rate rises step by step, until somebody falls behind. That of isolated queries rises until the slowest of
    them is busy all the time; they do not fall behind together.
    """
    workload, selectivity = SELECTIVITIES[letter]
    rates = [round(RATES[workload] * LADDER**rung) for rung in range(sizes.rungs)]
    low = rates[0] // LOWER
    course = (
        Phase("settling", sizes.settle_s, rates[0]),
        *(Phase(f"{rate}/s", 6.0, rate) for rate in rates),
    )
    for count in sizes.others:
        load = Load(workload, selectivity, count, sizes.seed)
        yield Case(load, (Phase(f"{low}/s", 6.0, low), *course[1:]), ISOLATED, climbs=True)
        yield from (Case(load, course, policy, climbs=True) for policy in POLICIES if policy != ISOLATED)


def pulse_load(sizes: Sizes) -> Load:
    """The queries of figure 8."""
    return Load("W2", (0.1, 0.1), sizes.pulse, sizes.seed)


def _pulse(sizes: Sizes) -> Iterator[Case]:
    course = (
        Phase("before", sizes.before_s, RATES["W2"]),
        Phase("pulse", sizes.pulse_s, sizes.pulse_rate),
        Phase("after", sizes.after_s, RATES["W2"]),
    )
    for policy in POLICIES:
        yield Case(pulse_load(sizes), course, policy)


def shift_load(sizes: Sizes) -> Load:
    """The queries of figure 9."""
    return Load("W1", (0.1, 0.1), sizes.shifted, sizes.seed, nested=True)


def _shifts(sizes: Sizes) -> Iterator[Case]:
    course = tuple(Phase(s.value, sizes.shift_s, sizes.shift_rate, s) for s in Spread)
    for policy in POLICIES:
        yield Case(shift_load(sizes), course, policy)
