"""The background run takes query changes in, however busy the input is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.running import Running


def test_query_changes_do_not_wait_for_input_to_pause() -> None:
    """Tuples wait whenever an epoch is done, and a query is asked for while the second one runs."""
    asked: list[str] = []
    taken_at: dict[str, int] = {}
    epochs: list[int] = []

    def tick() -> None:
        for query in asked:
            taken_at.setdefault(query, len(epochs))

    def seal(max_rows: int) -> int | None:
        return len(epochs) if len(epochs) < 6 else None

    def run_pending() -> list[Any]:
        epochs.append(len(epochs))
        if len(epochs) == 2:
            asked.append("spend")
        return []

    group: Any = SimpleNamespace(behind=0, run_pending=run_pending)
    catalog: Any = SimpleNamespace(tick=tick)
    sealer: Any = SimpleNamespace(seal=seal)
    Running(group, catalog, SimpleNamespace(), sealer, 100, False)._run_sealed()  # type: ignore[arg-type]
    assert epochs == list(range(6))
    assert taken_at == {"spend": 2}, "the third epoch has it"
