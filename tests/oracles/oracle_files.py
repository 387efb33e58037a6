"""Published inputs and expected rows, read where they lie: HEADRACE_ORACLES, else beside the repository."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

ORACLES = Path(os.environ.get("HEADRACE_ORACLES", Path(__file__).parents[2].parent / "shared" / "oracles"))

Row = tuple[Any, ...]


def folder(name: str) -> Path:
    """A folder of oracles; skips the test when it is not there."""
    found = ORACLES / name
    if not found.is_dir():
        pytest.skip(f"there are no oracles at {found}; set HEADRACE_ORACLES to their directory")
    return found


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def moment(text: str) -> datetime:
    """A timestamp; UTC when it has no zone.

    >>> moment("2015-07-15 00:00:01.001") == moment("2015-07-15T00:00:01.001Z")
    True
    """
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def typed_row(line: str, types: Sequence[str]) -> Row:
    """A row that was printed with tabs or runs of blanks between its values, read by the types of its columns.

    No text in these cases has a blank in it, and a timestamp has exactly one.

    >>> typed_row("1000\\t\\t2.50  2015-07-15 00:00:11.003 x", ["bigint", "decimal(3,2)", "timestamp", "string"])[:2]
    (1000, Decimal('2.50'))
    """
    words = iter(line.split())
    row = tuple(_value(words, type_) for type_ in types)
    assert list(words) == [], f"more values than columns in {line!r}"
    return row


def _value(words: Any, type_: str) -> Any:
    word = next(words)
    match type_.partition("(")[0]:
        case "tinyint" | "smallint" | "int" | "bigint":
            return int(word)
        case "float" | "double":
            return float(word)
        case "decimal":
            return Decimal(word)
        case "timestamp":
            return moment(f"{word} {next(words)}")
        case "string":
            return word
    raise AssertionError(f"no case prints a {type_}")
