# ruff: noqa: E501 - a query stays as its source writes it
"""Nexmark with the rows that RisingWave's end-to-end tests expect.

A day of bids is a window of a day, in which streams are joined too; RisingWave's functions are written as Spark's. (The
source has no expected rows for the other Nexmark queries.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from oracle_files import folder, typed_row

from headrace import sources
from headrace.results.compare import compare_rows

pytestmark = pytest.mark.spark

STREAMS = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING",
}
SIZES = {"person": 20, "auction": 40, "bid": 50}

RANKS = """
    count(*) AS total_bids,
    count(*) filter (where price < 10000) AS rank1_bids,
    count(*) filter (where price >= 10000 and price < 1000000) AS rank2_bids,
    count(*) filter (where price >= 1000000) AS rank3_bids"""
DISTINCT_RANKS = ",".join(
    f"""
    count(distinct {who}) AS total_{who}s,
    count(distinct {who}) filter (where price < 10000) AS rank1_{who}s,
    count(distinct {who}) filter (where price >= 10000 and price < 1000000) AS rank2_{who}s,
    count(distinct {who}) filter (where price >= 1000000) AS rank3_{who}s"""
    for who in ("bidder", "auction")
)
DAY = "date_format(window.start, 'yyyy-MM-dd') AS day"
CHANNEL_ID = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"


@dataclass(frozen=True, slots=True)
class Case:
    """`windowed`: the result has window_start and window_end first, which the source's rows lack.

    `blanks`: its texts have blanks in them, so that its rows are compared as they are printed.
    """

    text: str
    shared: bool = True
    windowed: bool = False
    blanks: bool = False


CASES = {
    "q0": Case("SELECT auction, bidder, price, date_time FROM bid"),
    "q1": Case("SELECT auction, bidder, 0.908 * price as price, date_time FROM bid"),
    "q2": Case(
        "SELECT auction, price FROM bid WHERE auction = 1007 OR auction = 1020 OR auction = 2001 OR auction = 2019 OR auction = 2087"
    ),
    "q10": Case(
        "SELECT auction, bidder, price, date_time, date_format(date_time, 'yyyy-MM-dd') as date, date_format(date_time, 'hh:mm') as time FROM bid"
    ),
    "q14": Case("""
        SELECT auction, bidder, 0.908 * price as price,
          CASE
            WHEN extract(hour from date_time) >= 8 AND extract(hour from date_time) <= 18 THEN 'dayTime'
            WHEN extract(hour from date_time) <= 6 OR extract(hour from date_time) >= 20 THEN 'nightTime'
            ELSE 'otherTime'
          END AS bidTimeType,
          date_time, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"""),
    "q15": Case(f"SELECT {DAY}, {RANKS}, {DISTINCT_RANKS} FROM bid GROUP BY window(date_time, '1 day')"),
    "q16": Case(
        f"""SELECT channel, {DAY}, max(date_format(date_time, 'hh:MM')) AS minute, {RANKS}, {DISTINCT_RANKS}
            FROM bid GROUP BY channel, window(date_time, '1 day')"""
    ),
    "q17": Case(
        f"""SELECT auction, {DAY}, {RANKS}, min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price,
            sum(price) AS sum_price FROM bid GROUP BY auction, window(date_time, '1 day')"""
    ),
    "q18": Case(
        """
        SELECT auction, bidder, price, channel, url, date_time, extra
        FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, extra) AS rank_number
            FROM bid [RANGE 1 DAY]
        )
        WHERE rank_number <= 1""",
        shared=False,
        windowed=True,
    ),
    "q19": Case(
        """
        SELECT * FROM
            (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid [RANGE 1 DAY])
        WHERE rank_number <= 10""",
        shared=False,
        windowed=True,
    ),
    "q21": Case(f"""
        SELECT auction, bidder, price, channel,
            CASE
                WHEN LOWER(channel) = 'apple' THEN '0'
                WHEN LOWER(channel) = 'google' THEN '1'
                WHEN LOWER(channel) = 'facebook' THEN '2'
                WHEN LOWER(channel) = 'baidu' THEN '3'
            ELSE {CHANNEL_ID}
            END AS channel_id
        FROM bid
        WHERE {CHANNEL_ID} is not null or LOWER(channel) in ('apple', 'google', 'facebook', 'baidu')"""),
    "q3": Case(
        """
        SELECT P.name, P.city, P.state, A.id
        FROM auction [RANGE 1 DAY] AS A INNER JOIN person [RANGE 1 DAY] AS P on A.seller = P.id
        WHERE A.category = 10 and (P.state = 'or' OR P.state = 'id' OR P.state = 'ca')""",
        windowed=True,
        blanks=True,
    ),
    "q20": Case(
        """
        SELECT
            auction, bidder, price, channel, url, B.date_time as bid_date_time, B.extra as bid_extra,
            item_name, description, initial_bid, reserve, A.date_time as auction_date_time, expires, seller, category, A.extra as auction_extra
        FROM
            bid [RANGE 1 DAY] AS B INNER JOIN auction [RANGE 1 DAY] AS A on B.auction = A.id
        WHERE A.category = 10""",
        windowed=True,
        blanks=True,
    ),
    "q22": Case("""
        SELECT auction, bidder, price, channel,
            split_part(url, '/', 4) as dir1, split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3
        FROM bid"""),
}


@pytest.fixture(scope="module")
def expected() -> Mapping[str, list[str]]:
    cases = json.loads((folder("nexmark") / "cases.json").read_text(encoding="utf-8"))
    return {case["name"]: case["expected"] for case in cases}


@pytest.fixture(scope="module")
def nexmark(expected: Mapping[str, list[str]], oracle_session: Any) -> Any:
    """The streams read from their JSON files, every case's query, and all windows closed."""
    for name, schema in STREAMS.items():
        source = sources.files(folder("nexmark") / f"{name}.json*", "json")
        oracle_session.create_stream(name, schema, event_time="date_time", source=source)
    for name, case in CASES.items():
        oracle_session.create_query(case.text, name=name)
    oracle_session.run_available()
    for name in STREAMS:
        oracle_session.close_stream(name)
    oracle_session.run_available()
    return oracle_session


def test_every_tuple_arrived(nexmark: Any) -> None:
    assert {s.name: s.rows for s in nexmark.streams() if s.name in SIZES} == SIZES


def test_every_case_is_here(expected: Mapping[str, list[str]]) -> None:
    assert expected.keys() == CASES.keys()


def as_text(row: tuple[Any, ...]) -> str:
    """A row as the source prints it."""

    def shown(value: Any) -> str:
        if isinstance(value, datetime):
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3].removesuffix(".000")
        return " ".join(str(value).split())

    return " ".join(map(shown, row))


@pytest.mark.parametrize("name", CASES)
def test_rows_are_the_published_ones(name: str, nexmark: Any, expected: Mapping[str, list[str]]) -> None:
    case, query = CASES[name], nexmark.query(name)
    frame = query.results()
    if case.windowed:
        frame = frame.drop("window_start", "window_end")
    types = [field.dataType.simpleString() for field in frame.schema]
    table = frame.toArrow()
    actual = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if case.blanks:
        assert sorted(map(as_text, actual)) == sorted(" ".join(line.split()) for line in expected[name])
    else:
        wanted = [typed_row(line, types) for line in expected[name]]
        assert compare_rows(wanted, actual) == ([], [])
    report = query.audit()
    assert report.ok, report
    assert report.actual_rows == len(expected[name])
    (info,) = (info for info in nexmark.queries() if info.name == name)
    assert info.shared is case.shared
