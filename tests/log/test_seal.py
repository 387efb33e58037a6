"""Sealing: what goes into which epoch, watermarks, lateness, packs, expiry, recovery."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.append import append
from headrace.log.arrivals import ARRIVALS, Batch
from headrace.log.epochs import EPOCHS, EpochLog
from headrace.model.epoch import FOREVER_US, NEVER_US, Chunk, Epoch, Oddities, StreamEpoch
from headrace.model.errors import LogError, StorageError
from headrace.model.query import StreamName
from headrace.storage.warehouse import Warehouse
from log_samples import PLAN, PURCHASES, FakeClock, Opened, active, open_log, rows_at

ADS = dataclasses.replace(PURCHASES, name=StreamName("ads"), watermark_us=0)


@pytest.fixture
def log(tmp_path: Path) -> Opened:
    opened = open_log(tmp_path)
    opened.catalog.create_stream(PURCHASES, None)
    return opened


def reopened(log: Opened) -> Opened:
    log.close()
    return open_log(log.warehouse.root)


def seal_all(log: Opened, max_rows: int = 1_000_000) -> list[Epoch]:
    return list(iter(lambda: log.sealer.seal(max_rows), None))


def part(epoch: Epoch | None, stream: str = "purchases") -> StreamEpoch:
    assert epoch is not None
    found = epoch.of(stream)
    assert found is not None
    return found


def test_nothing_pending_is_no_epoch(log: Opened) -> None:
    assert log.sealer.seal() is None
    log.append(1)
    assert log.sealer.seal() is not None
    assert log.sealer.seal() is None


def test_watermarks_and_lateness(log: Opened) -> None:
    """Delay 10. event times   100      95 89     120 None    -
    W after       90       90        110         forever
    """
    log.append(100)
    first = part(log.sealer.seal())
    assert (first.closed_us, first.watermark_us, first.late_rows) == (NEVER_US, 90, 0)
    log.append(95, 89)
    second = part(log.sealer.seal())
    assert (second.closed_us, second.watermark_us, second.late_rows) == (90, 90, 1)
    log.append(120, None)
    third = part(log.sealer.seal())
    assert (third.closed_us, third.watermark_us, third.late_rows) == (90, 110, 0)
    log.arrivals.close(PURCHASES.name)
    last = part(log.sealer.seal())
    assert (last.closed_us, last.watermark_us, last.chunks) == (110, FOREVER_US, ())
    log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    after = part(log.sealer.seal())
    assert (after.closed_us, after.watermark_us) == (FOREVER_US, FOREVER_US)


def test_a_tuple_far_ahead_does_not_move_the_watermark(tmp_path: Path) -> None:
    """Delay 10, bound 50, and the clock stands at 1,000 microseconds: times up to 1,050 count.

    event times   1000 1050 1051    9000      None 1040    2000 (the clock is at 2,000 then)
    W after            1040         1040         1040      1990
    """
    clock = FakeClock(1000 / 1e6)
    log = open_log(tmp_path, clock)
    stream = dataclasses.replace(PURCHASES, max_ahead_us=50)
    log.catalog.create_stream(stream, None)
    log.append(1000, 1050, 1051, stream=stream)
    assert part(log.sealer.seal()).watermark_us == 1040
    log.append(9000, stream=stream)
    far = part(log.sealer.seal())
    assert (far.watermark_us, far.late_rows) == (1040, 0)
    log.append(None, 1040, stream=stream)
    again = part(log.sealer.seal())
    assert (again.watermark_us, again.late_rows) == (1040, 0)
    assert again.oddities == Oddities(null_times=1, corrupt=0, ahead=2, ahead_us=(1051, 9000))
    log.close()
    reopen = open_log(tmp_path, clock)
    clock.time = 2000 / 1e6
    reopen.append(2000, stream=stream)
    last = part(reopen.sealer.seal())
    assert (last.watermark_us, last.oddities) == (1990, again.oddities)
    assert [epoch.sealed_at for epoch in reopen.sealer.epochs()] == [0.001, 0.001, 0.001, 0.002]
    assert [part(epoch).watermark_us for epoch in reopen.sealer.epochs()] == [1040, 1040, 1040, 1990]


def test_without_a_bound_every_tuple_moves_the_watermark(log: Opened) -> None:
    far = 4_000_000_000_000_000  # in 2096
    log.append(far, None, None)
    sealed = part(log.sealer.seal())
    assert (sealed.watermark_us, sealed.oddities) == (far - 10, Oddities(null_times=2))


def test_input_and_closing_in_one_epoch(log: Opened) -> None:
    log.append(100)
    log.arrivals.close(PURCHASES.name)
    only = part(log.sealer.seal())
    assert (only.rows, only.closed_us, only.watermark_us) == (1, NEVER_US, FOREVER_US)
    with pytest.raises(LogError, match="is closed"):
        reopened(log).append(5)


def test_streams_have_their_own_watermarks(log: Opened) -> None:
    log.catalog.create_stream(ADS, None)
    log.append(50)
    log.append(70, stream=ADS)
    epoch = log.sealer.seal()
    assert (part(epoch).watermark_us, part(epoch, "ads").watermark_us) == (40, 70)
    log.append(60)
    later = log.sealer.seal()
    assert part(later, "ads") == StreamEpoch(ADS.name, (), 70, 70, total=(1, 0))


def test_epochs_are_bounded_and_an_arrival_may_span_them(log: Opened) -> None:
    log.append(*range(10), max_chunk_rows=3)
    log.append(10, 11)
    epochs = [log.sealer.seal(5) for _ in range(2)]
    log = reopened(log)
    epochs += seal_all(log, 5)
    assert [[chunk.rows for chunk in part(epoch).chunks] for epoch in epochs] == [[3], [3], [3, 1], [2]]
    assert [epoch.id for epoch in epochs if epoch] == [0, 1, 2, 3]


def test_changes_take_effect_with_the_first_chunk_epoch(log: Opened) -> None:
    log.append(1, 2, max_chunk_rows=1)
    query = log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    first, second = seal_all(log, 1)
    assert (len(first.changes), len(second.changes)) == (1, 0)
    assert active(log, first.id) == active(log, second.id) == (query,)


def test_a_sealed_arrival_leaves_no_record(log: Opened) -> None:
    log.append(1)
    log.append(2)
    assert log.warehouse.records(ARRIVALS) == [0, 1]
    log.sealer.seal()
    assert log.warehouse.records(ARRIVALS) == []
    again = reopened(log)
    again.append(3)
    assert [arrival.number for arrival in again.arrivals.pending()] == [2]


def test_a_batch_arrives_once(log: Opened) -> None:
    chunk = Chunk("/data/a.parquet", 1, 1, 5, 5)
    assert log.arrivals.add(PURCHASES.name, [chunk], batch=Batch("i", 3)) is not None
    for again in (log, reopened(log)):
        assert again.arrivals.add(PURCHASES.name, [chunk], batch=Batch("i", 3)) is None
        assert again.arrivals.add(PURCHASES.name, [chunk], batch=Batch("i", 2)) is None
    again.sealer.seal()
    again.catalog.request_create("a", PLAN)
    again.catalog.flush()
    again.sealer.seal()
    last = reopened(again)
    assert last.arrivals.batch(PURCHASES.name) == Batch("i", 3)
    assert last.arrivals.add(PURCHASES.name, [chunk], batch=Batch("i", 3)) is None
    assert last.arrivals.add(PURCHASES.name, [chunk], batch=Batch("other", 0)) is not None


def test_an_epoch_that_was_sealed_a_moment_ago_is_not_read_from_disk(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the head of an older one neither: thousands of queries may have come with it."""
    log.catalog.request_create("a", PLAN)
    for number in range(6):
        log.append(number)
        log.catalog.flush()
        log.sealer.seal()
    reads: list[int] = []
    read_record = Warehouse.read_record

    def read(self: Warehouse, folder: str, number: int, *, kind: str | None = None) -> Any:
        reads.append(number)
        return read_record(self, folder, number, kind=kind)

    monkeypatch.setattr(Warehouse, "read_record", read)
    heads = [log.sealer.head(number) for number in range(6)]
    assert log.sealer.epoch(5) is log.sealer.latest and reads == []
    whole = [log.sealer.epoch(number) for number in reversed(range(6))][::-1]
    assert reads == [1, 0], "the four that were sealed last are kept whole"
    assert heads == [dataclasses.replace(epoch, changes=()) for epoch in whole]
    assert [len(epoch.changes) for epoch in whole] == [1, 0, 0, 0, 0, 0]
    again = EpochLog(log.warehouse)
    assert [again.head(number) for number in range(6)] == heads


def test_somebody_elses_epoch_is_an_error(log: Opened) -> None:
    log.append(1)
    log.warehouse.replace("epochs/000000000000.json", b"{}")
    with pytest.raises(StorageError, match="sealed by somebody else"):
        log.sealer.seal()
    assert len(log.arrivals.pending()) == 1


def test_a_missing_epoch_is_named(log: Opened) -> None:
    for time in range(3):
        log.append(time)
        log.sealer.seal()
    log.warehouse.delete_record(EPOCHS, 1)
    log.close()
    with pytest.raises(StorageError, match=r"epochs/000000000001\.json is missing"):
        open_log(log.warehouse.root)


# packs and expiry


def many_epochs(log: Opened, count: int) -> list[Epoch]:
    for time in range(count):
        log.append(time)
        log.sealer.seal()
    return list(log.sealer.epochs())


def test_old_records_are_packed(log: Opened) -> None:
    epochs = many_epochs(log, 12)
    log.sealer._log.pack(10, more_than=10)
    assert len(os.listdir(log.warehouse.path(EPOCHS))) == 12
    log.sealer._log.pack(10, more_than=3)
    names = sorted(os.listdir(log.warehouse.path(EPOCHS)))
    assert names == [
        "000000000010.json", "000000000011.json", "pack-000000000000-000000000009.json",
    ]  # fmt: skip
    assert list(log.sealer.epochs()) == epochs
    assert list(reopened(log).sealer.epochs(4, 11)) == epochs[4:11]


def test_two_who_read_in_different_packs_read_each_pack_once(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    for half in (0, 1):
        many_epochs(log, 6)
        log.sealer._log.pack(6 * (half + 1), more_than=3)
    epochs, parsed = EpochLog(log.warehouse), list[str]()
    read = log.warehouse.read_value

    def counted(name: str, kind: str) -> Any:
        parsed.append(name)
        return read(name, kind)

    monkeypatch.setattr(log.warehouse, "read_value", counted)
    for number in range(6):
        assert (epochs.read(number).id, epochs.read(number + 6).id) == (number, number + 6)
    assert len(parsed) == 2, parsed


def test_a_log_that_is_all_packed_recovers(log: Opened) -> None:
    epochs = many_epochs(log, 6)
    log.sealer._log.pack(6, more_than=3)
    again = reopened(log)
    assert again.sealer.latest == epochs[-1]
    again.append(100)
    sealed = again.sealer.seal()
    assert sealed is not None
    assert (sealed.id, part(sealed).closed_us) == (6, part(epochs[-1]).watermark_us)


def test_expiry_removes_chunks_and_records(log: Opened, tmp_path: Path) -> None:
    adopted = tmp_path / "theirs.parquet"
    adopted.write_bytes(b"theirs")
    log.arrivals.add(PURCHASES.name, [Chunk(str(adopted), 1, 6, 5, 5)])
    log.sealer.seal()
    query = log.catalog.request_create("a", PLAN)
    log.catalog.flush()
    epochs = many_epochs(log, 8)
    log.sealer._log.pack(6, more_than=3)
    log.sealer.expire(4)
    assert list(log.sealer.epochs(4)) == epochs[4:]
    assert log.sealer.first == 4
    with pytest.raises(StorageError, match="epoch 3 is expired; the oldest kept is 4"):
        log.sealer.epoch(3)
    kept = {chunk.path for epoch in epochs[4:] for chunk in part(epoch).chunks}
    assert {f"log/purchases/{path.name}" for path in tmp_path.glob("log/purchases/*.parquet")} == kept
    assert adopted.exists()
    again = reopened(log)
    assert active(again, 8) == (query,)
    assert list(again.sealer.epochs(again.sealer.first)) == epochs[4:]


def test_the_newest_epoch_stays(log: Opened) -> None:
    epochs = many_epochs(log, 3)
    log.sealer.expire(100)
    assert log.sealer.first == 2
    again = reopened(log)
    assert again.sealer.latest == epochs[-1]
    again.append(50)
    sealed = again.sealer.seal()
    assert sealed is not None
    assert sealed.id == 3


# orphans


def test_chunks_without_an_arrival_are_removed_at_open(log: Opened) -> None:
    log.append(1)
    log.sealer.seal()
    log.append(2)
    directory = log.warehouse.path("log/purchases")
    kept = set(os.listdir(directory))
    for number, suffix in ((0, "parquet"), (2, "parquet"), (2, "writing")):
        (directory / f"{number:012d}-{'0' * 32}.{suffix}").write_bytes(b"")
    (directory / "checkpoint").mkdir()
    again = reopened(log)
    assert set(os.listdir(directory)) == {*kept, "checkpoint"}
    later = directory / f"{again.arrivals.next_number:012d}-{'1' * 32}.parquet"
    later.write_bytes(b"")
    again.append(3, 4, max_chunk_rows=1)
    again.sealer.seal(1)
    final = reopened(again)
    assert not later.exists()
    assert [chunk.rows for arrival in final.arrivals.pending() for chunk in arrival.chunks] == [1, 1]
    assert [len(part(epoch).chunks) for epoch in seal_all(final)] == [2]


# properties

EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.lists(st.one_of(st.none(), st.integers(0, 500)), min_size=1, max_size=6)
        ),
        st.tuples(st.just("seal"), st.integers(1, 5)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None)
@given(EVENTS, st.integers(1, 3))
def test_every_chunk_is_in_one_epoch_in_arrival_order(
    events: list[tuple[str, object]], chunk_rows: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        log = open_log(root)
        log.catalog.create_stream(PURCHASES, None)
        arrived: list[str] = []
        bounds: dict[int, int] = {}
        times: dict[str, list[int | None]] = {}
        for event, value in [*events, ("seal", 4), ("drain", None)]:
            if event == "append":
                assert isinstance(value, list)
                append(log.warehouse, log.arrivals, PURCHASES, rows_at(*value), max_chunk_rows=chunk_rows)
                chunks = [chunk.path for chunk in log.arrivals.pending()[-1].chunks]
                arrived += chunks
                for i, path in enumerate(chunks):
                    times[path] = value[i * chunk_rows : (i + 1) * chunk_rows]
            elif event == "seal":
                assert isinstance(value, int)
                epoch = log.sealer.seal(value)
                if epoch is not None:
                    bounds[epoch.id] = value
            elif event == "reopen":
                log = reopened(log)
            else:
                bounds |= {epoch.id: 4 for epoch in seal_all(log, 4)}
        log = reopened(log)
        epochs = list(log.sealer.epochs())
        sealed = [chunk for epoch in epochs for chunk in part(epoch).chunks]
        files = {f"log/purchases/{path.name}" for path in Path(root).glob("log/purchases/*")}
        log.close()
    assert [chunk.path for chunk in sealed] == arrived
    assert files == set(arrived)
    seen: list[int] = []
    watermark = NEVER_US
    for epoch in epochs:
        mine = part(epoch)
        assert len(mine.chunks) == 1 or mine.rows <= bounds[epoch.id]
        assert mine.closed_us == watermark
        inside = [time for chunk in mine.chunks for time in times[chunk.path] if time is not None]
        assert mine.late_rows == sum(time < watermark for time in inside)
        seen += inside
        watermark = max(watermark, max(seen) - 10) if seen else watermark
        assert mine.watermark_us == watermark


def test_who_sees_an_epoch_sees_its_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that lags asks, from another thread, who lives in the epochs that are sealed."""
    log = open_log(tmp_path)
    log.catalog.create_stream(PURCHASES)
    log.append(1)
    log.sealer.seal()
    before, seen = log.sealer.latest, []
    apply = log.catalog.apply

    def looking(epoch: Epoch) -> None:
        seen.append(log.sealer.latest)
        apply(epoch)

    monkeypatch.setattr(log.catalog, "apply", looking)
    log.append(2)
    log.sealer.seal()
    assert seen == [before] and log.sealer.latest != before
