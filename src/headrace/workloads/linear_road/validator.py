"""The validator: every answer that is due must come, right and in time, and no other answer may come.

It is fed the input and the answers, in any interleaving in which an answer's tuple comes first. What matches is
forgotten at once, so a long run needs little memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.workloads.linear_road.reference import Expected, Paid, Past, Reference
from headrace.workloads.linear_road.rules import COLUMNS, Rules

LIMITS_S = {"tolls": 5, "alerts": 5, "balances": 5, "expenditures": 10, "travel_times": 30}
"""How long after its tuple's time an answer may come."""

_KEYS = {
    "tolls": ("VID", "Time"),
    "alerts": ("Time", "XWay", "Seg", "Dir", "VID"),
    "balances": ("Time", "QID"),
    "expenditures": ("Time", "QID"),
    "travel_times": ("Time", "QID"),
}
_VALUES = {
    "tolls": ("LAV", "Toll"),
    "alerts": (),
    "balances": ("Balance", "ResultTime"),
    "expenditures": ("Balance",),
    "travel_times": ("TravelTime", "Toll"),
}

_SINGULAR = {
    "tolls": "toll",
    "alerts": "alert",
    "balances": "balance",
    "expenditures": "expenditure",
    "travel_times": "travel time",
}

FAULTS = ("missing", "extra", "wrong", "late")


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run did. `counts` has for each kind: `due`, `right` and the four faults."""

    rules: Rules
    counts: dict[str, Counter[str]]
    examples: dict[str, tuple[str, ...]]
    """The first few of each fault, in words."""
    slowest_s: dict[str, float]

    @property
    def ok(self) -> bool:
        return not any(count[fault] for count in self.counts.values() for fault in FAULTS)

    def render(self) -> str:
        """A few lines for people."""
        lines = [f"average velocity: {self.rules.lav.name.lower()} ({self.rules.lav.value})"]
        for kind, count in self.counts.items():
            faults = ", ".join(f"{count[fault]:,} {fault}" for fault in FAULTS if count[fault]) or "no fault"
            slowest = f", slowest {self.slowest_s[kind]:.2f} s" if kind in self.slowest_s else ""
            lines.append(f"{kind}: {count['due']:,} due, {count['right']:,} right, {faults}{slowest}")
        for fault in FAULTS:
            lines += [f"{fault}: {example}" for example in self.examples.get(fault, ())]
        return "\n".join(lines)


@dataclass(slots=True)
class Validator:
    """Compares answers with the rules, both ways, by the keys of the benchmark."""

    rules: Rules = field(default_factory=Rules)
    paid: Paid | None = None
    past: Past | None = None
    examples: int = 5
    _reference: Reference = field(init=False)
    _due: dict[tuple[str, tuple[int, ...]], list[tuple[int, ...]]] = field(init=False, default_factory=dict)
    _counts: dict[str, Counter[str]] = field(init=False)
    _words: dict[str, list[str]] = field(init=False, default_factory=lambda: defaultdict(list))
    _slowest: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._reference = Reference(self.rules, self.paid, self.past)
        self._counts = {kind: Counter() for kind in _KEYS}

    def feed(self, batch: pa.RecordBatch) -> None:
        """Read input tuples."""
        columns = [batch.column(name).to_numpy().tolist() for name in COLUMNS]
        for row in zip(*columns, strict=True):
            for due in self._reference.read(row):
                self.expect(due)

    def expect(self, due: Expected) -> None:
        """An answer is due."""
        self._counts[due.kind]["due"] += 1
        self._due.setdefault((due.kind, due.key), []).append(due.value)

    @property
    def charges(self) -> dict[int, tuple[list[int], list[int]]]:
        """What vehicles were charged so far, by which balances are judged. Whoever runs the rules elsewhere adds it."""
        return self._reference.charges

    def count(self, kind: str, counts: Counter[str], slowest_s: float) -> None:
        """Add answers that were judged elsewhere."""
        self._counts[kind] += counts
        self._slowest[kind] = max(slowest_s, self._slowest.get(kind, slowest_s))

    def check(self, kind: str, answers: pa.RecordBatch) -> None:
        """Read answers of one kind. The column `Emit` says when each was delivered, in seconds of the input's time."""
        wanted = (*_KEYS[kind], *_VALUES[kind], "Emit", "Time")
        columns = [answers.column(name).to_numpy().tolist() for name in wanted]
        keys = len(_KEYS[kind])
        for values in zip(*columns, strict=True):
            *row, emit, time = values
            self._compare(kind, tuple(row[:keys]), tuple(row[keys:]), emit - time)

    def verdict(self) -> Verdict:
        """Call it when all input and all answers were read: what is still due then is missing."""
        for (kind, key), values in self._due.items():
            for value in values:
                self._fault(kind, "missing", f"{_named(kind, key)} should be {self._said(kind, key, value)}")
        self._due = {}
        words = {fault: tuple(found) for fault, found in self._words.items()}
        return Verdict(self.rules, self._counts, words, self._slowest)

    def _compare(self, kind: str, key: tuple[int, ...], value: tuple[int, ...], delay: float) -> None:
        due = self._due.get((kind, key))
        if due is None:
            self._fault(kind, "extra", f"{_named(kind, key)} came with {_listed(_VALUES[kind], value)}")
            return
        right = next((candidate for candidate in due if self._fits(kind, key, candidate, value)), None)
        if right is None:
            said = self._said(kind, key, due[0])
            self._fault(
                kind, "wrong", f"{_named(kind, key)} should be {said}, not {_listed(_VALUES[kind], value)}"
            )
        elif delay > LIMITS_S[kind]:
            self._fault(kind, "late", f"{_named(kind, key)} came after {delay:.1f} s of {LIMITS_S[kind]}")
        else:
            self._counts[kind]["right"] += 1
        self._slowest[kind] = max(delay, self._slowest.get(kind, delay))
        due.remove(due[0] if right is None else right)
        if not due:
            del self._due[kind, key]

    def _fits(self, kind: str, key: tuple[int, ...], due: tuple[int, ...], value: tuple[int, ...]) -> bool:
        if kind != "balances":
            return due == value
        balance, result_time = value
        return any(
            balance == allowed and earliest <= result_time <= latest
            for allowed, earliest, latest in self._reference.balances(due[0], key[0])
        )

    def _said(self, kind: str, key: tuple[int, ...], due: tuple[int, ...]) -> str:
        if kind != "balances":
            return _listed(_VALUES[kind], due)
        allowed = sorted({balance for balance, _, _ in self._reference.balances(due[0], key[0])})
        return "Balance " + " or ".join(str(balance) for balance in allowed)

    def _fault(self, kind: str, fault: str, words: str) -> None:
        self._counts[kind][fault] += 1
        if len(self._words[fault]) < self.examples:
            self._words[fault].append(words)


def _named(kind: str, key: tuple[int, ...]) -> str:
    return f"the {_SINGULAR[kind]} for {_listed(_KEYS[kind], key)}"


def _listed(names: tuple[str, ...], values: tuple[int, ...]) -> str:
    return ", ".join(_pairs(names, values)) or "there"


def _pairs(names: tuple[str, ...], values: tuple[int, ...]) -> Iterator[str]:
    return (f"{name} {value}" for name, value in zip(names, values, strict=True))
