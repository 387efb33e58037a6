-- query
SELECT l.price, r.price AS back FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID WHERE l.price > 3 AND r.paid;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where price > 3.0
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where paid = 1
--   read s0_price
--   read s1_price
-- log
SELECT l.price, r.price AS back FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID WHERE l.price > 3 AND r.paid;

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.price < r.price;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   across s0_price < s1_price
--   read s0_country
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.price < r.price;

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND (l.price > 3 OR r.paid);
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   read where (s0_price > 3 OR s1_paid)
--   read s0_country
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND (l.price > 3 OR r.paid);

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level + r.level > 7;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   read where (s0_level + s1_level > 7)
--   read s0_country
--   fragile
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level + r.level > 7;

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level + r.level > 7 AND l.price < r.price;
--   fallback per window('10 seconds', '5 seconds'): l.level + r.level > 7 may fail for rows that other conditions reject
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level + r.level > 7 AND l.price < r.price;

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.w.start > timestamp'2024-01-01';
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   read where (window_start > TIMESTAMP '2024-01-01')
--   read s0_country
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.w.start > timestamp'2024-01-01';

-- query
SELECT l.userID, SUM(r.price) AS s, COUNT(*) AS n FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY l.userID, l.w;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   a product is possible
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   k0 = s0_userID: bigint
--   a0 = sum(s1_price: double): double
--   a1 = count_all(): bigint
--   finish k0
--   finish a0
--   finish a1
-- log
SELECT l.userID, SUM(r.price) AS s, COUNT(*) AS n FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY l.userID, l.w;

-- query
SELECT r.country, l.w.end, SUM(l.price * r.price) AS s, COUNT(DISTINCT l.userID) AS n FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w HAVING n > 1;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   read by window_start, window_end, s1_country
--   read because l.price * r.price is computed from more than one side
--   read having (COUNT(DISTINCT s0_userID) > 1)
--   read s1_country
--   read window_end
--   read SUM(s0_price * s1_price)
--   read COUNT(DISTINCT s0_userID)
-- log
SELECT r.country, l.w.end, SUM(l.price * r.price) AS s, COUNT(DISTINCT l.userID) AS n FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w HAVING n > 1;

-- query
SELECT upper(r.country) AS c, SUM(l.gemPackID) AS s FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID WHERE l.price < r.price GROUP BY l.w, 1;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   across s0_price < s1_price
--   no product: a condition compares values of two streams, so not all tuples of a key meet
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   k0 = x2: string
--   a0 = sum(s0_gemPackID: bigint): bigint
--   finish k0
--   finish a0
-- log
SELECT upper(r.country) AS c, SUM(l.gemPackID) AS s FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID WHERE l.price < r.price GROUP BY l.w, 1;

-- query
SELECT l.price FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID % 5 = r.userID % 5;
--   join purchases by window('10 seconds', '5 seconds') on {userID % 5}: double where True
--   join returns by window('10 seconds', '5 seconds') on {userID % 5}: double where True
--   read s0_price
-- log
SELECT l.price FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID % 5 = r.userID % 5;

-- query
SELECT r.country, collect_list(l.price) AS p FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w;
--   fallback per window('10 seconds', '5 seconds'): collect_list(l.price) may hang on the order of the joined rows
-- log
SELECT r.country, collect_list(l.price) AS p FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w;

-- query
SELECT hour(l.w.start) AS h, COUNT(*) AS n FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY l.w, hour(l.w.start);
--   fallback per window('10 seconds', '5 seconds'): the key hour(`window`.start) is not computed from columns of the streams alone
-- log
SELECT hour(l.w.start) AS h, COUNT(*) AS n FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY l.w, hour(l.w.start);

-- query
SELECT l.w.end, COUNT(DISTINCT *) AS n FROM (SELECT userID, w FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l) AS l JOIN (SELECT userID, level, w FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY l.w;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   read by window_start, window_end
--   read because COUNT(DISTINCT userID, window, userID, level, window) asks each tuple for its window
--   read window_end
--   read COUNT(DISTINCT s0_userID, named_struct('start', window_start, 'end', window_end), s1_userID, s1_level, named_struct('start', window_start, 'end', window_end))
-- log
SELECT __headrace_window.`end` AS `end`, COUNT(DISTINCT s0_userID, __headrace_window, s1_userID, s1_level, __headrace_window) AS n FROM (SELECT *, named_struct('start', __headrace_window0.end - INTERVAL '10.000000' SECOND, 'end', __headrace_window0.end) AS __headrace_window FROM (SELECT userID AS s0_userID, gemPackID AS s0_gemPackID, price AS s0_price, amount AS s0_amount, country AS s0_country, level AS s0_level, born AS s0_born, paid AS s0_paid, weight AS s0_weight, seen AS s0_seen, big AS s0_big, raw AS s0_raw, address AS s0_address, ts AS s0_ts, __headrace_window AS __headrace_window0 FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS t0 INNER JOIN (SELECT userID AS s1_userID, gemPackID AS s1_gemPackID, price AS s1_price, amount AS s1_amount, country AS s1_country, level AS s1_level, born AS s1_born, paid AS s1_paid, weight AS s1_weight, seen AS s1_seen, big AS s1_big, raw AS s1_raw, address AS s1_address, ts AS s1_ts, __headrace_window AS __headrace_window1 FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS t1 ON __headrace_window0.end = __headrace_window1.end) AS t WHERE s0_userID = s1_userID GROUP BY __headrace_window;

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level < r.country AND l.price < r.price;
--   fallback per window('10 seconds', '5 seconds'): l.level < r.country may fail for rows that other conditions reject
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level < r.country AND l.price < r.price;

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.price < r.price AND 100 / (l.level - r.level) > 1;
--   fallback per window('10 seconds', '5 seconds'): 100 / (l.level - r.level) > 1 may fail for rows that other conditions reject
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.price < r.price AND 100 / (l.level - r.level) > 1;

-- query
SELECT l.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND 100 / (l.level - second(l.w.start)) > 1;
--   fallback per window('10 seconds', '5 seconds'): 100 / (l.level - second(`window`.start)) > 1 may fail for rows that other conditions reject
-- log
SELECT l.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND 100 / (l.level - second(l.w.start)) > 1;

-- query
SELECT r.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w HAVING SUM(l.price) / 2 > 3;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   no product: it groups by country of returns, which is no key of the join
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   k0 = s1_country: string
--   a0 = sum(s0_price: double): double
--   finish k0
--   having (a0 / 2 > 3)
-- log
SELECT r.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w HAVING SUM(l.price) / 2 > 3;

-- query
SELECT r.country FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w HAVING SUM(l.price) / 0 > 3;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on userID: bigint where True
--   no product: it groups by country of returns, which is no key of the join
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   k0 = s1_country: string
--   a0 = sum(s0_price: double): double
--   finish k0
--   having (a0 / 0 > 3)
--   fragile
-- log
SELECT r.country FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY r.country, l.w HAVING SUM(l.price) / 0 > 3;

-- query
SELECT l.price FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l LEFT JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID;
--   fallback per window('10 seconds', '5 seconds'): LEFT JOIN has no shared form
-- log
SELECT l.price FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l LEFT JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID;

-- query
SELECT l.price FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w;
--   fallback per window('10 seconds', '5 seconds'): a join without an equality has no shared form
-- log
SELECT l.price FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w;

-- query
SELECT window_time(l.w) AS t, COUNT(*) AS n FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY l.w, window_time(l.w);
--   fallback per window('10 seconds', '5 seconds'): the key timestampadd(MICROSECOND, -1, `window`.end) is not computed from columns of the streams alone
-- log
SELECT window_time(l.w) AS t, COUNT(*) AS n FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID GROUP BY l.w, window_time(l.w);

-- query
SELECT window_time(l.w) AS t, window_time(r.w) AS u, l.price FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l FULL JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level = r.level + 2;
--   fallback per window('10 seconds', '5 seconds'): FULL JOIN has no shared form
-- log
SELECT window_time(l.w) AS t, window_time(r.w) AS u, l.price FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l FULL JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level = r.level + 2;

-- query
SELECT userID, w.start, level, price FROM (SELECT userID, level, window(ts, '20 seconds') AS w FROM purchases) AS l NATURAL JOIN (SELECT userID, price, window(ts, '20 seconds') AS w FROM returns) AS r;
--   join purchases by window('20 seconds') on userID: bigint where True
--   join returns by window('20 seconds') on userID: bigint where True
--   read s0_userID
--   read window_start
--   read s0_level
--   read s1_price
-- log
SELECT userID, w.start, level, price FROM (SELECT userID, level, `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l NATURAL JOIN (SELECT userID, price, `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r;

-- query
SELECT w.start, userID, COUNT(r.price) AS n FROM (SELECT userID, window(ts, '20 seconds') AS w FROM purchases WHERE level = 1) AS l RIGHT JOIN (SELECT userID, price, window(ts, '20 seconds') AS w FROM returns) AS r USING (userID, w) GROUP BY w, userID;
--   fallback per window('20 seconds'): RIGHT JOIN has no shared form
-- log
SELECT w.start, userID, COUNT(r.price) AS n FROM (SELECT userID, `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE level = 1) AS l RIGHT JOIN (SELECT userID, price, `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r USING (userID, w) GROUP BY w, userID;

-- query
SELECT coalesce(l.w, r.w) AS w, COUNT(l.price) AS a, COUNT(r.price) AS b FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l FULL JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level = r.level + 2 GROUP BY coalesce(l.w, r.w);
--   fallback per window('10 seconds', '5 seconds'): FULL JOIN has no shared form
-- log
SELECT coalesce(l.w, r.w) AS w, COUNT(l.price) AS a, COUNT(r.price) AS b FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l FULL JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID AND l.level = r.level + 2 GROUP BY coalesce(l.w, r.w);

-- query
SELECT l.price, r.level FROM (SELECT *, window(ts, '7 seconds', '100 milliseconds') AS w FROM purchases WHERE level = 1) AS l LEFT JOIN (SELECT *, window(ts, '7 seconds', '100 milliseconds') AS w FROM returns WHERE level = 2) AS r ON l.w = r.w AND l.userID = r.userID;
--   fallback per window('7 seconds', '100 milliseconds'): LEFT JOIN has no shared form
-- log
SELECT s0_price AS price, s1_level AS level FROM (SELECT *, named_struct('start', COALESCE(__headrace_window0.end, __headrace_window1.end) - INTERVAL '7.000000' SECOND, 'end', COALESCE(__headrace_window0.end, __headrace_window1.end)) AS __headrace_window FROM (SELECT userID AS s0_userID, gemPackID AS s0_gemPackID, price AS s0_price, amount AS s0_amount, country AS s0_country, level AS s0_level, born AS s0_born, paid AS s0_paid, weight AS s0_weight, seen AS s0_seen, big AS s0_big, raw AS s0_raw, address AS s0_address, ts AS s0_ts, __headrace_window AS __headrace_window0 FROM (SELECT *, explode(transform(CASE WHEN ts IS NOT NULL AND GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1), 100000L) <= LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - 0L, 100000L) THEN sequence(GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1), 100000L), LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - 0L, 100000L), 100000L) ELSE array() END, s -> named_struct('start', timestamp_micros(s), 'end', timestamp_micros(s + 7000000L)))) AS __headrace_window FROM __headrace_log) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND (level = 1)) AS t0 LEFT JOIN (SELECT userID AS s1_userID, gemPackID AS s1_gemPackID, price AS s1_price, amount AS s1_amount, country AS s1_country, level AS s1_level, born AS s1_born, paid AS s1_paid, weight AS s1_weight, seen AS s1_seen, big AS s1_big, raw AS s1_raw, address AS s1_address, ts AS s1_ts, __headrace_window AS __headrace_window1 FROM (SELECT *, explode(transform(CASE WHEN ts IS NOT NULL AND GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1), 100000L) <= LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - 0L, 100000L) THEN sequence(GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1 + pmod(0L - (GREATEST(unix_micros(CAST(ts AS TIMESTAMP)), __headrace_closed, :after) - 7000000L + 1), 100000L), LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - pmod(LEAST(unix_micros(CAST(ts AS TIMESTAMP)), try_subtract(:until, 7000000L)) - 0L, 100000L), 100000L) ELSE array() END, s -> named_struct('start', timestamp_micros(s), 'end', timestamp_micros(s + 7000000L)))) AS __headrace_window FROM __headrace_log1) AS t WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until AND (level = 2)) AS t1 ON __headrace_window0.end = __headrace_window1.end AND (__headrace_window0 = __headrace_window1) AND (s0_userID = s1_userID)) AS t;

-- query
SELECT COUNT(*) AS n FROM purchases [RANGE 10 SECONDS SLIDE 5 SECONDS] AS l, returns [RANGE 5 SECONDS SLIDE 5 SECONDS] AS r WHERE l.userID = r.userID;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('5 seconds') on userID: bigint where True
--   no product: it groups by less than the whole key of the join
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   a0 = count_all(): bigint
--   finish window_start
--   finish window_end
--   finish a0
-- plain
SELECT __headrace_window.start AS window_start, __headrace_window.`end` AS window_end, COUNT(*) AS n FROM (SELECT *, named_struct('start', __headrace_window0.end - INTERVAL '10.000000' SECOND, 'end', __headrace_window0.end) AS __headrace_window FROM (SELECT userID AS s0_userID, gemPackID AS s0_gemPackID, price AS s0_price, amount AS s0_amount, country AS s0_country, level AS s0_level, born AS s0_born, paid AS s0_paid, weight AS s0_weight, seen AS s0_seen, big AS s0_big, raw AS s0_raw, address AS s0_address, ts AS s0_ts, __headrace_window AS __headrace_window0 FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM purchases) AS t) AS t0 INNER JOIN (SELECT userID AS s1_userID, gemPackID AS s1_gemPackID, price AS s1_price, amount AS s1_amount, country AS s1_country, level AS s1_level, born AS s1_born, paid AS s1_paid, weight AS s1_weight, seen AS s1_seen, big AS s1_big, raw AS s1_raw, address AS s1_address, ts AS s1_ts, __headrace_window AS __headrace_window1 FROM (SELECT *, window(ts, '5 seconds') AS __headrace_window FROM returns) AS t) AS t1 ON __headrace_window0.end = __headrace_window1.end) AS t WHERE s0_userID = s1_userID GROUP BY __headrace_window;
-- log
SELECT l.`window`.end - INTERVAL '10.000000' SECOND AS window_start, l.`window`.end AS window_end, COUNT(*) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until)  AS l, (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until)  AS r WHERE l.`window`.end = r.`window`.end AND ( l.userID = r.userID) GROUP BY l.`window`.end ;

-- query
SELECT l.price, t.level FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS t ON t.w = r.w AND t.country = r.country WHERE l.price > 3;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where price > 3.0
--   join returns by window('10 seconds', '5 seconds') on country: string and on userID: bigint where True
--   join purchases by window('10 seconds', '5 seconds') on country: string where True
--   meet 1(country: string) = 2(country: string)
--   meet 0(userID: bigint) = 1(userID: bigint)
--   read s0_price
--   read s2_level
-- log
SELECT l.price, t.level FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS t ON t.w = r.w AND t.country = r.country WHERE l.price > 3;

-- query
SELECT r.price FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r, (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l, (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS t, (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS u WHERE l.w = r.w AND l.userID = r.userID AND t.w = r.w AND u.w = r.w AND r.country = t.country AND r.level = u.level AND r.gemPackID = u.gemPackID;
--   join returns by window('10 seconds', '5 seconds') on country: string and on userID: bigint and on gemPackID: bigint, level: int where True
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join purchases by window('10 seconds', '5 seconds') on country: string where True
--   join returns by window('10 seconds', '5 seconds') on gemPackID: bigint, level: int where True
--   meet 0(country: string) = 2(country: string)
--   meet 0(userID: bigint) = 1(userID: bigint)
--   meet 0(gemPackID: bigint, level: int) = 3(gemPackID: bigint, level: int)
--   read s0_price
-- log
SELECT r.price FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r, (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l, (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS t, (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS u WHERE l.w = r.w AND l.userID = r.userID AND t.w = r.w AND u.w = r.w AND r.country = t.country AND r.level = u.level AND r.gemPackID = u.gemPackID;

-- query
SELECT l.price FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS t ON t.w = r.w AND t.country = r.country AND t.level = l.level;
--   join purchases by window('10 seconds', '5 seconds') on level: int where True
--   join returns by window('10 seconds', '5 seconds') on country: string where True
--   join purchases by window('10 seconds', '5 seconds') on country: string and on level: int where True
--   meet 1(country: string) = 2(country: string)
--   meet 0(level: int) = 2(level: int)
--   across s0_userID = s1_userID
--   read s0_price
-- log
SELECT l.price FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS t ON t.w = r.w AND t.country = r.country AND t.level = l.level;

-- query
SELECT u.price FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l, (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r, (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS t, (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS u WHERE l.w = r.w AND l.userID = r.userID AND t.w = r.w AND u.w = r.w AND t.userID = r.userID AND l.level = u.level AND u.level = r.level;
--   join purchases by window('10 seconds', '5 seconds') on level: int and on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on level: int where True
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on level: int where True
--   meet 0(level: int) = 1(level: int) = 3(level: int)
--   meet 0(userID: bigint) = 2(userID: bigint)
--   across s0_userID = s1_userID
--   read s3_price
-- log
SELECT u.price FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l, (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r, (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS t, (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS u WHERE l.w = r.w AND l.userID = r.userID AND t.w = r.w AND u.w = r.w AND t.userID = r.userID AND l.level = u.level AND u.level = r.level;

-- query
SELECT l.userID, COUNT(*) AS n FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS t ON t.w = r.w AND t.country = r.country GROUP BY l.userID, l.w;
--   join purchases by window('10 seconds', '5 seconds') on userID: bigint where True
--   join returns by window('10 seconds', '5 seconds') on country: string and on userID: bigint where True
--   join purchases by window('10 seconds', '5 seconds') on country: string where True
--   meet 1(country: string) = 2(country: string)
--   meet 0(userID: bigint) = 1(userID: bigint)
--   no product: the streams are joined on different keys
--   aggregation by window('10 seconds', '5 seconds')
--   where True
--   k0 = s0_userID: bigint
--   a0 = count_all(): bigint
--   finish k0
--   finish a0
-- log
SELECT l.userID, COUNT(*) AS n FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS t ON t.w = r.w AND t.country = r.country GROUP BY l.userID, l.w;

-- query
SELECT l.userID, r.userID + 1 AS v FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS t ON t.w = r.w AND t.level < r.level;
--   fallback per window('10 seconds', '5 seconds'): no equalities connect all streams of the join, or their types differ
-- log
SELECT l.userID, r.userID + 1 AS v FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS t ON t.w = r.w AND t.level < r.level;

-- query
SELECT l.userID FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS l JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT *, window(ts, '10 seconds', '5 seconds') AS w FROM purchases) AS t ON t.w = r.w AND t.country = r.level;
--   fallback per window('10 seconds', '5 seconds'): no equalities connect all streams of the join, or their types differ
-- log
SELECT l.userID FROM (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS l JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log1) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS returns) AS r ON l.w = r.w AND l.userID = r.userID JOIN (SELECT * EXCEPT (`window`), `window` AS w FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases) AS t ON t.w = r.w AND t.country = r.level;
