"""Which runs and phases the aims are about, each with the same queries alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace_bench.isolation.cases import FUNCTIONAL
from headrace_bench.isolation.figures import Stretch, Told, same_alone

Panels = Mapping[str, list[Told]]

Compared = tuple[str, Told, Told | None]
"""A panel, a run in it, and that of the same queries alone."""


def runs_of_ours(panels: Panels) -> Iterator[Compared]:
    """Every run of functional isolation with that of the same queries and the same input alone, where there is one.

    A run that several panels have counts once, for the first of them.
    """
    yield from runs_of(panels, FUNCTIONAL)


def runs_of(panels: Panels, policy: str) -> Iterator[Compared]:
    known: set[str] = set()
    for panel, all_told in panels.items():
        for told in all_told:
            if told.policy == policy and told.case not in known:
                known.update([told.case] if told.case else [])
                yield panel, told, same_alone(told, all_told)


def pairs(found: Iterable[Compared]) -> Iterator[tuple[str, Told, Stretch, Stretch]]:
    """The settled parts of runs, each with the same queries alone at the same rate. Climbs are meant to fail."""
    for panel, told, isolated in found:
        if isolated is not None and not told.climbs:
            alone = {stretch.phase: stretch for stretch in isolated.stretches}
            for stretch in told.stretches:
                if stretch.phase in alone and stretch.phase != "settling":
                    yield panel, told, stretch, alone[stretch.phase]
