"""Arguments of the wrong kind are refused in our words before anything is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import EngineError, HeadraceError, StorageError
from headrace.options import Options
from headrace.storage.warehouse import Warehouse


@pytest.mark.parametrize(
    "options",
    [
        {"max_epoch_rows": "many"},
        {"max_epoch_rows": 0},
        {"changelog_count": 1.5},
        {"partitions": True},
        {"read_only": "yes"},
        {"master": 5},
        {"config": "spark.x=1"},
        {"spark": "local"},
        {"functions": {"similar": len}},
        {"functions": 5},
        {"sharing": "all"},
        {"sharing": ["full"]},
        {"upkeep": 5},
        {"read_only": True, "rebuild": True},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(EngineError) as caught:
        Options(**options)
    assert caught.value.code == "BAD_OPTION"
    assert next(iter(reversed(options))) in caught.value.message


@pytest.mark.parametrize("value", [5, object(), "soon", "1 month"])
def test_bad_durations_of_options_are_refused(value: Any) -> None:
    for option in ("retention", "log_retention", "changelog_delay"):
        with pytest.raises(HeadraceError, match="BAD_DURATION"):
            Options(**{option: value})


@pytest.mark.parametrize("path", [None, 5, "", "a\0b", "s3://bucket/x", object()])
def test_what_is_no_path_is_refused(path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError):
        Warehouse(path)
    assert not list(tmp_path.iterdir())
