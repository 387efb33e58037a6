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


GROUPING_COST = 16.0
"""Putting a tuple into its group costs about as much as trying this many pairs: some 25 ns against some 1.6 ns."""


def decide_layout(partners: Partners) -> Layout:
    """GROUPS when trying pairs of groups, and grouping to begin with, is less work than trying pairs of tuples.

    >>> decide_layout(Partners(1_000, 200_000, 4.0, 12.0))
    <Layout.GROUPS: 'groups'>
    >>> decide_layout(Partners(1_000, 200_000, 1.0, 1.0))
    <Layout.LIST: 'list'>
    >>> decide_layout(Partners(100_000, 200_000, 4.0, 12.0))
    <Layout.LIST: 'list'>
    """
    groups = partners.pairs / (partners.left_group_rows * partners.right_group_rows)
    return Layout.GROUPS if groups + GROUPING_COST * partners.rows < partners.pairs else Layout.LIST
