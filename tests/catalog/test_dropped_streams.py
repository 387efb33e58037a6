"""Streams that are dropped: who still sees them, and what another stream of the name inherits (nothing)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headrace.log.arrivals import Batch
from headrace.looking.recent import recent_tuples
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.model.errors import CatalogError
from headrace.model.query import Stream, StreamName
from headrace.model.types import BIGINT, TIMESTAMP, Column
from log_samples import PLAN, PURCHASES, Opened, open_log

OTHER = Stream(PURCHASES.name, (Column("n", BIGINT), Column("ts", TIMESTAMP)), "ts", 0)


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path)
    opened.sealer.create_stream(PURCHASES)
    return opened


def step(log: Opened) -> None:
    log.catalog.flush()
    log.sealer.seal()


def reopened(log: Opened) -> Opened:
    log.close()
    return open_log(log.warehouse.root)


def test_a_stream_that_live_queries_read_stays(log: Opened) -> None:
    log.catalog.request_create("spend", PLAN)
    log.catalog.request_create("other", PLAN)
    with pytest.raises(CatalogError, match=r"STREAM_IN_USE: .* is read by `spend`, `other`"):
        log.sealer.drop_stream("Purchases")
    log.catalog.request_drop("spend")
    log.catalog.request_drop("other")
    assert log.sealer.drop_stream("Purchases") == PURCHASES
    assert log.catalog.streams() == ()
    with pytest.raises(CatalogError, match="STREAM_NOT_FOUND"):
        log.sealer.drop_stream("purchases")


def test_a_drop_is_durable_and_older_epochs_know_the_stream(log: Opened) -> None:
    log.catalog.request_create("spend", PLAN)
    log.append(5)
    step(log)
    log.catalog.request_drop("spend")
    log.sealer.drop_stream("purchases")
    step(log)
    again = reopened(log)
    assert again.catalog.streams() == ()
    assert again.catalog.streams(0) == (PURCHASES,)
    assert again.catalog.stream("purchases", 0) == PURCHASES
    assert again.catalog.entry("spend").last_epoch == 1, "the query ended no later than its stream"
    last = again.sealer.epoch(1)
    assert last.closed_us(["purchases"]) == 5 - 10, (
        "in its last epoch it is known how far its windows had closed"
    )
    with pytest.raises(CatalogError, match="STREAM_NOT_FOUND"):
        again.catalog.stream("purchases", 2)


def test_a_stream_that_no_epoch_saw_leaves_nothing(log: Opened) -> None:
    log.sealer.drop_stream("purchases")
    log.sealer.create_stream(OTHER)
    step(log)
    assert log.catalog.streams() == (OTHER,) == log.catalog.streams(int(log.sealer.latest.id) + 1)  # type: ignore[union-attr]


@pytest.mark.parametrize("restart", [False, True])
def test_another_stream_of_the_name_starts_anew(log: Opened, restart: bool) -> None:
    log.append(500)
    step(log)
    log.append(700)
    log.arrivals.add(PURCHASES.name, batch=Batch("folder", 3))
    log.arrivals.close(PURCHASES.name)
    remembered = log.warehouse.path(f"{log.warehouse.stream_dir('purchases')}/files")
    remembered.mkdir()
    log.sealer.drop_stream("purchases")
    if restart:
        log = reopened(log)
    log.sealer.create_stream(OTHER)
    assert not log.arrivals.closed(OTHER.name)
    assert log.arrivals.batch(OTHER.name) is None
    assert not remembered.exists()
    assert not recent_tuples(OTHER, log.sealer, log.arrivals).chunks
    gone = log.sealer.latest
    assert gone is not None and gone.of("purchases") is None
    log.arrivals.add(OTHER.name, (dataclasses.replace(_chunk(log, 0), max_us=90),))
    step(log)
    log = reopened(log)
    part = log.sealer.latest.of("purchases")  # type: ignore[union-attr]
    assert part is not None
    assert (part.closed_us, part.watermark_us, part.rows) == (NEVER_US, 90, 1)
    assert log.catalog.stream("purchases") == OTHER
    assert log.catalog.stream("purchases", 0) == PURCHASES
    assert log.catalog.stream("purchases", int(gone.id)) == OTHER
    assert [chunk.max_us for chunk in recent_tuples(OTHER, log.sealer, log.arrivals).chunks] == [90]


def _chunk(log: Opened, epoch: int):  # type: ignore[no-untyped-def]
    part = log.sealer.epoch(epoch).of("purchases")
    assert part is not None
    return part.chunks[0]


def test_dropping_twice_keeps_every_definition(log: Opened) -> None:
    step(log)
    for definition in (OTHER, PURCHASES, OTHER):
        log.append(5, stream=log.catalog.stream("purchases")) if definition is OTHER else None
        step(log)
        log.sealer.drop_stream("purchases")
        log.sealer.create_stream(definition)
    log = reopened(log)
    latest = log.sealer.latest
    assert latest is not None
    seen = [log.catalog.streams(epoch)[0] for epoch in range(int(latest.id) + 2)]
    assert seen[0] == PURCHASES and seen[-1] == OTHER
    assert log.catalog.streams() == (OTHER,)


def test_a_closed_stream_is_dropped_too(log: Opened) -> None:
    log.append(5)
    log.arrivals.close(PURCHASES.name)
    step(log)
    assert log.sealer.latest.watermark_us([PURCHASES.name]) == FOREVER_US  # type: ignore[union-attr]
    log.sealer.drop_stream("purchases")
    log.sealer.create_stream(OTHER)
    assert not log.arrivals.closed(OTHER.name)


def test_streams_and_queries_share_one_set_of_names(log: Opened) -> None:
    with pytest.raises(CatalogError, match="NAME_TAKEN"):
        log.catalog.request_create("PURCHASES", PLAN)
    log.catalog.request_create("spend", PLAN)
    spend = dataclasses.replace(PURCHASES, name=StreamName("Spend"))
    with pytest.raises(CatalogError, match="NAME_TAKEN"):
        log.sealer.create_stream(spend)
    log.catalog.request_drop("spend")
    with pytest.raises(CatalogError, match="whose results are kept"):
        log.sealer.create_stream(spend)
    log.sealer.create_stream(dataclasses.replace(PURCHASES, name=StreamName("q2")))
    assert log.catalog.request_create(None, PLAN).name == "q3", "a name that is made up is free"


def test_a_replaced_query_ends_in_the_epoch_that_the_new_one_begins_with(log: Opened) -> None:
    old = log.catalog.request_create("spend", PLAN, replace=True)
    step(log)
    new = log.catalog.request_create("Spend", PLAN, replace=True)
    log = reopened(log)  # both are one request on disk
    step(log)
    assert (log.catalog.entry_of(old.id).last_epoch, log.catalog.entry_of(new.id).first_epoch) == (1, 1)
    assert log.catalog.query("spend") == new
    with pytest.raises(CatalogError, match="QUERY_EXISTS"):
        log.catalog.request_create("spend", PLAN)
