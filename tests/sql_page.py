"""The examples of docs/sql.md, with what the page expects of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PART = re.compile(r"<!-- (run|rows: (\d+)|refused: (\w+)) -->|```sql\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """Statements to run. `run_first` asks for epochs before, `rows` and `refused` are about the last statement."""

    text: str
    run_first: bool
    rows: int | None
    refused: str | None


def blocks(page: str) -> Iterator[Block]:
    run_first, rows, refused = False, None, None
    for match in _PART.finditer(page):
        word, number, code, text = match.groups()
        if word == "run":
            run_first = True
        elif number is not None:
            rows = int(number)
        elif code is not None:
            refused = code
        else:
            yield Block(text, run_first, rows, refused)
            run_first, rows, refused = False, None, None
