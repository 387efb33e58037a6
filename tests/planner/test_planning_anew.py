"""Planning after a change: the plan from scratch, whatever was kept of plans before, and whoever reads its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_cases import CASES

from forced import forced
from headrace.engine.plans import plan_file, read_plan
from headrace.model import codec
from headrace.model.errors import StorageError
from headrace.model.pieces import Reader
from headrace.model.plan import SharedPlan, StateColumn
from headrace.model.query import Query, QueryId, QueryPlan
from headrace.model.strategy import DEFAULTS
from headrace.model.types import Column, SqlType
from headrace.planner.group import Kept, Member, plan_group
from headrace.sql import parse_query
from headrace.storage.envelope import lines_envelope
from plan_strategies import STREAM, bodies
from sql_fakes import STREAMS as BY_TEXT
from sql_fakes import FakeAnalyzer

STREAMS = {STREAM.name: STREAM}


@st.composite
def lives(draw: st.DrawFn) -> list[list[Query]]:
    """Sets of queries, each made of the one before by creations and drops. An id may come back with another body."""
    live: dict[int, Query] = {}
    found: list[list[Query]] = []
    for _ in range(draw(st.integers(2, 5))):
        for id_ in draw(st.lists(st.sampled_from(sorted(live)), unique=True)) if live else []:
            del live[id_]
        for id_ in draw(st.lists(st.integers(1, 12), max_size=4, unique=True)):
            plan = QueryPlan("", (STREAM.name,), draw(bodies()), (Column("x", SqlType("int")),), "", "")
            live[id_] = Query(QueryId(id_), f"q{id_}", plan)
        found.append([live[id_] for id_ in sorted(live)])
    return found


@given(lives())
def test_a_plan_after_changes_is_the_plan_from_scratch(life: list[list[Query]]) -> None:
    kept, reader = Kept(), Reader(most=2)
    for found in life:
        members = [Member(query, int(query.id) % 7) for query in found]
        plan, fresh = plan_group(members, STREAMS, kept=kept), plan_group(members, STREAMS)
        assert plan == fresh
        assert kept.text_of(plan) == Kept().text_of(fresh)
        assert codec.dumps(reader.read(kept.text_of(plan))) == codec.dumps(fresh)


def test_every_kind_of_query_may_come_and_go() -> None:
    """The golden cases one after the other, all together, and each leaving again."""
    analyzer, strategies = FakeAnalyzer(), DEFAULTS
    members: dict[tuple[str, int], Member] = {}
    for name, case in CASES.items():
        for text in case.queries:
            number = len(members) + 1
            query = Query(QueryId(number), f"q{number}", parse_query(text, BY_TEXT, analyzer))
            members[name, number] = Member(query, number)
            if case.strategy is not None:
                strategies = strategies.with_changes(forced([query], case.strategy).by_query())
    streams = {stream.name: stream for stream in BY_TEXT.values()}
    kept, reader = Kept(), Reader()
    for gone in [None, *CASES]:
        here = [member for (name, _), member in members.items() if name != gone]
        plan = plan_group(here, streams, strategies=strategies, kept=kept)
        assert plan == plan_group(here, streams, strategies=strategies)
        assert reader.read(kept.text_of(plan)) == plan


def test_equal_queries_have_one_plan_whichever_objects_they_share() -> None:
    """Those of one text share their predicate until the warehouse is opened again."""
    plan = parse_query("SELECT userID FROM purchases WHERE price > 3", BY_TEXT, FakeAnalyzer())
    queries = [Query(QueryId(n), f"q{n}", plan) for n in (1, 2)]
    again = [codec.loads(codec.dumps(query)) for query in queries]
    streams = {stream.name: stream for stream in BY_TEXT.values()}
    first, second = (plan_group([Member(q, int(q.id)) for q in some], streams) for some in (queries, again))
    assert queries == again and first == second


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    path, plan = tmp_path / "plan.json", SharedPlan("v", (), ())
    path.write_bytes(plan_file(plan))
    assert read_plan(path) == plan
    path.write_bytes(plan_file(replace(plan, version="w")).replace(b'"w"', b'"v"'))
    with pytest.raises(StorageError, match="is damaged"):
        read_plan(path)


@pytest.mark.parametrize(
    "lines",
    [b'{"$":"Unknown"}', b'{"$":"SharedPlan","unknown":1}', b'{"operators":{"#":[0]}}', b"no JSON"],
)
def test_a_plan_that_this_version_does_not_understand_is_named(tmp_path: Path, lines: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(lines_envelope("plan", lines))
    with pytest.raises(StorageError, match=r"plan\.json does not hold a plan") as raised:
        read_plan(path)
    assert raised.value.code == "FILE_FOREIGN"


def test_a_query_that_comes_costs_no_work_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    analyzer = FakeAnalyzer()
    texts = [
        f"SELECT userID, SUM(price) AS s FROM purchases WHERE price > {number} "
        "GROUP BY userID, window(ts, '10 seconds')"
        for number in range(40)
    ]
    plans = [parse_query(text, BY_TEXT, analyzer) for text in texts]
    members = [Member(Query(QueryId(n), f"q{n}", plan), n) for n, plan in enumerate(plans, 1)]
    streams, kept = {stream.name: stream for stream in BY_TEXT.values()}, Kept()
    reader = Reader()
    reader.read(kept.text_of(plan_group(members[1:], streams, kept=kept)))
    encoded: list[object] = []
    decoded: list[object] = []
    to_json, loads = codec.to_json, codec.loads
    monkeypatch.setattr("headrace.model.pieces.codec.to_json", lambda v: encoded.append(v) or to_json(v))
    monkeypatch.setattr("headrace.model.pieces.codec.loads", lambda d: decoded.append(d) or loads(d))
    reader.read(kept.text_of(plan_group(members[:-1], streams, kept=kept)))
    columns = [value for value in encoded if isinstance(value, StateColumn)]
    assert [column.query for column in columns] == [1]
    assert len(decoded) == 1
