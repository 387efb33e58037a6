"""What is left of a transit group goes to the group that its queries live in now: its heir.

A transit group ends when its queries have arrived. Its last commit names the result files of the rows that they got on
the way. The heir's next commit names these files too, and says whose it has *inherited*. That is one record, so rows
are counted once wherever a process dies:

    heir's commit       says nothing      inherited: G            inherited: G                  says nothing
    G's commit          counts            is no longer read       is no longer read             gone
    stays of queries    ... G, heir       ... G, heir             ... heir (in the snapshot)    ... heir

The stays of its queries are the heir's as soon as every commit that the heir could go back to has inherited. When that
is on disk, nobody asks for G any more, and its folder goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.catalog.catalog import Catalog
from headrace.catalog.homes import Homes
from headrace.engine.records import Commit, ResultFile
from headrace.model.grouping import GroupKind, kind_of


def heir_of(group: str, homes: Homes) -> str | None:
    """The group that all queries of a transit group live in now; None while there is no such group."""
    if kind_of(group) is not GroupKind.TRANSIT:
        return None
    found = {entry.group for entry in homes.living_in(group)}
    if len(found) != 1 or (heir := found.pop()) == group or kind_of(heir) is GroupKind.TRANSIT:
        return None
    return heir


def can_inherit(heir: Commit, left: Commit) -> bool:
    """Whether a commit says of the other one's results what their own says: which of them may be gone already."""
    return left.expired <= heir.expired and not left.lost


def legacies(heir: Commit, commits: Mapping[str, Commit], catalog: Catalog) -> list[str]:
    """The groups whose results the next commit of a group can inherit, and nobody has inherited so far.

    Queries that are put away in the archive would look for their rows where they lived, so what may hold some stays.
    """
    homes, absorbed = catalog.homes, absorbed_by(commits.values())
    return [
        name
        for name, left in commits.items()
        if name not in absorbed
        and heir_of(name, homes) == heir.group
        and homes.next_epoch(name, left.epoch) is None
        and can_inherit(heir, left)
        and not any(may_hold(left.results, *lifetime) for lifetime in catalog.archived_lifetimes())
    ]


def may_hold(files: Iterable[ResultFile], query: int, first: int, last: int) -> bool:
    """Whether result files may hold rows of a query that lived in the epochs [first, last)."""
    return any(
        file.min_query <= query <= file.max_query and file.last_epoch >= first and file.first_epoch < last
        for file in files
    )


def absorbed_by(commits: Iterable[Commit]) -> frozenset[str]:
    """The groups whose results these commits have inherited."""
    return frozenset(name for commit in commits for name in commit.inherited)


def still_inherited(before: Commit, commits: Mapping[str, Commit]) -> dict[str, int]:
    """What a group goes on to say that it has inherited: nothing of groups that are gone."""
    return {group: since for group, since in before.inherited.items() if group in commits}


def inherit(commit: Commit, left: Iterable[Commit]) -> Commit:
    """The commit with all that ended groups have delivered."""
    results, rows, inherited = commit.results, commit.rows, dict(commit.inherited)
    for other in left:
        results = (*other.results, *results)
        rows += other.rows
        inherited[other.group] = commit.epoch
    return replace(commit, results=results, rows=rows, inherited=inherited)
