"""Rows on their way to another key: sent to where its tuples are, and taken up there by the tasks of the next stage.

A row takes along the key it goes to, its query-set, and of each of its tuples the event time, the code and what is
still asked of it. Rows are held back until they fill a block; no more than that is ever in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.partitioning import Partitioning
from headrace.operators.common.arrays import Array, Ints
from headrace.operators.common.bundle import Item, pack_bundle
from headrace.operators.common.encode import one_chunk
from headrace.operators.join import partners
from headrace.operators.join.keys import RowKeys, concat_keys, encode_row_keys, sort_keys
from headrace.operators.join.logic import JoinLogic, Step, carried_name
from headrace.operators.join.prefix import Prefix
from headrace.operators.join.rows import (
    Codes,
    Content,
    concat_codes,
    concat_contents,
    content_from,
    content_items,
)
from headrace.operators.join.side import Held, Probe
from headrace.operators.join.tuples import key_items, keys_from, meta_item, route_rows
from headrace.operators.join.windows import Moments
from headrace.operators.protocol import Shipment

PIECES = 1 << 10
"""Rows that come in so many pieces are sent, however few they are."""

Send = Callable[[Shipment], None]
"""Takes a blob for a partition of the next stage."""


@dataclass(slots=True)
class Sent:
    """Rows that leave: the keys they go to, their tuples by position (without sets of their own), and their sets."""

    keys: RowKeys
    contents: dict[int, Content]
    sets: Array

    @property
    def rows(self) -> int:
        return int(self.sets.shape[1])

    def items(self, keys: RowKeys, rows: Ints | None) -> dict[str, Item]:
        """Some of the rows as bundle items; `keys` are theirs."""
        items = key_items(keys) | {"sets": self.sets if rows is None else np.take(self.sets, rows, axis=1)}
        for position, content in self.contents.items():
            mine = content if rows is None else content.take(rows)
            items |= {f"{position}.{name}": item for name, item in content_items(mine).items()}
        return items


class Outbox:
    """Collects the rows of all hops and sends them a block at a time."""

    def __init__(self, logic: JoinLogic, send: Send, partitioning: Partitioning) -> None:
        self._logic, self._send, self._partitioning = logic, send, partitioning
        self._waiting: dict[int, list[Sent]] = {}
        self._rows: Counter[int] = Counter()

    def put(self, step: Step, prefix: Prefix) -> None:
        """Take rows that go on with a hop; those without a key there go nowhere."""
        for begin in range(0, prefix.rows, partners.BLOCK_ROWS):
            index = np.arange(begin, min(begin + partners.BLOCK_ROWS, prefix.rows))
            sent = self._leave(step, prefix if len(index) == prefix.rows else prefix.take(index))
            if sent is not None:
                assert step.number is not None
                self._hold(step.number, sent)

    def _hold(self, hop: int, sent: Sent) -> None:
        self._waiting.setdefault(hop, []).append(sent)
        self._rows[hop] += sent.rows
        if len(self._waiting[hop]) >= PIECES:
            self._ship(hop)
        elif self._rows.total() >= partners.BLOCK_ROWS:
            self._ship(self._rows.most_common(1)[0][0])

    def flush(self) -> None:
        """Send whatever has been held back."""
        for hop in list(self._waiting):
            self._ship(hop)

    def _leave(self, step: Step, prefix: Prefix) -> Sent | None:
        assert step.of.hop is not None
        position, met = step.of.hop
        keys = self._logic.inputs[met.input].input.keys
        columns = [one_chunk(prefix.column(position, operand)) for operand in keys]
        if any(column.null_count for column in columns):
            some = np.flatnonzero(np.logical_and.reduce([np.asarray(c.is_valid()) for c in columns]))
            prefix, columns = prefix.take(some), [column.take(pa.array(some)) for column in columns]
        if prefix.rows == 0:
            return None
        contents = {position: _content(step, position, prefix) for position in step.travels}
        return Sent(encode_row_keys(columns, keys), contents, prefix.sets)

    def _ship(self, hop: int) -> None:
        found = self._waiting.pop(hop)
        del self._rows[hop]
        sent = found[0]
        if len(found) > 1:
            contents = {p: concat_contents([one.contents[p] for one in found]) for p in sent.contents}
            sets = np.concatenate([one.sets for one in found], axis=1)
            sent = Sent(concat_keys([one.keys for one in found]), contents, sets)
        for partition, keys, rows in route_rows(self._logic, sent.keys, self._partitioning):
            items = sent.items(keys, rows) | {"meta": meta_item({"hop": hop})}
            self._send(Shipment(partition, pack_bundle(items)))


def _content(step: Step, position: int, prefix: Prefix) -> Content:
    """The tuples of one position, with the codes that occur among them."""
    held, rows = prefix.tuples[position]
    code = held.content.code[rows]
    present = np.bincount(code, minlength=held.content.codes.count) > 0
    return Content(
        held.content.base,
        held.content.time[rows],
        (np.cumsum(present) - 1)[code],
        held.content.codes.take(np.flatnonzero(present)),
        np.empty((0, 0, len(rows)), np.uint64),
        {carried_name(o): one_chunk(prefix.column(position, o)) for o in step.travels[position]},
    )


class Arrivals:
    """All rows that came to a partition for one hop. A position's tuples have the same moments in all of them."""

    def __init__(self, logic: JoinLogic, step: Step, bundles: Sequence[Mapping[str, Item]]) -> None:
        self._logic, self._step, self._bundles = logic, step, bundles
        codes = {p: [Codes(*items[f"{p}.codes"]) for items in bundles] for p in step.travels}
        self._moments = {position: Moments.of(concat_codes(found)) for position, found in codes.items()}
        self._first = {p: np.cumsum([0, *(one.count for one in found)]) for p, found in codes.items()}

    def blocks(self) -> Iterator[Prefix]:
        """The rows in the order of their keys, as many at a time as a block may have."""
        begin, rows = 0, 0
        for number, items in enumerate(self._bundles):
            count = items["sets"].shape[1]
            if rows and rows + count > partners.BLOCK_ROWS:
                yield self._together(begin, number)
                begin, rows = number, 0
            rows += count
        yield self._together(begin, len(self._bundles))

    def _together(self, begin: int, end: int) -> Prefix:
        found = [(number, self._sent(self._bundles[number])) for number in range(begin, end)]
        held = {}
        for step in self._step.before:
            at, moments = step.position, self._moments[step.position]
            content = _joined([self._with_moments(sent.contents[at], at, number) for number, sent in found])
            spec = self._logic.inputs[step.met.input]
            held[at] = Held(spec, content, moments, np.arange(len(moments.start)))
        times = held[self._step.before[0].position].content.times
        order, table = sort_keys(concat_keys([sent.keys for _, sent in found]), times)
        sets = np.take(np.concatenate([sent.sets for _, sent in found], axis=1), order, axis=1)
        tuples = {position: (mine, order) for position, mine in held.items()}
        return Prefix(Probe(table), tuples, table.of_rows(), sets)

    def _sent(self, items: Mapping[str, Item]) -> Sent:
        return Sent(
            keys_from(dict(items)), {p: _content_at(items, p) for p in self._step.travels}, items["sets"]
        )

    def _with_moments(self, content: Content, position: int, number: int) -> Content:
        """The same with codes that are the moments of all arrivals."""
        moments, first = self._moments[position], self._first[position][number]
        codes = Codes(moments.start, moments.bound)
        return Content(
            content.base,
            content.time,
            moments.of_code[first:][content.code],
            codes,
            content.sets,
            content.carried,
        )


def _content_at(items: Mapping[str, Item], position: int) -> Content:
    prefix = f"{position}."
    return content_from({n[len(prefix) :]: item for n, item in items.items() if n.startswith(prefix)})


def _joined(contents: Sequence[Content]) -> Content:
    """Bodies of the same codes, one after the other."""
    if len(contents) == 1:
        return contents[0]
    return Content(
        0,
        np.concatenate([content.times for content in contents]),
        np.concatenate([content.code for content in contents]),
        contents[0].codes,
        np.concatenate([content.sets for content in contents], axis=2),
        {
            name: pa.concat_arrays([content.carried[name] for content in contents])
            for name in contents[0].carried
        },
    )
