"""What takes long and repeats, with other numbers, what others show: it runs when asked for, by `make thorough`."""

import os

import pytest

THOROUGH = pytest.mark.skipif(
    not os.environ.get("HEADRACE_THOROUGH"), reason="takes a minute more: HEADRACE_THOROUGH=1 runs it"
)

SEEDS = int(os.environ.get("HEADRACE_SEEDS", "0"))
"""How many random cases a test plays at least; 0 leaves it at the few of every day."""


def seeds(everyday: int, first: int = 0) -> range:
    """The seeds of a test with random cases. Every day they are the same few; hundreds are for a release."""
    return range(first, first + max(everyday, SEEDS))
