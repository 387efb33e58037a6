"""What the conductor knows at a moment: rates, regions and samples of queries, made from the engine's counts."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.engine.conductor.facts import LiveQuery, operator_of, streams_of
from headrace.engine.conductor.sampling import TUPLES, StreamSample, columns_of, region_tables, samples_alike
from headrace.engine.conductor.stage import Stage
from headrace.engine.conductor.watching import Books
from headrace.model.query import Join, QueryId, QueryPlan
from headrace.optimizer.grouping.regions import query_samples
from headrace.optimizer.grouping.statistics import QuerySample, Statistics
from headrace.optimizer.grouping.values import OperatorId

RATED_LOOKS = 3
"""Tuples are counted over so many looks for the rate of a stream."""

NOTHING = Statistics({}, {}, {})


class Knowledge:
    """Rates and samples of streams, kept up to date by the conductor. Only `samples_of` may be asked meanwhile."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._counts: deque[tuple[float, Mapping[str, int]]] = deque()
        self._rates: dict[str, float] = {}
        self._samples: dict[str, StreamSample] = {}
        self.statistics = NOTHING

    def count(self, now: float, every_s: float) -> None:
        """Note how many tuples have come in. A stream that rests keeps the rate that it had."""
        arrived = self._stage.arrived()
        self._counts.append((now, arrived))
        while len(self._counts) > 2 and now - self._counts[1][0] > RATED_LOOKS * every_s:
            self._counts.popleft()
        since, before = self._counts[0]
        if now > since:
            for stream, count in arrived.items():
                rate = (count - before.get(stream, 0)) / (now - since)
                if rate > 0:
                    self._rates[stream] = rate

    def rate(self, streams: Iterable[str]) -> float:
        """Tuples per second of these streams together."""
        return sum(self._rates.get(stream, 0.0) for stream in streams)

    def look(self, queries: Sequence[LiveQuery], books: Books, now: float, every_s: float) -> None:
        """Take new samples of all streams that queries read, and make statistics of them. Looks are `every_s` apart."""
        self.count(now, every_s)
        streams = sorted({stream for query in queries for stream in query.plan.streams})
        plans = [query.plan for query in queries]
        found: dict[str, StreamSample] = {}
        for stream in streams:
            sample = self._stage.sample(stream, sorted(columns_of(plans, stream)), TUPLES)
            if sample is not None:
                found[stream] = sample
        self._samples = found
        self.statistics = self._make(queries, books, found)

    def samples_of(
        self, guests: Sequence[LiveQuery], usual: Mapping[OperatorId | None, float]
    ) -> dict[QueryId, QuerySample]:
        """What the newest samples say of queries that are being created. From any thread.

        A join is taken to find as many matches as those of the same streams do, which `usual` has.
        """
        known = self._with_columns([guest.plan for guest in guests])
        samples: dict[QueryId, QuerySample] = {}
        joins: list[LiveQuery] = []
        alike: dict[OperatorId, list[LiveQuery]] = defaultdict(list)
        for guest in guests:
            operator = operator_of(guest.plan)
            if operator is not None and len(streams_of(operator)) == 1:
                alike[operator].append(guest)
            else:
                joins.append(guest)
        for operator, mine in alike.items():
            sample = known.get(operator)
            if sample is not None and sample.rows:
                samples |= samples_alike(mine, sample, usual.get(operator, 1.0))
        if joins:
            found = {guest.id: usual.get(operator_of(guest.plan), 1.0) for guest in joins}
            for table in region_tables(joins, known, self._rates, found).values():
                samples |= query_samples(table)
        return samples

    def with_queries(self, queries: Sequence[LiveQuery], books: Books) -> Statistics:
        """The same about more queries, from new samples of the streams whose columns were not read for the old ones."""
        return self._make(queries, books, self._with_columns([query.plan for query in queries]))

    def _with_columns(self, plans: Sequence[QueryPlan]) -> Mapping[str, StreamSample]:
        """The samples, with new ones of the streams of which columns are asked for that were not read.

        A look may put others in their place meanwhile. So whoever asks goes on with what this gives. A stream is not
        among them if no sample of it has the columns.
        """
        samples = dict(self._samples)
        for stream in sorted({stream for plan in plans for stream in plan.streams}):
            wanted, known = columns_of(plans, stream), samples.get(stream)
            have = set() if known is None else set(known.columns)
            if known is None or not wanted <= have:
                samples.pop(stream, None)
                sample = self._stage.sample(stream, sorted(wanted | have), TUPLES)
                if sample is not None:
                    samples[stream] = sample
                    self._samples = {**self._samples, stream: sample}
        return samples

    def _make(
        self, queries: Sequence[LiveQuery], books: Books, sampled: Mapping[str, StreamSample]
    ) -> Statistics:
        joins = [query.id for query in queries if isinstance(query.plan.body, Join)]
        # what is no join has one match for each tuple
        matches = {query.id: 1.0 for query in queries} | dict.fromkeys(joins, float("nan"))
        measured = books.matches(joins)
        tables = region_tables(queries, sampled, self._rates, matches | measured)
        samples: dict[QueryId, QuerySample] = {}
        for table in tables.values():
            samples |= query_samples(table)
        # a region has the matches of all who want it, mixed. What a query by itself finds is known better
        samples |= {
            query: replace(samples[query], matches=found)
            for query, found in measured.items()
            if query in samples
        }
        operators = {operator_of(query.plan) for query in queries} - {None}
        rates: dict[OperatorId, float] = {
            operator: sum(self._rates[stream] for stream in streams_of(operator))
            for operator in operators
            if operator is not None and all(stream in self._rates for stream in streams_of(operator))
        }
        return Statistics(rates, tables, samples)
