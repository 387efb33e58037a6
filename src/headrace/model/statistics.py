"""What is known of the streams and of what queries cost, as the engine measured it: the input of all decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.query import StreamName


@dataclass(frozen=True, slots=True)
class Statistics:
    """`tuples` is how many each stream has brought so far."""

    tuples: Mapping[StreamName, int] = field(default_factory=dict)


NOTHING_KNOWN = Statistics()
