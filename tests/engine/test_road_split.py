"""Linear Road as splits, without Spark: the validator accepts every answer, also when workers forget everything."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from split_cases import Spark

from headrace.engine.splits import tasks
from headrace.engine.splits.code import SplitCode, pack
from headrace.engine.splits.house import Splits
from headrace.engine.splits.runner import SplitHouse
from headrace.log.append import append
from headrace.model.query import Stream, StreamName
from headrace.model.splits import FUNCTION, Split
from headrace.model.splitting import ONE_KIND
from headrace.model.types import Column, SqlType
from headrace.workloads.linear_road import split as road
from headrace.workloads.linear_road.history import TollHistory, historical_tolls
from headrace.workloads.linear_road.past import PastRule, PastTable
from headrace.workloads.linear_road.play import emitted
from headrace.workloads.linear_road.traffic import Traffic
from headrace.workloads.linear_road.validator import Validator
from log_samples import open_log

EXPRESSWAYS = 3
TRAFFIC = Traffic(EXPRESSWAYS, seed=3, peak=20, segments=(40, 60), trip=(5, 15), accidents_per_hour=60)


def stream_of(name: str, ddl: str) -> Stream:
    columns = tuple(Column(part.split()[0], SqlType(part.split()[1].lower())) for part in ddl.split(", "))
    return Stream(StreamName(name), columns, road.EVENT_TIME, 0)


def split_of(
    number: int, name: str, stream: str, q: int, outputs: dict[str, str], *, everywhere: bool = True
) -> Split:
    made = {
        kind: stream_of(name if kind == ONE_KIND else f"{name}_{kind}", ddl) for kind, ddl in outputs.items()
    }
    return Split(number, name, stream, q, FUNCTION, FUNCTION if everywhere else None, None, (), made, 0)


@pytest.mark.usefixtures("tasks_here")
def test_the_validator_accepts_every_answer(tmp_path: Path) -> None:
    log, spark = open_log(tmp_path), Spark()
    traffic = stream_of("traffic", road.DDL)
    log.sealer.create_stream(traffic)
    house = SplitHouse(log.warehouse, log.catalog, log.arrivals, log.sealer)
    splits = Splits(house, lambda name: spark)  # type: ignore[arg-type, return-value]
    history = partial(road.RuledHistory, TRAFFIC.seed, EXPRESSWAYS, TRAFFIC.vehicles)
    past = partial(PastTable.by_rule, TRAFFIC.seed)
    operator = partial(road.RoadOperator, history=history, past=past)
    splits.create(
        split_of(0, "road", "traffic", EXPRESSWAYS, road.OUTPUTS),
        pack("road", SplitCode(operator, road.route, road.broadcast)),
    )
    for number, wanted in enumerate(
        road.sums(EXPRESSWAYS, one_level=2), 1
    ):  # two levels: groups of two and of one
        columns = {ONE_KIND: wanted["schema"]}
        sums = split_of(number, wanted["name"], wanted["stream"], wanted["q"], columns, everywhere=False)
        splits.create(sums, pack(sums.name, SplitCode(wanted["operator"], wanted["route"])))
    batches = list(TRAFFIC.batches(10_200, 10_320, rows=800))
    for number, batch in enumerate(batches):
        append(log.warehouse, log.arrivals, traffic, pa.Table.from_batches([road.as_tuples(batch)]))
        if number % 3 == 0:
            tasks._KEPT.clear()
        run(log, splits)
    log.arrivals.close(traffic.name)
    run(log, splits)
    assert [runner.trouble for runner in splits.runners()] == [None] * 3
    tolls = [history(xway) for xway in range(EXPRESSWAYS)]
    validator = Validator(
        paid=lambda vid, day, xway: int(tolls[xway].paid(np.array([vid]), np.array([day]))[0]),
        past=PastRule(TRAFFIC.seed),
    )
    for batch in batches:
        validator.feed(batch)
    for kind in road.OUTPUTS:
        stream = "sums" if kind == "balances" else f"road_{kind}"
        for rows in rows_of(log, stream):
            validator.check(kind, emitted(rows.drop_columns([road.EVENT_TIME])))
    verdict = validator.verdict()
    assert verdict.ok, verdict.render()
    assert all(
        verdict.counts[kind]["right"] for kind in ("tolls", "balances", "expenditures", "travel_times")
    ), verdict.render()


def test_the_rule_of_history_gives_what_its_table_has() -> None:
    table = list(historical_tolls(5, 3, 40))
    vid, day = np.meshgrid(np.arange(-1, 130), np.arange(-1, 72))
    for xway in range(3):
        rule = road.RuledHistory(5, 3, 40, xway).paid(vid.ravel(), day.ravel())
        assert np.array_equal(rule, TollHistory.read(table, xway).paid(vid.ravel(), day.ravel()))


def run(log: Any, splits: Splits) -> None:
    while log.sealer.seal() is not None or splits.due():
        for name in splits.due():
            splits.get(name).run_next()


def rows_of(log: Any, stream: str) -> list[pa.RecordBatch]:
    chunks = [chunk for epoch in log.sealer.epochs() for chunk in getattr(epoch.of(stream), "chunks", ())]
    return [
        b for c in chunks for b in pq.read_table(log.warehouse.path(c.path)).combine_chunks().to_batches()
    ]
