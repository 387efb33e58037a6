"""Splits as people see them: a list, what each sub-stream cost, and how a split is run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.engine.catalyst import chunk_frame
from headrace.engine.logview import chunk_schema_frame
from headrace.engine.splits.commits import last_split_commit
from headrace.engine.splits.job import is_plain
from headrace.engine.splits.paths import trouble_path
from headrace.engine.splits.runner import SplitRunner
from headrace.health import Problem
from headrace.looking.showing import Text
from headrace.model.epoch import NEVER_US, Chunk, Epoch
from headrace.model.errors import CatalogError
from headrace.model.splits import FUNCTION, Counts, Split, SplitCommit, SplitTrouble, SubStreamCost

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.session import Session


class SplitState(Enum):
    """What a split does: it runs its epochs, it waits for its operator, or its own code made it stop."""

    RUNNING = "running"
    WAITING = "waits for its operator"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """One split as `hr.splits()` lists it. `behind` counts sealed epochs that it has not run."""

    name: str
    stream: str
    sub_streams: int
    state: SplitState
    outputs: tuple[str, ...]
    epoch: int
    behind: int
    tuples: Counts
    rows: int
    error: str | None

    HEADERS: ClassVar = (
        "split",
        "stream",
        "sub-streams",
        "state",
        "outputs",
        "epoch",
        "behind",
        "tuples",
        "late",
        "rows",
    )

    def cells(self) -> tuple[Any, ...]:
        """Its line of a table, under HEADERS."""
        counts = (self.tuples.read, self.tuples.late, self.rows)
        names = ", ".join(self.outputs)
        return (
            self.name,
            self.stream,
            self.sub_streams,
            self.state.value,
            names,
            self.epoch,
            self.behind,
            *counts,
        )


@dataclass(frozen=True, slots=True)
class SplitMetrics:
    """What a split has done and cost. `splitters` and `window_rows` are p and W of the last epoch.

    Rates are tuples per second. Those of one splitter and one processor are of CPU time. `desired_rate` is what the
    splitters are planned for, `predicted_rate` what they should reach together, and
    `measured_rate` what they reached in the last epoch. They are None before there is one.
    """

    epoch: int
    committed_at: float
    watermark_us: int
    """Tuples before this time were handed to the operator; all rows that came of them were delivered."""
    tuples: Counts
    rows: int
    splitters: int
    window_rows: int
    splitter_rate: float | None
    processor_rate: float | None
    desired_rate: float | None
    predicted_rate: float | None
    measured_rate: float | None
    seconds: float
    reopened: int
    state_bytes: int
    sub_streams: dict[int, SubStreamCost]
    own_workers: int = 0
    """How many workers of the driver ran the operators in the last epoch; 0 when Spark's did."""


def _known(session: Session, split: Split) -> tuple[SplitCommit, SplitTrouble | None, SplitRunner | None]:
    """The last commit of a split, its trouble, and what runs it; a reader has no runner."""
    running = session._running
    runner = None if running is None else running.splits.find(split)
    if runner is not None:
        return runner.commit, runner.trouble, runner
    warehouse, path = session._warehouse, trouble_path(split)
    trouble = warehouse.read_value(path, "split-trouble") if warehouse.exists(path) else None
    return last_split_commit(warehouse, split), trouble, None


def split_infos(session: Session) -> list[SplitInfo]:
    return [split_info(session, split) for split in session._catalog.splits.all()]


def split_info(session: Session, split: Split) -> SplitInfo:
    commit, trouble, runner = _known(session, split)
    attached = runner is not None and runner.attached
    state = SplitState.RUNNING if attached else SplitState.WAITING
    latest = session._sealer.latest
    behind = runner.behind if runner else (0 if latest is None else max(0, int(latest.id) - commit.epoch))
    return SplitInfo(
        split.name,
        split.stream,
        split.sub_streams,
        SplitState.QUARANTINED if trouble else state,
        tuple(str(output.name) for output in split.outputs.values()),
        commit.epoch,
        behind,
        commit.counts,
        commit.rows,
        None if trouble is None else trouble_text(trouble),
    )


def trouble_text(trouble: SplitTrouble) -> str:
    detail = f" ({trouble.detail})" if trouble.detail else ""
    return f"{trouble.code} in epoch {trouble.epoch}: {trouble.message}{detail}"


def split_metrics(session: Session, split: Split) -> SplitMetrics:
    commit, _, _ = _known(session, split)
    cost = commit.cost
    handed = cost.counts.routed + cost.counts.broadcast * split.sub_streams
    return SplitMetrics(
        commit.epoch,
        commit.committed_at,
        commit.watermark_us,
        commit.counts,
        commit.rows,
        cost.splitters,
        cost.window_rows,
        cost.counts.read / cost.split_seconds if cost.split_seconds and cost.counts.read else None,
        handed / cost.process_seconds if cost.process_seconds and handed else None,
        cost.desired_rate,
        cost.predicted_rate,
        cost.counts.read / cost.split_wall if cost.split_wall and cost.counts.read else None,
        cost.seconds,
        cost.reopened,
        sum(found.state_bytes for found in commit.sub_streams.values()),
        {int(number): found for number, found in commit.sub_streams.items()},
        cost.own_workers,
    )


def explain_split(session: Session, split: Split) -> Text:
    """How a split is run, in words."""
    commit, trouble, _ = _known(session, split)
    info = split_info(session, split)
    stream = session._catalog.stream(split.stream)
    plain = is_plain(split, [column.name for column in stream.columns])
    lines = [
        f"split {split.name} of stream {split.stream} into {split.sub_streams} sub-streams: {info.state.value}",
        f"  route:     {_shown(split.route)}",
        f"  broadcast: {_shown(split.broadcast)}",
    ]
    if split.wants is not None:
        lines.append(f"  wants:     {split.wants} (other tuples are never moved)")
    order = ", ".join((stream.event_time, *split.order_by, "order of arrival"))
    how = "splitters read the chunks themselves" if plain else "Spark computes SQL for the splitters"
    lines += [f"  order:     {order}", f"  reading:   {how}"]
    if commit.cost.splitters:
        lines.append(f"  splitters: {commit.cost.splitters}, windows of {commit.cost.window_rows:,} rows")
        if commit.cost.desired_rate is not None and commit.cost.predicted_rate is not None:
            lines.append(
                f"             planned for {commit.cost.desired_rate:,.0f} tuples per second, "
                f"good for {commit.cost.predicted_rate:,.0f}"
            )
    if commit.version:
        own = commit.cost.own_workers
        lines.append(f"  ran in:    {f'own workers, {own}' if own else 'Spark'}")
    if commit.watermark_us != NEVER_US:
        waiting = sum(file.rows for file in commit.waiting)
        lines.append(
            f"  handed over up to the watermark of epoch {commit.epoch}; {waiting:,} tuples wait for it"
        )
    for kind, output in split.outputs.items():
        columns = ", ".join(f"{column.name} {column.type.name}" for column in output.columns)
        lines.append(f"  output:    {kind} -> stream {output.name} ({columns})")
    if trouble is not None:
        lines.append(f"  error:     {trouble_text(trouble)}")
    return Text("\n".join(lines))


def split_results(session: Session, split: Split, kind: str | None) -> DataFrame:
    """The rows of one output, those included that no epoch has taken in yet."""
    session._check_open()
    if kind is None and len(split.outputs) == 1:
        kind = next(iter(split.outputs))
    if kind not in split.outputs:
        raise CatalogError(
            "SPLIT_KIND",
            f"split `{split.name}` has no rows of kind `{kind}`",
            hint=f"say which: {', '.join(split.outputs)}",
        )
    output, sealer = split.outputs[kind], session._sealer
    found = [chunk for epoch in sealer.epochs(sealer.first) for chunk in _chunks(epoch, str(output.name))]
    found += [c for a in session._arrivals.pending() if a.stream == output.name for c in a.chunks]
    chunks = list({chunk.path: chunk for chunk in found}.values())
    if not chunks:
        return chunk_schema_frame(session._reader, output)
    return chunk_frame(session._reader, session._warehouse.root, output, chunks)


def _chunks(epoch: Epoch, stream: str) -> tuple[Chunk, ...]:
    part = epoch.of(stream)
    return () if part is None else part.chunks


def _shown(text: str | None) -> str:
    return "none" if text is None else "a function of yours" if text == FUNCTION else text


LAG_SECONDS = 30.0
"""A split whose oldest waiting epoch was sealed longer ago than this is worth a word."""


def split_problems(runners: list[SplitRunner], now: float) -> list[Problem]:
    """What keeps splits from their epochs, but for errors that are tried again."""
    found = []
    for runner in runners:
        about = f"split `{runner.split.name}`"
        if runner.dropped:
            text = "it is being dropped"
            found.append(Problem(about, text, "call drop_split again if that failed", 0.0))
        elif runner.trouble is not None:
            text = f"it is quarantined: {trouble_text(runner.trouble)}"
            hint = runner.trouble.hint or "mend it and call restart_split"
            found.append(Problem(about, text, hint, runner.trouble.since))
        elif not runner.attached:
            text = f"it waits for its operator, and the log is kept for it since epoch {runner.needs}"
            found.append(Problem(about, text, "call create_split with the same definition", 0.0))
        elif runner.behind > 1 and (lag := runner.lag_seconds(now)) > LAG_SECONDS:
            text = f"it is more than {LAG_SECONDS:.0f} seconds behind"
            hint = "nobody else waits for it; metrics() says where its time goes"
            found.append(Problem(about, text, hint, now - lag))
    return found


class SplitHandle:
    """A split by name."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self.name = session, name

    def __repr__(self) -> str:
        return str(self.explain())

    def _split(self) -> Split:
        return self._session._catalog.splits.get(self.name)

    @property
    def state(self) -> SplitState:
        return split_info(self._session, self._split()).state

    @property
    def outputs(self) -> dict[str, str]:
        """Its output streams, by the kind of their rows."""
        return {kind: str(output.name) for kind, output in self._split().outputs.items()}

    def results(self, kind: str | None = None) -> DataFrame:
        """All rows of a kind that the log still has, as a Spark DataFrame; the kind may be left out when it is one."""
        return split_results(self._session, self._split(), kind)

    def explain(self) -> Text:
        """How it is run, in words."""
        return explain_split(self._session, self._split())

    def metrics(self) -> SplitMetrics:
        """What it has done and cost, in all and per sub-stream."""
        return split_metrics(self._session, self._split())

    def restart(self) -> None:
        """Leave the quarantine, and run the epoch that failed again."""
        self._session.restart_split(self.name)

    def drop(self) -> None:
        self._session.drop_split(self.name)
