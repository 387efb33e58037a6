"""What EXPLAIN says of a query beside its plan: windows, watermark, late tuples and cost, as the engine has them."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.engine.records import Commit
from headrace.looking.sharing import Sharing
from headrace.looking.showing import count, show_duration, show_seconds, show_time
from headrace.looking.status import QueryFacts, StreamFacts, describe_window, why_empty
from headrace.model.epoch import FOREVER_US, NEVER_US
from headrace.planner.summary import Line

PENDING = "(not created)"


def query_head(facts: QueryFacts) -> str:
    """The first line: the query's name, its state and its rows."""
    since = "" if facts.first_epoch is None else f" since epoch {facts.first_epoch}"
    if facts.last_epoch is not None and facts.first_epoch is not None:
        since = f", was active in epochs {facts.first_epoch} to {facts.last_epoch - 1}"
    return f"query {facts.name}: {facts.state.value}{since}, {count(facts.rows, 'row')} so far"


def query_lines(
    facts: QueryFacts, sharing: Sharing, commit: Commit, delays: dict[str, int]
) -> Iterator[Line]:
    """What the engine knows of a running query."""
    if facts.window is not None:
        yield "windows", describe_window(facts.window)
    for stream in facts.streams:
        yield "watermark", _watermark(stream, delays.get(stream.name, 0))
    if facts.next_end_us is not None:
        yield "next end", f"a window closes when the watermark reaches {show_time(facts.next_end_us)}"
    for stream in facts.streams:
        if stream.late:
            yield (
                "late",
                f"{stream.late:,} of {count(stream.rows, 'tuple')} of {stream.name} came after their windows",
            )
    yield from cost_lines(sharing, commit)
    if not facts.rows:
        yield "empty", "; ".join(why_empty(facts))


def _watermark(stream: StreamFacts, delay_us: int) -> str:
    if stream.watermark_us == NEVER_US:
        return f"none yet: {stream.name} has had no event time"
    if stream.watermark_us == FOREVER_US:
        return f"at the end: {stream.name} is closed"
    behind = f", {show_duration(delay_us)} behind its newest tuple" if delay_us else ""
    return f"{show_time(stream.watermark_us)} ({stream.name}{behind})"


def cost_lines(sharing: Sharing | None, commit: Commit) -> Iterator[Line]:
    """What the last epoch cost, for all and for each; and what a query on its own reads."""
    if sharing is not None and not sharing.shared:
        yield "cost", str(sharing.cost)
        return
    if commit.epoch < 0:
        return
    spent, queries = commit.metrics.seconds, commit.metrics.active_queries
    each = f", {show_seconds(spent / queries)} for each" if queries > 1 else ""
    yield (
        "cost",
        f"the last epoch took {show_seconds(spent)} for {count(commit.metrics.input_rows, 'tuple')} and "
        f"{count(queries, 'query', 'queries')}{each}",
    )
