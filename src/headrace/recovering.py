"""Opening a warehouse: find where the last writer stopped, and put together what a session works with."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.asking.functions import add_function
from headrace.catalog.catalog import Catalog
from headrace.catalog.events import EventBook
from headrace.catalog.queries import QueryEntry
from headrace.catalog.waiting import Batching
from headrace.engine.delivered import Delivered
from headrace.engine.functions import clear_functions
from headrace.engine.groups import Groups
from headrace.engine.house import House
from headrace.engine.recovery import check_commits, check_cursor, last_commits
from headrace.engine.splits.house import Splits
from headrace.engine.splits.runner import SplitHouse
from headrace.engine.upkeep import Upkeep
from headrace.engine.workers import equip_workers
from headrace.log.arrivals import Arrivals
from headrace.log.epochs import EpochLog
from headrace.log.ingest import open_ingest
from headrace.log.open import open_log
from headrace.log.seal import Sealer
from headrace.log.sources import FRAME, source_from
from headrace.looking.checkup import Checkup
from headrace.model.query import Stream
from headrace.options import Options
from headrace.results.counting import RowCounts
from headrace.running.conducting import Conducting
from headrace.running.costs import CostBook
from headrace.running.run import Running
from headrace.sparks import SparkSessions
from headrace.storage.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Recovered:
    """An open warehouse; `running` is None in a session that only reads."""

    catalog: Catalog
    arrivals: Arrivals
    sealer: Sealer
    delivered: Delivered
    counts: RowCounts
    checkup: Checkup
    running: Running | None
    events: EventBook


def recover(warehouse: Warehouse, sparks: SparkSessions, options: Options) -> Recovered:
    """Open a warehouse. The commits are read first: what is read later can only be newer."""
    epochs = EpochLog(warehouse)
    commits = last_commits(warehouse, whole=options.rebuild)
    check_commits(commits.values(), epochs)
    log = open_log(warehouse, batching=Batching(options.changelog_count, options.changelog_seconds))
    catalog, arrivals, sealer = log.catalog, log.arrivals, log.sealer
    delivered = Delivered(catalog, sealer, commits)
    for name in catalog.homes.groups():
        check_cursor(delivered.commit_of(name), delivered.next_epoch(name), epochs)
    counts = RowCounts(
        warehouse.root,
        lambda: delivered,
        lambda entry: streams_by_name(catalog, entry),
        lambda: sparks.reader,
    )
    running, events = None, EventBook(warehouse)
    if not warehouse.read_only:
        clear_functions(warehouse)
    for name, (function, type_) in (options.functions or {}).items():
        add_function(warehouse, catalog, sparks, name, function, type_)
    if not warehouse.read_only:
        equip_workers(sparks.jobs, warehouse.root)
        upkeep = Upkeep(warehouse, catalog, sealer, delivered, options.group.upkeep)
        house = House(warehouse, catalog, sealer, delivered, upkeep, options.group)
        groups = Groups(house, sparks.jobs_of)
        if options.rebuild:
            groups.rebuild()
        splits = Splits(SplitHouse(warehouse, catalog, arrivals, sealer), sparks.jobs_of)
        upkeep.kept_for.append(lambda: splits.needs)
        conducting = Conducting.of(house, groups, arrivals, events, options.policy)
        costs = CostBook(warehouse, catalog)
        running = Running(groups, catalog, arrivals, sealer, options, splits, conducting, costs)
        _attach_kept_sources(running, house, arrivals)
    checkup = Checkup(warehouse, catalog, arrivals, sealer, delivered, running)
    return Recovered(catalog, arrivals, sealer, delivered, counts, checkup, running, events)


def _attach_kept_sources(running: Running, house: House, arrivals: Arrivals) -> None:
    for stream in house.catalog.streams():
        described = house.catalog.source(stream.name)
        if described and described["kind"] != FRAME and not arrivals.closed(stream.name):
            source = source_from(described)
            ingest = open_ingest(running.groups.spark, house.warehouse, arrivals, stream, source)
            running.feeds.add(stream.name, ingest)


def streams_of(catalog: Catalog, entry: QueryEntry) -> list[Stream]:
    """The streams that a query reads as they were when it began; they may have been dropped since."""
    return [catalog.stream(name, entry.first_epoch) for name in entry.query.plan.streams]


def streams_by_name(catalog: Catalog, entry: QueryEntry) -> dict[str, Stream]:
    return {str(stream.name): stream for stream in streams_of(catalog, entry)}
