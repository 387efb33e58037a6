"""The smallest whole use of Headrace: a stream, a query, a few purchases, proof that the rows are right."""

import tempfile
from datetime import UTC, datetime, timedelta

import headrace

noon = datetime(2026, 1, 1, 12, tzinfo=UTC)


def purchase(second: int, pack: int, price: float) -> dict[str, object]:
    return {"userID": 1, "gemPackID": pack, "price": price, "ts": noon + timedelta(seconds=second)}


with headrace.open(tempfile.mkdtemp(prefix="headrace-")) as hr:
    hr.create_stream(
        "purchases",
        "userID BIGINT, gemPackID BIGINT, price DOUBLE, ts TIMESTAMP",
        event_time="ts",
        watermark="5 seconds",
    )
    spend = hr.create_query(
        """
        SELECT gemPackID, window.start AS since, SUM(price) AS spend FROM purchases WHERE price > 3
        GROUP BY gemPackID, window(ts, '10 seconds', '5 seconds')
        """,
        name="spend",
    )
    hr.append("purchases", [purchase(1, 7, 4.99), purchase(3, 7, 9.99), purchase(4, 8, 1.99)])
    hr.append("purchases", [purchase(12, 8, 19.99), purchase(40, 7, 4.99)])
    hr.run_available()

    print(spend.to_pandas())
    print("equal to plain Spark:", spend.audit().ok)
