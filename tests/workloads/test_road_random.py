"""Operators against the validator on random roads: batches cut anywhere, operators restarted from snapshots."""

from __future__ import annotations

from functools import cache
from random import Random

import pyarrow as pa
from road_samples import batch_of, cut, history_of, paid_in, past_of, random_tuples, seen_in, validated

from headrace.workloads.linear_road.history import TollHistory, historical_tolls
from headrace.workloads.linear_road.operator import LinearRoad
from headrace.workloads.linear_road.past import PastRule, PastTable
from headrace.workloads.linear_road.play import Play
from headrace.workloads.linear_road.rules import Lav, Rules
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import Validator, Verdict
from thorough import THOROUGH


@cache
def some_past() -> tuple[pa.RecordBatch, list[PastTable]]:
    """Statistics of the past with gaps, and what operators make of them."""
    past = past_of(Random(1), 5)
    return past, [PastTable.read([past], xway) for xway in range(5)]


def random_run(seed: int, count: int) -> Verdict:
    print("seed", seed)
    random = Random(seed)
    expressways, vehicles = random.randint(1, 5), random.choice([4, 12, 40])
    rules = Rules(random.choice(list(Lav)), crowded=random.randint(0, 3), slow=random.choice([30, 40, 70]))
    history = history_of(random, vehicles, expressways)
    tolls, paid = [TollHistory.read([history], x) for x in range(expressways)], paid_in(history)
    past, tables = some_past()
    play = Play(expressways, lambda xway: LinearRoad(rules, tolls[xway], tables[xway]))
    validator = Validator(rules, lambda vid, day, xway: paid.get((vid, day, xway), 0), seen_in(past))
    batch = batch_of(random_tuples(random, expressways, vehicles, count))
    return validated(play, validator, cut(random, batch), random)


def test_random_tuples_are_answered_by_the_rules() -> None:
    total = dict.fromkeys(("tolls", "alerts", "balances", "expenditures", "travel_times"), 0)
    for seed in range(20):
        verdict = random_run(seed, 600)
        assert verdict.ok, f"seed {seed}\n{verdict.render()}"
        total = {kind: total[kind] + verdict.counts[kind]["due"] for kind in total}
    assert min(total.values()) > 100, total


@THOROUGH
def test_more_random_tuples_are_answered_by_the_rules() -> None:
    for seed in range(1_000, 1_100):
        verdict = random_run(seed, 4_000)
        assert verdict.ok, f"seed {seed}\n{verdict.render()}"


def test_traffic_is_answered_by_the_rules() -> None:
    traffic = Traffic(2, seed=5, seconds=600, peak=30, segments=(40, 43), trip=(4, 20), accidents_per_hour=90)
    rules, random = Rules(), Random(5)
    history = next(historical_tolls(traffic.seed, 2, traffic.vehicles))
    tables = [PastTable.by_rule(traffic.seed, xway) for xway in range(2)]
    play = Play(2, lambda xway: LinearRoad(rules, TollHistory.read([history], xway), tables[xway]))
    paid = paid_in(history)
    validator = Validator(rules, lambda vid, day, xway: paid.get((vid, day, xway), 0), PastRule(traffic.seed))
    verdict = validated(play, validator, traffic.batches(rows=1_000), random)
    assert verdict.ok, verdict.render()
    assert min(verdict.counts[kind]["due"] for kind in verdict.counts) > 5, verdict.render()
    roads = [road for road in play.roads if isinstance(road, LinearRoad)]
    assert max(road.state.vehicles["balance"].max() for road in roads) > 0
