-- query
SELECT gemPackID, SUM(price) FROM purchases WHERE price > 3 GROUP BY gemPackID, window(ts, '10 seconds', '5 seconds');
--   aggregation by window('10 seconds', '5 seconds')
--   where price > 3.0
--   k0 = gemPackID: bigint
--   a0 = sum(price: double): double
--   finish k0
--   finish a0
-- log
SELECT gemPackID, SUM(price) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE price > 3 GROUP BY gemPackID, `window`;

-- query
SELECT window.start, window.end, COUNT(*) AS n FROM purchases GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   a0 = count_all(): bigint
--   finish window_start
--   finish window_end
--   finish a0
-- log
SELECT window.start, window.end, COUNT(*) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT window, COUNT(1) FROM purchases GROUP BY window(ts, '9 seconds', '3 seconds', '1 second');
--   aggregation by window('9 seconds', '3 seconds', '1 second')
--   where True
--   a0 = count_all(): bigint
--   finish named_struct('start', window_start, 'end', window_end)
--   finish a0
-- log
SELECT window, COUNT(1) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '9 seconds', '3 seconds', '1 second') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT window(ts, '10 seconds').start AS s, MAX(price) - MIN(price) AS spread FROM purchases GROUP BY window(ts, '10 seconds');
--   aggregation by window('10 seconds')
--   where True
--   a0 = max(price: double): double
--   a1 = min(price: double): double
--   finish window_start
--   finish a0 - a1
-- log
SELECT `window`.start AS s, MAX(price) - MIN(price) AS spread FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT country, AVG(price) FROM purchases GROUP BY window(ts, '10 seconds'), country HAVING COUNT(*) > 2 AND AVG(price) < 50.5;
--   aggregation by window('10 seconds')
--   where True
--   k0 = country: string
--   a0 = avg(price: double): double
--   a1 = count_all(): bigint
--   finish k0
--   finish a0
--   having (a1 > 2 AND a0 < 50.5)
-- log
SELECT country, AVG(price) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`, country HAVING COUNT(*) > 2 AND AVG(price) < 50.5;

-- query
SELECT upper(country) AS c, COUNT(country) FROM purchases WHERE level % 2 = 0 GROUP BY window(ts, '10 seconds'), upper(country);
--   aggregation by window('10 seconds')
--   where {level % 2 = 0} = 1
--   k0 = {upper(country)}: string
--   a0 = count(country: string): bigint
--   finish k0
--   finish a0
-- log
SELECT upper(country) AS c, COUNT(country) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE level % 2 = 0 GROUP BY `window`, upper(country);

-- query
SELECT level + 1 AS l, SUM(level) AS s FROM purchases WHERE level < 100 GROUP BY l, window(ts, '10 seconds');
--   aggregation by window('10 seconds')
--   where level < 100
--   k0 = {CASE WHEN level < 100 THEN level + 1 END}: int
--   a0 = sum(level: int): bigint
--   finish k0
--   finish a0
-- log
SELECT level + 1 AS l, SUM(level) AS s FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '10 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE level < 100 GROUP BY l, `window`;

-- query
SELECT country, COUNT(*) FROM purchases GROUP BY 1, window(ts, '20 seconds');
--   aggregation by window('20 seconds')
--   where True
--   k0 = country: string
--   a0 = count_all(): bigint
--   finish k0
--   finish a0
-- log
SELECT country, COUNT(*) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY 1, `window`;

-- query
SELECT window(ts, '20 seconds') AS w, w.end, COUNT(*) AS n FROM purchases GROUP BY w HAVING n > 1;
--   aggregation by window('20 seconds')
--   where True
--   a0 = count_all(): bigint
--   finish named_struct('start', window_start, 'end', window_end)
--   finish window_end
--   finish a0
--   having (a0 > 1)
-- log
SELECT `window` AS w, w.end, COUNT(*) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY w HAVING n > 1;

-- query
SELECT AVG(amount), SUM(amount), MIN(amount), SUM(amount) / COUNT(*) FROM purchases GROUP BY window(ts, '20 seconds');
--   aggregation by window('20 seconds')
--   where True
--   a0 = sum(amount: decimal(10,2)): decimal(20,2)
--   a1 = count(amount: decimal(10,2)): bigint
--   a2 = min(amount: decimal(10,2)): decimal(10,2)
--   a3 = count_all(): bigint
--   finish CAST(a0 / CAST(nullif(a1, 0) AS DECIMAL(10, 0)) AS DECIMAL(14, 6))
--   finish a0
--   finish a2
--   finish a0 / a3
-- log
SELECT AVG(amount), SUM(amount), MIN(amount), SUM(amount) / COUNT(*) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT VARIANCE(price), VAR_POP(price), STD(level), STDDEV_POP(weight), MEAN(level) FROM purchases GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   a0 = var_samp(price: double): double
--   a1 = var_pop(price: double): double
--   a2 = stddev_samp(level: int): double
--   a3 = stddev_pop(weight: float): double
--   a4 = avg(level: int): double
--   finish a0
--   finish a1
--   finish a2
--   finish a3
--   finish a4
-- log
SELECT VARIANCE(price), VAR_POP(price), STD(level), STDDEV_POP(weight), MEAN(level) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT COUNT(*) FILTER (WHERE paid) AS p, SUM(price) FILTER (WHERE country = 'DE' OR level > 3) AS s, count_if(price > 20) AS x FROM purchases GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   a0 = count_all(): bigint filter paid = 1
--   a1 = sum(price: double): double filter (country = 'DE' or level > 3)
--   a2 = count_all(): bigint filter price > 20.0
--   finish a0
--   finish a1
--   finish a2
-- log
SELECT COUNT(*) FILTER (WHERE paid) AS p, SUM(price) FILTER (WHERE country = 'DE' OR level > 3) AS s, count_if(price > 20) AS x FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT country, MAX(born), MIN(seen), MAX(country), MIN(paid) FROM purchases GROUP BY country, window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   k0 = country: string
--   a0 = max(born: date): date
--   a1 = min(seen: timestamp_ntz): timestamp_ntz
--   a2 = max(country: string): string
--   a3 = min(paid: boolean): boolean
--   finish k0
--   finish a0
--   finish a1
--   finish a2
--   finish a3
-- log
SELECT country, MAX(born), MIN(seen), MAX(country), MIN(paid) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, `window`;

-- query
SELECT p.country, SUM(p.price) * 2 AS d FROM purchases AS p WHERE p.country IN ('DE', 'FR') GROUP BY p.country, window(p.ts, '1 minute');
--   aggregation by window('1 minute')
--   where (country = 'DE' or country = 'FR')
--   k0 = country: string
--   a0 = sum(price: double): double
--   finish k0
--   finish a0 * 2
-- log
SELECT p.country, SUM(p.price) * 2 AS d FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS p WHERE p.country IN ('DE', 'FR') GROUP BY p.country, `window`;

-- query
SELECT COUNT(address), COUNT(raw) FROM purchases GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   a0 = count_all(): bigint filter not {address IS NULL} = 1
--   a1 = count(raw: binary): bigint
--   finish a0
--   finish a1
-- log
SELECT COUNT(address), COUNT(raw) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT SUM(100 / level) AS r FROM purchases WHERE level <> 0 GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where not level = 0
--   a0 = sum({CASE WHEN level <> 0 THEN 100 / level END}: double): double
--   finish a0
-- log
SELECT SUM(100 / level) AS r FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases WHERE level <> 0 GROUP BY `window`;

-- query
SELECT SUM(100 / level) FILTER (WHERE level <> 0) AS r FROM purchases GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   a0 = sum({CASE WHEN level <> 0 THEN 100 / level END}: double): double filter not level = 0
--   finish a0
-- log
SELECT SUM(100 / level) FILTER (WHERE level <> 0) AS r FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT CASE WHEN price > 20 THEN 'high' ELSE 'low' END AS band, COUNT(*) FROM purchases GROUP BY 1, window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   k0 = {CASE WHEN price > 20 THEN 'high' ELSE 'low' END}: double
--   a0 = count_all(): bigint
--   finish k0
--   finish a0
-- log
SELECT CASE WHEN price > 20 THEN 'high' ELSE 'low' END AS band, COUNT(*) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY 1, `window`;

-- query
SELECT country, level, SUM(price) + level AS x FROM purchases GROUP BY country, level, window(ts, '30 seconds');
--   aggregation by window('30 seconds')
--   where True
--   k0 = country: string
--   k1 = level: int
--   a0 = sum(price: double): double
--   finish k0
--   finish k1
--   finish a0 + k1
-- log
SELECT country, level, SUM(price) + level AS x FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, level, `window`;

-- query
SELECT country, SUM(level) AS level FROM purchases GROUP BY country, window(ts, '30 seconds') HAVING level > 30 OR MAX(level) < 7;
--   aggregation by window('30 seconds')
--   where True
--   k0 = country: string
--   a0 = sum(level: int): bigint
--   a1 = max(level: int): int
--   finish k0
--   finish a0
--   having (a0 > 30 OR a1 < 7)
-- log
SELECT country, SUM(level) AS level FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, `window` HAVING level > 30 OR MAX(level) < 7;
