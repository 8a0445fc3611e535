"""A batch that the kernel accepts whole and the tail appends by itself, and the same batch step by step, do the same to a log."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pybroker.log.append_rules import AppendRules
from pybroker.log.log import Log
from pybroker.log.results import AppendOrigin, LogAppendInfo
from pybroker.log.segments import segment
from pybroker.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records import kernels
from pybroker.records.batch import ATTRIBUTES_AT, CRC_AT, HEADER_SIZE, LAST_OFFSET_DELTA_AT, Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.work import Work
from testing.cases import in_case
from testing.scenes.logs import START_MS, TAILS, Disk, Producer, StepwiseTail, batch, log_state
from testing.scenes.record_lists import BOTH, KERNELS

CONFIGS: list[dict[str, Any]] = [
    {},
    {"segment_bytes": 1000, "index_interval_bytes": 200},
    {"segment_ms": 50, "segment_index_bytes": 24, "index_interval_bytes": 0},
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "uncompressed", "max_message_bytes": 300},
    {"compression_type": "gzip"},
    {"compression_type": "lz4"},
    {"cleanup_policy": frozenset({"compact"}), "flush_messages": 3},
    {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 100},
]


@st.composite
def sent_batches(draw: st.DrawFn) -> bytearray:
    """Draw a batch as a producer sends it, or wrong in one place with a good checksum, or damaged."""
    times = draw(st.lists(st.integers(START_MS - 150, START_MS + 150) | st.just(-1), min_size=1, max_size=4))
    records = [
        Record(Offset(i), at, draw(st.sampled_from([b"key", None])), b"v" * draw(st.integers(0, 120)))
        for i, at in enumerate(times)
    ]
    producer = draw(st.sampled_from([-1, -1, 7]))
    data = build_batch(
        records,
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0 if producer >= 0 else -1),
        base_sequence=draw(st.integers(0, 6)) if producer >= 0 else -1,
        compression=draw(st.sampled_from([CompressionType.NONE, *CompressionType])),
    )
    fault = draw(st.sampled_from(["none", "none", "none", "header", "records", "size", "checksum"]))
    if fault == "header":
        data[draw(st.integers(0, HEADER_SIZE - 1))] ^= 1 << draw(st.integers(0, 7))
    elif fault == "records":
        data[draw(st.integers(HEADER_SIZE, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif fault == "size":
        data = data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data + b"x" * draw(st.integers(1, 20))
    if fault != "checksum" and len(data) > ATTRIBUTES_AT:
        struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
    elif fault == "checksum":
        data[CRC_AT] ^= 1
    return data


def with_a_huge_gap() -> bytearray:
    """Return one record that takes two thousand million offsets; a coordinator may write such a record."""
    data = build_batch([Record(Offset(0), START_MS, b"key", b"value")])
    struct.pack_into(">i", data, LAST_OFFSET_DELTA_AT, (1 << 31) - 256)
    struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
    return data


def outcome(log: Log, data: bytearray, epoch: int, now_ms: int, origin: AppendOrigin) -> tuple[Any, ...]:
    data = bytearray(data)
    try:
        info = log.append_as_leader(
            memoryview(data), leader_epoch=LeaderEpoch(epoch), now_ms=now_ms, origin=origin, request_version=7
        )
    except KafkaError as error:
        return error.code, error.message, getattr(error, "record_errors", None)
    return info, data


@contextmanager
def as_a_whole(module: ModuleType, tail: ModuleType) -> Iterator[None]:
    """Append and make segments with these twins."""
    with (
        mock.patch.object(kernels, "accept_batch", module.accept_batch),
        mock.patch.object(segment, "SegmentTail", tail.SegmentTail),
    ):
        yield


@contextmanager
def stepwise_only(accept_batch: Any = None) -> Iterator[None]:
    """Let every append take the long way, on the Python twin of the tail."""
    accept = mock.patch.object(kernels, "accept_batch", accept_batch or (lambda *_: None))
    with accept, mock.patch.object(segment, "SegmentTail", StepwiseTail):
        yield


WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "step by step, accepted": lambda: stepwise_only(kernels.accept_batch),
    **{
        f"{name} kernels, {tail.id}": functools.partial(as_a_whole, module, tail.values[0])  # type: ignore[arg-type]
        for name, module in KERNELS.items()
        for tail in TAILS
    },
}
"""The ways of an append that are compared with the one step by step."""


def story(
    way: Callable[[], AbstractContextManager[None]],
    config: dict[str, Any],
    batches: list[tuple[bytearray, int, int]],
    origin: AppendOrigin,
) -> list[tuple[object, object]]:
    """Append the batches to a new log, and return each outcome with the state after it."""
    with TemporaryDirectory() as folder, way():
        log = Disk(Path(folder), **config).create()
        epoch = 0
        found: list[tuple[object, object]] = []
        for data, newer, late_ms in batches:
            epoch += newer
            found.append((outcome(log, data, epoch, START_MS + late_ms, origin), log_state(log)))
        log.close()
    return found


@given(
    config=st.sampled_from(CONFIGS),
    batches=st.lists(st.tuples(sent_batches(), st.integers(0, 1), st.integers(-60, 60)), min_size=1, max_size=12),
    origin=st.sampled_from([AppendOrigin.CLIENT, AppendOrigin.CLIENT, AppendOrigin.COORDINATOR]),
)
@example(config={}, batches=[(with_a_huge_gap(), 0, 0)] * 2, origin=AppendOrigin.COORDINATOR)
@settings(deadline=None)
def test_all_ways_do_the_same(config: dict[str, Any], batches: list[tuple[bytearray, int, int]], origin: AppendOrigin) -> None:
    expected = story(stepwise_only, config, batches, origin)
    for name, way in WAYS.items():
        with in_case(name):
            assert story(way, config, batches, origin) == expected


@pytest.mark.parametrize("module", BOTH)
def test_an_idempotent_producer_is_followed_either_way(module: ModuleType, tmp_path: Path) -> None:
    whole, stepwise = (Disk(tmp_path / name, segment_bytes=1500).create() for name in ("whole", "stepwise"))
    last = (1 << 31) - 3
    sent = [
        (0, last),
        (0, last + 2),
        (0, 1),
        (0, 1),
        (0, 3),
        (0, 9),
        (1, 0),
        (1, 2),
        (0, 5),
        (1, 4),
        *((1, 6 + 2 * i) for i in range(20)),
    ]
    codes = []
    for epoch, sequence in sent:
        data = batch(2, producer=Producer(7, epoch), sequence=sequence)
        with mock.patch.object(kernels, "accept_batch", module.accept_batch):
            one = outcome(whole, data, 0, START_MS, AppendOrigin.CLIENT)
        with stepwise_only():
            assert outcome(stepwise, data, 0, START_MS, AppendOrigin.CLIENT) == one
        assert log_state(whole) == log_state(stepwise)
        codes.append(one[0].is_duplicate if isinstance(one[0], LogAppendInfo) else one[0].name)
    out_of_order, old = "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"
    assert codes[:10] == [False, False, False, True, False, out_of_order, False, False, old, False]
    assert codes[10:] == [False] * 20


@pytest.mark.parametrize("codec", list(CompressionType))
@pytest.mark.parametrize("module", BOTH)
def test_a_good_batch_in_any_codec_is_appended_as_a_whole(module: ModuleType, codec: CompressionType, tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    data = build_batch([Record(Offset(0), START_MS, None, b"value")], compression=codec)
    with (
        mock.patch.object(kernels, "accept_batch", module.accept_batch),
        mock.patch.object(Log, "append_unusual", side_effect=AssertionError),
    ):
        assert log.append_as_leader(memoryview(data), LeaderEpoch(0), START_MS, request_version=9).last_offset == 0
    log.close()


def test_every_codec_of_an_old_produce_takes_the_long_way(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    data = build_batch([Record(Offset(0), START_MS, None, b"value")], compression=CompressionType.ZSTD)
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(memoryview(data), LeaderEpoch(0), START_MS, request_version=6)
    assert raised.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    log.close()


def test_what_a_request_inflates_to_is_counted_over_its_batches(tmp_path: Path) -> None:
    log = Disk(tmp_path, max_message_bytes=1000).create()
    log.validator = AppendRules(log.config, inflation_max=3)
    work = Work(is_on_loop=True)
    sent = bytes(build_batch([Record(Offset(0), START_MS, None, bytes(2000))], compression=CompressionType.LZ4))
    log.append_as_leader(memoryview(bytearray(sent)), LeaderEpoch(0), START_MS, request_version=9, work=work)
    assert work.inflated_bytes > 2000
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(memoryview(bytearray(sent)), LeaderEpoch(0), START_MS, request_version=9, work=work)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 1
    log.close()
