"""The Nexmark generator against the proportions, references and shares of the reference's description."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.workloads import nexmark
from headrace.workloads.nexmark import FIRST_AUCTION, FIRST_PERSON, STREAMS, Nexmark

START = datetime(2026, 3, 1, tzinfo=UTC)
SITE = Nexmark(START, seed=3)
ARROW = {"BIGINT": pa.int64(), "STRING": pa.string(), "TIMESTAMP": pa.timestamp("us", tz="UTC")}


def numbers(table: pa.Table, name: str) -> Any:
    return table[name].combine_chunks().to_numpy()


def test_columns_are_those_of_the_streams_and_never_null() -> None:
    for stream, table in SITE.events(0, 5_000).items():
        declared = [part.split() for part in STREAMS[stream].split(", ")]
        assert [(field.name, field.type) for field in table.schema] == [(n, ARROW[t]) for n, t in declared]
        assert all(column.null_count == 0 for column in table.columns)


def test_fifty_events_are_a_person_three_auctions_and_46_bids() -> None:
    for first in (0, 50, 12_350):
        assert {name: t.num_rows for name, t in SITE.events(first, 50).items()} == {
            "person": 1,
            "auction": 3,
            "bid": 46,
        }
    other = replace(SITE, proportions=(2, 5, 3)).events(0, 1_000)
    assert [table.num_rows for table in other.values()] == [200, 500, 300]


@pytest.mark.parametrize("group", [1, 100])
def test_a_range_of_events_is_that_of_a_longer_run(group: int) -> None:
    site = replace(SITE, group=group)
    whole = site.events(0, 7_000)
    parts = [site.events(first, n) for first, n in ((0, 1), (1, 2_499), (2_500, 137), (2_637, 4_363))]
    for stream, table in whole.items():
        assert (
            pa.concat_tables([part[stream] for part in parts]).combine_chunks().equals(table.combine_chunks())
        )
    assert not replace(site, seed=4).events(0, 7_000)["bid"].equals(whole["bid"])


def test_ids_count_up_and_refer_to_what_exists() -> None:
    events = replace(SITE, lead=0).events(0, 20_000)
    people, auctions = numbers(events["person"], "id"), numbers(events["auction"], "id")
    assert list(people) == list(range(FIRST_PERSON, FIRST_PERSON + 400))
    assert list(auctions) == list(range(FIRST_AUCTION, FIRST_AUCTION + 1_200))
    times = {name: numbers(events[name], "date_time") for name in events}
    bid = events["bid"]
    for referring, column, ids, made in (
        ("bid", "auction", auctions, times["auction"]),
        ("bid", "bidder", people, times["person"]),
        ("auction", "seller", people, times["person"]),
    ):
        named = np.searchsorted(ids, numbers(events[referring], column))
        assert (made[named] <= times[referring]).all(), column
    assert (numbers(bid, "price") >= 100).all() and (numbers(bid, "price") <= 100_000_000).all()


def test_ids_may_lead_by_ten_at_most() -> None:
    events = SITE.events(0, 20_000)
    last = numbers(events["auction"], "id").max()
    assert last < numbers(events["bid"], "auction").max() <= last + 10
    assert numbers(events["bid"], "bidder").max() <= numbers(events["person"], "id").max() + 10


def test_bids_stay_with_auctions_in_flight_and_active_people() -> None:
    bid = SITE.events(500_000, 5_000)["bid"]
    newest = 500_000 // 50 * 3
    assert numbers(bid, "auction").min() >= FIRST_AUCTION + newest - 100 - 100  # the hot one may be older
    assert numbers(bid, "bidder").min() >= FIRST_PERSON + 10_000 - 1_000 - 1


@pytest.mark.parametrize(
    ("stream", "column", "ratio", "place"),
    [
        ("bid", "auction", "hot_auctions", 0),
        ("bid", "bidder", "hot_bidders", 1),
        ("auction", "seller", "hot_sellers", 0),
    ],
)
@pytest.mark.parametrize("value", [2, 4, 20])
def test_hot_shares_follow_their_ratio(stream: str, column: str, ratio: str, place: int, value: int) -> None:
    site = replace(SITE, **{ratio: value})  # type: ignore[arg-type]
    ids = numbers(site.events(100_000, 100_000)[stream], column) - 1_000
    assert (ids % 100 == place).mean() == pytest.approx(1 - 1 / value, abs=0.03)


def test_events_keep_the_rate_in_order() -> None:
    events = replace(SITE, rate=1_000).events(0, 10_000)
    for table in events.values():
        times = numbers(table, "date_time")
        assert (np.diff(times) >= np.timedelta64(0)).all()
    assert pc.max(events["bid"]["date_time"]).as_py() == START.replace(second=9, microsecond=999_000)
    auction = events["auction"]
    assert pc.all(pc.greater(auction["expires"], auction["date_time"])).as_py()
    lasts = numbers(auction, "expires") - numbers(auction, "date_time")
    assert lasts.mean() / np.timedelta64(1, "ms") == pytest.approx(100 * 50 / 3, rel=0.1)


def test_disorder_stays_within_its_group_and_the_watermark_covers_it() -> None:
    site = replace(SITE, rate=1_000, group=200)
    ordered, mixed = replace(site, group=1).events(0, 4_000)["bid"], site.events(0, 4_000)["bid"]
    assert sorted(mixed["date_time"].to_pylist()) == ordered["date_time"].to_pylist()
    times = numbers(mixed, "date_time")
    behind = np.maximum.accumulate(times) - times
    assert np.timedelta64(100, "ms") < behind.max() <= np.timedelta64(199, "ms")
    assert site.watermark == "199 milliseconds" and SITE.watermark == "0 milliseconds"


def test_tuples_have_their_average_size() -> None:
    site = replace(SITE, bid_bytes=150)
    events = site.events(0, 50_000)
    for stream, numbers_bytes, mean in (("person", 8, 200), ("auction", 48, 500)):
        texts = [column for column in events[stream].columns if pa.types.is_string(column.type)]
        size = numbers_bytes + sum(pc.mean(pc.binary_length(text)).as_py() for text in texts)
        assert size == pytest.approx(mean, rel=0.05), stream
    assert pc.mean(pc.binary_length(events["bid"]["extra"])).as_py() == pytest.approx(150 - 32, rel=0.05)


def test_channels_are_hot_half_of_the_time_and_most_say_their_id() -> None:
    bid = SITE.events(0, 50_000)["bid"]
    hot = pc.is_in(bid["channel"], pa.array(nexmark.HOT_CHANNELS))
    assert pc.mean(pc.cast(hot, "int8")).as_py() == pytest.approx(0.5, abs=0.02)
    others = bid.filter(pc.invert(hot))
    assert pc.all(pc.starts_with(others["channel"], "channel-")).as_py()
    share = pc.mean(pc.cast(pc.match_substring(others["url"], "&channel_id="), "int8")).as_py()
    assert share == pytest.approx(0.9, abs=0.02)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Nexmark(START, rate=0)
    with pytest.raises(ValueError, match="cannot be shuffled"):
        Nexmark(START, group=953)
