"""Random lives of several groups: queries move, start in the past, keys spread anew, processes die. Rows stay the same.

Each life is played twice: once with every query in the main group from its first epoch on, and once with everything
that a house with many groups can do to it: people move queries, and so does a conductor whose policy is chance. Both
must deliver the same rows to every query.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scenario import BUSY, files_of, named_by, outlive

import headrace
from chance import ChanceGrouper, let_balance, let_decide
from headrace.model.events import EventKind
from headrace.model.grouping import GROUP_TRANSITIONS, GroupState

pytestmark = [pytest.mark.crash, pytest.mark.spark]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEPS, ROWS = 7, 40
GROUPS = ("main", "alerts", "nightly")

TEXTS = {
    "spend": "SELECT pack, window.start AS since, SUM(price) AS s, MAX(name) AS m FROM sales WHERE price > 1 "
    "GROUP BY pack, window(ts, '12 seconds', '4 seconds')",
    "users": "SELECT user, name, COUNT(*) AS n FROM sales GROUP BY user, name, window(ts, '10 seconds')",
    "total": "SELECT COUNT(*) AS n, AVG(price) AS a, window.end AS til FROM sales GROUP BY window(ts, '15 seconds')",
    "odd": "SELECT pack % 2 AS half, MIN(price * 2) AS low FROM sales "
    "GROUP BY pack % 2, window(ts, '9 seconds', '3 seconds')",
    "high": "SELECT id, price FROM sales WHERE price > 4",
    "visit": "SELECT user, COUNT(*) AS n, COUNT(DISTINCT pack) AS packs FROM sales "
    "GROUP BY user, session_window(ts, '2 seconds')",
    "seen": "SELECT s.id, a.campaign FROM sales [RANGE 10 SECONDS SLIDE 5 SECONDS] AS s, "
    "ads [RANGE 10 SECONDS SLIDE 5 SECONDS] AS a WHERE s.user = a.user AND s.price > 2",
    "chain": "SELECT s.id, a.id AS ad, b.id AS other FROM sales [RANGE 6 SECONDS SLIDE 3 SECONDS] AS s, "
    "ads [RANGE 6 SECONDS SLIDE 3 SECONDS] AS a, ads [RANGE 6 SECONDS SLIDE 3 SECONDS] AS b "
    "WHERE s.user = a.user AND a.campaign = b.campaign AND s.price > 5",
    "worth": "SELECT s.user, SUM(s.price) AS worth, COUNT(*) AS n FROM sales [RANGE 10 SECONDS SLIDE 5 SECONDS] AS s, "
    "ads [RANGE 10 SECONDS SLIDE 5 SECONDS] AS a WHERE s.user = a.user GROUP BY s.user",
    "by_ad": "SELECT a.campaign, SUM(s.price) AS worth FROM sales [RANGE 10 SECONDS SLIDE 5 SECONDS] AS s, "
    "ads [RANGE 10 SECONDS SLIDE 5 SECONDS] AS a WHERE s.user = a.user GROUP BY a.campaign",
    "names": "SELECT pack, sort_array(collect_list(name)) AS names FROM sales GROUP BY pack, window(ts, '10 seconds')",
}
"""Aggregations with and without keys and by Catalyst, a selection, sessions, joins on one and several keys, a product,
a grouping of joined rows, and plain Spark.
"""


@dataclass(frozen=True)
class Life:
    """What happens in which step: who is created, from the beginning or not, who is dropped, moved, how wide it is."""

    creates: dict[int, list[tuple[str, bool]]]
    drops: dict[int, list[str]]
    moves: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    widths: dict[int, int] = field(default_factory=dict)

    def quiet(self) -> Life:
        """The same without moves, in which whoever starts in the past is there from the beginning."""
        early = [name for found in self.creates.values() for name, start in found if start]
        creates = {
            step: [(n, False) for n, start in found if not start] for step, found in self.creates.items()
        }
        creates[0] = [*creates.get(0, []), *((name, False) for name in early)]
        return Life(creates, self.drops)


def random_life(rng: random.Random) -> Life:
    creates: dict[int, list[tuple[str, bool]]] = {}
    drops: dict[int, list[str]] = {}
    moves: dict[int, list[tuple[str, str]]] = {}
    for name in TEXTS:
        begin = rng.choice([0, 0, 1, 2])
        creates.setdefault(begin, []).append((name, begin > 0 and rng.random() < 0.7))
        end = rng.choice([STEPS, STEPS, STEPS, STEPS - 2])
        if end < STEPS:
            drops.setdefault(end, []).append(name)
        for step in range(begin + 1, end):
            if rng.random() < 0.4:
                moves.setdefault(step, []).append((name, rng.choice(GROUPS)))
    widths = {step: rng.choice([1, 2, 3, 5]) for step in range(STEPS) if rng.random() < 0.4}
    return Life(creates, drops, moves, widths)


def batch(stream: str, step: int) -> list[dict[str, Any]]:
    """About seven seconds of tuples; some are out of order and some of those late. Sums are exact."""
    rng = random.Random(f"{stream} {step}")
    rows = []
    for i in range(ROWS):
        moment = NOON + timedelta(seconds=step * 7 + i * 7 / ROWS - (9 if i % 11 == 0 else 0))
        row = {"id": step * ROWS + i, "user": rng.randrange(6), "ts": moment}
        if stream == "sales":
            row |= {
                "pack": rng.randrange(4),
                "name": f"name {rng.randrange(5)}",
                "price": rng.randrange(32) / 4,
            }
        else:
            row |= {"campaign": rng.randrange(5)}
        rows.append(row)
    return rows


def play(hr: Any, life: Life) -> None:
    """Go on with a life wherever it stopped; what was done is read from the warehouse."""
    for stream, columns in {
        "sales": "id BIGINT, user BIGINT, pack BIGINT, name STRING, price DOUBLE, ts TIMESTAMP",
        "ads": "id BIGINT, user BIGINT, campaign BIGINT, ts TIMESTAMP",
    }.items():
        hr.create_stream(stream, columns, event_time="ts", watermark="4 seconds", if_not_exists=True)
    unfinished = bool(hr._arrivals.pending()) or hr._delivered.behind_most > 0
    for step in range((hr._arrivals.next_number - unfinished) // 2, STEPS):
        known = set(hr._catalog.names())
        for name, early in life.creates.get(step, ()):
            if name not in known:
                hr.create_query(TEXTS[name], name=name, start="earliest" if early else None)
        for name in life.drops.get(step, ()):
            if hr._catalog.entry(name).live:
                hr.drop_query(name)
        for name, group in life.moves.get(step, ()):
            if hr._catalog.entry(name).live and hr._catalog.entry(name).group != group:
                hr.move_query(name, group)
        if step in life.widths:
            hr.repartition(life.widths[step])
        for at, stream in enumerate(("sales", "ads")):
            if hr._arrivals.next_number == 2 * step + at:
                hr.append(stream, batch(stream, step))
        before = states_of(hr)
        hr.run_available()
        for group, state in states_of(hr).items():
            was = before.get(group, GroupState.FORMING)
            assert state is was or state in GROUP_TRANSITIONS[was], f"{group}: {was} -> {state}"


def states_of(hr: Any) -> dict[str, GroupState]:
    return {group: hr._delivered.state_of(group) for group in hr._catalog.homes.groups()}


def rows_of(hr: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    found = {}
    for name in TEXTS:
        table = hr.query(name).results().toArrow().to_pylist()
        found[name] = Counter(tuple(str(value) for value in row.values()) for row in table)
    return found


def opener(spark: Any, path: Path, rng: random.Random | None = None) -> Callable[[], Any]:
    """With a source of chance, queries are merged and split by it whenever the conductor looks."""

    def opened() -> Any:
        hr = headrace.open(
            path,
            spark=spark,
            progress=False,
            upkeep=BUSY,
            log_retention=None,
            partitions=2,
            sharing="manual" if rng is None else "functional",
        )
        if rng is not None:
            let_decide(hr, ChanceGrouper(rng))
        return hr

    return opened


def never(point: str, epoch: int) -> bool:
    return False


@pytest.mark.parametrize("seed", range(12 if os.environ.get("HEADRACE_THOROUGH") else 1))
def test_rows_do_not_depend_on_groups_moves_widths_and_deaths(
    spark: Any, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    life = random_life(rng)
    print(f"seed {seed}: {life}")
    quiet, _ = outlive(opener(spark, tmp_path / "quiet"), lambda hr: play(hr, life.quiet()), never)
    expected = rows_of(quiet)
    quiet.close()

    def dies(point: str, epoch: int) -> bool:
        return rng.random() < (0.3 if point.startswith("regroup") else 0.02)

    let_balance(monkeypatch, rng)
    hr, lives = outlive(opener(spark, tmp_path / "busy", rng), lambda hr: play(hr, life), dies)
    print(f"{lives} lives, groups {sorted(hr._delivered.commits)}, {len(hr.events())} events")
    assert hr._running.conducting.trouble.error is None
    assert {event.kind for event in hr.events()} >= {EventKind.MERGED, EventKind.SPLIT, EventKind.BALANCED}
    found = rows_of(hr)
    for name in TEXTS:
        missing, extra = expected[name] - found[name], found[name] - expected[name]
        assert not missing and not extra, f"seed {seed}, query {name}: missing {missing}, unexpected {extra}"
        assert hr.query(name).audit().ok, f"seed {seed}, query {name}"
    hr.close()
    with opener(spark, tmp_path / "busy")() as again:
        assert files_of_groups(again) <= named_by(again)


def files_of_groups(hr: Any) -> set[str]:
    """The files of state and results that are there. What a plain group notes of epochs together is neither."""
    return {
        path for path in files_of(hr) if not path.startswith("log/") and not path.endswith("/together.json")
    }
