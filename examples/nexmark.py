"""Nexmark on Headrace: an auction site, and the questions of the benchmark as continuous queries over its streams.

Nexmark's q3, q4 and q9 have no windows and keep all input forever; here they look at one window at a time.
"""

import tempfile
from datetime import UTC, datetime
from typing import NamedTuple

import headrace
from headrace.workloads.nexmark import EVENT_TIME, STREAMS, Nexmark


class Question(NamedTuple):
    """What a query computes, and its text; `then` finishes its results with Spark SQL where one query is not enough."""

    about: str
    text: str
    then: str | None = None


QUERIES = {
    "q3": Question(
        "who sells in category 10 from Oregon, Idaho or California, among people who joined in the same 10 seconds",
        """
        SELECT p.name, p.city, p.state, a.id
        FROM (SELECT *, window(date_time, '10 seconds') AS window FROM auction) AS a
        JOIN (SELECT *, window(date_time, '10 seconds') AS window FROM person) AS p
          ON a.window = p.window AND a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
        """,
    ),
    # Nexmark averages the last price of auctions that are over. The highest price of each auction is one continuous
    # query; the average of these is a second level, which is asked of its results.
    "q4": Question(
        "the average closing price per category: the highest price of each auction, and the average of these",
        """
        SELECT a.id, a.category, MAX(b.price) AS price
        FROM auction [RANGE 20 SECONDS SLIDE 10 SECONDS] AS a, bid [RANGE 20 SECONDS SLIDE 10 SECONDS] AS b
        WHERE a.id = b.auction AND b.date_time >= a.date_time AND b.date_time <= a.expires
        GROUP BY a.id, a.category
        """,
        "SELECT window_end, category, AVG(price) AS price FROM q4 GROUP BY window_end, category ORDER BY ALL",
    ),
    "q5": Question(
        "hot items: the auctions with the most bids of the last 10 seconds, every 2 seconds",
        """
        SELECT auction, bids FROM (
          SELECT auction, bids, RANK() OVER (ORDER BY bids DESC) AS place FROM (
            SELECT auction, COUNT(*) AS bids FROM bid [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY auction))
        WHERE place = 1
        """,
    ),
    "q7": Question(
        "the highest bid of every 10 seconds, with its auction and bidder",
        """
        SELECT auction, bidder, price FROM (
          SELECT auction, bidder, price, RANK() OVER (ORDER BY price DESC) AS place FROM bid [RANGE 10 SECONDS])
        WHERE place = 1
        """,
    ),
    "q8": Question(
        "new users: people who joined and opened auctions in the same 10 seconds",
        """
        SELECT p.id, p.name, p.window.start AS since, COUNT(*) AS auctions
        FROM (SELECT *, window(date_time, '10 seconds') AS window FROM person) AS p
        JOIN (SELECT *, window(date_time, '10 seconds') AS window FROM auction) AS a
          ON p.window = a.window AND p.id = a.seller
        GROUP BY p.window, p.id, p.name
        """,
    ),
    # Nexmark shows the winning bid itself; this is its price, with how many bids it has beaten or equalled.
    "q9": Question(
        "winning bids: the highest price of each auction, of the bids that came before it expired",
        """
        SELECT a.id, a.seller, MAX(b.price) AS price, COUNT(*) AS bids, a.window.end AS until
        FROM (SELECT *, window(date_time, '10 seconds') AS window FROM auction) AS a
        JOIN (SELECT *, window(date_time, '10 seconds') AS window FROM bid) AS b
          ON a.window = b.window AND a.id = b.auction
        WHERE b.date_time >= a.date_time AND b.date_time <= a.expires
        GROUP BY a.window, a.id, a.seller
        """,
    ),
    "q11": Question(
        "user sessions: bids per bidder until none has come for 10 seconds",
        """
        SELECT bidder, COUNT(*) AS bids, session_window.start AS since, session_window.end AS until
        FROM bid GROUP BY bidder, session_window(date_time, '10 seconds')
        """,
    ),
}

SITE = Nexmark(datetime(2026, 1, 1, 12, tzinfo=UTC), rate=200, seed=7, group=100)
EVENTS, PIECES = 12_000, 4
"""A minute of the site, in four pieces."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder, headrace.open(folder) as hr:
        for stream, schema in STREAMS.items():
            hr.create_stream(stream, schema, event_time=EVENT_TIME, watermark=SITE.watermark)
        for name, question in QUERIES.items():
            hr.create_query(question.text, name=name)
        for piece in range(PIECES):
            for stream, tuples in SITE.events(piece * EVENTS // PIECES, EVENTS // PIECES).items():
                hr.append(stream, tuples)
            hr.run_available()
        for stream in STREAMS:
            hr.close_stream(stream)
        hr.run_available()
        for name, question in QUERIES.items():
            query = hr.query(name)
            found = query.to_pandas()
            print(f"\n{name}: {question.about}")
            shown = found if question.then is None else hr.select(question.then).toPandas()
            print(shown.head(5).to_string(index=False))
            print(f"{len(found):,} rows, equal to plain Spark: {query.audit().ok}")


if __name__ == "__main__":
    main()
