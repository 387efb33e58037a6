"""How queries run: what is possible, what is chosen, the reasons, and when a choice changes."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from plan_cases import BY_KEY, CASES, JOINED, PlanCase

from headrace.engine.choosing import Chooser
from headrace.engine.records import no_commit
from headrace.model import codec
from headrace.model.grouping import Regrouping, Relocation
from headrace.model.plan.names import input_id
from headrace.model.query import Join, Query, QueryId, StreamName
from headrace.model.statistics import (
    NOTHING_KNOWN,
    JoinWork,
    KeyStatistics,
    Statistics,
    StreamStatistics,
    add_epoch,
)
from headrace.model.strategy import DEFAULTS, Choice, Strategies, Strategy
from headrace.model.ways import FamilyWay, Finding
from headrace.optimizer.strategies import CHANGE, ROW_COST, decide_strategies, estimate_join
from headrace.planner.group import Member, plan_group
from headrace.planner.shared import query_signature
from headrace.planner.strategies import UNKNOWN, choice_of, default_choice, possible_strategies
from headrace.sql import parse_query
from sql_fakes import STREAMS, FakeAnalyzer

SECOND = 1_000_000


def query_of(text: str, id_: int = 1) -> Query:
    return Query(QueryId(id_), f"q{id_}", parse_query(text, STREAMS, FakeAnalyzer()))


PRODUCT = query_of(BY_KEY[0])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_choice_is_possible_and_has_a_reason_against_all_others_it_names(case: PlanCase) -> None:
    for text in case.queries:
        body = query_of(text).plan.body
        choice, possible = default_choice(body), possible_strategies(body)
        assert choice.strategy == possible[0] and choice.reason
        named = [other.strategy for other in choice.rejected]
        assert choice.strategy not in named and len(set(named)) == len(named)
        assert set(possible[1:]) <= set(named)
        assert all(other.reason for other in choice.rejected)


@pytest.mark.parametrize(
    ("text", "obstacle"),
    [
        (f"SELECT l.userID, COUNT(*) AS n {JOINED} GROUP BY l.userID, l.w", None),
        (f"SELECT l.userID, COUNT(*) FILTER (WHERE r.level > 1) AS n {JOINED} GROUP BY l.userID, l.w", None),
        (
            f"SELECT l.country, COUNT(*) AS n {JOINED} GROUP BY l.country, l.w",
            "it groups by country of purchases, which is no key of the join",
        ),
        (
            f"SELECT l.userID, COUNT(*) AS n {JOINED} AND l.level = r.level GROUP BY l.userID, l.w",
            "it groups by less than the whole key of the join",
        ),
        (
            f"SELECT l.userID, COUNT(*) AS n {JOINED} AND l.price < r.price GROUP BY l.userID, l.w",
            "a condition compares values of two streams, so not all tuples of a key meet",
        ),
        (
            f"SELECT l.userID, SUM(l.level) FILTER (WHERE r.level > 1) AS n {JOINED} GROUP BY l.userID, l.w",
            "SUM with its FILTER is over more than one stream",
        ),
        (
            f"SELECT l.userID, AVG(l.amount) AS n {JOINED} GROUP BY l.userID, l.w",
            "an average of decimals or intervals is divided by a count, which a product can make too large for it",
        ),
    ],
)
def test_why_an_aggregation_of_a_join_is_no_product(text: str, obstacle: str | None) -> None:
    query = query_of(text)
    if obstacle is None:
        assert possible_strategies(query.plan.body) == (Strategy.PRODUCT, Strategy.JOINED_GROUPS)
    else:
        choice = default_choice(query.plan.body)
        assert choice.strategy is Strategy.JOINED_GROUPS
        assert (choice.rejected[0].strategy, choice.rejected[0].reason) == (Strategy.PRODUCT, obstacle)


def test_rows_are_in_one_table_whatever_the_strategy() -> None:
    """So readers need not know which strategy was in force in an epoch."""
    for strategy in possible_strategies(PRODUCT.plan.body):
        strategies = Strategies.of({PRODUCT.id: Choice(strategy, "")})
        plan = plan_group([Member(PRODUCT, 0)], _by_name(), strategies=strategies)
        tables = {output.signature for product in plan.products for output in product.outputs}
        tables |= {
            output.signature
            for operator in plan.operators
            if operator.id.startswith("groups-")
            for output in operator.outputs  # type: ignore[union-attr]
        }
        assert tables == {query_signature(PRODUCT)}


def _by_name() -> dict[StreamName, Any]:
    return {StreamName(name): stream for name, stream in STREAMS.items()}


def test_a_record_that_the_query_does_not_allow_is_refused() -> None:
    with pytest.raises(ValueError, match="q1 cannot run as shared join"):
        choice_of(PRODUCT, {PRODUCT.id: Choice(Strategy.JOINED_ROWS, "")})


def test_records_come_back() -> None:
    default = default_choice(PRODUCT.plan.body)
    strategies = Strategies.of({QueryId(2): default, QueryId(1): Choice(Strategy.PRODUCT, "")})
    assert [query for query, _ in strategies.chosen] == [1, 2]
    for value in (strategies, statistics_of(Counter(range(5_000)))):
        assert codec.loads(codec.dumps(value)) == value
    assert strategies.only([QueryId(2)]).by_query() == {2: default}


def test_a_query_that_moves_to_another_group_brings_its_strategy() -> None:
    joined = Choice(Strategy.JOINED_GROUPS, "many rare keys")
    moves = (Relocation(QueryId(1), "main", "alerts"), Relocation(QueryId(2), "alerts", "main"))
    strategies = Strategies.of({QueryId(1): joined, QueryId(2): Choice(Strategy.PRODUCT, "")})
    record: Regrouping = codec.loads(codec.dumps(Regrouping(0, 5, moves, strategies=strategies)))
    assert record.arriving("alerts").by_query() == {1: joined}
    assert record.arriving("main").by_query() == {2: Choice(Strategy.PRODUCT, "")}
    assert record.arriving("others") == DEFAULTS


# statistics


def inputs_of(query: Query) -> list[tuple[StreamName, str]]:
    body = query.plan.body
    assert isinstance(body, Join)
    sides = zip(body.sides, body.hubs[0].keys, strict=True)
    return [(side.stream, input_id(side.stream, key)) for side, key in sides]


def statistics_of(
    counts: Counter[int], span_us: int = 10 * SECOND, joins: tuple[JoinWork, ...] = ()
) -> Statistics:
    """Both streams of PRODUCT have these keys, so often, within a time of their own."""
    inputs = inputs_of(PRODUCT)
    return Statistics(
        (),
        tuple(StreamStatistics(stream, counts.total(), span_us) for stream, _ in inputs),
        tuple(
            KeyStatistics.of_counts(name, list(counts.values()), sum(counts.values())) for _, name in inputs
        ),
        joins,
    )


def decided(statistics: Statistics, current: Strategies = DEFAULTS, *, running: bool) -> Choice | None:
    changes = decide_strategies([PRODUCT], statistics, current, {PRODUCT.id} if running else ())
    return (changes.moved if running else changes.started).get(PRODUCT.id)


SPARSE, HOT = Counter(range(0, 200_000, 20)), Counter(dict.fromkeys(range(20), 500))


def test_nothing_known_means_a_product() -> None:
    choice = decided(NOTHING_KNOWN, running=False)
    assert choice is not None and choice.strategy is Strategy.PRODUCT and choice.reason == UNKNOWN
    assert decided(NOTHING_KNOWN, running=True) is None
    assert decided(statistics_of(Counter(range(100))), running=True) is None, (
        "100 tuples are too few to decide by"
    )


def test_sparse_keys_are_joined_and_hot_keys_are_multiplied() -> None:
    sparse, hot = decided(statistics_of(SPARSE), running=False), decided(statistics_of(HOT), running=False)
    assert sparse is not None and hot is not None
    assert sparse.strategy is Strategy.JOINED_GROUPS and hot.strategy is Strategy.PRODUCT
    assert "20,000 keys of its streams and" in sparse.reason
    assert hot.reason.startswith(
        "there are about 40 keys of its streams and 5,000,000 joined rows per window"
    )
    assert hot.rejected[0].strategy is Strategy.JOINED_GROUPS


def test_a_running_query_changes_in_both_directions_and_only_for_a_clear_gain() -> None:
    as_product = Strategies.of({PRODUCT.id: Choice(Strategy.PRODUCT, "")})
    as_joined = Strategies.of({PRODUCT.id: Choice(Strategy.JOINED_GROUPS, "")})
    moved, back = (
        decided(statistics_of(SPARSE), as_product, running=True),
        decided(statistics_of(HOT), as_joined, running=True),
    )
    assert moved is not None and moved.strategy is Strategy.JOINED_GROUPS
    assert back is not None and back.strategy is Strategy.PRODUCT
    assert decided(statistics_of(SPARSE), as_joined, running=True) is None
    for gain in (0.9 * CHANGE, 1.0, 1 / (0.9 * CHANGE)):
        work = JoinWork(PRODUCT.id, 10, 1_000 * ROW_COST * gain, 1_000)
        for current in (as_product, as_joined):
            assert decided(statistics_of(SPARSE, joins=(work,)), current, running=True) is None


def test_noise_around_the_border_changes_a_query_once_at_most() -> None:
    rng = random.Random(20260118)
    current, changes, known = DEFAULTS, 0, NOTHING_KNOWN
    for _ in range(200):
        keys = ROW_COST * 1_000 * CHANGE * rng.uniform(0.7, 1.4)
        known = add_epoch(known, Statistics(joins=(JoinWork(PRODUCT.id, 1, keys, 1_000),)))
        found = decide_strategies([PRODUCT], known, current, {PRODUCT.id})
        changes += len(found.moved)
        current = found.applied_to(current)
    assert changes <= 1


def test_what_was_measured_for_the_query_counts_more_than_its_streams() -> None:
    work = JoinWork(PRODUCT.id, 5, 100.0, 1_000_000.0)
    choice = decided(statistics_of(SPARSE, joins=(work,)), running=False)
    assert choice is not None and choice.strategy is Strategy.PRODUCT
    assert (
        choice.reason
        == "there are about 20 keys of its streams and 200,000 joined rows per window (measured)"
    )


def test_predicates_make_joining_cheaper_than_the_product() -> None:
    """Half of the tuples on each side have nearly as many keys, and a quarter of the rows."""
    known, filtered = statistics_of(Counter(dict.fromkeys(range(5000), 3))), query_of(BY_KEY[1])
    whole, half = estimate_join(PRODUCT, known), estimate_join(filtered, known)
    assert whole is not None and half is not None
    assert half.rows == pytest.approx(whole.rows / 2) and half.keys > 0.8 * whole.keys


@pytest.mark.parametrize("seed", range(6))
def test_estimates_are_near_what_random_streams_do(seed: int) -> None:
    """Uniform and skewed keys, sampled in small batches, against the keys and rows of a whole window."""
    rng = random.Random(seed)
    universe, skew = rng.choice([300, 5_000, 100_000]), rng.choice([0.0, 0.0, 0.6])
    weights = [1 / (key + 1) ** skew for key in range(universe)]
    window = 20_000
    sides = [rng.choices(range(universe), weights, k=window) for _ in range(2)]
    streams, keys = [], {}
    for (stream, name), tuples in zip(inputs_of(PRODUCT), sides, strict=True):
        streams.append(StreamStatistics(stream, window, 10 * SECOND))
        for at in range(0, window, 2_000):
            batch = KeyStatistics.of_counts(name, list(Counter(tuples[at : at + 2_000]).values()), 2_000)
            keys[name, at] = batch
    known = NOTHING_KNOWN
    for at in range(0, window, 2_000):
        batches = tuple(batch for (_, when), batch in keys.items() if when == at)
        known = add_epoch(
            known, Statistics(streams=tuple(streams) if at == 0 else (), keys=batches), keep=1.0
        )
    estimate = estimate_join(PRODUCT, known)
    counts = [Counter(side) for side in sides]
    rows = sum(count * counts[1][key] for key, count in counts[0].items())
    print("seed", seed, universe, skew, estimate, rows, [len(one) for one in counts])
    assert estimate is not None
    assert 0.7 < estimate.rows / rows < 1.5
    assert 0.5 < estimate.keys / sum(map(len, counts)) < 1.5


def test_tuples_that_no_query_wants_are_not_multiplied() -> None:
    """One tuple in a hundred is wanted, far fewer than the predicate looks like: the estimate follows what was read."""
    rng = random.Random(7)
    window, share = 100_000, 0.01
    wanted = [[rng.randrange(2_000) for _ in range(int(window * share))] for _ in range(2)]
    inputs = inputs_of(PRODUCT)
    known = Statistics(
        streams=tuple(StreamStatistics(stream, window, 10 * SECOND) for stream, _ in inputs),
        keys=tuple(
            KeyStatistics.of_counts(name, list(Counter(tuples).values()), window)
            for (_, name), tuples in zip(inputs, wanted, strict=True)
        ),
    )
    counts = [Counter(tuples) for tuples in wanted]
    rows = sum(count * counts[1][key] for key, count in counts[0].items())
    estimate = estimate_join(PRODUCT, known)
    assert estimate is not None and 0.7 < estimate.rows / rows < 1.5
    assert 0.8 < estimate.keys / sum(map(len, counts)) < 1.2


def test_statistics_are_kept_in_a_commit_as_they_are() -> None:
    known = statistics_of(SPARSE, joins=(JoinWork(PRODUCT.id, 2.5, 10.0, 4.0),))
    commit = replace(no_commit("main"), statistics=known)
    again = codec.loads(codec.dumps(commit))
    assert again == commit and decided(again.statistics, running=False) == decided(known, running=False)
    older = json.loads(codec.dumps(commit))
    del older["statistics"]
    assert codec.loads(json.dumps(older).encode()).statistics == NOTHING_KNOWN


def test_what_operators_did_is_remembered_while_the_plan_has_them() -> None:
    chooser, finding = Chooser(), next(iter(Finding))
    chooser.found([FamilyWay("a", ("v",), 1, finding, tuples=3), FamilyWay("b", ("v",), 1, finding)], "ab")
    chooser.found([], "ac")  # it had no tuples in this epoch
    assert [way.tuples for way in chooser.ways("ab")] == [3]
    assert chooser.ways("b") == ()
