"""FunShare's workloads: what is drawn is what was asked for, and functions do not depend on how rows are batched."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from headrace.workloads.embedding import FUNCTIONS, VECTOR, embed_text, price_anomaly
from headrace.workloads.isolation import DOMAIN, STREAMS, WORKLOADS, Spread, Traffic, draw_queries, from_start
from headrace.workloads.nexmark import Nexmark

NEXMARK = Nexmark(datetime(2026, 1, 1, tzinfo=UTC), rate=10_000, seed=3, proportions=(10, 10, 30))


def test_events_have_the_columns_that_the_streams_say() -> None:
    made = Traffic(NEXMARK).events(0, 5_000)
    for stream, ddl in STREAMS.items():
        assert made[stream].column_names == [column.split()[0] for column in ddl.split(", ")]
    assert set(made["person"]["favorite_category"].to_pylist()) == set(
        made["auction"]["category"].to_pylist()
    )


def test_any_range_of_events_can_be_made_by_itself() -> None:
    traffic = Traffic(NEXMARK, ((0, Spread.LOW), (3_000, Spread.MIDDLE)))
    whole, later = traffic.events(0, 4_000), traffic.events(2_000, 2_000)
    for stream in STREAMS:
        assert whole[stream].slice(whole[stream].num_rows - later[stream].num_rows).equals(later[stream])


@pytest.mark.parametrize("spread", Spread)
def test_filters_are_spread_as_asked_for(spread: Spread) -> None:
    filters = Traffic(NEXMARK, ((0, spread),)).events(0, 100_000)["auction"]["filter"].to_numpy()
    shares = np.bincount(filters, minlength=DOMAIN) / len(filters)
    assert np.abs(shares - spread.weights).max() < 0.02


def test_a_shift_begins_with_its_event() -> None:
    traffic = Traffic(NEXMARK, ((0, Spread.UNIFORM), (50_000, Spread.LOW)))
    before, after = (traffic.events(first, 50_000)["auction"]["filter"].to_numpy() for first in (0, 50_000))
    assert (before < 10).mean() < 0.2 < 0.4 < (after < 10).mean()


def test_shifts_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(ValueError, match="ascend"):
        Traffic(NEXMARK, ((5, Spread.LOW),))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_queries_select_the_share_that_was_asked_for(workload: str) -> None:
    drawn = draw_queries(workload, 30, (0.1, 0.1), seed=5)
    assert {query.high - query.low + 1 for query in drawn} == {10}
    assert all(query.low >= 0 and query.high < DOMAIN for query in drawn)
    kinds = [query.kind for query in drawn]
    assert {kinds.count(kind) for kind in WORKLOADS[workload]} == {30 // len(WORKLOADS[workload])}
    assert {query.low for query in from_start(drawn, seed=1)} == {0}


def test_functions_give_the_same_whatever_rows_come_together() -> None:
    auctions = Traffic(NEXMARK).events(0, 3_000)["auction"]
    texts = pa.chunked_array([[None, ""], *auctions["description"].chunks]).combine_chunks()
    prices = pa.array(np.arange(len(texts)) * 37)
    one_by_one = [price_anomaly(texts[i : i + 1], prices[i : i + 1])[0].as_py() for i in range(40)]
    assert price_anomaly(texts, prices).to_pylist()[:40] == one_by_one
    vectors = embed_text(texts)
    assert vectors.type.value_type == pa.float32() and FUNCTIONS["embed_text"][1] == "ARRAY<FLOAT>"
    assert vectors[0].as_py() is None and vectors[1].as_py() == [0.0] * VECTOR
    assert np.allclose(np.linalg.norm(vectors[2:].flatten().to_numpy().reshape(-1, VECTOR), axis=1), 1.0)
