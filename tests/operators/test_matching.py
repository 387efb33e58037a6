"""Boxes, bit rows, candidates and the compiled kernels against plain loops, and against cells on the same tuples."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from coded import coded, is_coded
from test_aggregation import OPERANDS, STREAM, random_aggregate, random_predicate, random_value

from headrace.model.plan import AggregationOperator, OperandIndex, SelectionOperator
from headrace.model.plan.predicates import index_operands
from headrace.model.predicate import TRUE, And, Compare, Not, Op, Operand, Or, Predicate, operands_of
from headrace.model.query import (
    Aggregate,
    AggregateFunction,
    Aggregation,
    Projection,
    Query,
    QueryId,
    QueryPlan,
)
from headrace.model.tables import output_column
from headrace.model.ways import FamilyWay, Finding
from headrace.model.window import Window
from headrace.operators.common import cells, matching
from headrace.operators.common.bitrows import ordered_by_row, pack_words
from headrace.operators.common.boxes import BoxMaker, BoxTable
from headrace.operators.common.matching import Matcher, Matches, codes_of, homes_for
from headrace.operators.common.regions import Truth, region_count
from headrace.operators.compiled.matches import NOTED, add_values, merge_moments_of, update_four
from headrace.operators.selection import SelectionLogic
from headrace.operators.windows import folding, folds, matches
from headrace.operators.windows.folds import Fold, fold_extremes
from headrace.operators.windows.lanes import Partials
from headrace.operators.windows.lifted import lift_tuples
from headrace.operators.windows.prepared import AggregationLogic
from headrace.operators.windows.sums import SliceSums
from headrace.optimizer.membership import Choice, Homes, Membership, is_worth_rehoming
from headrace.planner.group import Member, plan_group
from thorough import seeds


def random_family(rng: random.Random) -> tuple[list[OperandIndex], list[Predicate]]:
    """Indexes of all operands, and predicates that have boxes, from one to more than a word of them."""
    predicates: list[Predicate] = []
    while len(predicates) < rng.choice([1, 5, 63, 64, 65, 130]):
        parts = tuple(random_predicate(rng, 1) for _ in range(rng.randint(1, 3)))
        joined: Predicate = And(parts) if rng.random() < 0.7 else Or(parts)
        predicate = Not(joined) if rng.random() < 0.1 else joined
        if operands_of(predicate) and BoxMaker(index_operands([predicate])).boxes(predicate) is not None:
            predicates.append(predicate)
    return list(index_operands(predicates)), predicates


def box_table(indexes: list[OperandIndex], predicates: list[Predicate]) -> BoxTable:
    found = [BoxMaker(indexes).boxes(predicate) for predicate in predicates]
    return BoxTable.of(indexes, [boxes for boxes in found if boxes is not None])


def random_homes(rng: np.random.Generator, table: BoxTable, listed: float) -> Homes:
    """Any split of boxes is right; the decision is about time only."""
    home = rng.integers(0, table.operands, table.boxes)
    return Homes(rng.random(table.boxes) < listed, home, np.zeros((table.boxes, table.operands)), 0.0)


def random_tuples(rng: np.random.Generator, indexes: list[OperandIndex], tuples: int) -> list[np.ndarray]:
    return [rng.integers(0, region_count(index), tuples).astype(np.uint16) for index in indexes]


def wanted_by(
    indexes: list[OperandIndex], predicates: list[Predicate], regions: list[np.ndarray]
) -> np.ndarray:
    """member[tuple, query], by Kleene logic over each tuple's regions."""
    truth = Truth(tuple(indexes), tuple(regions), len(regions[0]))
    return np.stack([truth.of(p) for p in predicates], axis=1)


def frozen(values: np.ndarray) -> np.ndarray:
    """The values as they come out of a message: not writable, and not where an 8-byte number likes to be."""
    raw = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:]
    return raw.view(values.dtype)


@pytest.mark.parametrize("seed", seeds(6))
def test_a_tuple_is_in_one_box_of_a_query_that_accepts_it_and_in_none_of_any_other(seed: int) -> None:
    print(f"seed {seed}")
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    indexes, predicates = random_family(rng)
    regions = random_tuples(numbers, indexes, 300)
    table = box_table(indexes, predicates)
    codes = codes_of(table, regions)
    member = wanted_by(indexes, predicates, regions)
    inside = np.zeros((300, len(predicates)), int)
    for box in range(table.boxes):
        hit = np.ones(300, bool)
        for operand in range(table.operands):
            some = slice(table.bounds[box, operand], table.bounds[box, operand] + table.counts[box, operand])
            sets = [range(low, high) for low, high in zip(table.lows[some], table.highs[some], strict=True)]
            hit &= [any(code in one for one in sets) for code in codes[:, operand]]
        inside[:, table.column[box]] += hit
    assert (inside == member).all()


def test_or_over_two_operands_is_two_boxes_and_what_needs_too_many_has_none() -> None:
    a, b, c, d, e = (Operand(name, STREAM.columns[0].type) for name in "abcde")
    two = Or((Compare(a, Op.GT, 3), Compare(b, Op.EQ, 5)))
    found = BoxMaker(index_operands([two])).boxes(two)
    assert found == [{a: ((2, 3),)}, {b: ((1, 2),), a: ((0, 2), (3, 4))}]
    pairs = [And((Compare(x, Op.GT, 1), Compare(y, Op.GT, 1))) for x in (a, b, c) for y in (d, e)]
    many = Or(tuple(pairs))
    assert BoxMaker(index_operands([many])).boxes(And((many, Not(And(tuple(pairs)))))) is None


@pytest.mark.parametrize("seed", seeds(6))
def test_kernels_equal_loops(seed: int) -> None:
    print(f"seed {seed}")
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    indexes, predicates = random_family(rng)
    tuples, rows = rng.choice([0, 1, 2, 300]), rng.choice([1, 7, 8, 9, 40])
    regions = random_tuples(numbers, indexes, tuples)
    table = box_table(indexes, predicates)
    matcher = Matcher(table, random_homes(numbers, table, rng.choice([0.0, 0.5, 1.0])))
    member = wanted_by(indexes, predicates, regions)
    row = numbers.integers(0, rows, tuples)
    kept = np.flatnonzero(numbers.random(len(predicates)) < 0.7)
    entries = np.full(len(predicates), -1, np.int64)
    entries[kept] = numbers.permutation(len(kept))
    ordered = ordered_by_row(row, rows)
    codes = matcher.codes(regions)
    matches = Matches(matcher, codes, *matcher.entries(entries), *ordered, rng.random() < 0.5)
    pairs = [(t, q) for t in range(tuples) for q in kept if member[t, q]]
    counted = matcher.matching(codes)
    assert (counted == member.sum(axis=0)[: len(counted)]).all() and not member[:, len(counted) :].any()
    check_pairs(table, matcher, codes, member, ordered, numbers)

    ints = numbers.integers(-(2**63), 2**63 - 1, tuples)
    floats = numbers.choice([math.nan, math.inf, -0.0, 0.0, 1e300, -1e300, 0.1, 2.5], tuples)
    totals = np.zeros((len(kept), rows))
    add_values(*matches.arguments, floats, totals)
    alone = np.zeros((len(kept), rows), np.int64)
    add_values(*matches.arguments, frozen(ints).copy(), alone)
    sums, others = np.zeros((2, len(kept), rows), np.int64)
    least, most = np.full((len(kept), rows), 2**63 - 1), np.full((len(kept), rows), -(2**63))
    places = np.stack([matches.entries] * 4, axis=1)
    places[::2, 1] = -1  # some boxes keep one measure less
    values = np.stack([ints, ints >> 3, ints, ints], axis=1)
    update_four(*matches.arguments, frozen(values).reshape(-1, 4).copy(), places, sums, others, least, most)
    held: dict[tuple[int, int], list[int]] = {}
    for t, q in pairs:
        held.setdefault((int(entries[q]), int(row[t])), []).append(t)
    for entry in range(len(kept)):
        for r in range(rows):
            mine = held.get((entry, r), [])
            assert int(sums[entry, r]) == (sum(int(ints[t]) for t in mine) + 2**63) % 2**64 - 2**63
            assert alone[entry, r] == sums[entry, r]
            both = set(places[matches.entries == entry, 1].tolist()) == {entry}
            if both:
                assert int(others[entry, r]) == (sum(int(ints[t]) >> 3 for t in mine) + 2**63) % 2**64 - 2**63
            assert int(least[entry, r]) == min((int(ints[t]) for t in mine), default=2**63 - 1)
            assert int(most[entry, r]) == max((int(ints[t]) for t in mine), default=-(2**63))
            exact = sum(float(floats[t]) for t in mine)
            assert np.isclose(totals[entry, r], exact, rtol=1e-12, atol=1e286, equal_nan=True)
    check_moments(matches, held, numbers, tuples, (len(kept), rows))


def check_pairs(
    table: BoxTable,
    matcher: Matcher,
    codes: np.ndarray,
    member: np.ndarray,
    ordered: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
) -> None:
    """The tuples of each query, and all matches of candidates in the order of rows."""
    found, counts = matcher.pairs(codes)
    by_query = np.split(found, np.cumsum(counts)[:-1])
    assert [some.tolist() for some in by_query] == [np.flatnonzero(mine).tolist() for mine in member.T]
    listed = Matcher(table, random_homes(rng, table, 1.1))
    pairs = listed.listed_matches(codes, *ordered)
    assert pairs is not None and listed.words == 0
    assert not matcher.words or matcher.listed_matches(codes, *ordered) is None
    boxes, tuples = pairs
    expected = [(t, q) for t in ordered[0].tolist() for q in np.flatnonzero(member[t]).tolist()]
    assert tuples.tolist() == [t for t, _ in expected]
    place = np.argsort(ordered[0])  # queries of a tuple come in any order
    queries = listed.column[boxes[:, 0]]
    by_tuple = np.lexsort((queries, place[tuples]))
    assert list(zip(tuples[by_tuple].tolist(), queries[by_tuple].tolist(), strict=True)) == expected


def test_many_matches_change_the_same_partials_in_place_as_in_tiles() -> None:
    """More of them than are noted at once."""
    numbers = np.random.default_rng(5)
    where: list[Predicate] = [Compare(OPERANDS["i"], Op.GT, n) for n in range(-3, 4)]
    indexes = list(index_operands(where))
    regions = random_tuples(numbers, indexes, 4_000)
    table = box_table(indexes, where)
    matcher = Matcher(table, random_homes(numbers, table, 0.5))
    codes, ordered = matcher.codes(regions), ordered_by_row(numbers.integers(0, 9, 4_000), 9)
    assert matcher.matching(codes).sum() > 2 * NOTED
    values, found = numbers.integers(-(2**63), 2**63 - 1, (4_000, 4)), []
    for sparse in (False, True):
        matches = Matches(matcher, codes, *matcher.entries(np.arange(len(where))), *ordered, sparse)
        places = np.stack([matches.entries] * 4, axis=1)
        into = [np.full((len(where), 9), start) for start in (0, 0, 2**63 - 1, -(2**63))]
        update_four(*matches.arguments, values, places, *into)
        found.append(np.stack(into).tolist())
    assert found[0] == found[1]


def check_moments(
    matches: Matches,
    held: dict[tuple[int, int], list[int]],
    rng: np.random.Generator,
    tuples: int,
    shape: tuple[int, int],
) -> None:
    counts = rng.integers(0, 4, tuples)
    some, shares = (
        [1.0, -3.5, 1e8, -0.0, math.inf, -math.inf, math.nan],
        [0.5, 0.15, 0.12, 0.2, 0.01, 0.01, 0.01],
    )
    means = rng.choice(some, tuples, p=shares)
    spreads = np.where(counts > 1, rng.random(tuples), 0.0)
    n, v, q = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
    merge_moments_of(*matches.arguments, counts, means, spreads, n, v, q)
    for (entry, r), mine in held.items():
        known = [t for t in mine if counts[t]]
        total = sum(int(counts[t]) for t in known)
        assert n[entry, r] == total
        if not known:
            continue
        mean = sum(float(counts[t] * means[t]) for t in known) / total
        if len(known) == 1:
            assert math.copysign(1.0, v[entry, r]) == math.copysign(1.0, means[known[0]])
        if math.isfinite(mean):
            spread = sum(spreads[t] + counts[t] * (means[t] - mean) ** 2 for t in known)
            assert math.isclose(v[entry, r], mean, rel_tol=1e-9, abs_tol=1e-6)
            assert math.isclose(q[entry, r], spread, rel_tol=1e-6, abs_tol=1e-2)
        else:
            assert math.isnan(q[entry, r])
        if len({means[t] for t in known}) == 1 and math.isfinite(mean):
            assert math.isclose(q[entry, r], sum(spreads[t] for t in known), rel_tol=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_rows_are_ordered_as_numpy_orders_them(rows: int) -> None:
    row = np.random.default_rng(rows).integers(0, 70, rows)
    order, bounds = ordered_by_row(frozen(row), 70)
    assert order.tolist() == np.argsort(row, kind="stable").tolist()
    assert bounds.tolist() == np.searchsorted(np.sort(row), np.arange(71)).tolist()


@pytest.mark.parametrize("seed", seeds(2))
def test_cells_and_bit_rows_give_the_same_partials(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision between them is about time only."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    operator = planned([random_query(rng, n) for n in range(80)])
    rows = [
        {name: random_value(rng, name) for name in OPERANDS} | {"ts": rng.randint(0, 60)} for _ in range(400)
    ]
    compare_lanes(operator, *folded_each_way(operator, rows, seed % 2 == 0, monkeypatch))


@pytest.mark.parametrize("wide", ["i", "k"])
def test_a_float_shadow_has_what_is_summed_beside_a_large_value(
    wide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of large values have a float beside them, and then so have all sums of their lane."""
    rng = random.Random(5)
    sums = tuple(
        Aggregate(AggregateFunction.SUM, OPERANDS[name], TRUE, OPERANDS[name].type) for name in ("i", "k")
    )
    queries = [
        summing(n, And((random_comparison(rng, "x"), random_comparison(rng, "i"))), sums) for n in range(20)
    ]
    operator = planned(queries)
    rows: list[dict[str, Any]] = [
        {"i": rng.randrange(1, 4), "k": rng.randrange(4), "x": rng.uniform(-3, 3), "g": 1.5, "t": "a"}
        | {"ts": rng.randint(0, 60)}
        for _ in range(400)
    ]
    rows = [row | {wide: row[wide] + 2**40 * rng.randrange(2)} for row in rows]
    lanes = folded_each_way(operator, rows, True, monkeypatch)
    compare_lanes(operator, *lanes)
    (sums_of,) = [lane for lane in lanes[1] if isinstance(lane, dict) and "f" in lane]
    assert np.array_equal(sums_of["f"], sums_of["v"]), "none of them is so large that a float rounds it"


def planned(queries: list[Query]) -> AggregationOperator:
    plan = plan_group([Member(query, n) for n, query in enumerate(queries)], {STREAM.name: STREAM})
    (operator,) = [o for o in plan.operators if isinstance(o, AggregationOperator) and not o.bags]
    return operator


def folded_each_way(
    operator: AggregationOperator, rows: list[dict[str, Any]], sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> list[list[Partials | SliceSums | None]]:
    """The partials of the same tuples by cells and by matches."""
    table = pa.Table.from_pylist(rows, schema=pa.schema([(c.name, c.type.arrow) for c in STREAM.columns]))
    lifted = lift_tuples(operator, {o: table.column(o.sql) for o in operator.scanned}, -(2**63))
    assert lifted is not None
    block = folding.KeyBlock(0, lifted.keys.count, lifted, lifted.keys.ids, slice(None))
    found = []
    for choice in Membership:
        made = Choice(choice, sparse, None, None)
        monkeypatch.setattr(matches, "decide_membership", lambda batch, made=made: made)
        monkeypatch.setattr(matches, "is_best", lambda *_: False)
        monkeypatch.setattr(folding, "is_sparse", lambda *_, choice=choice: choice is Membership.MATCHES)
        ways: list[FamilyWay] = []
        folded = folding.fold_block(AggregationLogic(operator), block, ways)
        assert folded is not None and {way.tuples for way in ways} == {400}
        by_cells = {Finding.CELLS, Finding.SPARSE_CELLS}
        others = [way.finding for way in ways if way.operands and way.finding not in by_cells]
        assert bool(others) is (choice is Membership.MATCHES)
        found.append(folded.lanes)
    return found


def compare_lanes(
    operator: AggregationOperator,
    grid: list[Partials | SliceSums | None],
    bits: list[Partials | SliceSums | None],
) -> None:
    compared = 0
    for one, other in zip(grid, bits, strict=True):
        assert (one is None) == (other is None)
        if isinstance(one, dict) and isinstance(other, dict):
            assert one.keys() == other.keys()
            occupied = one["n"] > 0 if "n" in one else np.ones_like(one["v"], bool)
            for name in one:
                assert np.allclose(one[name][occupied], other[name][occupied], 1e-9, 1e-6, equal_nan=True)
            compared += 1
    assert compared


@pytest.mark.parametrize("seed", range(6))
def test_query_sets_equal_loops(seed: int) -> None:
    """Slots are anywhere, and a query of several boxes has one bit."""
    print(f"seed {seed}")
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    indexes, predicates = random_family(rng)
    regions = random_tuples(numbers, indexes, 100)
    table = box_table(indexes, predicates)
    slots = numbers.permutation(3 * len(predicates))[: len(predicates)]
    matcher = Matcher(table, random_homes(numbers, table, rng.choice([0.0, 0.5, 1.0])), slots)
    expected = np.zeros((100, 3 * len(predicates)), bool)
    expected[:, slots] = wanted_by(indexes, predicates, regions)
    words = np.zeros((-(-3 * len(predicates) // 64), 100), np.uint64)
    matcher.put_words(regions, slots, words)
    assert (pack_words(expected) == words.T).all()


def test_rare_queries_are_candidates_and_frequent_ones_have_bit_rows() -> None:
    """2,000 queries ask for one flight each, 100 for a price that half of all tuples have."""
    flight, price = (Operand(name, STREAM.columns[0].type) for name in ("flight", "price"))
    rare = [And((Compare(flight, Op.EQ, n), Compare(price, Op.GT, n % 50))) for n in range(2_000)]
    often = [And((Compare(flight, Op.GE, n), Compare(price, Op.GT, n))) for n in range(100)]
    indexes = list(index_operands([*rare, *often]))
    table = box_table(indexes, [*rare, *often])
    rng = np.random.default_rng(0)
    codes = codes_of(table, random_tuples(rng, indexes, 4_000))
    homes = homes_for(table, codes, 1)
    assert homes.listed[:2_000].mean() > 0.95 and not homes.listed[2_000:].any()
    assert (homes.home[:2_000] == 0).all()
    matcher = Matcher(table, homes)
    assert matcher.words <= 2 and matcher.candidates_of(codes) < 2
    assert not is_worth_rehoming(homes, homes_for(table, codes[::2], 1))
    by_price = Homes(np.ones(table.boxes, bool), np.ones(table.boxes, np.int64), homes.shares, 0.0)
    assert is_worth_rehoming(by_price, homes), "most queries accept a price, so lists of prices are long"


@pytest.mark.parametrize("seed", seeds(2))
def test_candidates_that_are_compared_once_give_the_same_partials(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that are compared for each measure, and as cells."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    plan = plan_group([Member(random_query(rng, n), n) for n in range(40)], {STREAM.name: STREAM})
    (operator,) = [o for o in plan.operators if isinstance(o, AggregationOperator) and not o.bags]
    rows = [
        {name: random_value(rng, name) for name in OPERANDS} | {"ts": rng.randint(0, 60)} for _ in range(300)
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema([(c.name, c.type.arrow) for c in STREAM.columns]))
    lifted = lift_tuples(operator, {o: table.column(o.sql) for o in operator.scanned}, -(2**63))
    assert lifted is not None
    block = folding.KeyBlock(0, lifted.keys.count, lifted, lifted.keys.ids, slice(None))
    monkeypatch.setattr(matches, "is_best", lambda *_: False)
    numbers = np.random.default_rng(seed)
    monkeypatch.setattr(cells, "homes_for", lambda table, *_: random_homes(numbers, table, 1.0))
    found = []
    for choice, most in ((Membership.CELLS, 0), (Membership.MATCHES, -1), (Membership.MATCHES, 10**9)):
        made = Choice(choice, seed % 2 == 0, None, None)
        monkeypatch.setattr(matches, "decide_membership", lambda batch, made=made: made)
        monkeypatch.setattr(folding, "is_sparse", lambda *_, choice=choice: choice is Membership.MATCHES)
        monkeypatch.setattr(matching, "MOST_LISTED", most)
        ways: list[FamilyWay] = []
        folded = folding.fold_block(AggregationLogic(operator), block, ways)
        assert folded is not None
        assert any(way.finding is Finding.CANDIDATES for way in ways) is (choice is Membership.MATCHES)
        found.append(folded.lanes)
    compare_lanes(operator, found[0], found[1])
    compare_lanes(operator, found[1], found[2])


@pytest.mark.parametrize("seed", seeds(4))
def test_extremes_of_runs_and_of_other_cells_equal_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:  # a few rows at a time
        monkeypatch.setattr(folds, "NEAR", 64)
        monkeypatch.setattr(folds, "NARROW", 2)
    cells_, columns = int(rng.integers(1, 40)), 30
    membership = rng.random((cells_, columns)) < 0.5
    for column in range(20):  # runs anywhere, single cells and none
        low, high = sorted(rng.integers(0, cells_ + 1, 2))
        membership[:, column] = (np.arange(cells_) >= low) & (np.arange(cells_) < high)
    parts = rng.integers(-100, 100, (cells_, 7))
    for ufunc, nothing in ((np.minimum, 2**63 - 1), (np.maximum, -(2**63))):
        found = fold_extremes(parts, Fold(membership), ufunc, nothing)
        for column in range(columns):
            mine = parts[membership[:, column]]
            expected = ufunc.reduce(mine, axis=0) if len(mine) else np.full(7, nothing)
            assert found[column].tolist() == expected.tolist()


@pytest.mark.parametrize("seed", seeds(4))
def test_selections_by_cells_and_by_bit_rows_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    members = []
    for number in range(1, 140):
        where = And(tuple(random_predicate(rng, 1) for _ in range(rng.randint(1, 3))))
        plan = QueryPlan("", (STREAM.name,), Projection(where, (OPERANDS["i"], OPERANDS["t"])), (), "", "")
        members.append(Member(Query(QueryId(number), f"q{number}", plan), 3 * number))
    (operator,) = plan_group(members, {STREAM.name: STREAM}).operators
    assert isinstance(operator, SelectionOperator)
    rows = [{name: random_value(rng, name) for name in OPERANDS} | {"ts": 1} for _ in range(200)]
    table = pa.Table.from_pylist(rows, schema=pa.schema([(c.name, c.type.arrow) for c in STREAM.columns]))
    strings = {o: table.column(o.sql) for o in operator.scanned}
    codes = {o: c if c.type != pa.string() else coded(c.to_pylist(), 3, rng) for o, c in strings.items()}
    assert any(is_coded(column) for column in codes.values())
    found = []
    for most, columns in ((2, strings), (10**9, strings), (2, codes)):
        monkeypatch.setattr(cells, "DENSE_CELLS", most)
        accepted, counts = SelectionLogic(operator).select(columns, 200, 7, [])
        assert accepted.column(output_column(OPERANDS["t"])).type == pa.string()
        found.append((accepted.to_pylist(), counts.tolist()))
    assert found[0] == found[1] == found[2] and sum(found[0][1]) > 0


def random_query(rng: random.Random, number: int) -> Query:
    where = And(tuple(random_predicate(rng, 2) for _ in range(rng.randint(1, 3))))
    return summing(number, where, tuple(random_aggregate(rng) for _ in range(2)), rng.choice([5, 10, 20]))


def random_comparison(rng: random.Random, name: str) -> Predicate:
    return Compare(OPERANDS[name], rng.choice([Op.LE, Op.GE]), rng.choice([-1, 0, 1, 2]))


def summing(number: int, where: Predicate, aggregates: tuple[Aggregate, ...], slide: int = 10) -> Query:
    body = Aggregation(Window(20, slide), where, (OPERANDS["k"],), aggregates, (), None)
    return Query(QueryId(number), f"q{number}", QueryPlan("", (STREAM.name,), body, (), "", ""))
