-- query
SELECT window_time(w) AS t, w.end, n FROM (SELECT window(ts, '10 seconds', '5 seconds') AS w, COUNT(*) AS n FROM purchases GROUP BY 1) WHERE window_time(w) > '2024-01-01 00:00:14';
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   a0 = count_all(): bigint
--   finish timestampadd(MICROSECOND, -1, window_end)
--   finish window_end
--   finish a0
--   having (timestampadd(MICROSECOND, -1, window_end) > '2024-01-01 00:00:14')
-- log
SELECT window_time(w) AS t, w.end, n FROM (SELECT `window` AS w, COUNT(*) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY 1) WHERE window_time(w) > '2024-01-01 00:00:14';

-- query
SELECT window_time(window(ts, '10 seconds')) AS t, COUNT(*) AS n, SUM(price) AS s FROM purchases GROUP BY window_time(window(ts, '10 seconds'));
--   fallback per window('10 seconds'): the key timestampadd(MICROSECOND, -1, __headrace_window.end) is computed from the window
-- log
SELECT window_time(`window`) AS t, COUNT(*) AS n, SUM(price) AS s FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY window_time(`window`);

-- query
SELECT window_time(w), c FROM (SELECT session_window(ts, '500 milliseconds') AS w, country AS c, COUNT(*) AS n FROM purchases GROUP BY 1, 2);
--   aggregation by session_window('500 milliseconds')
--   where True
--   k0 = country: string
--   finish timestampadd(MICROSECOND, -1, window_end)
--   finish k0
-- log
SELECT timestampadd(MICROSECOND, -1, __headrace_window.end) AS `window_time(w)`, country AS c FROM (SELECT *, named_struct('start', MIN(ts) OVER (PARTITION BY country, __headrace_session), 'end', MAX(ts + INTERVAL '500 milliseconds') OVER (PARTITION BY country, __headrace_session)) AS __headrace_window FROM (SELECT *, SUM(__headrace_break) OVER (PARTITION BY country ORDER BY __headrace_moment DESC) AS __headrace_session FROM (SELECT *, CASE WHEN MIN(GREATEST(__headrace_moment, __headrace_closed + 1)) OVER (PARTITION BY country ORDER BY __headrace_moment DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= __headrace_end THEN 0 ELSE 1 END AS __headrace_break FROM (SELECT *, unix_micros(CAST(ts AS TIMESTAMP)) AS __headrace_moment, unix_micros(CAST(ts + INTERVAL '500 milliseconds' AS TIMESTAMP)) AS __headrace_end FROM __headrace_log) AS t WHERE __headrace_end > __headrace_closed) AS t) AS t) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND unix_micros(CAST(__headrace_window.start AS TIMESTAMP)) > :began GROUP BY __headrace_window, country;

-- query
SELECT userID, window_time(window(ts, '20 seconds', '10 seconds')) AS t FROM purchases WHERE level = 2;
--   fallback per epoch: window() without aggregation has no shared form
-- log
SELECT userID, window_time(window(ts, '20 seconds', '10 seconds')) AS t FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE level = 2;

-- query
SELECT country, level, COUNT(*) AS n FROM purchases [RANGE 20 SECONDS] GROUP BY country, level WITH ROLLUP;
--   fallback per window('20 seconds'): grouping sets have no shared form
-- plain
SELECT window.start AS window_start, window.`end` AS window_end, country, level, COUNT(*) AS n FROM purchases GROUP BY window(ts, '20 seconds'), ROLLUP (country, level);
-- log
SELECT __headrace_window.start AS window_start, __headrace_window.`end` AS window_end, country, level, COUNT(*) AS n FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until GROUP BY __headrace_window, ROLLUP (country, level);

-- query
SELECT country, level, COUNT(*) AS n FROM purchases [RANGE 20 SECONDS] GROUP BY ROLLUP (1, 2);
--   fallback per window('20 seconds'): grouping sets have no shared form
-- plain
SELECT window.start AS window_start, window.`end` AS window_end, country, level, COUNT(*) AS n FROM purchases GROUP BY window(ts, '20 seconds'), ROLLUP (country, level);
-- log
SELECT __headrace_window.start AS window_start, __headrace_window.`end` AS window_end, country, level, COUNT(*) AS n FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until GROUP BY __headrace_window, ROLLUP (country, level);

-- query
SELECT country AS c, COUNT(*) AS n FROM purchases [RANGE 20 SECONDS] GROUP BY c, level WITH CUBE HAVING n > 2;
--   fallback per window('20 seconds'): grouping sets have no shared form
-- plain
SELECT window.start AS window_start, window.`end` AS window_end, country AS c, COUNT(*) AS n FROM purchases GROUP BY window(ts, '20 seconds'), CUBE (country, level) HAVING COUNT(*) > 2;
-- log
SELECT __headrace_window.start AS window_start, __headrace_window.`end` AS window_end, country AS c, COUNT(*) AS n FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until GROUP BY __headrace_window, CUBE (country, level) HAVING COUNT(*) > 2;

-- query
SELECT country, window.start, COUNT(*) AS n FROM purchases GROUP BY country, window(ts, '30 seconds') GROUPING SETS ((country, window), (window));
--   fallback per window('30 seconds'): grouping sets have no shared form
-- log
SELECT country, window.start, COUNT(*) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, `window` GROUPING SETS ((country, window), (window));

-- query
SELECT r, COUNT(*) AS n FROM (SELECT country, RANK() OVER (ORDER BY price) AS r FROM purchases [RANGE 30 SECONDS]) GROUP BY 1;
--   fallback per window('30 seconds'): analytic functions have no shared form yet
-- plain
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, r, COUNT(*) AS n FROM (SELECT __headrace_window, country, RANK() OVER (PARTITION BY __headrace_window ORDER BY price) AS r FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM purchases) AS t) AS t GROUP BY __headrace_window, r;
-- log
SELECT __headrace_window.start AS window_start, __headrace_window.end AS window_end, r, COUNT(*) AS n FROM (SELECT __headrace_window, country, RANK() OVER (PARTITION BY __headrace_window ORDER BY price) AS r FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS t GROUP BY __headrace_window, r;

-- query
SELECT variant_get(parse_json('{"a": 3}'), '$.a', 'int') + level AS v FROM purchases;
--   projection where True
--   {variant_get(parse_json('{"a": 3}'), '$.a', 'int') + level}: double
-- log
SELECT variant_get(parse_json('{"a": 3}'), '$.a', 'int') + level AS v FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases;

-- query
SELECT hex(aes_encrypt(raw, '0000111122223333', 'ECB')) AS e, size(arrays_zip(array(level), array(level))) AS z FROM purchases;
--   projection where True
--   {hex(aes_encrypt(raw, '0000111122223333', 'ECB'))}: double
--   {size(arrays_zip(array(level), array(level)))}: double
-- log
SELECT hex(aes_encrypt(raw, '0000111122223333', 'ECB')) AS e, size(arrays_zip(array(level), array(level))) AS z FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases;

-- query
SELECT country FROM purchases WHERE country <> 'today' AND country < 'now';
--   projection where (not country = 'today' and country < 'now')
--   country: string
-- log
SELECT country FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE country <> 'today' AND country < 'now';

-- query
SELECT dateadd(HOUR, level, ts) AS a, timestampadd(MICROSECOND, -1, ts) AS b, date_add(born, 1) AS c, dateadd(month, 2, born) AS d FROM purchases;
--   projection where True
--   {dateadd(HOUR, level, ts)}: double
--   {timestampadd(MICROSECOND, -1, ts)}: double
--   {date_add(born, 1)}: double
--   {dateadd(month, 2, born)}: double
-- log
SELECT dateadd(HOUR, level, ts) AS a, timestampadd(MICROSECOND, -1, ts) AS b, date_add(born, 1) AS c, dateadd(month, 2, born) AS d FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases;

-- query
SELECT datediff(MONTH, born, ts) AS m, COUNT(*) AS n FROM purchases WHERE timestampdiff(SECOND, '2024-01-01', ts) > 5 GROUP BY 1, window(ts, '20 seconds');
--   aggregation by window('20 seconds')
--   where {timestampdiff(SECOND, '2024-01-01', ts) > 5} = 1
--   k0 = {CASE WHEN timestampdiff(SECOND, '2024-01-01', ts) > 5 THEN datediff(MONTH, born, ts) END}: double
--   a0 = count_all(): bigint
--   finish k0
--   finish a0
-- log
SELECT datediff(MONTH, born, ts) AS m, COUNT(*) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE timestampdiff(SECOND, '2024-01-01', ts) > 5 GROUP BY 1, `window`;

-- query
SELECT SUM(level >>> 1) AS s, MAX(1 + level >>> 1 & 3) AS m FROM purchases WHERE level >>> 1 > 0 GROUP BY window(ts, '20 seconds');
--   aggregation by window('20 seconds')
--   where {SHIFTRIGHTUNSIGNED(level, 1) > 0} = 1
--   a0 = sum({CASE WHEN SHIFTRIGHTUNSIGNED(level, 1) > 0 THEN SHIFTRIGHTUNSIGNED(level, 1) END}: double): double
--   a1 = max({CASE WHEN SHIFTRIGHTUNSIGNED(level, 1) > 0 THEN SHIFTRIGHTUNSIGNED(1 + level, 1) & 3 END}: double): double
--   finish a0
--   finish a1
-- log
SELECT SUM(level >>> 1) AS s, MAX(1 + level >>> 1 & 3) AS m FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE level >>> 1 > 0 GROUP BY `window`;
