"""A follower's log takes batches as its leader has them: ordinary ones at once, all others in the general way, and both ways do
the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.log.log import Log
from pybroker.log.segments import segment
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records import kernels
from pybroker.records.batch import BatchView, Record
from pybroker.records.build import build_batch
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.cases import in_case
from testing.scenes.logs import START_MS, TAILS, Disk, StepwiseTail, log_state, stored
from testing.scenes.record_lists import BOTH, KERNELS

CONFIGS: list[dict[str, Any]] = [
    {},
    {"segment_bytes": 400, "index_interval_bytes": 100},
    {"segment_bytes": 120},
    {"segment_ms": 50, "segment_index_bytes": 24, "index_interval_bytes": 0},
    {"flush_messages": 3},
]


def copied(
    offset: int, *, count: int = 1, gap: int = 0, epoch: int = 0, size: int = 20, time_ms: int = START_MS, **of: Any
) -> bytearray:
    """Return a batch as a leader has it; `gap` offsets at its end have no record any more."""
    records = [Record(Offset(offset + n), time_ms + n, b"key", bytes(size)) for n in range(count)]
    last = Offset(offset + count - 1 + gap)
    return build_batch(records, last_offset=last, leader_epoch=LeaderEpoch(epoch), **of)


def of_producer(producer_id: int, epoch: int, sequence: int) -> dict[str, Any]:
    return {"producer_id": ProducerId(producer_id), "producer_epoch": ProducerEpoch(epoch), "base_sequence": sequence}


@st.composite
def responses(draw: st.DrawFn) -> list[bytes]:
    """Draw what a follower receives, one response after the other, some of it wrong."""
    offset, epoch, sequence, found = 0, 0, 0, []
    for _ in range(draw(st.integers(1, 6))):
        records = bytearray()
        for _ in range(draw(st.integers(0, 4))):
            kind = draw(st.sampled_from(["plain", "plain", "plain", "idempotent", "idempotent", "transactional", "marker"]))
            epoch += draw(st.sampled_from([0, 0, 0, 0, 1]))
            offset += draw(st.sampled_from([0, 0, 0, 0, 3, -1]))
            count, gap = draw(st.integers(1, 3)), draw(st.sampled_from([0, 0, 2]))
            producer = {} if kind == "plain" else of_producer(7, 0, sequence)
            if kind == "marker":
                marker = TransactionMarker(draw(st.sampled_from([ControlType.ABORT, ControlType.COMMIT])), CoordinatorEpoch(0))
                producer.pop("base_sequence")
                records += build_transaction_marker(
                    marker, timestamp_ms=START_MS, offset=Offset(max(offset, 0)), leader_epoch=LeaderEpoch(epoch), **producer
                )
                offset += 1
                continue
            time_ms = START_MS + draw(st.integers(-100, 100))
            size = draw(st.integers(0, 120))
            is_transactional = kind == "transactional"
            records += copied(
                max(offset, 0), count=count, gap=gap, epoch=epoch, size=size, time_ms=time_ms,
                is_transactional=is_transactional, **producer,
            )  # fmt: skip
            offset += count + gap
            sequence += (count + gap) * (kind != "plain") + draw(st.sampled_from([0, 0, 0, 5]))
        fault = draw(st.sampled_from(["none", "none", "none", "none", "cut", "bit", "noise"]))
        if fault == "cut":
            del records[draw(st.integers(0, len(records))) :]
        elif fault == "bit" and records:
            records[draw(st.integers(0, len(records) - 1))] ^= 1 << draw(st.integers(0, 7))
        elif fault == "noise":
            records += draw(st.binary(max_size=30))
        found.append(bytes(records))
    return found


def outcome(log: Log, records: bytes) -> object:
    try:
        return log.append_as_follower(memoryview(records), START_MS)
    except KafkaError as error:
        return error.code, error.message


@contextmanager
def at_once(module: ModuleType, tail: ModuleType) -> Iterator[None]:
    """Append and make segments with these twins."""
    with (
        mock.patch.object(kernels, "accept_copies", module.accept_copies),
        mock.patch.object(segment, "SegmentTail", tail.SegmentTail),
    ):
        yield


@contextmanager
def general() -> Iterator[None]:
    """Let every append take the general way."""
    with (
        mock.patch.object(kernels, "accept_copies", return_value=None),
        mock.patch.object(segment, "SegmentTail", StepwiseTail),
    ):
        yield


WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    f"{name} kernels, {tail.id}": functools.partial(at_once, module, tail.values[0])  # type: ignore[arg-type]
    for name, module in KERNELS.items()
    for tail in TAILS
}


def story(way: Callable[[], AbstractContextManager[None]], config: dict[str, Any], received: list[bytes]) -> list[object]:
    """Append the responses to a new log, and return each outcome with the state after it."""
    with TemporaryDirectory() as folder, way():
        log = Disk(Path(folder), **config).create()
        found: list[object] = [(outcome(log, one), log_state(log)) for one in received]
        log.close()
    return found


@given(config=st.sampled_from(CONFIGS), received=responses())
@settings(deadline=None)
def test_all_ways_do_the_same(config: dict[str, Any], received: list[bytes]) -> None:
    expected = story(general, config, received)
    for name, way in WAYS.items():
        with in_case(name):
            assert story(way, config, received) == expected


@pytest.fixture(params=BOTH)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Return a follower's log with the offsets 0 to 2 of the epoch 0."""
    with mock.patch.object(kernels, "accept_copies", request.param.accept_copies):
        log = Disk(tmp_path).create()
        log.append_as_follower(memoryview(copied(0, count=3)), START_MS)
        yield log
        log.release()


@contextmanager
def only_at_once() -> Iterator[None]:
    with mock.patch.object(Log, "append_unusual_copies", side_effect=AssertionError):
        yield


def entries(log: Log) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]


def refused(log: Log, records: bytearray) -> ErrorCode:
    """Return the error of records of which nothing may be appended."""
    before = log_state(log)
    with pytest.raises(KafkaError) as raised:
        log.append_as_follower(memoryview(records), START_MS)
    assert log_state(log) == before
    return raised.value.code


def test_ordinary_batches_are_appended_at_once(log: Log) -> None:
    sent = copied(3) + copied(4, count=2, **of_producer(7, 0, 0)) + copied(6, **of_producer(7, 0, 2)) + copied(9, gap=4)
    with only_at_once():
        info = log.append_as_follower(memoryview(sent + copied(14)[:-1]), START_MS)
    assert (info.first_offset, info.last_offset, info.record_count, info.size) == (3, 13, 5, len(sent))
    assert stored(log)[-len(sent) :] == sent
    assert log.log_end_offset == log.producers.map_end_offset == 14
    assert [batch.last_sequence for batch in log.producers.producers[ProducerId(7)].batches] == [1, 2]


def test_a_batch_of_another_epoch_begins_it(log: Log) -> None:
    log.append_as_follower(memoryview(copied(3, epoch=2) + copied(4, epoch=2) + copied(5, epoch=4)), START_MS)
    assert entries(log) == [(0, 0), (2, 3), (4, 5)]
    with only_at_once():
        log.append_as_follower(memoryview(copied(6, epoch=4)), START_MS)
    assert entries(log) == [(0, 0), (2, 3), (4, 5)]


def test_after_a_truncation_the_log_continues_in_the_epoch_that_is_left(log: Log) -> None:
    log.append_as_follower(memoryview(copied(3, epoch=1)), START_MS)
    log.truncate_to(Offset(3))
    with only_at_once():
        log.append_as_follower(memoryview(copied(3, size=5)), START_MS)
    log.append_as_follower(memoryview(copied(4, epoch=2)), START_MS)
    assert entries(log) == [(0, 0), (2, 4)]
    assert stored(log) == copied(0, count=3) + copied(3, size=5) + copied(4, epoch=2)


def test_offsets_that_compaction_has_emptied_are_left_out(log: Log) -> None:
    with only_at_once():
        log.append_as_follower(memoryview(copied(10) + copied(20)), START_MS)
    assert log.log_end_offset == 21
    assert log.segments.active.find_batch(Offset(4)) == log.segments.active.find_batch(Offset(10))


def test_batches_that_come_again_are_refused(log: Log) -> None:
    log.append_as_follower(memoryview(copied(3, **of_producer(7, 0, 0))), START_MS)
    assert refused(log, copied(3, **of_producer(7, 0, 0)) + copied(4)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused(log, copied(4) + copied(4)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("place", [21, 40, 61, -1])
def test_a_wrong_checksum_is_refused_with_all_that_came_with_it(log: Log, place: int) -> None:
    damaged = copied(4)
    damaged[place] ^= 1
    assert refused(log, copied(3) + damaged + copied(5)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("is_ordinary", [True, False])
def test_batches_that_are_larger_than_a_segment_get_segments_of_their_own(log: Log, is_ordinary: bool) -> None:
    of = {} if is_ordinary else {"is_transactional": True, **of_producer(7, 0, 0)}
    sent = [copied(3, size=900, **of), copied(4, size=10), copied(5, size=10), copied(6, size=2000)]
    log.config = dataclasses.replace(log.config, segment_bytes=500)
    info = log.append_as_follower(memoryview(b"".join(sent)), START_MS)
    assert (info.first_offset, info.last_offset, info.record_count, info.size) == (3, 6, 4, sum(map(len, sent)))
    assert [one.base_offset for one in log.segments] == [0, 3, 4, 6]
    assert stored(log) == copied(0, count=3) + b"".join(sent)
    log.append_as_follower(memoryview(copied(7, size=2000)), START_MS)
    assert [one.base_offset for one in log.segments] == [0, 3, 4, 6, 7]


@pytest.mark.parametrize("module", BOTH)
def test_what_is_accepted_of_copies(module: ModuleType) -> None:
    plain, produced = copied(5, count=2, gap=1, epoch=3), copied(8, epoch=3, time_ms=START_MS - 1, **of_producer(9, 2, 4))
    both = memoryview(plain + produced)
    places = [(5, len(plain)), (8, len(produced))]
    of = [(9, 2, 4, 8, 0, START_MS - 1)]
    assert module.accept_copies(both, 5, 3) == (len(both), 8, START_MS + 1, 7, 3, places, of)
    assert module.accept_copies(both, 2, 3) is not None, "a gap"
    assert module.accept_copies(both[:-1], 5, 3) == (len(plain), 7, START_MS + 1, 7, 2, places[:1], [])
    assert module.accept_copies(both, 6, 3) is None
    assert module.accept_copies(both, 5, 2) is None
    assert module.accept_copies(memoryview(produced + plain), 5, 3) is None
    assert module.accept_copies(memoryview(b""), 5, 3) is None
    top = (1 << 63) - 1
    assert module.accept_copies(memoryview(copied(top - 1, epoch=3)), 5, 3) is not None
    for kind in ({"is_transactional": True}, {"is_control": True}):
        assert module.accept_copies(memoryview(copied(5, epoch=3, **of_producer(9, 2, 4), **kind)), 5, 3) is None


def test_a_gap_behind_the_largest_offset_is_no_batch() -> None:
    data = copied((1 << 63) - 2, gap=1)
    assert BatchView(memoryview(data)).last_offset == (1 << 63) - 1
    data[23:27] = (2).to_bytes(4, "big")
    for module in KERNELS.values():
        assert module.accept_copies(memoryview(data), 5, 0) is None
