"""Functions that people register: what the catalog keeps of them, and where tasks find their code."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model import codec
from headrace.model.types import SqlType


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A registered function: its name in small letters, the type of its values, and what a call costs in CPU seconds,
    if somebody said so.
    """

    name: str
    type: SqlType
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """The file in the warehouse that has the code of a registered function, for tasks."""

    name: str
    type: SqlType
    path: str
    checksum: str


codec.register(FunctionSpec, FunctionFile)
