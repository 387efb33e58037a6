"""What a plain group remembers of the times that it tried several epochs at once.

Such a run may take Spark with it, or this process. So it is written down before it begins: whoever opens the warehouse
next does not try the same epochs together for ever, but runs them one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.engine.paths import together_path
from headrace.model import codec
from headrace.model.errors import StorageError
from headrace.storage.warehouse import Warehouse

MOST_TRIES = 2
"""Epochs are tried together so many times. Once says little: somebody may have ended the process."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The epochs from `first` to `until` were tried together so many times. It says nothing of later ones."""

    first: int
    until: int
    times: int


codec.register(Tried)


class CatchingUp:
    """Whether epochs of a group may be tried together. One small write for each time that they are."""

    def __init__(self, group: str, warehouse: Warehouse) -> None:
        self._path, self._warehouse = together_path(group), warehouse
        self._tried = Tried(-1, -1, 0)
        if warehouse.exists(self._path):
            try:
                self._tried = warehouse.read_value(self._path, "together")
            except StorageError:  # torn, or of another version: it is found out again
                warehouse.delete(self._path)

    def may_try(self, first: int) -> bool:
        """Whether this epoch may be the first of several."""
        return first > self._tried.until or self._tried.times < MOST_TRIES

    def begins(self, first: int, until: int) -> None:
        """These epochs are about to be tried together."""
        times = self._tried.times if first == self._tried.first else 0
        self._note(Tried(first, until, times + 1))

    def failed(self) -> None:
        """What was tried last does not work together."""
        self._note(Tried(self._tried.first, self._tried.until, MOST_TRIES))

    def _note(self, tried: Tried) -> None:
        self._tried = tried
        self._warehouse.replace_value(self._path, "together", tried)
