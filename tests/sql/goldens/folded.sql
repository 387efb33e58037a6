-- query
SELECT country, w.start AS hour, n FROM (SELECT country, window(ts, '1 hour') AS w, COUNT(*) AS n FROM purchases GROUP BY country, window(ts, '1 hour'));
--   aggregation by window('1 hour')
--   where True
--   k0 = country: string
--   a0 = count_all(): bigint
--   finish k0
--   finish window_start
--   finish a0
-- log
SELECT country, w.start AS hour, n FROM (SELECT country, `window` AS w, COUNT(*) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 hour') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, `window`);

-- query
SELECT upper(c) AS u, n * 2 AS m FROM (SELECT country AS c, COUNT(*) AS n, window(ts, '20 seconds') AS w FROM purchases WHERE price > 5 GROUP BY 1, 3) WHERE n > 1 AND w.start >= '2024-01-01';
--   aggregation by window('20 seconds')
--   where price > 5.0
--   k0 = country: string
--   a0 = count_all(): bigint
--   finish upper(k0)
--   finish a0 * 2
--   having (a0 > 1 AND window_start >= '2024-01-01')
-- log
SELECT upper(c) AS u, n * 2 AS m FROM (SELECT country AS c, COUNT(*) AS n, `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE price > 5 GROUP BY 1, 3) WHERE n > 1 AND w.start >= '2024-01-01';

-- query
SELECT c, SUM(p) FROM (SELECT country AS c, price * 2 AS p, ts FROM purchases WHERE paid) WHERE p > 20 GROUP BY c, window(ts, '30 seconds');
--   aggregation by window('30 seconds')
--   where (paid = 1 and {(price * 2) > 20} = 1)
--   k0 = country: string
--   a0 = sum({price * 2}: double): double
--   finish k0
--   finish a0
-- log
SELECT c, SUM(p) FROM (SELECT country AS c, price * 2 AS p, ts , `window` FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE paid) WHERE p > 20 GROUP BY c, `window`;
