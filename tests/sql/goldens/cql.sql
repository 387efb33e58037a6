-- query
SELECT gemPackID, SUM(price) FROM purchases [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE price > 3 GROUP BY gemPackID;
--   aggregation by window('10 seconds', '5 seconds')
--   where price > 3.0
--   k0 = gemPackID: bigint
--   a0 = sum(price: double): double
--   finish window_start
--   finish window_end
--   finish k0
--   finish a0
-- plain
SELECT window.start AS window_start, window.`end` AS window_end, gemPackID, SUM(price) FROM purchases WHERE price > 3 GROUP BY window(ts, '10 seconds', '5 seconds'), gemPackID;
-- log
SELECT purchases.`window`.start AS window_start, purchases.`window`.end AS window_end, gemPackID, SUM(price) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases  WHERE price > 3 GROUP BY purchases.`window`, gemPackID;

-- query
SELECT SUM(price) AS s, COUNT(*) FROM purchases [RANGE 10 SECONDS SLICE 5 SECONDS] AS p;
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   a0 = sum(price: double): double
--   a1 = count_all(): bigint
--   finish window_start
--   finish window_end
--   finish a0
--   finish a1
-- plain
SELECT window.start AS window_start, window.`end` AS window_end, SUM(price) AS s, COUNT(*) FROM purchases GROUP BY window(ts, '10 seconds', '5 seconds');
-- log
SELECT p.`window`.start AS window_start, p.`window`.end AS window_end, SUM(price) AS s, COUNT(*) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until)  AS p GROUP BY p.`window` ;

-- query
SELECT COUNT(DISTINCT country) AS n FROM purchases [RANGE 1 MINUTE];
--   aggregation by window('1 minute')
--   where True
--   a0 = count_distinct(country: string): bigint
--   finish window_start
--   finish window_end
--   finish a0
-- plain
SELECT window.start AS window_start, window.`end` AS window_end, COUNT(DISTINCT country) AS n FROM purchases GROUP BY window(ts, '1 minute');
-- log
SELECT purchases.`window`.start AS window_start, purchases.`window`.end AS window_end, COUNT(DISTINCT country) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases  GROUP BY purchases.`window` ;

-- query
SELECT country, price FROM purchases [RANGE 20 SECONDS] WHERE price > 20;
--   fallback per window('20 seconds'): the rows of each window have no shared form yet
-- plain
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country, price FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM purchases) AS t WHERE (price > 20);
-- log
SELECT purchases.`window`.start AS window_start, purchases.`window`.end AS window_end, country, price FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases  WHERE price > 20;

-- query
SELECT DISTINCT country FROM purchases [RANGE 20 SECONDS];
--   fallback per window('20 seconds'): the rows of each window have no shared form yet
-- plain
SELECT DISTINCT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM purchases) AS t;
-- log
SELECT DISTINCT purchases.`window`.start AS window_start, purchases.`window`.end AS window_end, country FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases ;

-- query
SELECT * FROM (SELECT country, price, userID, ROW_NUMBER() OVER (PARTITION BY country ORDER BY price DESC, userID) AS rank FROM purchases [RANGE 30 SECONDS SLIDE 15 SECONDS]) WHERE rank <= 2;
--   fallback per window('30 seconds', '15 seconds'): analytic functions have no shared form yet
-- plain
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country, price, userID, rank FROM (SELECT __headrace_window, country, price, userID, ROW_NUMBER() OVER (PARTITION BY __headrace_window, country ORDER BY price DESC, userID) AS rank FROM (SELECT *, window(ts, '30 seconds', '15 seconds') AS __headrace_window FROM purchases) AS t) AS t WHERE (rank <= 2);
-- log
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country, price, userID, rank FROM (SELECT __headrace_window, country, price, userID, ROW_NUMBER() OVER (PARTITION BY __headrace_window, country ORDER BY price DESC, userID) AS rank FROM (SELECT *, window(ts, '30 seconds', '15 seconds') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS t WHERE (rank <= 2);

-- query
SELECT country, COUNT(*) AS n FROM (SELECT country, RANK() OVER (ORDER BY price) AS r FROM purchases [RANGE 1 MINUTE] AS p WHERE p.paid) GROUP BY country;
--   fallback per window('1 minute'): analytic functions have no shared form yet
-- plain
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country, COUNT(*) AS n FROM (SELECT __headrace_window, country, RANK() OVER (PARTITION BY __headrace_window ORDER BY price) AS r FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM purchases) AS t WHERE (paid)) AS t GROUP BY __headrace_window, country;
-- log
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country, COUNT(*) AS n FROM (SELECT __headrace_window, country, RANK() OVER (PARTITION BY __headrace_window ORDER BY price) AS r FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND (paid)) AS t GROUP BY __headrace_window, country;
