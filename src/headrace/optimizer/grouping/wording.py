"""Reasons in words that people read."""

from __future__ import annotations


def count(number: int, word: str, plural: str | None = None) -> str:
    """
    >>> count(1, "query", "queries"), count(3, "task")
    ('1 query', '3 tasks')
    """
    return f"{number} {word if number == 1 else plural or word + 's'}"


def count_queries(number: int) -> str:
    return count(number, "query", "queries")


def why_merged(others: int, cost: float, saved: int, forced: bool) -> str:
    """
    >>> why_merged(41, 0.314, 3, False)
    'merged with 41 queries: cost 0.31, saves 3 tasks'
    """
    saves = f"saves {count(saved, 'task')}" if saved else "needs as many tasks, and less work"
    text = f"merged with {count_queries(others)}: cost {cost:.2f}, {saves}"
    return f"{text}{TOO_MANY}" if forced else text


TOO_MANY = "; there were more groups than the driver can run"


def why_together(others: int, policy: str, saved: int, forced: bool) -> str:
    """
    >>> why_together(3, "full sharing", 2, False)
    'merged with 3 queries by full sharing: saves 2 tasks'
    >>> why_together(1, "isolated", 0, True)
    'merged with 1 query; there were more groups than the driver can run'
    """
    text = f"merged with {count_queries(others)}"
    if forced:
        return f"{text}{TOO_MANY}"
    saves = f": saves {count(saved, 'task')}" if saved else ""
    return f"{text} by {policy}{saves}"


def why_parted(queries: int, policy: str) -> str:
    """
    >>> why_parted(3, "selectivity sharing")
    'split off 3 queries by selectivity sharing'
    """
    return f"split off {count_queries(queries)} by {policy}"


def why_pressed(queries: int, functions: tuple[str, ...], share: float) -> str:
    """
    >>> why_pressed(3, ("similar",), 0.71)
    'split off 3 queries: `similar` after the shared part held the group at 71% of its input'
    """
    what = " and ".join(f"`{name}`" for name in functions) if functions else "finishing their rows"
    where = " after the shared part" if functions else ""
    return f"split off {count_queries(queries)}: {what}{where} held the group at {share:.0%} of its input"


def why_foreign(queries: int, operator: str, share: float) -> str:
    """
    >>> why_foreign(3, "ads+purchases", 0.4)
    'split off 3 queries: their work on ads and purchases held the group at 40% of its input'
    """
    what = " and ".join(operator.split("+"))
    return (
        f"split off {count_queries(queries)}: their work on {what} held the group at {share:.0%} of its input"
    )


def why_part(queries: int, share: float) -> str:
    """
    >>> why_part(2, 0.4)
    'split off 2 queries: work that no other query needs held the group at 40% of its input'
    """
    what = "work that no other query needs"
    return f"split off {count_queries(queries)}: {what} held the group at {share:.0%} of its input"


def why_heavy(queries: int, share: float) -> str:
    """
    >>> why_heavy(2, 0.4)
    'split off 2 queries: they need most, and the group processed 40% of its input'
    """
    most = "it needs" if queries == 1 else "they need"
    return (
        f"split off {count_queries(queries)}: {most} most, and the group processed {share:.0%} of its input"
    )


def why_penalised(queries: int, share: float, alone: float, tasks: int) -> str:
    """
    >>> why_penalised(2, 0.8, 1.0, 12)
    'split off 2 queries: 80% of the input with all 12 tasks, and up to 100% alone'
    """
    return (
        f"split off {count_queries(queries)}: {share:.0%} of the input with all {count(tasks, 'task')}, "
        f"and up to {alone:.0%} alone"
    )


def why_more(before: int, after: int, share: float, penalised: int) -> str:
    """
    >>> why_more(4, 6, 0.8, 5)
    'from 4 to 6 tasks: 5 queries would be faster alone than at 80% of the input'
    """
    return (
        f"from {before} to {count(after, 'task')}: {count_queries(penalised)} would be faster alone "
        f"than at {share:.0%} of the input"
    )


def why_lags(before: int, after: int, share: float) -> str:
    """
    >>> why_lags(1, 2, 0.5)
    'from 1 to 2 tasks: it processed 50% of its input'
    """
    return f"from {before} to {count(after, 'task')}: it processed {share:.0%} of its input"


def why_fewer(before: int, after: int, busy: float) -> str:
    """
    >>> why_fewer(8, 3, 2.25)
    'from 8 to 3 tasks: 2.2 of them were busy'
    """
    return f"from {before} to {count(after, 'task')}: {busy:.1f} of them were busy"


def why_joined(others: int, cost: float, added: int) -> str:
    """
    >>> why_joined(12, 0.4, 0)
    'joined 12 queries: cost 0.40, adds no task'
    """
    adds = f"adds {count(added, 'task')}" if added else "adds no task"
    return f"joined {count_queries(others)}: cost {cost:.2f}, {adds}"


def why_alone(known: bool) -> str:
    return (
        "alone: in every group it would slow somebody"
        if known
        else "alone: no sample tells yet what it would cost others"
    )


def why_packed(others: int) -> str:
    return f"with {count_queries(others)} for now: the driver cannot run more groups"
