"""FunShare's workloads: Nexmark's streams with a filter attribute, and queries that overlap in it.

W1 joins people with the auctions of their favourite category. W2 joins auctions with their bids, and a third of the
queries each goes on in another way. W3 looks for auctions with similar descriptions. Each query takes a range of the
filter attribute, whose values are 0 to 99 (FunShare, section VI). The window is 60 s and slides by 1 s in the paper; a
small machine takes shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from random import Random
from typing import assert_never

import numpy as np
import pyarrow as pa

from headrace.workloads import nexmark
from headrace.workloads.nexmark import CATEGORIES, FIRST_CATEGORY, Nexmark

DOMAIN = 100
"""The filter attribute has so many values."""

STREAMS = {
    "person": f"{nexmark.STREAMS['person']}, favorite_category BIGINT, filter BIGINT",
    "auction": f"{nexmark.STREAMS['auction']}, filter BIGINT",
    "bid": nexmark.STREAMS["bid"],
}


class Spread(Enum):
    """How the filter attribute's values are spread (figure 9): all alike, or most of them near one value."""

    UNIFORM = "uniform"
    LOW = "low"
    MIDDLE = "middle"

    @property
    def weights(self) -> np.ndarray:
        """The share of each value.

        >>> [round(float(spread.weights[:10].sum()), 2) for spread in Spread]
        [0.1, 0.56, 0.03]
        """
        match self:
            case Spread.UNIFORM:
                return np.full(DOMAIN, 1.0 / DOMAIN)
            case Spread.LOW:
                return _zipfian(0)
            case Spread.MIDDLE:
                return _zipfian(DOMAIN // 2)
            case _:
                assert_never(self)


def _zipfian(peak: int) -> np.ndarray:
    """Values are the rarer the farther they are above the peak, going round at the end of the domain."""
    weights = 1.0 / (1.0 + (np.arange(DOMAIN) - peak) % DOMAIN)
    shares: np.ndarray = weights / weights.sum()
    return shares


@dataclass(frozen=True, slots=True)
class Traffic:
    """Nexmark's events with a filter attribute.

    A shift is the number of an event, and how the attribute's values are spread from that event on.
    """

    nexmark: Nexmark
    shifts: tuple[tuple[int, Spread], ...] = ((0, Spread.UNIFORM),)

    def __post_init__(self) -> None:
        starts = [start for start, _ in self.shifts]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)):
            raise ValueError("shifts begin with event 0 and ascend")

    def events(self, first: int, n: int) -> dict[str, pa.Table]:
        """Events number `first` to `first + n` as they arrive, a table per stream."""
        inside = [start for start, _ in self.shifts if first < start < first + n]
        edges = [first, *inside, first + n]
        made = [self._between(*edge) for edge in pairwise(edges)]
        return {stream: pa.concat_tables(tables[stream] for tables in made) for stream in STREAMS}

    def _between(self, first: int, last: int) -> dict[str, pa.Table]:
        """Events that no shift lies between."""
        made, seed = self.nexmark.events(first, last - first), self.nexmark.seed
        spread = [spread for start, spread in self.shifts if start <= first][-1]
        favorite = FIRST_CATEGORY + (_hashed(made["person"]["id"], seed, 1) % CATEGORIES).astype(np.int64)
        made["person"] = made["person"].append_column("favorite_category", pa.array(favorite))
        for stream in ("person", "auction"):
            filters = _filters(made[stream]["id"], seed, spread)
            made[stream] = made[stream].append_column("filter", filters)
        return made


def _filters(ids: pa.ChunkedArray, seed: int, spread: Spread) -> pa.Array:
    uniform = (_hashed(ids, seed, 2) >> np.uint64(11)) * 2.0**-53
    edges = np.cumsum(spread.weights)[:-1]
    return pa.array(np.searchsorted(edges, uniform, side="right"), pa.int64())


def _hashed(ids: pa.ChunkedArray, seed: int, salt: int) -> np.ndarray:
    numbers = ids.to_numpy().astype(np.uint64)
    with np.errstate(over="ignore"):
        return nexmark.mixed(numbers * np.uint64(2 * salt + 1) + np.uint64((seed * 7_919 + salt) % 2**64))


# queries


class Kind(Enum):
    """What a query asks. The three in the middle are W2's."""

    PREFERRED = "W1: auctions of a person's favourite category"
    CATEGORY_AVERAGE = "QCategoryAvg"
    SELLER_AVERAGE = "QSellerAvg"
    PRICE_ANOMALY = "QPriceAnomaly"
    SIMILAR = "W3: auctions with similar descriptions"


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """A query of a kind for the tuples whose filter attribute is in [`low`, `high`].

    >>> print(RangeQuery(Kind.CATEGORY_AVERAGE, 0, 9, range_s=6).cql())
    SELECT a.category, AVG(b.price) AS price FROM auction [RANGE 6 SECONDS SLIDE 1 SECONDS] AS a, \
bid [RANGE 6 SECONDS SLIDE 1 SECONDS] AS b WHERE a.id = b.auction AND a.filter BETWEEN 0 AND 9 GROUP BY a.category
    """

    kind: Kind
    low: int
    high: int
    range_s: int = 60
    slide_s: int = 1
    likeness: float = 0.9

    @property
    def streams(self) -> tuple[str, str]:
        match self.kind:
            case Kind.PREFERRED:
                return "person", "auction"
            case Kind.SIMILAR:
                return "auction", "auction"
            case Kind.CATEGORY_AVERAGE | Kind.SELLER_AVERAGE | Kind.PRICE_ANOMALY:
                return "auction", "bid"
            case _:
                assert_never(self.kind)

    def cql(self) -> str:
        window = f"[RANGE {self.range_s} SECONDS SLIDE {self.slide_s} SECONDS]"
        within = f"BETWEEN {self.low} AND {self.high}"
        bids = f"FROM auction {window} AS a, bid {window} AS b WHERE a.id = b.auction AND a.filter {within}"
        match self.kind:
            case Kind.PREFERRED:
                return (
                    f"SELECT p.id, a.id AS auction FROM person {window} AS p, auction {window} AS a "
                    f"WHERE p.favorite_category = a.category AND p.filter {within} AND a.filter {within}"
                )
            case Kind.CATEGORY_AVERAGE:
                return f"SELECT a.category, AVG(b.price) AS price {bids} GROUP BY a.category"
            case Kind.SELLER_AVERAGE:
                return f"SELECT a.seller, AVG(b.price) AS price {bids} GROUP BY a.seller"
            case Kind.PRICE_ANOMALY:
                return (
                    f"SELECT a.id, b.bidder, b.price {bids} "
                    f"AND price_anomaly(a.description, b.price) > {self.likeness}"
                )
            case Kind.SIMILAR:
                return (
                    f"SELECT l.id, r.id AS other FROM auction {window} AS l, auction {window} AS r "
                    "WHERE vector_cosine_similarity(embed_text(l.description), embed_text(r.description)) "
                    f"> {self.likeness} AND l.id < r.id AND l.filter {within} AND r.filter {within}"
                )
            case _:
                assert_never(self.kind)


WORKLOADS: dict[str, tuple[Kind, ...]] = {
    "W1": (Kind.PREFERRED,),
    "W2": (Kind.CATEGORY_AVERAGE, Kind.SELLER_AVERAGE, Kind.PRICE_ANOMALY),
    "W3": (Kind.SIMILAR,),
}
"""The kinds of queries of each workload, as many of each."""


def draw_queries(
    workload: str, count: int, selectivity: tuple[float, float], seed: int, range_s: int = 60
) -> list[RangeQuery]:
    """So many queries, each with a random range of the filter attribute. Its length is drawn between two shares.

    >>> [(query.kind.value, query.low, query.high) for query in draw_queries("W2", 3, (0.1, 0.1), seed=1)]
    [('QCategoryAvg', 8, 17), ('QSellerAvg', 63, 72), ('QPriceAnomaly', 60, 69)]
    """
    rng, kinds = Random(seed), WORKLOADS[workload]
    found = []
    for number in range(count):
        length = max(1, round(rng.uniform(*selectivity) * DOMAIN))
        low = rng.randint(0, DOMAIN - length)
        found.append(RangeQuery(kinds[number % len(kinds)], low, low + length - 1, range_s))
    return found


def from_start(queries: list[RangeQuery], seed: int) -> list[RangeQuery]:
    """The same queries with ranges that begin at the domain's start and end anywhere (figure 9)."""
    rng = Random(seed)
    return [replace(query, low=0, high=rng.randint(0, DOMAIN - 1)) for query in queries]
