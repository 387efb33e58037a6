"""What a source tells about its files."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.health import SetAside


@dataclass(frozen=True, slots=True)
class InputReport:
    """Files of a stream's source. `changed` are files that were put again under a name that was taken, and since when
    that is known; they are not read. `files_waiting` is None when nobody knows.
    """

    files_taken: int = 0
    files_waiting: int | None = 0
    aside: tuple[SetAside, ...] = ()
    changed: tuple[tuple[str, float], ...] = ()
