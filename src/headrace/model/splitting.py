"""A split operator: a stateful operator of the user's own, one instance per sub-stream.

A *split* cuts a stream into sub-streams. A *route* names the sub-stream of a tuple, and a *broadcast* tuple goes to all
of them. Each sub-stream has one instance of the operator. The instance sees its tuples in the order of their time.

The life of an instance is: `open` once, then any number of `process`, `on_watermark` and `snapshot` calls. Whoever runs
it may take a snapshot between two calls, throw the instance away, and open another one with that snapshot. The new
instance must then give the same rows as the old one would have given. So an operator reads no clock and no random
number, and what it answers may not depend on where the batches were cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

State: TypeAlias = "bytes | pa.RecordBatch | pa.Table"
"""What an instance remembers, as it is kept between two epochs."""

Output: TypeAlias = "pa.RecordBatch | Mapping[str, pa.RecordBatch | None] | None"
"""Rows of an operator. A mapping has the rows of each kind, and every kind is a stream of its own."""

ONE_KIND = "rows"
"""The name of the only kind of an operator that does not tell kinds apart."""


@runtime_checkable
class SplitOperator(Protocol):
    """What `create_split` asks of an operator. Instances of one split share nothing."""

    def open(self, sub_stream: int, state: State | None) -> None:
        """Begin with sub-stream number `sub_stream`; `state` is the last snapshot, or None at the very beginning."""

    def process(self, batch: pa.RecordBatch) -> Output:
        """The rows that follow from these tuples. Times never decrease, neither within a batch nor between batches.

        A batch may end anywhere, also between two tuples of the same time.
        """

    def on_watermark(self, time: int) -> Output:
        """The rows that follow from knowing that every later tuple has at least this time."""

    def snapshot(self) -> State:
        """Everything that `open` needs to go on from here. The instance itself goes on as before."""


@runtime_checkable
class IncrementalOperator(SplitOperator, Protocol):
    """An operator with much state of which little changes between two epochs.

    A snapshot and all changes since then, in their order, are the state. Whoever runs the operator decides when a new
    snapshot is worth its bytes.
    """

    def changes(self) -> State:
        """What changed since the last `snapshot` or `changes` of this instance, or since it was opened."""

    def apply(self, changes: State) -> None:
        """Take over changes that another instance gave. Called after `open`, before any tuple."""


def missing_methods(operator: object) -> list[str]:
    """What an operator, or its class, lacks of the protocol.

    >>> missing_methods(object())
    ['open', 'process', 'on_watermark', 'snapshot']
    """
    needed = ("open", "process", "on_watermark", "snapshot")
    return [name for name in needed if not callable(getattr(operator, name, None))]


def rows_by_kind(output: Output) -> dict[str, pa.RecordBatch]:
    """An operator's output with every kind named, without kinds that have no rows.

    >>> rows_by_kind(pa.record_batch({"a": [1]}))["rows"].num_rows, rows_by_kind(None)
    (1, {})
    """
    if output is None:
        return {}
    kinds = output if isinstance(output, Mapping) else {ONE_KIND: output}
    return {kind: rows for kind, rows in kinds.items() if rows is not None and rows.num_rows}
