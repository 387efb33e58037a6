"""The files of a stream that nobody reads here: it is closed, or the session is a reader beside the writer."""

from __future__ import annotations

from contextlib import suppress

from headrace.log.arrivals import Arrivals
from headrace.log.books import AsideList, FileCount, FolderBooks
from headrace.log.folder import reads_folder
from headrace.log.listing import list_files
from headrace.log.report import InputReport
from headrace.log.sources import FileSource, Source
from headrace.model.errors import LogError, StorageError
from headrace.model.query import Stream
from headrace.storage.warehouse import Warehouse

_ATTEMPTS = 5


class Unattended:
    """The books of such a stream, read once; its folder is listed whenever somebody asks."""

    def __init__(
        self, warehouse: Warehouse, arrivals: Arrivals, stream: Stream, source: Source | None
    ) -> None:
        self._stream = stream
        self._aside = AsideList(warehouse, stream)
        self._count = FileCount(warehouse, stream)
        self._root: str | None = None
        if isinstance(source, FileSource) and reads_folder(warehouse, stream, source):
            self._books, self._root = _read_books(warehouse, arrivals, stream), source.path

    def report(self, *, look: bool = True) -> InputReport:
        """What was taken, waits and was set aside; without a look at the folder, nothing is known to wait."""
        if self._root is None:
            return InputReport(self._count.taken, aside=self._aside.all())
        waiting = 0
        with suppress(LogError):  # a folder that is gone holds nothing that waits
            waiting = len(self._books.new(list_files(self._root, self._stream.name))) if look else 0
        return InputReport(self._books.files_taken, waiting, self._aside.all())


def _read_books(warehouse: Warehouse, arrivals: Arrivals, stream: Stream) -> FolderBooks:
    """The books as they are; a writer who merges them meanwhile takes away records that were just listed."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return FolderBooks(warehouse, arrivals, stream)
        except StorageError as error:
            if error.code != "FILE_MISSING":
                raise
    return FolderBooks(warehouse, arrivals, stream)
