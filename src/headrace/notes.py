"""Notes: a sentence that travels with a table, such as why it is empty. Front doors print it below the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

NOTE = b"headrace.note"


def with_note(table: pa.Table, note: str | None) -> pa.Table:
    """The table with a note in the metadata of its schema; as it was when there is nothing to say.

    >>> import pyarrow as pa
    >>> note_of(with_note(pa.table({"n": []}), "no epoch has run yet"))
    'no epoch has run yet'
    """
    if not note:
        return table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), NOTE: note.encode()})


def note_of(table: pa.Table) -> str | None:
    """The note of a table that `hr.execute` returned, if it has one."""
    found = (table.schema.metadata or {}).get(NOTE)
    return None if found is None else found.decode()
