"""Keys of joins that no equality connects: one side's tuples are in every block, the other's in one block each.

So every pair of tuples meets in exactly one block, and blocks are spread over partitions as keys are.
"""

from __future__ import annotations

from headrace.model.predicate import Operand
from headrace.model.types import SqlType

BLOCKS = 8
"""Tuples are kept so often on the side that is everywhere. State depends on it, so it stays as it is."""

_INT = SqlType("int")

EVERY_BLOCK = Operand.call("__headrace_every_block", _INT, ())
"""The key of a side whose tuples are in all blocks."""

ONE_BLOCK = Operand.call("__headrace_one_block", _INT, ())
"""The key of a side whose tuples are in one block each, whichever."""

BLOCK_KEYS = frozenset((EVERY_BLOCK, ONE_BLOCK))
