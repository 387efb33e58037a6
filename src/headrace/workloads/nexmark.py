"""Nexmark's auction site: people join, open auctions and bid, at the proportions of the reference generator.

Constants are those of github.com/nexmark/nexmark; the code is ours. Every value is a function of the seed and of the
event's number, so any range of events can be made by itself, on any machine, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

STREAMS = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, "
    "date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, "
    "extra STRING",
}
EVENT_TIME = "date_time"

FIRST_PERSON = FIRST_AUCTION = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_GROUP = 100
"""One of so many auctions, sellers and bidders in a row is hot."""

CHANNELS, HOT_CHANNELS, HOT_CHANNEL_RATIO = 10_000, ("Google", "Facebook", "Baidu", "Apple"), 2
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
FIRST_NAMES = (
    *("Peter", "Paul", "Luke", "John", "Saul", "Vicky"),
    *("Kate", "Julie", "Sarah", "Deiter", "Walter"),
)
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

NUMBER_BYTES, PERSON_TEXT_BYTES, AUCTION_TEXT_BYTES = 8, 55, 60
"""What a number or time takes, and what the texts of a person and of an auction do on average, before `extra`."""

_POOL = 4_096
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Nexmark:
    """The three streams from `start` on, at `rate` events per second of event time over all of them.

    `proportions` are people, auctions and bids of a round. A bid goes to the hot auction with probability
    1 - 1 / `hot_auctions`, else to one of the last `in_flight` auctions, and likewise for `hot_bidders` and
    `hot_sellers` among the last `active_people`. Ids may be up to `lead` ahead of what exists: what they name comes
    a little later. Events arrive in order, or shuffled in groups of `group`; 1 is no disorder. `*_bytes` are average
    sizes of a tuple, which `extra` fills up.
    """

    start: datetime
    rate: int = 10_000
    seed: int = 0
    proportions: tuple[int, int, int] = (1, 3, 46)
    hot_auctions: int = 2
    hot_sellers: int = 4
    hot_bidders: int = 4
    in_flight: int = 100
    active_people: int = 1_000
    lead: int = 10
    group: int = 1
    person_bytes: int = 200
    auction_bytes: int = 500
    bid_bytes: int = 100

    def __post_init__(self) -> None:
        least = min(
            self.rate, self.group, *self.proportions, self.hot_auctions, self.hot_sellers, self.hot_bidders
        )
        if least < 1:
            raise ValueError(f"rates, ratios and proportions are at least 1, got {least}")
        if self.group % _STRIDE == 0:
            raise ValueError(f"a group of {self.group} cannot be shuffled: it is a multiple of {_STRIDE}")

    @property
    def watermark(self) -> str:
        """The delay that covers the disorder.

        >>> Nexmark(datetime(2026, 1, 1), rate=1_000, group=250).watermark
        '249 milliseconds'
        """
        return f"{-(-(self.group - 1) * 1_000 // self.rate)} milliseconds"

    def events(self, first: int, n: int) -> dict[str, pa.Table]:
        """Events number `first` to `first + n` as they arrive, a table per stream."""
        number = np.arange(first, first + n, dtype=np.int64)
        event = number // self.group * self.group + number * _STRIDE % self.group
        people, auctions, bids = self.proportions
        place = event % (people + auctions + bids)
        return {
            "person": self._people(event[place < people]),
            "auction": self._auctions(event[(place >= people) & (place < people + auctions)]),
            "bid": self._bids(event[place >= people + auctions]),
        }

    def _people(self, event: np.ndarray) -> pa.Table:
        draw = _Draws(self.seed, event)
        digits = _digits()
        card = [digits.take(draw.below(10_000)) for _ in range(4)]
        local, domain = (draw.of(_words(self.seed, most)) for most in (7, 5))
        extra = self.person_bytes - NUMBER_BYTES - PERSON_TEXT_BYTES
        return _table(
            "person",
            FIRST_PERSON + self._last_person(event),
            draw.of(_names()),
            pc.binary_join_element_wise(local, pc.binary_join_element_wise(domain, "com", "."), "@"),
            pc.binary_join_element_wise(*card, " "),
            draw.of(pa.array(CITIES)),
            draw.of(pa.array(STATES)),
            self._times(event),
            draw.of(_extras(self.seed, extra)),
        )

    def _auctions(self, event: np.ndarray) -> pa.Table:
        draw = _Draws(self.seed, event)
        initial = draw.prices()
        round_size, auctions = sum(self.proportions), self.proportions[1]
        horizon_ms = self._ms(event + self.in_flight * round_size // auctions) - self._ms(event)
        lasts_ms = 1 + draw.below(np.maximum(2 * horizon_ms, 1))
        last = self._last_person(event)
        hot = last // HOT_GROUP * HOT_GROUP
        seller = np.where(draw.below(self.hot_sellers) > 0, hot, self._active(draw, last))
        extra = self.auction_bytes - 6 * NUMBER_BYTES - AUCTION_TEXT_BYTES
        return _table(
            "auction",
            FIRST_AUCTION + self._last_auction(event),
            draw.of(_words(self.seed, 20)),
            draw.of(_words(self.seed, 100)),
            initial,
            initial + draw.prices(),
            self._times(event),
            self._times(event, lasts_ms),
            FIRST_PERSON + seller,
            FIRST_CATEGORY + draw.below(CATEGORIES),
            draw.of(_extras(self.seed, extra)),
        )

    def _bids(self, event: np.ndarray) -> pa.Table:
        draw = _Draws(self.seed, event)
        last = self._last_auction(event)
        oldest = np.maximum(last - self.in_flight, 0)
        any_auction = oldest + draw.below(last - oldest + 1 + self.lead)
        auction = np.where(draw.below(self.hot_auctions) > 0, last // HOT_GROUP * HOT_GROUP, any_auction)
        newest = self._last_person(event)
        hot = np.minimum(newest // HOT_GROUP * HOT_GROUP + 1, newest + self.lead)
        bidder = np.where(draw.below(self.hot_bidders) > 0, hot, self._active(draw, newest))
        hot_channel = draw.below(len(HOT_CHANNELS))
        is_hot = draw.below(HOT_CHANNEL_RATIO) > 0
        channel = pa.array(np.where(is_hot, hot_channel, len(HOT_CHANNELS) + draw.below(CHANNELS)))
        names, urls = _channels(self.seed)
        return _table(
            "bid",
            FIRST_AUCTION + auction,
            FIRST_PERSON + bidder,
            draw.prices(),
            names.take(channel),
            urls.take(channel),
            self._times(event),
            draw.of(_extras(self.seed, self.bid_bytes - 4 * NUMBER_BYTES)),
        )

    def _last_person(self, event: np.ndarray) -> np.ndarray:
        """Number of the newest person when the event happens, itself included."""
        people = self.proportions[0]
        rounds, place = np.divmod(event, sum(self.proportions))
        last: np.ndarray = rounds * people + np.minimum(place, people - 1)
        return last

    def _last_auction(self, event: np.ndarray) -> np.ndarray:
        people, auctions, _ = self.proportions
        rounds, place = np.divmod(event, sum(self.proportions))
        last: np.ndarray = rounds * auctions + np.clip(place - people, -1, auctions - 1)
        return last

    def _active(self, draw: _Draws, last: np.ndarray) -> np.ndarray:
        active = np.minimum(last + 1, self.active_people)
        chosen: np.ndarray = last + 1 - active + draw.below(active + self.lead)
        return chosen

    def _ms(self, event: np.ndarray) -> np.ndarray:
        since: np.ndarray = event * 1_000 // self.rate
        return since

    def _times(self, event: np.ndarray, later_ms: np.ndarray | int = 0) -> pa.Array:
        start_us = int(self.start.timestamp() * 1_000_000)
        return pa.array(start_us + (self._ms(event) + later_ms) * 1_000).cast(_TIME)


_STRIDE = 953
"""A prime: its multiples go through a group in an order that looks like none."""

_GOLDEN, _MIX1, _MIX2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class _Draws:
    """Random values of events, one draw after the other: the i-th draw is a hash of seed, event and i (SplitMix64)."""

    def __init__(self, seed: int, event: np.ndarray) -> None:
        self._state = mixed(event.astype(np.uint64) * _GOLDEN + np.uint64(seed % 2**64))

    def uniform(self) -> np.ndarray:
        """In [0, 1)."""
        with np.errstate(over="ignore"):
            self._state = self._state + _GOLDEN
        drawn: np.ndarray = (mixed(self._state) >> np.uint64(11)) * 2.0**-53
        return drawn

    def below(self, bound: np.ndarray | int) -> np.ndarray:
        return (self.uniform() * bound).astype(np.int64)

    def prices(self) -> np.ndarray:
        """Cents: a power of ten up to a million, uniform in its exponent."""
        return np.round(np.power(10.0, self.uniform() * 6.0) * 100.0).astype(np.int64)

    def of(self, values: pa.Array) -> pa.Array:
        return values.take(pa.array(self.below(len(values))))


def mixed(state: np.ndarray) -> np.ndarray:
    """Unsigned numbers hashed to numbers that look random (the last step of SplitMix64)."""
    with np.errstate(over="ignore"):
        state = (state ^ (state >> np.uint64(30))) * _MIX1
        state = (state ^ (state >> np.uint64(27))) * _MIX2
    hashed: np.ndarray = state ^ (state >> np.uint64(31))
    return hashed


def _table(stream: str, *columns: pa.Array | np.ndarray) -> pa.Table:
    names = [part.split()[0] for part in STREAMS[stream].split(", ")]
    return pa.table(dict(zip(names, map(_array, columns), strict=True)))


def _array(column: pa.Array | np.ndarray) -> pa.Array:
    return pa.array(column) if isinstance(column, np.ndarray) else column


# texts are drawn from pools: making one per tuple would be most of the work


@cache
def _words(seed: int, most: int) -> pa.Array:
    """Texts of 3 to `most` - 1 letters and blanks."""
    rng = np.random.default_rng((seed, 1, most))
    lengths = rng.integers(3, most, _POOL)
    letters = rng.choice(np.frombuffer(b"abcdefghijklmnopqrstuvwxyz  ", np.uint8), (_POOL, most))
    texts = (row[:length].tobytes().decode().strip() for row, length in zip(letters, lengths, strict=True))
    return pa.array([text or "none" for text in texts])


@cache
def _extras(seed: int, mean: int) -> pa.Array:
    """Texts of `mean` letters on average, a fifth more or less; empty where there is no room."""
    if mean <= 0:
        return pa.array([""])
    rng = np.random.default_rng((seed, 2, mean))
    spread = round(mean * 0.2)
    lengths = mean - spread + rng.integers(0, max(2 * spread, 1), _POOL)
    letters = rng.integers(ord("a"), ord("z") + 1, (_POOL, mean + spread), np.uint8)
    return pa.array([row[:length].tobytes().decode() for row, length in zip(letters, lengths, strict=True)])


@cache
def _names() -> pa.Array:
    return pa.array([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])


@cache
def _digits() -> pa.Array:
    return pa.array([f"{number:04}" for number in range(10_000)])


@cache
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Names and addresses, the hot ones first. Nine of ten others say their id in the address."""
    rng = np.random.default_rng((seed, 3))
    words = [text.replace(" ", "_") for text in _words(seed, 5).to_pylist()]
    parts = rng.integers(0, len(words), (len(HOT_CHANNELS) + CHANNELS, 3))
    says_id = rng.integers(0, 10, len(parts)) > 0
    names, urls = list(HOT_CHANNELS), []
    for number, path in enumerate(parts):
        url = f"https://www.nexmark.com/{'/'.join(words[part] for part in path)}/item.htm?query=1"
        channel = number - len(HOT_CHANNELS)
        if channel >= 0:
            names.append(f"channel-{channel}")
            url += f"&channel_id={_reversed(channel)}" if says_id[number] else ""
        urls.append(url)
    return pa.array(names), pa.array(urls)


def _reversed(number: int) -> int:
    """The 32 bits of a number from last to first, as a signed number without its sign.

    >>> _reversed(1), _reversed(2)
    (2147483648, 1073741824)
    """
    turned = int(f"{number:032b}"[::-1], 2)
    return turned if turned < 2**31 else 2**32 - turned
