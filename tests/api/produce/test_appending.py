"""Produce requests that take long: they are parked, others are served meanwhile, and nothing else changes."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import threading
import time
import weakref
import zlib
from array import array
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pybroker.api.validations import FIRST_BYTES, Validations
from pybroker.model import NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId, TopicPartition
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.codec import encode_request
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import HEADER_SIZE, Record
from pybroker.records.build import assemble_batch, build_batch
from pybroker.records.compression import CompressionType, compress
from pybroker.records.sections import IS_NATIVE
from pybroker.records.validate import Checked
from pybroker.records.work import LongCheck, Work
from pybroker.sharing import work as sharing
from testing.garbage import frozen
from testing.scenes.api.whole import NOW_MS, Whole, settled
from testing.scenes.logs import read_batches
from testing.slowness import slowness
from testing.turns import LIMIT_MS
from testing.wire.small_blocks import empty_gzip_blocks, few_letters, small_gzip_blocks, zstd_tables

VERSION = 9
LONG_BYTES = 3 << 20


def long_batch(producer_id: int = NO_PRODUCER_ID, sequence: int = -1) -> bytes:
    """Return a batch of 100 bytes or so that is too long for the loop."""
    return bytes(
        build_batch(
            [Record(Offset(0), NOW_MS, b"k", bytes(LONG_BYTES))],
            compression=CompressionType.ZSTD,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(0 if producer_id >= 0 else -1),
            base_sequence=sequence,
        )
    )


def short_batch(value: bytes = b"v") -> bytes:
    return bytes(build_batch([Record(Offset(0), NOW_MS, b"k", value)]))


def produce(*batches: bytes, name: str = "t", acks: int = 1) -> ProduceRequest:
    """Return a request with a batch for each partition from 0 on."""
    data = [PartitionProduceData(index=index, records=memoryview(batch)) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=name, partition_data=data)])


def outcomes(response: Any) -> list[tuple[int, int]]:
    return [(one.error_code, one.base_offset) for one in response.responses[0].partition_responses]


async def started(directory: Path, partitions: int = 1, **configs: str) -> Whole:
    whole = await Whole(directory).start()
    await whole.create("t", partitions=partitions, **configs)
    return whole


class Watched(Validations):
    """Knows whether what a check in a thread has made is still there."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[weakref.ref[Any]] = []

    async def run(self, check: LongCheck, records: memoryview, work: Work) -> Checked:
        def watched(records: memoryview, *, work: Work) -> Checked:
            made = array("b", bytes(1000))  # as long as this frame lives
            self.made.append(weakref.ref(made))
            return check(records, work=work)

        return await super().run(watched, records, work)


class Gate(Validations):
    """Holds the checks in threads until `open`."""

    def __init__(self) -> None:
        super().__init__()
        self.shares: list[int] = []
        self._entered, self._opened = threading.Event(), threading.Event()

    async def run(self, check: LongCheck, records: memoryview, work: Work) -> Checked:
        def late(records: memoryview, *, work: Work) -> Checked:
            self.shares.append(work.bytes_max)
            self._entered.set()
            assert self._opened.wait(10)
            return check(records, work=work)

        return await super().run(late, records, work)

    async def entered(self) -> None:
        assert await asyncio.to_thread(self._entered.wait, 10)

    def open(self) -> None:
        self._opened.set()


async def held(whole: Whole, request: ProduceRequest) -> tuple[Gate, asyncio.Future[Any]]:
    """Send a request that is too long for the loop, and return when a thread has its batch."""
    gate = whole.services.validations = Gate()
    waiting = whole.send(request, VERSION)
    assert isinstance(waiting, asyncio.Future)
    await gate.entered()
    return gate, waiting


async def response_to(whole: Whole, waiting: asyncio.Future[Any], request: ProduceRequest) -> list[tuple[int, int]]:
    return outcomes(whole.read(await waiting, request, VERSION))


async def test_a_long_batch_is_appended_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    whole, request = await started(tmp_path), produce(long_batch())
    gate, waiting = await held(whole, request)
    assert outcomes(await whole.ask(produce(short_batch()), VERSION)) == [(ErrorCode.NONE, 0)]
    gate.open()
    assert await response_to(whole, waiting, request) == [(ErrorCode.NONE, 1)]
    log = whole.replicas.partitions[TopicPartition("t", 0)].log
    (kept,) = [batch for batch in read_batches(log) if batch.base_offset == 1]
    assert [record.value for record in kept.records()] == [bytes(LONG_BYTES)]
    assert whole.metrics.topics["t"].messages_in == 2
    assert whole.metrics.topics["t"].produce_requests == 2


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_all_acks_are_served(tmp_path: Path, acks: int) -> None:
    whole, request = await started(tmp_path), produce(long_batch(), short_batch(), acks=acks)
    await whole.create("two", partitions=2)
    request.topic_data[0].name = "two"
    response = await whole.ask(request, VERSION)
    assert response is None if acks == 0 else outcomes(response) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]
    assert [whole.replicas.partitions[TopicPartition("two", index)].high_watermark for index in (0, 1)] == [1, 1]


async def test_a_refused_long_batch_leaves_nothing_and_without_acks_closes_the_connection(tmp_path: Path) -> None:
    whole = await started(tmp_path, cleanup_policy="compact")
    watched = whole.services.validations = Watched()
    keyless = bytes(build_batch([Record(Offset(0), NOW_MS, None, bytes(LONG_BYTES))], compression=CompressionType.ZSTD))
    gc.disable()
    try:
        assert outcomes(await whole.ask(produce(keyless), VERSION)) == [(ErrorCode.INVALID_RECORD, -1)]
        assert [made() for made in watched.made] == [None], "freed without the collector"
    finally:
        gc.enable()
    with pytest.raises(ProtocolViolation, match="INVALID_RECORD"):
        await whole.ask(produce(keyless, acks=0), VERSION)
    assert outcomes(await whole.ask(produce(keyless), VERSION)) == [(ErrorCode.INVALID_RECORD, -1)]


async def remove(whole: Whole) -> None:
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])


async def remake(whole: Whole) -> None:
    await remove(whole)
    await whole.create("t")


async def close_log(whole: Whole) -> None:
    whole.replicas.partitions[TopicPartition("t", 0)].log.close()


async def lose_connection(whole: Whole) -> None:
    whole.connection.lose()


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (remove, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (remake, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (close_log, ErrorCode.KAFKA_STORAGE_ERROR),
        (lose_connection, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_a_check_that_is_overtaken_appends_nothing(
    tmp_path: Path, happens: Callable[[Whole], Awaitable[None]], code: ErrorCode
) -> None:
    whole, request = await started(tmp_path), produce(long_batch())
    gate, waiting = await held(whole, request)
    await happens(whole)
    gate.open()
    assert await response_to(whole, waiting, request) == [(code, -1)]
    partition = whole.replicas.partitions.get(TopicPartition("t", 0))
    assert partition is None or partition.log.log_end_offset == 0


async def test_a_stop_ends_a_check_and_nothing_is_appended(tmp_path: Path) -> None:
    whole, request = await started(tmp_path), produce(long_batch(), short_batch())
    await whole.create("two", partitions=2)
    request.topic_data[0].name = "two"
    gate, waiting = await held(whole, request)
    gate.is_closed = True  # as `close` begins, which then waits for the thread
    gate.open()
    assert await response_to(whole, waiting, request) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)] * 2
    gate.close()
    assert [whole.replicas.partitions[TopicPartition("two", index)].log.log_end_offset for index in (0, 1)] == [0, 0]


@pytest.mark.parametrize("shortage", [MemoryError(), RuntimeError("can't start new thread")], ids=["memory", "threads"])
async def test_a_shortage_during_a_check_is_no_bug_and_may_be_tried_again(
    tmp_path: Path, shortage: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await started(tmp_path)
    with mock.patch("pybroker.api.validations._wanted", side_effect=shortage):
        assert outcomes(await whole.ask(produce(long_batch()), VERSION)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert not [record for record in caplog.records if record.levelno > logging.INFO or record.exc_info]
    assert outcomes(await whole.ask(produce(long_batch()), VERSION)) == [(ErrorCode.NONE, 0)]


async def test_a_batch_that_inflates_far_is_checked_again_behind_the_shorter_ones(tmp_path: Path) -> None:
    whole, request = await started(tmp_path), produce(long_batch())
    gate, waiting = await held(whole, request)
    assert gate.shares == [FIRST_BYTES]
    gate.open()
    with mock.patch("pybroker.api.validations.FIRST_BYTES", LONG_BYTES // 20):
        assert outcomes(await whole.ask(produce(long_batch()), VERSION))[0][0] == ErrorCode.NONE
    assert gate.shares[1:] == [LONG_BYTES // 20 * growth for growth in (1, 8, 64)]
    assert await response_to(whole, waiting, request) == [(ErrorCode.NONE, 0)]


async def test_a_batch_that_its_producer_repeats_while_it_is_checked_is_a_duplicate(tmp_path: Path) -> None:
    whole, request = await started(tmp_path), produce(long_batch(7, 0))
    gate, waiting = await held(whole, request)
    whole.services.validations = Validations()  # the same batch on another connection overtakes it
    assert outcomes(await whole.ask(produce(long_batch(7, 0)), VERSION)) == [(ErrorCode.NONE, 0)]
    gate.open()
    assert await response_to(whole, waiting, request) == [(ErrorCode.NONE, 0)]
    assert outcomes(await whole.ask(produce(long_batch(7, 1)), VERSION)) == [(ErrorCode.NONE, 1)]
    assert outcomes(await whole.ask(produce(long_batch(7, 5)), VERSION)) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]


async def test_the_batches_of_one_request_inflate_to_a_sum(tmp_path: Path) -> None:
    whole = await started(tmp_path, partitions=4, max_message_bytes="10000")
    assert outcomes(await whole.ask(produce(*[long_batch()] * 4), VERSION)) == [
        *[(ErrorCode.NONE, 0)] * 3,
        (ErrorCode.MESSAGE_TOO_LARGE, -1),
    ]


async def test_records_in_shared_memory_are_copied_before_the_handler_returns(tmp_path: Path) -> None:
    whole = await started(tmp_path, partitions=2)
    request = produce(long_batch(), short_batch(b"kept"))
    parts: list[Any] = encode_request(request, VERSION, correlation_id=77, client_id="c")
    frame = memoryview(bytearray(b"".join(parts)))[4:]
    waiting = whole.dispatcher.handle(whole.connection, frame)
    frame[:] = bytes(len(frame))
    assert isinstance(waiting, asyncio.Future)
    assert await response_to(whole, waiting, request) == [(ErrorCode.NONE, 0)] * 2
    (batch,) = read_batches(whole.replicas.partitions[TopicPartition("t", 1)].log)
    assert [record.value for record in batch.records()] == [b"kept"]


class Holder:
    def __init__(self, *, is_stable: bool) -> None:
        self.is_stable, self.events = is_stable, list[str]()

    @property
    def has_next_request(self) -> bool:
        return False

    def hold_request(self, size: int) -> bool:
        self.events.append(f"hold {size > 0}")
        return self.is_stable

    def release_request(self) -> None:
        self.events.append("release")


@pytest.mark.parametrize("is_stable", [True, False])
async def test_the_memory_of_a_request_is_held_until_its_records_are_appended(tmp_path: Path, is_stable: bool) -> None:
    whole, request = await started(tmp_path, min_insync_replicas="1"), produce(long_batch())
    holder = whole.connection.holder = Holder(is_stable=is_stable)
    assert outcomes(await whole.ask(produce(short_batch()), VERSION)) == [(ErrorCode.NONE, 0)]
    assert holder.events == []
    assert outcomes(await whole.ask(request, VERSION)) == [(ErrorCode.NONE, 1)]
    assert holder.events == ["hold True", "release"]


async def test_others_get_their_turn_between_the_partitions_of_a_request(tmp_path: Path) -> None:
    whole, counts = await started(tmp_path, partitions=5), []
    with mock.patch.object(sharing, "SLICE_S", 0.0):
        waiting = whole.send(produce(*[short_batch()] * 5), VERSION)
        while not waiting.done():
            counts.append(sum(partition.log.log_end_offset for partition in whole.replicas.partitions.values()))
            await asyncio.sleep(0)
    assert sorted(set(counts)) == [1, 2, 3, 4, 5]


def alike(count: int, record: bytes) -> bytes:
    """Return a batch of records that are alike: a few hundred bytes, however many they are."""
    return bytes(
        assemble_batch(
            compress(CompressionType.ZSTD, record * count),
            base_offset=Offset(0),
            last_offset_delta=count - 1,
            attributes=CompressionType.ZSTD,
            base_timestamp=NOW_MS,
            max_timestamp=NOW_MS,
            record_count=count,
        )
    )


KEYLESS = bytes([12, 0, 0, 0, 1, 0, 0])


def batch_in(codec: CompressionType, compressed: bytes) -> bytes:
    """Return a batch of one record, with these bytes in place of it."""
    return bytes(
        assemble_batch(
            compressed,
            base_offset=Offset(0),
            last_offset_delta=0,
            attributes=codec,
            base_timestamp=NOW_MS,
            max_timestamp=NOW_MS,
            record_count=1,
        )
    )


def one_value(value: bytes) -> bytes:
    """Return the record of a batch as its bytes."""
    return bytes(build_batch([Record(Offset(0), NOW_MS, b"", value)])[HEADER_SIZE:])


def zeros(codec: CompressionType) -> list[bytes]:
    """Return one batch of 100 MiB of zeros."""
    return [bytes(build_batch([Record(Offset(0), NOW_MS, b"", bytes(100 << 20))], compression=codec))]


BOMBS: dict[str, Callable[[], list[bytes]]] = {
    "millions of records with the same offset": lambda: [alike(2_000_000, KEYLESS)],
    "20 partitions": lambda: [alike(100_000, KEYLESS)] * 20,
    "50,000 empty gzip members": lambda: [batch_in(CompressionType.GZIP, zlib.compress(b"", wbits=31) * 50_000)],
    "empty gzip blocks": lambda: [batch_in(CompressionType.GZIP, empty_gzip_blocks(1_000_000, b""))],
    "small gzip blocks": lambda: [batch_in(CompressionType.GZIP, small_gzip_blocks(one_value(few_letters(900_000))))],
    "zstd blocks with tables": lambda: [batch_in(CompressionType.ZSTD, zstd_tables(1_000_000))],
    "zstd blocks with tables, of half the size": lambda: [batch_in(CompressionType.ZSTD, zstd_tables(500_000))],
    **{
        f"zeros in {codec.name}": functools.partial(zeros, codec)
        for codec in (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD)
    },
}


CONFIGS: list[dict[str, str]] = [{}, {"compression_type": "gzip"}, {"cleanup_policy": "compact"}]
"""The settings of the topic: those of a bomb are the next ones for the next bomb."""


@functools.cache
def bomb(name: str) -> list[bytes]:
    """Return the batches of a request, made when a test first wants them: they take longer than the import of the rest."""
    return BOMBS[name]()


@contextmanager
def timed_turns() -> Iterator[list[int]]:
    """Note the CPU time of each turn of this thread's loop, ns. The time that a turn waits for the interpreter does not count: on
    a busy machine the thread that has it may wait for a core itself.
    """
    turns: list[int] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began_ns = time.thread_time_ns()
        run(handle)
        turns.append(time.thread_time_ns() - began_ns)

    with frozen(), mock.patch.object(asyncio.Handle, "_run", timed):
        yield turns


@pytest.mark.judges_time
@pytest.mark.skipif(not IS_NATIVE, reason="the twins hold the interpreter for each record")
@pytest.mark.parametrize("name", BOMBS)
async def test_no_request_holds_the_loop(tmp_path: Path, name: str) -> None:
    configs = CONFIGS[[*BOMBS].index(name) % len(CONFIGS)]
    whole = await started(tmp_path, partitions=20, max_message_bytes="10000000", **configs)
    batches = bomb(name)

    async def send() -> Any:
        return await settled(whole.send(produce(*batches), VERSION))

    with timed_turns() as turns:
        response = await asyncio.create_task(send())
    assert response is not None
    assert max(turns) < LIMIT_MS * 1e6 * slowness()
