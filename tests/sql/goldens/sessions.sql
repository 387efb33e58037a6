-- query
SELECT session_window.start, session_window.end, country, COUNT(*) AS n FROM purchases WHERE price > 3 GROUP BY session_window(ts, '5 seconds'), country;
--   aggregation by session_window('5 seconds')
--   where price > 3.0
--   k0 = country: string
--   a0 = count_all(): bigint
--   finish window_start
--   finish window_end
--   finish k0
--   finish a0
-- log
SELECT session_window.start, session_window.end, country, COUNT(*) AS n FROM (SELECT *, __headrace_window AS `session_window` FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY country, __headrace_session), 'end', MAX(ts + INTERVAL '5 seconds') OVER (PARTITION BY country, __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY country ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY country ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '5 seconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS purchases WHERE __headrace_end > __headrace_closed AND (price > 3)) AS purchases) AS purchases) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began) AS purchases WHERE price > 3 GROUP BY `session_window`, country;

-- query
SELECT session_window, SUM(level), MAX(country) FROM purchases GROUP BY session_window(ts, '500 milliseconds');
--   aggregation by session_window('500 milliseconds')
--   where True
--   a0 = sum(level: int): bigint
--   a1 = max(country: string): string
--   finish named_struct('start', window_start, 'end', window_end)
--   finish a0
--   finish a1
-- log
SELECT session_window, SUM(level), MAX(country) FROM (SELECT *, __headrace_window AS `session_window` FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY __headrace_session), 'end', MAX(ts + INTERVAL '500 milliseconds') OVER (PARTITION BY __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '500 milliseconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS purchases WHERE __headrace_end > __headrace_closed) AS purchases) AS purchases) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began) AS purchases GROUP BY `session_window`;

-- query
SELECT session_window(ts, '2 seconds') AS w, w.end, COUNT(*) AS n FROM purchases GROUP BY w, level HAVING n > 1 AND level > 2;
--   aggregation by session_window('2 seconds')
--   where level > 2
--   k0 = level: int
--   a0 = count_all(): bigint
--   finish named_struct('start', window_start, 'end', window_end)
--   finish window_end
--   finish a0
--   having (a0 > 1)
-- log
SELECT `session_window` AS w, w.end, COUNT(*) AS n FROM (SELECT *, __headrace_window AS `session_window` FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY level, __headrace_session), 'end', MAX(ts + INTERVAL '2 seconds') OVER (PARTITION BY level, __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY level ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY level ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '2 seconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS purchases WHERE __headrace_end > __headrace_closed) AS purchases) AS purchases) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began) AS purchases GROUP BY w, level HAVING n > 1 AND level > 2;

-- query
SELECT w.start AS since, c, AVG(amount) FILTER (WHERE paid) AS a FROM (SELECT country AS c, amount, paid, session_window(ts, '1 second') AS w FROM purchases WHERE level < 7) GROUP BY w, c;
--   aggregation by session_window('1 second')
--   where level < 7
--   k0 = country: string
--   a0 = sum(amount: decimal(10,2)): decimal(20,2) filter paid = 1
--   a1 = count(amount: decimal(10,2)): bigint filter paid = 1
--   finish window_start
--   finish k0
--   finish CAST(a0 / CAST(nullif(a1, 0) AS DECIMAL(10, 0)) AS DECIMAL(14, 6))
-- log
SELECT __headrace_window.start AS since, country AS c, AVG(amount) FILTER(WHERE paid) AS a FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY country, __headrace_session), 'end', MAX(ts + INTERVAL '1 second') OVER (PARTITION BY country, __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY country ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY country ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '1 second' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS t WHERE __headrace_end > __headrace_closed AND level < 7) AS t) AS t) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began GROUP BY __headrace_window, country;

-- query
SELECT c, n FROM (SELECT session_window.start AS s, upper(country) AS c, COUNT(*) AS n FROM purchases GROUP BY session_window(ts, '3 seconds'), upper(country)) WHERE n > 2;
--   aggregation by session_window('3 seconds')
--   where True
--   k0 = {upper(country)}: string
--   a0 = count_all(): bigint
--   finish k0
--   finish a0
--   having (a0 > 2)
-- log
SELECT upper(country) AS c, COUNT(*) AS n FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY upper(country), __headrace_session), 'end', MAX(ts + INTERVAL '3 seconds') OVER (PARTITION BY upper(country), __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY upper(country) ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY upper(country) ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '3 seconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS t WHERE __headrace_end > __headrace_closed) AS t) AS t) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began GROUP BY __headrace_window, upper(country) HAVING COUNT(*) > 2;

-- query
SELECT gemPackID, max_by(country, ts) AS last, min_by(level, ts) AS first FROM purchases GROUP BY session_window(ts, '5 seconds'), gemPackID;
--   aggregation by session_window('5 seconds')
--   where True
--   k0 = gemPackID: bigint
--   a0 = max_by(row(ts timestamp, country string): struct<p0:timestamp,p1:string>): string
--   a1 = min_by(row(ts timestamp, level int): struct<p0:timestamp,p1:int>): int
--   finish k0
--   finish a0
--   finish a1
-- log
SELECT gemPackID, max_by(country, if((ts) IS NULL, NULL, struct(ts, country))) AS last, min_by(level, if((ts) IS NULL, NULL, struct(ts, level))) AS first FROM (SELECT *, __headrace_window AS `session_window` FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY gemPackID, __headrace_session), 'end', MAX(ts + INTERVAL '5 seconds') OVER (PARTITION BY gemPackID, __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY gemPackID ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY gemPackID ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '5 seconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS purchases WHERE __headrace_end > __headrace_closed) AS purchases) AS purchases) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began) AS purchases GROUP BY `session_window`, gemPackID;

-- query
SELECT session_window.start AS s, COUNT(DISTINCT userID) AS users FROM purchases GROUP BY session_window(ts, '5 seconds'), gemPackID;
--   aggregation by session_window('5 seconds')
--   where True
--   k0 = gemPackID: bigint
--   a0 = count_distinct(userID: bigint): bigint
--   finish window_start
--   finish a0
-- log
SELECT session_window.start AS s, COUNT(DISTINCT userID) AS users FROM (SELECT *, __headrace_window AS `session_window` FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY gemPackID, __headrace_session), 'end', MAX(ts + INTERVAL '5 seconds') OVER (PARTITION BY gemPackID, __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY gemPackID ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY gemPackID ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '5 seconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS purchases WHERE __headrace_end > __headrace_closed) AS purchases) AS purchases) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began) AS purchases GROUP BY `session_window`, gemPackID;

-- query
SELECT country, SUM(price) FROM purchases [SESSION GAP 5 SECONDS] WHERE price > 3 GROUP BY country;
--   aggregation by session_window('5 seconds')
--   where price > 3.0
--   k0 = country: string
--   a0 = sum(price: double): double
--   finish window_start
--   finish window_end
--   finish k0
--   finish a0
-- plain
SELECT session_window.start AS window_start, session_window.`end` AS window_end, country, SUM(price) FROM purchases WHERE price > 3 GROUP BY session_window(ts, '5 seconds'), country;
-- log
SELECT `session_window`.start AS window_start, `session_window`.end AS window_end, country, SUM(price) FROM (SELECT *, __headrace_window AS `session_window` FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY country, __headrace_session), 'end', MAX(ts + INTERVAL '5 seconds') OVER (PARTITION BY country, __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY country ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY country ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '5 seconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS purchases WHERE __headrace_end > __headrace_closed AND (price > 3)) AS purchases) AS purchases) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began) AS purchases  WHERE price > 3 GROUP BY `session_window`, country;

-- query
SELECT COUNT(*) AS n, percentile(level, 0.5) AS m FROM purchases [session gap 1 second] AS p HAVING n > 1;
--   aggregation by session_window('1 second')
--   where True
--   a0 = count_all(): bigint
--   a1 = percentile(level: int, 0.5): double
--   finish window_start
--   finish window_end
--   finish a0
--   finish a1
--   having (a0 > 1)
-- plain
SELECT session_window.start AS window_start, session_window.`end` AS window_end, COUNT(*) AS n, percentile(level, 0.5) AS m FROM purchases GROUP BY session_window(ts, '1 second') HAVING COUNT(*) > 1;
-- log
SELECT `session_window`.start AS window_start, `session_window`.end AS window_end, COUNT(*) AS n, percentile(level, 0.5) AS m FROM (SELECT *, __headrace_window AS `session_window` FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY __headrace_session), 'end', MAX(ts + INTERVAL '1 second') OVER (PARTITION BY __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '1 second' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS p WHERE __headrace_end > __headrace_closed) AS p) AS p) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began)  AS p  GROUP BY `session_window` HAVING n > 1;
