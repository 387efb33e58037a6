"""Sets of queries that show one part of the planner each."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.strategy import Strategy

_L, _R, _T = (
    "(SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM {}) AS {}".format(*of)
    for of in (("purchases", "l"), ("returns", "r"), ("purchases", "t"))
)
JOINED = f"FROM {_L} JOIN {_R} ON l.w = r.w AND l.userID = r.userID"
_HOP = f"{JOINED} JOIN {_T} ON t.w = r.w AND t.country = r.country"


@dataclass(frozen=True)
class PlanCase:
    """Queries in the order of their ids, which start at 1; `strategy` is forced on those that can run with it."""

    queries: tuple[str, ...]
    strategy: Strategy | None = None


BY_KEY = (
    f"SELECT l.userID, SUM(r.price) AS s, COUNT(*) AS n {JOINED} GROUP BY l.userID, l.w",
    f"SELECT r.userID, MAX(l.level) AS m {JOINED} WHERE l.price > 3 GROUP BY r.userID, l.w",
)

CASES = {
    "windows": PlanCase(
        (
            "SELECT gemPackID, SUM(price) AS s FROM purchases WHERE price > 3 "
            "GROUP BY gemPackID, window(ts, '10 seconds', '5 seconds')",
            "SELECT gemPackID, COUNT(*) FILTER (WHERE paid) AS n, MAX(country) AS c FROM purchases "
            "WHERE price > 5 AND level < 7 GROUP BY gemPackID, window(ts, '20 seconds')",
            "SELECT AVG(price) AS a FROM purchases WHERE lower(country) = 'no' GROUP BY window(ts, '20 seconds')",
        )
    ),
    "sessions": PlanCase(
        (
            "SELECT userID, COUNT(*) AS n FROM purchases GROUP BY userID, session_window(ts, '5 seconds')",
            "SELECT userID, MIN(price) AS m FROM purchases WHERE level = 1 "
            "GROUP BY userID, session_window(ts, '9 seconds')",
        )
    ),
    "selections": PlanCase(
        (
            "SELECT userID, price FROM purchases WHERE price > 10",
            "SELECT upper(country) AS c FROM purchases WHERE level IN (1, 2)",
            "SELECT userID FROM purchases WHERE price > 20",
        )
    ),
    "joined_rows": PlanCase(
        (
            f"SELECT l.price, r.price AS back {JOINED} WHERE l.price > 3 AND r.paid",
            f"SELECT l.country {JOINED} AND l.price < r.price",
            "SELECT l.price FROM purchases [RANGE 20 SECONDS SLIDE 5 SECONDS] AS l, "
            "returns [RANGE 10 SECONDS SLIDE 5 SECONDS] AS r WHERE l.userID = r.userID",
        )
    ),
    "joins_on_several_keys": PlanCase((f"SELECT l.price, t.level {_HOP} WHERE l.price > 3",)),
    "joined_and_grouped": PlanCase(
        (
            f"SELECT r.country, SUM(l.level) AS s, COUNT(*) AS n {JOINED} GROUP BY r.country, l.w",
            f"SELECT r.country, COUNT(*) AS n {JOINED} WHERE l.price < r.price GROUP BY r.country, l.w",
            f"SELECT l.userID, COUNT(*) AS n {_HOP} GROUP BY l.userID, l.w",
        )
    ),
    "grouped_when_read": PlanCase(
        (f"SELECT r.country, SUM(l.price * r.price) AS s {JOINED} GROUP BY r.country, l.w",)
    ),
    "products": PlanCase(BY_KEY),
    "products_as_joined_groups": PlanCase(BY_KEY, Strategy.JOINED_GROUPS),
    "plain_spark": PlanCase(
        (
            "SELECT gemPackID, collect_list(price) AS p FROM purchases "
            "GROUP BY gemPackID, window(ts, '10 seconds')",
            f"SELECT l.price FROM {_L} LEFT JOIN {_R} ON l.w = r.w AND l.userID = r.userID",
        )
    ),
}
