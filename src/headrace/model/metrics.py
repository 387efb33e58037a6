"""What an operator costs in an epoch, and what its queries get of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model import codec


@dataclass(frozen=True, slots=True)
class FunctionMetrics:
    """Calls of one registered function: for how many rows its value was needed, with how many inputs it was called, and
    the CPU seconds of that. `wanted` says for how many rows each query needed it; keys are query ids as text.
    """

    rows: int = 0
    inputs: int = 0
    seconds: float = 0.0
    wanted: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: FunctionMetrics) -> FunctionMetrics:
        return FunctionMetrics(
            self.rows + other.rows,
            self.inputs + other.inputs,
            self.seconds + other.seconds,
            add_counts(self.wanted, other.wanted),
        )


@dataclass(frozen=True, slots=True)
class OperatorMetrics:
    """Sums over all tasks of an epoch. Seconds are CPU time of the kernels, without reading chunks. Those of registered
    functions are among them, and `functions` says once more what was spent on each.

    `tuples` counts what map tasks were given, once per stream that is read. `matched` says how many of them each
    query accepted, `joined` how many rows a join made for it, and `rows` how many rows it got; keys are query ids as
    text. A query that is absent has none.
    """

    map_seconds: float = 0.0
    reduce_seconds: float = 0.0
    tuples: int = 0
    shuffled_bytes: int = 0
    state_bytes: int = 0
    matched: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    joined: dict[str, int] = field(default_factory=dict)
    functions: dict[str, FunctionMetrics] = field(default_factory=dict)

    def __add__(self, other: OperatorMetrics) -> OperatorMetrics:
        return OperatorMetrics(
            self.map_seconds + other.map_seconds,
            self.reduce_seconds + other.reduce_seconds,
            self.tuples + other.tuples,
            self.shuffled_bytes + other.shuffled_bytes,
            self.state_bytes + other.state_bytes,
            add_counts(self.matched, other.matched),
            add_counts(self.rows, other.rows),
            add_counts(self.joined, other.joined),
            add_functions(self.functions, other.functions),
        )


def add_functions(
    left: Mapping[str, FunctionMetrics], right: Mapping[str, FunctionMetrics]
) -> dict[str, FunctionMetrics]:
    found = dict(left)
    for name, spent in right.items():
        found[name] = found.get(name, FunctionMetrics()) + spent
    return found


def add_counts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """
    >>> add_counts({"1": 2}, {"1": 3, "2": 4})
    {'1': 5, '2': 4}
    """
    found = dict(left)
    for key, count in right.items():
        found[key] = found.get(key, 0) + count
    return found


codec.register(OperatorMetrics, FunctionMetrics)
