"""The Catalyst path: Spark evaluates expressions as extra columns, the same kernels run on what it produces.

Boolean expressions are packed 31 to a long (two bits each: FALSE, TRUE, NULL), because every column that crosses from
the JVM to Python costs time per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.errors import query_caused
from headrace.engine.handover import Shipped
from headrace.engine.messages import EpochTask
from headrace.engine.tasks import MAP_BATCH_ROWS, MapTask, TupleBatch, reporting
from headrace.log.sources import ddl, literal_path
from headrace.model.epoch import Chunk
from headrace.model.plan import ScanPath
from headrace.model.predicate import Operand
from headrace.model.query import Stream
from headrace.model.types import Kind
from headrace.sql.resolve.carried import carried
from headrace.storage import faults

SHIPPED = pa.schema(
    [("partition", pa.int32()), ("kind", pa.string()), ("name", pa.string()), ("blob", pa.binary())]
)
SHIPPED_DDL = "partition int, kind string, name string, blob binary"

PACKED = 31
PACK_FROM = 4
"""Fewer booleans than this travel as columns of their own."""


@dataclass(frozen=True, slots=True)
class Selected:
    """How operands travel: `columns` one to one, `packs` as bit pairs of one long each."""

    columns: tuple[Operand, ...]
    packs: tuple[tuple[Operand, ...], ...]

    def expressions(self) -> list[str]:
        """The select list, named c0.. and p0.."""
        plain = [f"{expression(o)} AS c{i}" for i, o in enumerate(self.columns)]
        return plain + [f"{_packed(pack)} AS p{i}" for i, pack in enumerate(self.packs)]

    def unpack(self, table: pa.Table) -> dict[Operand, pa.ChunkedArray]:
        """The operands' columns from what the select list produced."""
        found = {operand: _stored(table.column(i), operand) for i, operand in enumerate(self.columns)}
        for i, pack in enumerate(self.packs):
            words = table.column(len(self.columns) + i).to_numpy()
            for j, operand in enumerate(pack):
                pairs = (words >> (2 * j)) & 3
                found[operand] = pa.chunked_array([pa.array(pairs == 1, mask=pairs == 2)])
        return found


def _stored(column: pa.ChunkedArray, operand: Operand) -> pa.ChunkedArray:
    """Times of day in the unit that the log has them in; Spark counts nanoseconds."""
    return column.cast(operand.type.arrow) if operand.type.kind is Kind.TIME else column


def expression(operand: Operand) -> str:
    text = f"`{operand.sql.replace('`', '``')}`" if operand.plain else f"({operand.sql})"
    return carried(text, operand.type)


def _packed(pack: Sequence[Operand]) -> str:
    pairs = [f"SHIFTLEFT(COALESCE(CAST({expression(o)} AS BIGINT), 2L), {2 * j})" for j, o in enumerate(pack)]
    return " | ".join(pairs)


def select_operands(operands: Sequence[Operand]) -> Selected:
    booleans = [o for o in operands if not o.plain and o.type.kind is Kind.BOOLEAN]
    if len(booleans) < PACK_FROM:
        booleans = []
    packs = tuple(tuple(booleans[i : i + PACKED]) for i in range(0, len(booleans), PACKED))
    return Selected(tuple(o for o in operands if o not in set(booleans)), packs)


def chunk_frame(spark: SparkSession, root: Path, stream: Stream, chunks: Sequence[Chunk]) -> DataFrame:
    """The tuples of some chunks as a DataFrame of the stream's columns."""
    paths = [literal_path(str(root / chunk.path)) for chunk in chunks]
    return spark.read.schema(ddl(stream)).parquet(*paths)


def scan_catalyst(
    frame: DataFrame, task: EpochTask, stream: str, operands: Sequence[Operand]
) -> RDD[Shipped]:
    """Shipments of the Catalyst operators of one stream."""
    selected = select_operands(operands)
    shipped = frame.selectExpr(*selected.expressions()).mapInArrow(
        _mapper(task, stream, selected), SHIPPED_DDL
    )
    return shipped.rdd.map(lambda row: (row[0], (row[1], row[2], bytes(row[3]))))


def _mapper(
    task: EpochTask, stream: str, selected: Selected
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition, (kind, name, blob) in reporting(mapped(batches)):
            row = {"partition": [partition], "kind": [kind], "name": [name], "blob": [blob]}
            yield pa.RecordBatch.from_pydict(row, schema=SHIPPED)

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[Shipped]:
        work: MapTask | None = None
        for number, table in enumerate(_gather(batches)):
            work = work or MapTask(task)
            columns, rows = selected.unpack(table), table.num_rows
            yield from work.run(TupleBatch(stream, ScanPath.CATALYST, columns, rows, f"c{number}"))
            faults.reach_task("task.catalyst")
        if work is not None:
            yield work.report()

    return run


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= MAP_BATCH_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if any(batch.num_rows for batch in held):
        yield pa.Table.from_batches(held)


def find_failing(
    frame: DataFrame, operands: dict[int, tuple[Operand, ...]], explain: Callable[[Exception], str]
) -> dict[int, str]:
    """Which queries' expressions Spark cannot evaluate over these tuples, and why; found by halving.

    Raises Spark's exception when it is not an expression that fails.
    """
    if not operands:
        return {}
    try:
        wanted = list(dict.fromkeys(o for group in operands.values() for o in group))
        selected = select_operands(wanted)
        frame.selectExpr(*selected.expressions()).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not query_caused(error):
            raise
        if len(operands) == 1:
            return {next(iter(operands)): explain(error)}
        items = list(operands.items())
        half = len(items) // 2
        left = find_failing(frame, dict(items[:half]), explain)
        return left | find_failing(frame, dict(items[half:]), explain)
    return {}
