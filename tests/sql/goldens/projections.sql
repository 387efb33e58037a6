-- query
SELECT * EXCEPT (address, raw) FROM purchases WHERE price > 3 AND level BETWEEN 2 AND 5;
--   projection where (price > 3.0 and (level >= 2 and level <= 5))
--   userID: bigint
--   gemPackID: bigint
--   price: double
--   amount: decimal(10,2)
--   country: string
--   level: int
--   born: date
--   paid: boolean
--   weight: float
--   seen: timestamp_ntz
--   big: decimal(30,2)
--   ts: timestamp
-- log
SELECT * EXCEPT (address, raw) FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE price > 3 AND level BETWEEN 2 AND 5;

-- query
SELECT userID, price * 2 AS twice FROM purchases WHERE country LIKE 'D%' AND price >= 10;
--   projection where ((country >= 'D' and country < 'E') and price >= 10.0)
--   userID: bigint
--   {price * 2}: double
-- log
SELECT userID, price * 2 AS twice FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE country LIKE 'D%' AND price >= 10;

-- query
SELECT 100 / level AS r, address.city FROM purchases WHERE level > 0 AND address.zip > 3;
--   fallback per epoch: the column city is of type struct<city:string,zip:int>
-- log
SELECT 100 / level AS r, address.city FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE level > 0 AND address.zip > 3;

-- query
SELECT PRICE, Country AS c FROM Purchases WHERE NOT (PAID OR level IS NULL);
--   projection where not (paid = 1 or level is null)
--   price: double
--   country: string
-- log
SELECT PRICE, Country AS c FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS Purchases WHERE NOT (PAID OR level IS NULL);

-- query
SELECT c, p + 1 AS q FROM (SELECT country AS c, price AS p, level FROM purchases WHERE paid) AS s WHERE s.p > 10 AND level > 1;
--   projection where (paid = 1 and (price > 10.0 and level > 1))
--   country: string
--   {price + 1}: double
-- log
SELECT c, p + 1 AS q FROM (SELECT country AS c, price AS p, level FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE paid) AS s WHERE s.p > 10 AND level > 1;

-- query
WITH dear AS (SELECT * FROM purchases WHERE price > 20) SELECT userID, born FROM dear WHERE born >= '1990-01-01';
--   projection where (price > 20.0 and born >= 7305)
--   userID: bigint
--   born: date
-- log
WITH dear AS (SELECT * FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE price > 20) SELECT userID, born FROM dear WHERE born >= '1990-01-01';

-- query
SELECT price * 2 AS a, a + 1 AS b FROM purchases WHERE seen > TIMESTAMP_NTZ '2024-01-01 00:00:10';
--   projection where seen > 1704067210000000
--   {price * 2}: double
--   {(price * 2) + 1}: double
-- log
SELECT price * 2 AS a, a + 1 AS b FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE seen > TIMESTAMP_NTZ '2024-01-01 00:00:10';

-- query
SELECT userID FROM purchases WHERE country = 'it''s' OR country <=> NULL OR level <> 3;
--   projection where (country = "it's" or country is null or not level = 3)
--   userID: bigint
-- log
SELECT userID FROM (SELECT * EXCEPT (__headrace_closed) FROM __headrace_log) AS purchases WHERE country = 'it''s' OR country <=> NULL OR level <> 3;
