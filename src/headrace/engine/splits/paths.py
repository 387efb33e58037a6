"""Where a split keeps its things, relative to the warehouse."""

from __future__ import annotations

from headrace.model.splits import Split

SPLITS = "splits"


def home_of(split: Split) -> str:
    """All files of a split: commits, state, waiting tuples, rows that came of it, and what an epoch needs for a while.

    Splits are numbered: one that takes the name of a dropped one has nothing to do with it.
    """
    return f"{SPLITS}/{split.id:06d}"


def commits_dir(split: Split) -> str:
    return f"{home_of(split)}/commits"


def trouble_path(split: Split) -> str:
    """Why the split is quarantined; there only while it is."""
    return f"{home_of(split)}/trouble.json"
