"""Every error a person can see: a code, what happened, the detail, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from headrace.model.pages import page_of


class HeadraceError(Exception):
    """Base of all errors. `span` is the (line, column) in the SQL text, 1-based, when there is one."""

    phase = "headrace"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        self.code, self.message, self.detail, self.hint, self.span = code, message, detail, hint, span
        super().__init__(self.render())

    def again(self) -> HeadraceError:
        """The same error once more, for somebody else to raise."""
        return type(self)(self.code, self.message, detail=self.detail, hint=self.hint, span=self.span)

    def render(self) -> str:
        where = f" (line {self.span[0]}, column {self.span[1]})" if self.span else ""
        lines = [f"{self.code}: {self.message}{where}"]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        lines.append(f"  see: {self.page}")
        return "\n".join(lines)

    @property
    def page(self) -> str:
        """The section of a page in `docs/` that has the answer."""
        return page_of(self.code, self.phase)


class SqlError(HeadraceError):
    """The text is not a query or statement we can run."""

    phase = "sql"


class CatalogError(HeadraceError):
    """A stream or query does not exist, exists already, or has a bad name."""

    phase = "catalog"


class LogError(HeadraceError):
    """Input does not fit its stream, or a log file is missing or damaged."""

    phase = "log"


class EngineError(HeadraceError):
    """An epoch could not be run."""

    phase = "engine"


class StorageError(HeadraceError):
    """The warehouse is held by somebody else, missing, torn or of another version."""

    phase = "storage"


class HeadraceWarning(UserWarning):
    """Something went on without what could not be had; `hr.health()` has the details."""


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint sentence naming the closest known name, or listing the few there are.

    >>> did_you_mean("prise", ["price", "userID"])
    'did you mean `price`?'
    >>> did_you_mean("x", ["q", "q", "spend"])
    'known names: `q`, `spend`'
    >>> did_you_mean("x", [])
    """
    names = sorted(set(known))
    lowered = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{lowered[close[0]]}`?"
    if names:
        return (
            "known names: " + ", ".join(f"`{n}`" for n in names[:10]) + (", ..." if len(names) > 10 else "")
        )
    return None
