"""Who makes an epoch fail, when the failure names nobody: found by halving, one query at a time.

Queries stand in a row, the least suspicious first. Without any of them the epoch runs; with all of them it fails. So
there is a place in the row where it turns: with the queries before it the epoch runs, with one more it fails. Halving
finds such a place in log2(n) trials, whatever the failure is. That query is the culprit.

An error may also come once and never again. So the trial that failed is run once more before anybody is blamed. If it
runs this time, the search goes on behind it.

Memory and time can also run out by the sum of many queries that are each in order. Then the culprit has to fail by
itself too; otherwise nobody is to blame.

A trial may take Spark with it, or even this process. So what is known is written down before every trial (`Search` is a
record of the warehouse), and a trial that was under way when everything ended counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from headrace.engine.failure import Failure, FailureKind
from headrace.model import codec

AT_ONCE = 2
"""After so many deaths of Spark in an epoch it is not run again as a whole before the search."""

Fails = Callable[[tuple[int, ...]], Failure | None]
"""A trial: why the epoch fails with these queries; None when it runs."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is known about an epoch that fails. It fails with `order[:bad]` and runs with `order[:good]`.

    `trying` is how many of the row the trial under way has; `alone` says that it has only the last of these.
    `fallback` is a query that runs by itself and is under way. `culprits` are those found so far, with the reason.
    `deaths` counts how often Spark died or stuck in this epoch before anybody searched.
    """

    epoch: int
    deaths: int = 0
    order: tuple[int, ...] = ()
    good: int = 0
    bad: int = 0
    kind: str = FailureKind.ERROR.name
    reason: str = ""
    trying: int | None = None
    alone: bool = False
    fallback: int | None = None
    culprits: dict[str, str] = field(default_factory=dict)

    @property
    def failure(self) -> Failure:
        return Failure(FailureKind[self.kind], self.reason)

    def failed(self, bad: int, failure: Failure) -> Search:
        return replace(self, bad=bad, kind=failure.kind.name, reason=failure.reason, trying=None, alone=False)


codec.register(Search)


def begin(search: Search, suspects: Sequence[int], failure: Failure) -> Search:
    """The search over a row of suspects that fails as a whole. What is known of the same row is kept."""
    known = tuple(q for q in search.order if str(q) not in search.culprits)
    if search.trying is None and known == tuple(suspects):
        return replace(search, order=known, good=min(search.good, len(known))).failed(len(known), failure)
    if search.trying is not None and search.order == tuple(suspects):
        return search
    return replace(search, order=tuple(suspects), good=0, trying=None, alone=False).failed(
        len(suspects), failure
    )


def find_culprit(
    search: Search,
    fails: Fails,
    note: Callable[[Search], None],
    likely: int = 0,
    died: Failure | None = None,
    gave_time: bool = True,
) -> tuple[Search, bool]:
    """(the search at its end, whether `order[good]` is to blame). Needs a row that is not empty.

    The first trial is without the `likely` last ones. `died` is how a trial failed that never ended; `note` is called
    with what is known before each trial. `gave_time` says whether an epoch that was stopped had as long as the trial of
    a query by itself has; if not, a row of one query has to fail such a trial, too.

    >>> row = Search(7, order=(1, 2, 3, 4, 5), bad=5)
    >>> found, guilty = find_culprit(row, lambda ids: Failure(FailureKind.ERROR, "x") if 3 in ids else None, id)
    >>> found.order[found.good], guilty
    (3, True)
    """
    if search.trying is not None and died is not None:
        if search.alone:
            return search.failed(search.bad, died), True
        search = search.failed(search.trying, died)
    if search.good >= search.bad:  # a row that ran a moment ago: this failure is of another kind
        return search, False
    while True:
        search = _halve(search, fails, note, likely)
        if search.failure.by_resources:
            return _alone(search, fails, note, gave_time)
        note(replace(search, trying=search.bad))
        failure = fails(search.order[: search.bad])
        if failure is not None:
            search = search.failed(search.bad, failure)
            return _alone(search, fails, note, gave_time) if failure.by_resources else (search, True)
        search = replace(search, good=search.bad, bad=len(search.order))
        if search.good == search.bad:  # everybody runs together now: nobody is to blame
            return search, False


def _halve(search: Search, fails: Fails, note: Callable[[Search], None], likely: int) -> Search:
    """The search with `bad == good + 1`."""
    while search.bad - search.good > 1:
        middle = (search.good + search.bad) // 2
        if search.good < len(search.order) - likely < search.bad:
            middle = len(search.order) - likely
        note(replace(search, trying=middle))
        failure = fails(search.order[:middle])
        search = replace(search, good=middle) if failure is None else search.failed(middle, failure)
    return search


def _alone(
    search: Search, fails: Fails, note: Callable[[Search], None], gave_time: bool
) -> tuple[Search, bool]:
    """Whether `order[good]` fails by itself too, when memory or time ran out."""
    if len(search.order) == 1 and (gave_time or search.failure.kind is not FailureKind.TIME):
        return search, True
    note(replace(search, trying=search.bad, alone=True))
    failure = fails((search.order[search.good],))
    return (search if failure is None else search.failed(search.bad, failure)), failure is not None


def by_suspicion(levels: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], int]:
    """(queries from the least to the most suspicious, how many share the highest level), from (query, level).

    >>> by_suspicion([(1, 0), (2, 2), (3, 1), (4, 2)])
    ((1, 3, 2, 4), 2)
    """
    ranked = sorted(levels, key=lambda pair: (pair[1], pair[0]))
    highest = ranked[-1][1] if ranked else 0
    likely = sum(level == highest for _, level in ranked)
    return tuple(query for query, _ in ranked), likely if likely < len(ranked) else 0
