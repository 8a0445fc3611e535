"""The rules of idempotent producers, and their snapshots."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.producers import producer_snapshot
from pybroker.log.producers.producer_entry import BatchMetadata, ProducerBatch, ProducerEntry
from pybroker.log.producers.producer_state import ProducerState
from pybroker.model import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.batch import SEQUENCE_MAX, decrement_sequence, increment_sequence

EXPIRATION_MS = 1000


def state(path: Path) -> ProducerState:
    return ProducerState(Filesystem(), str(path), expiration_ms=EXPIRATION_MS)


def data(
    sequence: int, offset: int, count: int = 1, *, epoch: int = 0, producer_id: int = 1, timestamp: int = 0, **more: object
) -> ProducerBatch:
    transactional = bool(more.get("transactional"))
    return ProducerBatch(
        ProducerId(producer_id),
        ProducerEpoch(epoch),
        sequence,
        Offset(offset),
        Offset(offset + count - 1),
        timestamp,
        transactional,
    )


def marker(offset: int, kind: int, *, epoch: int = 0, producer_id: int = 1, coordinator_epoch: int = 0) -> ProducerBatch:
    return ProducerBatch(
        ProducerId(producer_id),
        ProducerEpoch(epoch),
        -1,
        Offset(offset),
        Offset(offset),
        0,
        True,
        kind,
        CoordinatorEpoch(coordinator_epoch),
    )


def verdict(producers: ProducerState, batch: ProducerBatch) -> ErrorCode:
    try:
        producers.check([batch], from_client=True)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_an_unknown_producer_may_begin_anywhere(tmp_path: Path) -> None:
    assert verdict(state(tmp_path), data(17, 100)) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "sequence", "expected"),
    [
        (3, 12, ErrorCode.NONE),
        (3, 13, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (3, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (2, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 0, ErrorCode.NONE),
        (4, 12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_epoch_and_sequence_must_follow(tmp_path: Path, epoch: int, sequence: int, expected: ErrorCode) -> None:
    producers = state(tmp_path)
    producers.update(data(10, 0, 2, epoch=3))
    assert verdict(producers, data(sequence, 2, epoch=epoch)) is expected


@pytest.mark.parametrize("count", [1, 2, 10])
def test_sequences_wrap_to_zero(tmp_path: Path, count: int) -> None:
    producers = state(tmp_path)
    producers.update(data(SEQUENCE_MAX - 4, 0, 4))
    assert verdict(producers, data(SEQUENCE_MAX, 4, count)) is ErrorCode.NONE
    producers.update(data(SEQUENCE_MAX, 4, count))
    assert producers.producers[ProducerId(1)].last_sequence == (SEQUENCE_MAX if count == 1 else count - 2)
    assert verdict(producers, data(count - 1, 4 + count)) is ErrorCode.NONE
    assert producers.find_duplicate(data(SEQUENCE_MAX, 99, count)) == BatchMetadata(
        increment_sequence(SEQUENCE_MAX, count - 1), Offset(3 + count), count - 1, 0
    )


@given(sequence=st.integers(0, SEQUENCE_MAX), by=st.integers(0, SEQUENCE_MAX))
def test_increment_and_decrement_are_inverse(sequence: int, by: int) -> None:
    assert decrement_sequence(increment_sequence(sequence, by), by=by) == sequence
    assert 0 <= increment_sequence(sequence, by) <= SEQUENCE_MAX


def test_several_batches_are_checked_one_after_the_other(tmp_path: Path) -> None:
    producers = state(tmp_path)
    producers.update(data(0, 0))
    producers.check([data(1, 1), data(2, 2)], from_client=True)
    with pytest.raises(KafkaError):
        producers.check([data(1, 1), data(3, 2)], from_client=True)
    assert producers.producers[ProducerId(1)].last_sequence == 0, "checking changes nothing"


def test_a_batch_outside_of_the_open_transaction_is_refused(tmp_path: Path) -> None:
    producers = state(tmp_path)
    producers.update(data(0, 0, transactional=True))
    assert verdict(producers, data(1, 1)) is ErrorCode.INVALID_TXN_STATE


def test_transactions_hold_back_until_their_end_is_replicated(tmp_path: Path) -> None:
    producers = state(tmp_path)
    producers.update(data(0, 10, producer_id=1, transactional=True))
    producers.update(data(0, 11, producer_id=2, transactional=True))
    completed = producers.update(marker(12, 0, producer_id=1))
    assert completed == (1, 10, 12, True)
    assert completed is not None
    assert producers.last_stable_offset_after(completed) == 11
    producers.complete(completed)
    assert producers.first_unstable_offset == 10
    producers.on_high_watermark(Offset(12))
    assert producers.first_unstable_offset == 10
    producers.on_high_watermark(Offset(13))
    assert producers.first_unstable_offset == 11
    assert producers.update(marker(13, 1, producer_id=9)) is None, "nothing of producer 9 is here"


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 3)), max_size=60))
def test_unstable_offsets_are_those_of_all_transactions(steps: list[tuple[int, bool, int]]) -> None:
    producers = ProducerState(Filesystem(), "none", expiration_ms=EXPIRATION_MS)
    opened: dict[int, int] = {}
    ended: dict[int, int] = {}
    for offset, (producer_id, is_end, lag) in enumerate(steps):
        if not is_end:
            producers.update(data(0, offset, producer_id=producer_id, transactional=True))
            opened.setdefault(producer_id, offset)
        elif completed := producers.update(marker(offset, 0, producer_id=producer_id)):
            ended[opened.pop(producer_id)] = offset
            assert producers.last_stable_offset_after(completed) == min(opened.values(), default=offset + 1)
            producers.complete(completed)
        producers.on_high_watermark(Offset(offset - lag))
        ended = {first: last for first, last in ended.items() if last >= offset - lag}
        assert producers.first_unstable_offset == min([*opened.values(), *ended], default=None)
        assert dict(producers.unreplicated) == ended


class _Counting(OrderedDict[Any, Any]):
    """A dict that counts the keys that are looked at one after the other."""

    count = 0

    def _counted(self, keys: Iterable[Any]) -> Iterator[Any]:
        for key in keys:
            type(self).count += 1
            yield key

    def __iter__(self) -> Iterator[Any]:
        return self._counted(super().__iter__())

    def items(self) -> Any:
        return self._counted(super().items())

    def values(self) -> Any:
        return self._counted(super().values())


def test_a_marker_looks_at_few_of_many_open_transactions(tmp_path: Path) -> None:
    producers = state(tmp_path)
    producers.ongoing, producers.unreplicated = _Counting(), _Counting()
    count = 1_000
    for number in range(count):
        producers.update(data(0, number, producer_id=number, transactional=True))
    for number in reversed(range(count)):
        offset = 2 * count - number
        completed = producers.update(marker(offset, 0, producer_id=number))
        assert completed is not None
        producers.last_stable_offset_after(completed)
        producers.complete(completed)
        assert producers.first_unstable_offset == 0
        producers.on_high_watermark(Offset(offset - 1))
    assert _Counting.count < 10 * count


def test_an_older_coordinator_is_fenced(tmp_path: Path) -> None:
    producers = state(tmp_path)
    producers.update(marker(1, 1, coordinator_epoch=5))
    assert verdict(producers, marker(2, 1, coordinator_epoch=4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert verdict(producers, marker(2, 1, coordinator_epoch=5)) is ErrorCode.NONE


def test_silent_producers_are_forgotten_unless_in_a_transaction(tmp_path: Path) -> None:
    producers = state(tmp_path)
    producers.update(data(0, 0, producer_id=1, timestamp=100))
    producers.update(data(0, 1, producer_id=2, timestamp=101))
    producers.update(data(0, 2, producer_id=3, timestamp=0, transactional=True))
    list(producers.remove_expired(100 + EXPIRATION_MS))
    assert sorted(producers.producers) == [2, 3]


GOLDEN = bytes.fromhex(
    "0001" "00000000" "00000001"
    "0000000000000007" "0002" "0000000b" "0000000000000064" "00000001" "0000018bcfe56800" "00000003" "ffffffffffffffff"
)  # fmt: skip


def test_a_snapshot_has_kafka_s_bytes(tmp_path: Path) -> None:
    last = BatchMetadata(11, Offset(100), 1, 1_700_000_000_000)
    entry = ProducerEntry(ProducerId(7), ProducerEpoch(2), CoordinatorEpoch(3), 1_700_000_000_000, batches=(last,))
    file = producer_snapshot.path(str(tmp_path), Offset(101))
    assert Path(file).name == "00000000000000000101.snapshot"
    producer_snapshot.write(Filesystem(), file, [entry])
    expected = GOLDEN[:2] + struct.pack(">I", crc32c(GOLDEN[6:])) + GOLDEN[6:]
    assert Path(file).read_bytes() == expected
    for cut in range(len(expected)):
        Path(file).write_bytes(expected[:cut])
        with pytest.raises(producer_snapshot.CorruptSnapshotError):
            producer_snapshot.read(Filesystem(), file)
    for changed in range(len(expected)):
        Path(file).write_bytes(expected[:changed] + bytes([expected[changed] ^ 1]) + expected[changed + 1 :])
        with pytest.raises(producer_snapshot.CorruptSnapshotError):
            producer_snapshot.read(Filesystem(), file)
    Path(file).write_bytes(expected + b"\0")
    with pytest.raises(producer_snapshot.CorruptSnapshotError):
        producer_snapshot.read(Filesystem(), file)


def test_a_reload_takes_the_youngest_sound_snapshot_in_range(tmp_path: Path) -> None:
    producers = state(tmp_path)
    for offset in range(10, 60, 10):
        producers.update(data((offset - 10) // 10, offset - 1))
        producers.map_end_offset = Offset(offset)
        producers.take_snapshot()
    again = state(tmp_path)
    again.find_snapshots()
    Path(producer_snapshot.path(str(tmp_path), Offset(30))).write_bytes(b"damaged")
    again.reload(log_start_offset=Offset(10), log_end_offset=Offset(35), now_ms=0)
    assert again.map_end_offset == 20
    assert again.producers[ProducerId(1)].last_sequence == 1
    assert again.snapshots == {20}


def test_stray_snapshots_go_but_the_last_one_stays(tmp_path: Path) -> None:
    producers = state(tmp_path)
    for offset in (5, 10, 15, 20, 30):
        producers.map_end_offset = Offset(offset)
        producers.take_snapshot()
    producers.remove_stray_snapshots({Offset(0), Offset(10), Offset(20)})
    assert producers.snapshots == {10, 20, 30}
    producers.remove_stray_snapshots({Offset(10), Offset(20), Offset(40)})
    assert producers.snapshots == {10, 20}
