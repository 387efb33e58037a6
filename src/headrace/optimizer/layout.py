"""Lists or groups: whether a join looks at tuples one by one, or at groups of tuples that nobody can tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Layout(Enum):
    """How a join enumerates partners (AStream 3.1.4)."""

    LIST = "list"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Partners:
    """What is known before partners are enumerated: the tuples of both sides, and the pairs that a list would try.

    `left_group_rows` and `right_group_rows` are the tuples per group in samples, on average. A group has one key,
    query-set and slice.
    """

    rows: int
    pairs: int
    left_group_rows: float
    right_group_rows: float


PAIR_NS = 1.7
"""To try a pair."""

GROUPING_COST = 24.0
"""Putting a tuple into its group costs about as much as trying this many pairs: some 40 ns against some 1.7 ns."""


def estimate_list_ns(partners: Partners) -> float:
    return PAIR_NS * partners.pairs


def estimate_groups_ns(partners: Partners) -> float:
    """Twice the work that is counted: small groups take longer to take apart, and samples err."""
    groups = partners.pairs / (partners.left_group_rows * partners.right_group_rows)
    return PAIR_NS * 2 * (groups + GROUPING_COST * partners.rows)


def decide_layout(partners: Partners) -> Layout:
    """GROUPS when grouping, and trying pairs of groups, is at most half the work of trying pairs of tuples.

    >>> decide_layout(Partners(1_000, 200_000, 4.0, 12.0))
    <Layout.GROUPS: 'groups'>
    >>> decide_layout(Partners(1_000, 200_000, 1.0, 1.0))
    <Layout.LIST: 'list'>
    >>> decide_layout(Partners(100_000, 200_000, 4.0, 12.0))
    <Layout.LIST: 'list'>
    """
    return Layout.GROUPS if estimate_groups_ns(partners) < estimate_list_ns(partners) else Layout.LIST
