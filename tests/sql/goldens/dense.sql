-- query
SELECT country, window.start, COUNT(*) AS n, MAX(price) AS m FROM purchases WHERE level > 1 GROUP BY country, window(ts, '10 seconds', '100 milliseconds');
--   aggregation by window('10 seconds', '100 milliseconds')
--   where level > 1
--   k0 = country: string
--   a0 = count_all(): bigint
--   a1 = max(price: double): double
--   finish k0
--   finish window_start
--   finish a0
--   finish a1
-- log
SELECT country, __headrace_window.start AS start, COUNT(*) AS n, MAX(price) AS m FROM (SELECT *, explode(transform(CASE WHEN ts IS NOT NULL AND GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1), 100000L) <= LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - 0L, 100000L) THEN sequence(GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1), 100000L), LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - 0L, 100000L), 100000L) ELSE array() END, s -> named_struct('start', timestamp_micros(s), 'end', timestamp_micros(s + 10000000L)))) AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND level > 1 GROUP BY country, __headrace_window;

-- query
SELECT window, COUNT(DISTINCT userID) AS n FROM purchases GROUP BY window(ts, '7 seconds', '70 milliseconds', '-30 milliseconds');
--   aggregation by window('7 seconds', '70 milliseconds', '40 milliseconds')
--   where True
--   a0 = count_distinct(userID: bigint): bigint
--   finish named_struct('start', window_start, 'end', window_end)
--   finish a0
-- log
SELECT __headrace_window AS `window`, COUNT(DISTINCT userID) AS n FROM (SELECT *, explode(transform(CASE WHEN ts IS NOT NULL AND GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1 + pmod(40000L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1), 70000L) <= LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - 40000L, 70000L) THEN sequence(GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1 + pmod(40000L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1), 70000L), LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - 40000L, 70000L), 70000L) ELSE array() END, s -> named_struct('start', timestamp_micros(s), 'end', timestamp_micros(s + 7000000L)))) AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until GROUP BY __headrace_window;

-- query
SELECT window(ts, '7 seconds', '90 milliseconds', '40 milliseconds') AS w, price FROM purchases WHERE level = 3;
--   fallback per epoch: window() without aggregation has no shared form
-- log
SELECT __headrace_window AS w, price FROM (SELECT *, explode(transform(CASE WHEN ts IS NOT NULL AND unix_micros(CAST(ts AS TIMESTAMP)) - 7000000L + 1 + pmod(40000L - (unix_micros(CAST(ts AS TIMESTAMP)) - 7000000L + 1), 90000L) <= unix_micros(CAST(ts AS TIMESTAMP)) - pmod(unix_micros(CAST(ts AS TIMESTAMP)) - 40000L, 90000L) THEN sequence(unix_micros(CAST(ts AS TIMESTAMP)) - 7000000L + 1 + pmod(40000L - (unix_micros(CAST(ts AS TIMESTAMP)) - 7000000L + 1), 90000L), unix_micros(CAST(ts AS TIMESTAMP)) - pmod(unix_micros(CAST(ts AS TIMESTAMP)) - 40000L, 90000L), 90000L) ELSE array() END, s -> named_struct('start', timestamp_micros(s), 'end', timestamp_micros(s + 7000000L)))) AS __headrace_window FROM __headrace_log) AS t WHERE level = 3;

-- query
SELECT country, price FROM purchases [RANGE 10 SECONDS SLIDE 100 MILLISECONDS] WHERE price > 20;
--   fallback per window('10 seconds', '100 milliseconds'): the rows of each window have no shared form yet
-- plain
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country, price FROM (SELECT *, window(ts, '10 seconds', '100 milliseconds') AS __headrace_window FROM purchases) AS t WHERE (price > 20);
-- log
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, country, price FROM (SELECT *, explode(transform(CASE WHEN ts IS NOT NULL AND GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1), 100000L) <= LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - 0L, 100000L) THEN sequence(GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 10000000L + 1), 100000L), LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 10000000L)) - 0L, 100000L), 100000L) ELSE array() END, s -> named_struct('start', timestamp_micros(s), 'end', timestamp_micros(s + 10000000L)))) AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND (price > 20);
