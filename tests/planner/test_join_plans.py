"""Plans of joins on several keys: what is kept of which stream, in which order rows are joined, and who shares."""

from __future__ import annotations

from itertools import permutations

import pytest

from headrace.model import codec
from headrace.model.plan import JoinOperator, SharedPlan
from headrace.model.predicate import TRUE, Operand
from headrace.model.query import (
    Carried,
    Hub,
    Join,
    JoinedRows,
    JoinSide,
    Query,
    QueryId,
    QueryPlan,
    Stream,
    StreamName,
)
from headrace.model.types import Column, SqlType
from headrace.model.window import Window
from headrace.planner.explain import explain_plan, explain_query
from headrace.planner.group import Member, plan_group
from headrace.planner.shared import query_signature
from headrace.planner.strategies import default_choice

NUMBER, TEXT, MOMENT = SqlType("bigint"), SqlType("string"), SqlType("timestamp")
COLUMNS = (Column("k", NUMBER), Column("j", TEXT), Column("i", NUMBER), Column("ts", MOMENT))
STREAMS = {name: Stream(name, COLUMNS, "ts", 0) for name in map(StreamName, "abcd")}
K, J, I = Operand("k", NUMBER), Operand("j", TEXT), Operand("i", NUMBER)

Key = tuple[Operand, ...]


def join(id_: int, sides: str, *hubs: dict[str, Key]) -> Query:
    """A join of these streams, in this order; a hub says by which key each of its streams meets the others."""
    found = tuple(
        Hub(
            tuple(map(sides.index, sorted(hub, key=sides.index))),
            tuple(hub[s] for s in sorted(hub, key=sides.index)),
        )
        for hub in hubs
    )
    return join_of(id_, sides, found)


def join_of(id_: int, sides: str, found: tuple[Hub, ...]) -> Query:
    body = Join(
        tuple(JoinSide(StreamName(stream), Window(10, 5), TRUE) for stream in sides),
        found,
        tuple(Carried(f"c{at}", at, I) for at in range(len(sides))),
        (),
        JoinedRows(("c0",)),
    )
    plan = QueryPlan("", tuple(map(StreamName, sides)), body, (Column("c0", NUMBER),), "", "")
    return Query(QueryId(id_), f"q{id_}", plan)


def planned(*queries: Query) -> SharedPlan:
    return plan_group([Member(query, int(query.id)) for query in queries], STREAMS)


def operator_of(*queries: Query) -> JoinOperator:
    (operator,) = planned(*queries).operators
    assert isinstance(operator, JoinOperator)
    return operator


CHAIN: tuple[dict[str, Key], ...] = ({"a": (K,), "b": (K,)}, {"b": (J,), "c": (J,)})


def test_a_stream_is_kept_once_per_key_with_its_other_keys() -> None:
    operator = operator_of(join(1, "abc", *CHAIN))
    kept = {(input_.stream, input_.keys): set(input_.carried) for input_ in operator.inputs}
    assert kept == {("a", (K,)): {I}, ("b", (K,)): {I, J}, ("b", (J,)): {I, K}, ("c", (J,)): {I}}
    assert operator.levels == 2
    assert all(input_.filters[0].role == 0 for input_ in operator.inputs)


def test_every_order_meets_each_position_once_and_hops_from_where_it_has_been() -> None:
    star: tuple[dict[str, Key], ...] = (
        {"a": (K,), "b": (K,)},
        {"a": (J,), "c": (J,)},
        {"c": (I,), "d": (I,)},
    )
    operator = operator_of(join(1, "abcd", *star))
    (chain,) = operator.chains
    assert operator.levels == 3
    for start in range(4):
        order = chain.order(start)
        assert order[0].position == start and order[0].hop is None
        assert sorted(step.position for step in order) == [0, 1, 2, 3]
        assert sum(step.hop is not None for step in order) == 2
        for number, step in enumerate(order):
            hub = next(hub for hub in chain.hubs if step.met in hub.inputs)
            if step.hop is not None:
                source, member = step.hop
                assert source in {earlier.position for earlier in order[:number]}
                assert hub.input(source) == member


def test_the_order_of_the_text_changes_nothing() -> None:
    texts = ["".join(order) for order in permutations("abc")]
    queries = [join(1 + at, text, *(CHAIN if at % 2 else CHAIN[::-1])) for at, text in enumerate(texts)]
    assert len({query_signature(query) for query in queries}) == 1
    (chain,) = operator_of(*queries).chains
    assert len(chain.queries) == len(texts)


def test_joins_of_the_same_streams_share_an_operator_and_inputs_whatever_their_keys() -> None:
    one = join(1, "abc", *CHAIN)
    other = join(2, "abc", {"a": (K,), "b": (K,), "c": (K,)})
    alone, both = operator_of(one), operator_of(one, other)
    assert both.id == alone.id == operator_of(other).id
    shared = {input_.id for input_ in alone.inputs} & {input_.id for input_ in operator_of(other).inputs}
    assert {input_.stream for input_ in both.inputs if input_.id in shared} == {"a", "b"}
    assert len(both.inputs) == 5
    assert query_signature(one) != query_signature(other)


def test_different_trees_of_the_same_sides_have_tables_of_their_own() -> None:
    one = join(1, "abc", {"a": (K,), "b": (K,)}, {"b": (I,), "c": (K,)})
    other = join(2, "abc", {"a": (K,), "b": (I,)}, {"b": (K,), "c": (K,)})
    assert query_signature(one) != query_signature(other)
    assert len({chain.signature for chain in operator_of(one, other).chains}) == 2


def test_two_keys_are_not_one_of_two_parts() -> None:
    """Of a stream that is joined twice, in either order of the text: rows are where their query looks for them."""
    hubs = (Hub((0, 1), ((K,), (K,))), Hub((1, 2), ((J,), (J,))), Hub((2, 3), ((J, K), (J, K))))
    swapped = (Hub((0, 3), ((K,), (K,))), Hub((2, 3), ((J,), (J,))), Hub((1, 2), ((J, K), (J, K))))
    queries = join_of(1, "abcb", hubs), join_of(2, "abcb", swapped)
    found = {q.query: chain.signature for chain in operator_of(*queries).chains for q in chain.queries}
    assert found == {query.id: query_signature(query) for query in queries}
    assert len({leaf.name for leaf in operator_of(queries[0]).chains[0].leaves}) == 4


def test_plans_of_several_keys_come_back_and_are_explained() -> None:
    query = join(1, "abc", *CHAIN)
    plan = planned(query)
    assert codec.loads(codec.dumps(plan)) == plan
    assert ", then by the key of " in explain_plan(plan)
    assert (
        "  meet on one key: b (j) = c (j)"
        in explain_query(query, plan, default_choice(query.plan.body)).splitlines()
    )


@pytest.mark.parametrize(
    "hubs",
    [
        ({"a": (K,), "b": (K,)},),
        ({"a": (K,), "b": (K,), "c": (K,)}, {"a": (J,), "b": (J,)}),
        ({"a": (K,), "b": (K, J), "c": (K,)},),
    ],
    ids=["not connected", "a circle", "parts of a key"],
)
def test_hubs_that_make_no_tree_are_refused(hubs: tuple[dict[str, Key], ...]) -> None:
    with pytest.raises(ValueError, match="hub"):
        join(1, "abc", *hubs)
