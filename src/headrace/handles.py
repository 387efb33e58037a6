"""Handles: what `hr.create_query` and `hr.query` give to look at one query."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from headrace.catalog.queries import QueryEntry, QueryState
from headrace.engine.errors import spark_reason
from headrace.guard import guarding
from headrace.looking.answers import (
    audit_in,
    costs_in,
    direct_in,
    explain_entry,
    newest_in,
    results_in,
    sharing_in,
    status_in,
    why_empty_entry,
)
from headrace.looking.infos import QueryMetrics, query_metrics
from headrace.looking.portrait import query_html, query_text, with_portrait
from headrace.looking.sharing import Sharing
from headrace.looking.showing import Text
from headrace.looking.status import QueryStatus
from headrace.model.errors import EngineError, HeadraceError
from headrace.model.types import Column
from headrace.notes import NOTE
from headrace.results.audit import AuditReport
from headrace.results.direct import as_pandas
from headrace.results.newest import Newest
from headrace.results.view import readable

if TYPE_CHECKING:
    import pandas as pd

    from headrace.session import Session


@guarding(lambda handle: handle._session)
class QueryHandle:
    """A query by name. It stays usable after the drop: results outlive it."""

    def __init__(self, session: Session, name: str, id_: int) -> None:
        self._session, self.name, self._id = session, name, id_

    def __repr__(self) -> str:
        return query_text(self)

    def _repr_html_(self) -> str:
        return query_html(self)

    def _entry(self) -> QueryEntry:
        return self._session._catalog.entry_of(self._id)  # type: ignore[arg-type]

    @property
    def state(self) -> QueryState:
        return self._entry().state

    @property
    def text(self) -> str:
        """The SQL that it was created with."""
        return self._entry().query.plan.text

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and types of its result's columns."""
        return self._entry().query.plan.columns

    @property
    def sharing(self) -> Sharing:
        """Whether it shares its work with other queries; if not, why, and about what it costs per epoch."""
        return sharing_in(self._session, self._entry())

    def status(self) -> QueryStatus:
        """How it does, and why it has no rows when it has none. Rows of joins and of HAVING are counted for it."""
        return status_in(self._session, self._entry())

    def results(self) -> DataFrame:
        """All rows delivered so far, as a Spark DataFrame with the columns the SQL names."""
        return with_portrait(results_in(self._session, self._entry()), self)

    def to_pandas(self) -> pd.DataFrame:
        """All rows delivered so far; intervals of months as text, because Python has no type for them.

        Moments come as pandas has them, or in microseconds when one of them does not fit into nanoseconds.
        """
        found = direct_in(self._session, self._entry())
        return self._collected() if found is None else self._noted(found)

    def _collected(self) -> pd.DataFrame:
        frame = readable(self.results())
        try:
            with warnings.catch_warnings():
                # before it raises, PySpark repeats the error with its Java stack as a warning
                warnings.filterwarnings("ignore", "toPandas attempted Arrow", UserWarning)
                # plain frames of values are what pandas 3 and PySpark 4.3 do agree about, and what the tests compare
                warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
                try:
                    return self._noted(frame.toPandas())
                except Exception as error:
                    if "out of bounds" not in str(error):
                        raise
                    return self._noted(as_pandas(frame.toArrow(), frame.columns))
        except Exception as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> EngineError:
        return EngineError(
            "RESULTS_UNREADABLE",
            f"the rows of query `{self.name}` cannot be read",
            detail=spark_reason(error),
        )

    def newest(self, limit: int = 20, after: int | None = None) -> Newest:
        """All rows that were delivered after the epoch `after`; without it, the `limit` newest rows there are.

        Rows of later windows come last. The answer says which epoch to go on after.
        """
        try:
            return newest_in(self._session, self._entry(), limit, after)
        except HeadraceError:
            raise
        except Exception as error:
            raise self._unreadable(error) from error

    def _noted(self, rows: pd.DataFrame) -> pd.DataFrame:
        """An empty frame says in `attrs["headrace.note"]` why it is empty; nothing is printed."""
        if rows.empty:
            rows.attrs[NOTE.decode()] = why_empty_entry(self._session, self._entry())
        return rows

    def explain(self, *, verbose: bool = False) -> Text:
        """How the query runs: what it shares, its windows, watermark and cost, and the plain Spark SQL it equals.

        With `verbose` in the engine's own words: operators, lanes and families.
        """
        return explain_entry(self._session, self._entry(), verbose=verbose)

    def metrics(self) -> QueryMetrics:
        """What it has cost and brought so far."""
        entry = self._entry()
        rows = self._session._counts.of([entry])[int(entry.query.id)]
        return query_metrics(entry, rows, self._session._delivered, costs_in(self._session))

    def audit(self) -> AuditReport:
        """Compare what was delivered with plain Spark over the same tuples."""
        return audit_in(self._session, self._entry())
