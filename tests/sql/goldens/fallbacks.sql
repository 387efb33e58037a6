-- query
SELECT country, approx_count_distinct(userID) > 0 AS n FROM purchases GROUP BY country, window(ts, '1 minute');
--   fallback per window('1 minute'): approx_count_distinct() has no shared form
-- log
SELECT country, approx_count_distinct(userID) > 0 AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, `window`;

-- query
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) AS m, size(collect_list(country)) AS c FROM purchases GROUP BY window(ts, '1 minute');
--   fallback per window('1 minute'): percentile_cont() has no shared form
-- log
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) AS m, size(collect_list(country)) AS c FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT percentile(price, 0.25 + 0.25) AS m, percentile(level, 0.5, 2) AS f, COUNT(DISTINCT *) > 0 AS d FROM purchases GROUP BY window(ts, '1 minute');
--   fallback per window('1 minute'): percentile() has a shared form for numbers only, not for 0.25 + 0.25
-- log
SELECT percentile(price, 0.25 + 0.25) AS m, percentile(level, 0.5, 2) AS f, COUNT(DISTINCT userID, gemPackID, price, amount, country, level, born, paid, weight, seen, big, raw, address, ts) > 0 AS d FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until GROUP BY __headrace_window;

-- query
SELECT COUNT(DISTINCT big) AS b, median(DISTINCT level) AS m FROM purchases GROUP BY window(ts, '1 minute');
--   fallback per window('1 minute'): MEDIAN(DISTINCT ...) has no shared form
-- log
SELECT COUNT(DISTINCT big) AS b, median(DISTINCT level) AS m FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT MAX(big), SUM(big) FROM purchases GROUP BY window(ts, '1 minute');
--   fallback per window('1 minute'): max() over decimal(30,2) does not fit 64 bits
-- log
SELECT MAX(big), SUM(big) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT address, COUNT(*) FROM purchases GROUP BY address, window(ts, '1 minute');
--   fallback per window('1 minute'): the key address is of type struct<city:string,zip:int>
-- log
SELECT address, COUNT(*) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY address, `window`;

-- query
SELECT country, COUNT(*) FROM purchases GROUP BY window(ts, '1 minute'), ROLLUP (country);
--   fallback per window('1 minute'): grouping sets have no shared form
-- log
SELECT country, COUNT(*) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`, ROLLUP (country);

-- query
SELECT hour(window.start) AS h, COUNT(*) FROM purchases GROUP BY window(ts, '1 minute'), hour(window(ts, '1 minute').start);
--   fallback per window('1 minute'): the key hour(__headrace_window.start) is computed from the window
-- log
SELECT hour(window.start) AS h, COUNT(*) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`, hour(`window`.start);

-- query
SELECT address, price FROM purchases WHERE price > 10;
--   fallback per epoch: the column address is of type struct<city:string,zip:int>
-- log
SELECT address, price FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE price > 10;

-- query
SELECT country, window(ts, '10 seconds').start AS s FROM purchases;
--   fallback per epoch: window() without aggregation has no shared form
-- log
SELECT country, window(ts, '10 seconds').start AS s FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases;
