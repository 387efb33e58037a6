# ruff: noqa: E501 - a query stays on one line
"""Accepted queries by theme; goldens describe them, and Spark runs them."""

from __future__ import annotations

AGGREGATIONS = [
    "SELECT gemPackID, SUM(price) FROM purchases WHERE price > 3 GROUP BY gemPackID, window(ts, '10 seconds', '5 seconds')",
    "SELECT window.start, window.end, COUNT(*) AS n FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT window, COUNT(1) FROM purchases GROUP BY window(ts, '9 seconds', '3 seconds', '1 second')",
    "SELECT window(ts, '10 seconds').start AS s, MAX(price) - MIN(price) AS spread FROM purchases GROUP BY window(ts, '10 seconds')",
    "SELECT country, AVG(price) FROM purchases GROUP BY window(ts, '10 seconds'), country HAVING COUNT(*) > 2 AND AVG(price) < 50.5",
    "SELECT upper(country) AS c, COUNT(country) FROM purchases WHERE level % 2 = 0 GROUP BY window(ts, '10 seconds'), upper(country)",
    "SELECT level + 1 AS l, SUM(level) AS s FROM purchases WHERE level < 100 GROUP BY l, window(ts, '10 seconds')",
    "SELECT country, COUNT(*) FROM purchases GROUP BY 1, window(ts, '20 seconds')",
    "SELECT window(ts, '20 seconds') AS w, w.end, COUNT(*) AS n FROM purchases GROUP BY w HAVING n > 1",
    "SELECT AVG(amount), SUM(amount), MIN(amount), SUM(amount) / COUNT(*) FROM purchases GROUP BY window(ts, '20 seconds')",
    "SELECT VARIANCE(price), VAR_POP(price), STD(level), STDDEV_POP(weight), MEAN(level) FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT COUNT(*) FILTER (WHERE paid) AS p, SUM(price) FILTER (WHERE country = 'DE' OR level > 3) AS s, count_if(price > 20) AS x FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT country, MAX(born), MIN(seen), MAX(country), MIN(paid) FROM purchases GROUP BY country, window(ts, '1 minute')",
    "SELECT p.country, SUM(p.price) * 2 AS d FROM purchases AS p WHERE p.country IN ('DE', 'FR') GROUP BY p.country, window(p.ts, '1 minute')",
    "SELECT COUNT(address), COUNT(raw) FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT SUM(100 / level) AS r FROM purchases WHERE level <> 0 GROUP BY window(ts, '1 minute')",
    "SELECT SUM(100 / level) FILTER (WHERE level <> 0) AS r FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT CASE WHEN price > 20 THEN 'high' ELSE 'low' END AS band, COUNT(*) FROM purchases GROUP BY 1, window(ts, '1 minute')",
    "SELECT country, level, SUM(price) + level AS x FROM purchases GROUP BY country, level, window(ts, '30 seconds')",
    "SELECT country, SUM(level) AS level FROM purchases GROUP BY country, window(ts, '30 seconds') HAVING level > 30 OR MAX(level) < 7",
]

VALUES = [
    "SELECT country, COUNT(DISTINCT userID) FROM purchases GROUP BY country, window(ts, '1 minute')",
    "SELECT percentile(price, 0.5) AS m, collect_set(country) IS NOT NULL AS c FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT country, median(amount), percentile(level, array(0, 0.25, 0.9D)) AS p FROM purchases GROUP BY country, window(ts, '20 seconds', '10 seconds')",
    "SELECT window, collect_set(level) FILTER (WHERE paid) AS s, array_join(array_sort(collect_set(country)), '-') AS c, size(collect_set(born)) AS n FROM purchases GROUP BY window(ts, '30 seconds')",
    "SELECT gemPackID, COUNT(DISTINCT country, level) FILTER (WHERE price > 10) AS n, COUNT(DISTINCT level % 3, 1) AS m FROM purchases GROUP BY gemPackID, window(ts, '1 minute') HAVING n > 1",
    "SELECT max_by(country, ts) AS last, MIN_BY(level + 1, (ts)) FILTER (WHERE paid) AS paid, min_by(price, ts) - max_by(price, ts) AS d FROM purchases GROUP BY window(ts, '30 seconds')",
    "SELECT SUM(DISTINCT level), AVG(DISTINCT amount), AVG(DISTINCT price), MAX(DISTINCT country), collect_set(DISTINCT paid) FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT country, COUNT(DISTINCT amount, born, seen) AS n, SUM(price) AS s FROM purchases [RANGE 20 SECONDS SLIDE 5 SECONDS] WHERE price > 3 GROUP BY country HAVING median(price) > 20",
]
"""Aggregates that ask for every value of a group, or for rows of several values."""

FALLBACKS = [
    "SELECT country, approx_count_distinct(userID) > 0 AS n FROM purchases GROUP BY country, window(ts, '1 minute')",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) AS m, size(collect_list(country)) AS c FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT percentile(price, 0.25 + 0.25) AS m, percentile(level, 0.5, 2) AS f, COUNT(DISTINCT *) > 0 AS d FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT COUNT(DISTINCT big) AS b, median(DISTINCT level) AS m FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT MAX(big), SUM(big) FROM purchases GROUP BY window(ts, '1 minute')",
    "SELECT address, COUNT(*) FROM purchases GROUP BY address, window(ts, '1 minute')",
    "SELECT country, COUNT(*) FROM purchases GROUP BY window(ts, '1 minute'), ROLLUP (country)",
    "SELECT hour(window.start) AS h, COUNT(*) FROM purchases GROUP BY window(ts, '1 minute'), hour(window(ts, '1 minute').start)",
    "SELECT address, price FROM purchases WHERE price > 10",
    "SELECT country, window(ts, '10 seconds').start AS s FROM purchases",
]

PROJECTIONS = [
    "SELECT * FROM purchases WHERE price > 3 AND level BETWEEN 2 AND 5".replace(
        "*", "* EXCEPT (address, raw)"
    ),
    "SELECT userID, price * 2 AS twice FROM purchases WHERE country LIKE 'D%' AND price >= 10",
    "SELECT 100 / level AS r, address.city FROM purchases WHERE level > 0 AND address.zip > 3",
    "SELECT PRICE, Country AS c FROM Purchases WHERE NOT (PAID OR level IS NULL)",
    "SELECT c, p + 1 AS q FROM (SELECT country AS c, price AS p, level FROM purchases WHERE paid) AS s WHERE s.p > 10 AND level > 1",
    "WITH dear AS (SELECT * FROM purchases WHERE price > 20) SELECT userID, born FROM dear WHERE born >= '1990-01-01'",
    "SELECT price * 2 AS a, a + 1 AS b FROM purchases WHERE seen > TIMESTAMP_NTZ '2024-01-01 00:00:10'",
    "SELECT userID FROM purchases WHERE country = 'it''s' OR country <=> NULL OR level <> 3",
]

CQL = [
    "SELECT gemPackID, SUM(price) FROM purchases [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE price > 3 GROUP BY gemPackID",
    "SELECT SUM(price) AS s, COUNT(*) FROM purchases [RANGE 10 SECONDS SLICE 5 SECONDS] AS p",
    "SELECT COUNT(DISTINCT country) AS n FROM purchases [RANGE 1 MINUTE]",
    "SELECT country, price FROM purchases [RANGE 20 SECONDS] WHERE price > 20",
    "SELECT DISTINCT country FROM purchases [RANGE 20 SECONDS]",
    "SELECT * FROM (SELECT country, price, userID, ROW_NUMBER() OVER (PARTITION BY country ORDER BY price DESC, userID) AS rank FROM purchases [RANGE 30 SECONDS SLIDE 15 SECONDS]) WHERE rank <= 2",
    "SELECT country, COUNT(*) AS n FROM (SELECT country, RANK() OVER (ORDER BY price) AS r FROM purchases [RANGE 1 MINUTE] AS p WHERE p.paid) GROUP BY country",
]

FOLDED = [
    "SELECT country, w.start AS hour, n FROM (SELECT country, window(ts, '1 hour') AS w, COUNT(*) AS n FROM purchases GROUP BY country, window(ts, '1 hour'))",
    "SELECT upper(c) AS u, n * 2 AS m FROM (SELECT country AS c, COUNT(*) AS n, window(ts, '20 seconds') AS w FROM purchases WHERE price > 5 GROUP BY 1, 3) WHERE n > 1 AND w.start >= '2024-01-01'",
    "SELECT c, SUM(p) FROM (SELECT country AS c, price * 2 AS p, ts FROM purchases WHERE paid) WHERE p > 20 GROUP BY c, window(ts, '30 seconds')",
]

SESSIONS = [
    "SELECT session_window.start, session_window.end, country, COUNT(*) AS n FROM purchases WHERE price > 3 GROUP BY session_window(ts, '5 seconds'), country",
    "SELECT session_window, SUM(level), MAX(country) FROM purchases GROUP BY session_window(ts, '500 milliseconds')",
    "SELECT session_window(ts, '2 seconds') AS w, w.end, COUNT(*) AS n FROM purchases GROUP BY w, level HAVING n > 1 AND level > 2",
    "SELECT w.start AS since, c, AVG(amount) FILTER (WHERE paid) AS a FROM (SELECT country AS c, amount, paid, session_window(ts, '1 second') AS w FROM purchases WHERE level < 7) GROUP BY w, c",
    "SELECT c, n FROM (SELECT session_window.start AS s, upper(country) AS c, COUNT(*) AS n FROM purchases GROUP BY session_window(ts, '3 seconds'), upper(country)) WHERE n > 2",
    "SELECT gemPackID, max_by(country, ts) AS last, min_by(level, ts) AS first FROM purchases GROUP BY session_window(ts, '5 seconds'), gemPackID",
    "SELECT session_window.start AS s, COUNT(DISTINCT userID) AS users FROM purchases GROUP BY session_window(ts, '5 seconds'), gemPackID",
    "SELECT country, SUM(price) FROM purchases [SESSION GAP 5 SECONDS] WHERE price > 3 GROUP BY country",
    "SELECT COUNT(*) AS n, percentile(level, 0.5) AS m FROM purchases [session gap 1 second] AS p HAVING n > 1",
]

DENSE = [
    "SELECT country, window.start, COUNT(*) AS n, MAX(price) AS m FROM purchases WHERE level > 1 GROUP BY country, window(ts, '10 seconds', '100 milliseconds')",
    "SELECT window, COUNT(DISTINCT userID) AS n FROM purchases GROUP BY window(ts, '7 seconds', '70 milliseconds', '-30 milliseconds')",
    "SELECT window(ts, '7 seconds', '90 milliseconds', '40 milliseconds') AS w, price FROM purchases WHERE level = 3",
    "SELECT country, price FROM purchases [RANGE 10 SECONDS SLIDE 100 MILLISECONDS] WHERE price > 20",
]
"""More windows hold a tuple than Spark plans projections for in good time."""

LANGUAGE = [
    "SELECT window_time(w) AS t, w.end, n FROM (SELECT window(ts, '10 seconds', '5 seconds') AS w, COUNT(*) AS n FROM purchases GROUP BY 1) WHERE window_time(w) > '2024-01-01 00:00:14'",
    "SELECT window_time(window(ts, '10 seconds')) AS t, COUNT(*) AS n, SUM(price) AS s FROM purchases GROUP BY window_time(window(ts, '10 seconds'))",
    "SELECT window_time(w), c FROM (SELECT session_window(ts, '500 milliseconds') AS w, country AS c, COUNT(*) AS n FROM purchases GROUP BY 1, 2)",
    "SELECT userID, window_time(window(ts, '20 seconds', '10 seconds')) AS t FROM purchases WHERE level = 2",
    "SELECT country, level, COUNT(*) AS n FROM purchases [RANGE 20 SECONDS] GROUP BY country, level WITH ROLLUP",
    "SELECT country, level, COUNT(*) AS n FROM purchases [RANGE 20 SECONDS] GROUP BY ROLLUP (1, 2)",
    "SELECT country AS c, COUNT(*) AS n FROM purchases [RANGE 20 SECONDS] GROUP BY c, level WITH CUBE HAVING n > 2",
    "SELECT country, window.start, COUNT(*) AS n FROM purchases GROUP BY country, window(ts, '30 seconds') GROUPING SETS ((country, window), (window))",
    "SELECT r, COUNT(*) AS n FROM (SELECT country, RANK() OVER (ORDER BY price) AS r FROM purchases [RANGE 30 SECONDS]) GROUP BY 1",
    "SELECT variant_get(parse_json('{\"a\": 3}'), '$.a', 'int') + level AS v FROM purchases",
    "SELECT hex(aes_encrypt(raw, '0000111122223333', 'ECB')) AS e, size(arrays_zip(array(level), array(level))) AS z FROM purchases",
    "SELECT country FROM purchases WHERE country <> 'today' AND country < 'now'",
    "SELECT dateadd(HOUR, level, ts) AS a, timestampadd(MICROSECOND, -1, ts) AS b, date_add(born, 1) AS c, dateadd(month, 2, born) AS d FROM purchases",
    "SELECT datediff(MONTH, born, ts) AS m, COUNT(*) AS n FROM purchases WHERE timestampdiff(SECOND, '2024-01-01', ts) > 5 GROUP BY 1, window(ts, '20 seconds')",
    "SELECT SUM(level >>> 1) AS s, MAX(1 + level >>> 1 & 3) AS m FROM purchases WHERE level >>> 1 > 0 GROUP BY window(ts, '20 seconds')",
]
"""What was refused for the wrong reason, or taken and not run, once."""

_L, _R, _T, _U = (
    "(SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM {}) AS {}".format(*of)
    for of in (("purchases", "l"), ("returns", "r"), ("purchases", "t"), ("returns", "u"))
)
_SAME = "l.w = r.w AND l.userID = r.userID"

JOINS = [
    f"SELECT l.price, r.price AS back FROM {_L} JOIN {_R} ON {_SAME} WHERE l.price > 3 AND r.paid",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND l.price < r.price",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND (l.price > 3 OR r.paid)",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND l.level + r.level > 7",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND l.level + r.level > 7 AND l.price < r.price",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND l.w.start > timestamp'2024-01-01'",
    f"SELECT l.userID, SUM(r.price) AS s, COUNT(*) AS n FROM {_L} JOIN {_R} ON {_SAME} GROUP BY l.userID, l.w",
    f"SELECT r.country, l.w.end, SUM(l.price * r.price) AS s, COUNT(DISTINCT l.userID) AS n FROM {_L} JOIN {_R} ON {_SAME} GROUP BY r.country, l.w HAVING n > 1",
    f"SELECT upper(r.country) AS c, SUM(l.gemPackID) AS s FROM {_L} JOIN {_R} ON {_SAME} WHERE l.price < r.price GROUP BY l.w, 1",
    f"SELECT l.price FROM {_L} JOIN {_R} ON l.w = r.w AND l.userID % 5 = r.userID % 5",
    f"SELECT r.country, collect_list(l.price) AS p FROM {_L} JOIN {_R} ON {_SAME} GROUP BY r.country, l.w",
    f"SELECT hour(l.w.start) AS h, COUNT(*) AS n FROM {_L} JOIN {_R} ON {_SAME} GROUP BY l.w, hour(l.w.start)",
    f"SELECT l.w.end, COUNT(DISTINCT *) AS n FROM (SELECT userID, w FROM {_L}) AS l JOIN (SELECT userID, level, w FROM {_R}) AS r ON {_SAME} GROUP BY l.w",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND l.level < r.country AND l.price < r.price",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND l.price < r.price AND 100 / (l.level - r.level) > 1",
    f"SELECT l.country FROM {_L} JOIN {_R} ON {_SAME} AND 100 / (l.level - second(l.w.start)) > 1",
    f"SELECT r.country FROM {_L} JOIN {_R} ON {_SAME} GROUP BY r.country, l.w HAVING SUM(l.price) / 2 > 3",
    f"SELECT r.country FROM {_L} JOIN {_R} ON {_SAME} GROUP BY r.country, l.w HAVING SUM(l.price) / 0 > 3",
    f"SELECT l.price FROM {_L} LEFT JOIN {_R} ON {_SAME}",
    f"SELECT l.price FROM {_L} JOIN {_R} ON l.w = r.w",
    f"SELECT window_time(l.w) AS t, COUNT(*) AS n FROM {_L} JOIN {_R} ON {_SAME} GROUP BY l.w, window_time(l.w)",
    f"SELECT window_time(l.w) AS t, window_time(r.w) AS u, l.price FROM {_L} FULL JOIN {_R} ON {_SAME} AND l.level = r.level + 2",
    "SELECT userID, w.start, level, price FROM (SELECT userID, level, window(ts, '20 seconds') AS w FROM purchases) AS l NATURAL JOIN (SELECT userID, price, window(ts, '20 seconds') AS w FROM returns) AS r",
    "SELECT w.start, userID, COUNT(r.price) AS n FROM (SELECT userID, window(ts, '20 seconds') AS w FROM purchases WHERE level = 1) AS l RIGHT JOIN (SELECT userID, price, window(ts, '20 seconds') AS w FROM returns) AS r USING (userID, w) GROUP BY w, userID",
    f"SELECT coalesce(l.w, r.w) AS w, COUNT(l.price) AS a, COUNT(r.price) AS b FROM {_L} FULL JOIN {_R} ON {_SAME} AND l.level = r.level + 2 GROUP BY coalesce(l.w, r.w)",
    "SELECT l.price, r.level FROM (SELECT *, window(ts, '7 seconds', '100 milliseconds') AS w FROM purchases WHERE level = 1) AS l LEFT JOIN (SELECT *, window(ts, '7 seconds', '100 milliseconds') AS w FROM returns WHERE level = 2) AS r ON l.w = r.w AND l.userID = r.userID",
    "SELECT COUNT(*) AS n FROM purchases [RANGE 10 SECONDS SLIDE 5 SECONDS] AS l, returns [RANGE 5 SECONDS SLIDE 5 SECONDS] AS r WHERE l.userID = r.userID",
    f"SELECT l.price, t.level FROM {_L} JOIN {_R} ON {_SAME} JOIN {_T} ON t.w = r.w AND t.country = r.country WHERE l.price > 3",
    f"SELECT r.price FROM {_R}, {_L}, {_T}, {_U} WHERE {_SAME} AND t.w = r.w AND u.w = r.w AND r.country = t.country AND r.level = u.level AND r.gemPackID = u.gemPackID",
    f"SELECT l.price FROM {_L} JOIN {_R} ON {_SAME} JOIN {_T} ON t.w = r.w AND t.country = r.country AND t.level = l.level",
    f"SELECT u.price FROM {_L}, {_R}, {_T}, {_U} WHERE {_SAME} AND t.w = r.w AND u.w = r.w AND t.userID = r.userID AND l.level = u.level AND u.level = r.level",
    f"SELECT l.userID, COUNT(*) AS n FROM {_L} JOIN {_R} ON {_SAME} JOIN {_T} ON t.w = r.w AND t.country = r.country GROUP BY l.userID, l.w",
    f"SELECT l.userID, r.userID + 1 AS v FROM {_L} JOIN {_R} ON {_SAME} JOIN {_T} ON t.w = r.w AND t.level < r.level",
    f"SELECT l.userID FROM {_L} JOIN {_R} ON {_SAME} JOIN {_T} ON t.w = r.w AND t.country = r.level",
]
"""Over `purchases` and `returns`."""

STAR_JOINS = [
    "SELECT * FROM (SELECT userID, level, window(ts, '20 seconds') AS w FROM purchases) AS l NATURAL JOIN (SELECT userID, price, window(ts, '20 seconds') AS w FROM returns) AS r",
    "SELECT *, l.w AS lw, r.userID AS ru FROM (SELECT userID, level, window(ts, '20 seconds') AS w FROM purchases WHERE level > 4) AS l NATURAL FULL JOIN (SELECT userID, price, window(ts, '20 seconds') AS w FROM returns WHERE price > 40) AS r",
    "SELECT * FROM (SELECT userID, country, window(ts, '30 seconds') AS w FROM purchases WHERE paid) AS l NATURAL LEFT JOIN (SELECT userID, level, window(ts, '30 seconds') AS w FROM returns WHERE level > 5) AS r NATURAL JOIN (SELECT country, price, window(ts, '30 seconds') AS w FROM purchases WHERE price > 50) AS t",
]
"""What `*` stands for only Spark can say."""

THEMES = {
    "aggregations": AGGREGATIONS,
    "cql": CQL,
    "dense": DENSE,
    "fallbacks": FALLBACKS,
    "folded": FOLDED,
    "language": LANGUAGE,
    "projections": PROJECTIONS,
    "sessions": SESSIONS,
    "values": VALUES,
}
