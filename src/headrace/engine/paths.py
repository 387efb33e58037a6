"""Where a sharing group keeps its things, relative to the warehouse."""

from __future__ import annotations

from headrace.storage.warehouse import safe_name

GROUPS = "groups"
RESULTS = "results"

TRIAL, REBUILD = "trial", "rebuild"
"""How the attempts of trials and rebuilds begin. Their names are in those of the files that they write."""


def group_dir(group: str) -> str:
    """All files of a group, but for results, which are in one place for all groups.

    >>> group_dir("main"), group_dir("../alerts")
    ('groups/main', 'groups/%2E.%2Falerts')
    """
    return f"{GROUPS}/{safe_name(group)}"


def commits_dir(group: str) -> str:
    return f"{group_dir(group)}/commits"


def segments_dir(group: str) -> str:
    return f"{group_dir(group)}/segments"


def plans_dir(group: str) -> str:
    return f"{group_dir(group)}/plans"


def plan_path(group: str, version: str) -> str:
    return f"{plans_dir(group)}/{version}.json"


def search_path(group: str) -> str:
    """What is known of an epoch of the group that fails; there only while one does."""
    return f"{group_dir(group)}/search.json"


def together_path(group: str) -> str:
    """Which epochs a group tried to run together last."""
    return f"{group_dir(group)}/together.json"


def handover_dir(group: str, job: str | None = None) -> str:
    """Large blobs on their way between tasks: of one job, or of all jobs of a group."""
    every = f"{group_dir(group)}/handover"
    return every if job is None else f"{every}/{job}"
