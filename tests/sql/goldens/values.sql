-- query
SELECT country, COUNT(DISTINCT userID) FROM purchases GROUP BY country, window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   k0 = country: string
--   a0 = count_distinct(userID: bigint): bigint
--   finish k0
--   finish a0
-- log
SELECT country, COUNT(DISTINCT userID) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, `window`;

-- query
SELECT percentile(price, 0.5) AS m, collect_set(country) IS NOT NULL AS c FROM purchases GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   a0 = percentile(price: double, 0.5): double
--   a1 = collect_set(country: string): array<string>
--   finish a0
--   finish a1 IS NOT NULL
-- log
SELECT percentile(price, 0.5) AS m, array_sort(collect_set(country)) IS NOT NULL AS c FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT country, median(amount), percentile(level, array(0, 0.25, 0.9D)) AS p FROM purchases GROUP BY country, window(ts, '20 seconds', '10 seconds');
--   aggregation by window('20 seconds', '10 seconds')
--   where True
--   k0 = country: string
--   a0 = percentile(amount: decimal(10,2), 0.5): double
--   a1 = percentile(level: int, 0.0, 0.25, 0.9): array<double>
--   finish k0
--   finish a0
--   finish a1
-- log
SELECT country, median(amount), percentile(level, array(0, 0.25, 0.9D)) AS p FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds', '10 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY country, `window`;

-- query
SELECT window, collect_set(level) FILTER (WHERE paid) AS s, array_join(array_sort(collect_set(country)), '-') AS c, size(collect_set(born)) AS n FROM purchases GROUP BY window(ts, '30 seconds');
--   aggregation by window('30 seconds')
--   where True
--   a0 = collect_set(level: int): array<int> filter paid = 1
--   a1 = collect_set(country: string): array<string>
--   a2 = collect_set(born: date): array<date>
--   finish named_struct('start', window_start, 'end', window_end)
--   finish a0
--   finish array_join(array_sort(a1), '-')
--   finish size(a2)
-- log
SELECT window, array_sort(collect_set(level) FILTER (WHERE paid)) AS s, array_join(array_sort(array_sort(collect_set(country))), '-') AS c, size(array_sort(collect_set(born))) AS n FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT gemPackID, COUNT(DISTINCT country, level) FILTER (WHERE price > 10) AS n, COUNT(DISTINCT level % 3, 1) AS m FROM purchases GROUP BY gemPackID, window(ts, '1 minute') HAVING n > 1;
--   aggregation by window('1 minute')
--   where True
--   k0 = gemPackID: bigint
--   a0 = count_distinct(row(country string, level int): struct<p0:string,p1:int>): bigint filter price > 10.0
--   a1 = count_distinct({row(level % 3 double, 1 int)}: struct<p0:double,p1:int>): bigint
--   finish k0
--   finish a0
--   finish a1
--   having ((a0) > 1)
-- log
SELECT gemPackID, COUNT(DISTINCT country, level) FILTER (WHERE price > 10) AS n, COUNT(DISTINCT level % 3, 1) AS m FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY gemPackID, `window` HAVING n > 1;

-- query
SELECT max_by(country, ts) AS last, MIN_BY(level + 1, (ts)) FILTER (WHERE paid) AS paid, min_by(price, ts) - max_by(price, ts) AS d FROM purchases GROUP BY window(ts, '30 seconds');
--   aggregation by window('30 seconds')
--   where True
--   a0 = max_by(row(ts timestamp, country string): struct<p0:timestamp,p1:string>): string
--   a1 = min_by({row(ts timestamp, CASE WHEN paid THEN level + 1 END int)}: struct<p0:timestamp,p1:int>): int filter paid = 1
--   a2 = min_by(row(ts timestamp, price double): struct<p0:timestamp,p1:double>): double
--   a3 = max_by(row(ts timestamp, price double): struct<p0:timestamp,p1:double>): double
--   finish a0
--   finish a1
--   finish a2 - a3
-- log
SELECT max_by(country, if((ts) IS NULL, NULL, struct(ts, country))) AS last, MIN_BY(level + 1, if(((ts)) IS NULL, NULL, struct((ts), level + 1))) FILTER (WHERE paid) AS paid, min_by(price, if((ts) IS NULL, NULL, struct(ts, price))) - max_by(price, if((ts) IS NULL, NULL, struct(ts, price))) AS d FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '30 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT SUM(DISTINCT level), AVG(DISTINCT amount), AVG(DISTINCT price), MAX(DISTINCT country), collect_set(DISTINCT paid) FROM purchases GROUP BY window(ts, '1 minute');
--   aggregation by window('1 minute')
--   where True
--   a0 = sum_distinct(level: int): bigint
--   a1 = sum_distinct(amount: decimal(10,2)): decimal(20,2)
--   a2 = count_distinct(amount: decimal(10,2)): bigint
--   a3 = avg_distinct(price: double): double
--   a4 = max(country: string): string
--   a5 = collect_set(paid: boolean): array<boolean>
--   finish a0
--   finish CAST(a1 / CAST(nullif(a2, 0) AS DECIMAL(10, 0)) AS DECIMAL(14, 6))
--   finish a3
--   finish a4
--   finish a5
-- log
SELECT SUM(DISTINCT level), AVG(DISTINCT amount), AVG(DISTINCT price), MAX(DISTINCT country), array_sort(collect_set(DISTINCT paid)) FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '1 minute') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases GROUP BY `window`;

-- query
SELECT country, COUNT(DISTINCT amount, born, seen) AS n, SUM(price) AS s FROM purchases [RANGE 20 SECONDS SLIDE 5 SECONDS] WHERE price > 3 GROUP BY country HAVING median(price) > 20;
--   aggregation by window('20 seconds', '5 seconds')
--   where price > 3.0
--   k0 = country: string
--   a0 = count_distinct(row(amount decimal(10,2), born date, seen timestamp_ntz): struct<p0:decimal(10,2),p1:date,p2:timestamp_ntz>): bigint
--   a1 = sum(price: double): double
--   a2 = percentile(price: double, 0.5): double
--   finish window_start
--   finish window_end
--   finish k0
--   finish a0
--   finish a1
--   having (a2 > 20)
-- plain
SELECT window.start AS window_start, window.`end` AS window_end, country, COUNT(DISTINCT amount, born, seen) AS n, SUM(price) AS s FROM purchases WHERE price > 3 GROUP BY window(ts, '20 seconds', '5 seconds'), country HAVING median(price) > 20;
-- log
SELECT purchases.`window`.start AS window_start, purchases.`window`.end AS window_end, country, COUNT(DISTINCT amount, born, seen) AS n, SUM(price) AS s FROM (SELECT * EXCEPT (__headrace_closed, __headrace_window), __headrace_window AS `window` FROM (SELECT *, window(ts, '20 seconds', '5 seconds') AS __headrace_window FROM __headrace_log) WHERE unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > __headrace_closed AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) > :after AND unix_micros(CAST(__headrace_window.end AS TIMESTAMP)) <= :until) AS purchases  WHERE price > 3 GROUP BY purchases.`window`, country HAVING median(price) > 20;
