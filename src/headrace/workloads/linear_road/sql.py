"""Linear Road as far as SQL goes: the statistics of segments, as queries over the traffic.

SQL says in two lines what the operator needs compiled loops for, and shares its work with other queries. It has no
answer to the rest: accidents depend on four reports in a row, and a charge on what a vehicle was told before. The
average here is that of all readings, as the public validator has it; the paper's average of averages would need a query
over the rows of another one.

SQL remembers no vehicle either. Reports that a vehicle makes after it left are noise to the operator, and are counted
here. Without such noise both give the same cars, averages and tolls (tolls where no accident is ahead).
"""

from __future__ import annotations

CARS = (
    "SELECT XWay, Dir, Seg, window.start AS minute, COUNT(DISTINCT VID) AS cars "
    "FROM traffic WHERE Type = 0 GROUP BY XWay, Dir, Seg, window(ts, '1 minute')"
)
"""Cars in every segment, minute by minute."""

LAV = (
    "SELECT XWay, Dir, Seg, window.end AS minute, SUM(Spd) AS speeds, COUNT(*) AS readings "
    "FROM traffic WHERE Type = 0 GROUP BY XWay, Dir, Seg, window(ts, '5 minutes', '1 minute')"
)
"""What the latest average velocity is made of, for the minute that begins when the window ends."""

TOLLS = (
    "SELECT c.XWay, c.Dir, c.Seg, l.minute, c.cars, floor(l.speeds / l.readings + 0.5) AS lav, "
    "CASE WHEN c.cars > 50 AND floor(l.speeds / l.readings + 0.5) < 40 "
    "THEN 2 * (c.cars - 50) * (c.cars - 50) ELSE 0 END AS toll "
    "FROM cars c JOIN lav l ON c.XWay = l.XWay AND c.Dir = l.Dir AND c.Seg = l.Seg "
    "AND c.minute + INTERVAL '1 minute' = l.minute"
)
"""Tolls of every segment and minute without accidents, asked of the rows of queries named `cars` and `lav`."""

QUERIES = {"cars": CARS, "lav": LAV}
