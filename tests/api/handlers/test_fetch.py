"""Fetch in every version: what consumers of each time read, limits, waiting, sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.model import Offset
from pybroker.network.context import Outgoing
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.records.compression import CompressionType
from pybroker.records.convert import down_convert
from testing.scenes.api import records
from testing.scenes.api.whole import Whole, settled
from tests.api.handlers.test_produce import request as produce_request

UNLIMITED = 1 << 30


async def filled(tmp_path: Path, **configs: str) -> tuple[Whole, bytes]:
    """Start a broker with a topic t: the first of its two partitions has offsets 0 to 3 in two batches, the second is empty."""
    whole = await Whole(tmp_path).start()
    topic_id = await whole.create("t", 2, **configs)
    for values in ((b"a", b"b"), (b"c", b"d")):
        await whole.ask(produce_request(records.batch_of_values(*values)), 9)
    return whole, topic_id


def request(
    *offsets: int,
    topic_id: bytes = bytes(16),
    topic: str = "t",
    limit: int = UNLIMITED,
    max_bytes: int = UNLIMITED,
    max_wait_ms: int = 0,
    **fields: Any,
) -> FetchRequest:
    """Make a fetch from partitions 0, 1, ... at `offsets`."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit) for index, offset in enumerate(offsets)
    ]
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)] if offsets else []
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics, **fields)


def partition_responses(response: Any) -> list[tuple[int, list[tuple[int, bytes | None]]]]:
    """Return, for each partition, the error code, offsets and values."""
    return [
        (partition.error_code, records.read(partition.records or b""))
        for topic in response.responses
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", range(19))
async def test_every_version_reads_what_was_written(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path)
    response = await whole.ask(request(0, 0, topic_id=topic_id), version)
    assert partition_responses(response) == [(0, [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]), (0, [])]
    first, second = response.responses[0].partitions
    assert (first.high_watermark, second.high_watermark) == (4, 0)
    assert first.last_stable_offset == (4 if version >= 4 else -1)
    assert first.log_start_offset == (0 if version >= 5 else -1)
    assert first.records[16] == (2 if version >= 4 else 1 if version >= 2 else 0), "the magic"
    for counters in (whole.metrics.all_topics, whole.metrics.topic("t")):
        assert counters.fetch_message_conversions == (4 if version < 4 else 0)


@pytest.mark.parametrize("version", range(19))
async def test_reading_from_the_middle_of_a_batch(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path)
    ((code, found),) = partition_responses(await whole.ask(request(3, topic_id=topic_id), version))
    assert code == 0
    # The batch comes whole; messages of their own begin where they were asked for.
    assert records.offsets(found) == ([2, 3] if version >= 4 else [3])


@pytest.mark.parametrize("version", range(19))
async def test_errors_are_the_partition_s(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path)
    response = await whole.ask(request(5, -1, 0, topic_id=topic_id), version)
    out, unknown = ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partition_responses(response) == [(out, []), (out, []), (unknown, [])]


@pytest.mark.parametrize("version", range(13, 19))
async def test_a_topic_id_that_is_unknown(tmp_path: Path, version: int) -> None:
    whole, _ = await filled(tmp_path)
    response = await whole.ask(request(0, topic_id=b"?" * 16), version)
    assert partition_responses(response) == [(ErrorCode.UNKNOWN_TOPIC_ID, [])]


@pytest.mark.parametrize("version", [2, 3, 4, 12])
async def test_limits_of_kip_74(tmp_path: Path, version: int) -> None:
    whole, _ = await filled(tmp_path)
    ((_, found),) = partition_responses(await whole.ask(request(0, limit=10), version))
    # From version 3 on the first batch comes whole; before, it is cut.
    assert records.offsets(found) == ([0, 1] if version >= 3 else [])
    ((_, found),) = partition_responses(await whole.ask(request(0, max_bytes=10), version))
    assert records.offsets(found) == ([0, 1] if version >= 3 else [0, 1, 2, 3])


@pytest.mark.parametrize("version", range(19))
async def test_topics_that_refuse_conversion(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path, message_downconversion_enable="false")
    ((code, found),) = partition_responses(await whole.ask(request(0, topic_id=topic_id), version))
    assert code == (0 if version >= 4 else ErrorCode.UNSUPPORTED_VERSION)
    assert bool(found) == (version >= 4)


@pytest.mark.parametrize("version", [1, 3, 4, 9, 10, 17])
async def test_topics_in_zstd_are_for_version_10_and_later(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path, compression_type="zstd")
    ((code, found),) = partition_responses(await whole.ask(request(0, topic_id=topic_id), version))
    assert code == (0 if version >= 10 else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    assert bool(found) == (version >= 10)


@pytest.mark.parametrize("version", [0, 3, 4, 11, 17])
async def test_a_fetch_waits_for_records(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path)
    wanted = request(4, topic_id=topic_id, max_wait_ms=500)
    waiting = whole.send(wanted, version)
    assert isinstance(waiting, asyncio.Future)
    await whole.ask(produce_request(records.batch_of_values(b"e")), 9)
    ((code, found),) = partition_responses(whole.read(await waiting, wanted, version))
    assert (code, found) == (0, [(4, b"e")])


async def test_a_fetch_ends_when_its_time_is_over(tmp_path: Path) -> None:
    whole, _ = await filled(tmp_path)
    waiting = whole.send(request(4, max_wait_ms=500), 4)
    whole.clock.advance(499)
    whole.timer.advance()
    await asyncio.sleep(0)
    assert not waiting.done()
    whole.clock.advance(1)
    whole.timer.advance()
    assert partition_responses(whole.read(await waiting, request(4), 4)) == [(0, [])]


async def test_a_waiting_fetch_of_a_topic_that_is_deleted(tmp_path: Path) -> None:
    whole, topic_id = await filled(tmp_path)
    wanted = request(4, max_wait_ms=500)
    waiting = whole.send(wanted, 4)
    await whole.controller.delete_topics([topic_id])  # type: ignore[list-item]  # bytes are what it is
    assert partition_responses(whole.read(await waiting, wanted, 4)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])]


@pytest.mark.parametrize("version", [4, 12, 13])
async def test_a_fetch_waits_beside_a_partition_that_does_not_exist(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path)
    wanted = request(4, topic_id=topic_id, max_wait_ms=500)
    wanted.topics[0].partitions.append(FetchPartition(partition=7, fetch_offset=0, partition_max_bytes=100))
    waiting = whole.send(wanted, version)
    assert isinstance(waiting, asyncio.Future)
    await whole.ask(produce_request(records.batch_of_values(b"e")), 9)
    response = whole.read(await waiting, wanted, version)
    assert partition_responses(response) == [(0, [(4, b"e")]), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])]


async def test_a_fetch_of_nothing_but_partitions_that_do_not_exist_does_not_wait(tmp_path: Path) -> None:
    whole, _ = await filled(tmp_path)
    response = await whole.ask(request(0, 0, topic="gone", max_wait_ms=500), 12)
    assert partition_responses(response) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])] * 2


async def test_a_session_returns_only_what_is_new(tmp_path: Path) -> None:
    whole, topic_id = await filled(tmp_path)
    full = await whole.ask(request(4, 0, topic_id=topic_id, session_epoch=0), 17)
    assert len(partition_responses(full)) == 2
    nothing = await whole.ask(request(session_id=full.session_id, session_epoch=1), 17)
    assert (nothing.error_code, nothing.session_id, partition_responses(nothing)) == (0, full.session_id, [])
    await whole.ask(produce_request(records.batch_of_values(b"e")), 9)
    news = await whole.ask(request(session_id=full.session_id, session_epoch=2), 17)
    assert partition_responses(news) == [(0, [(4, b"e")])]
    repeated = await whole.ask(request(session_id=full.session_id, session_epoch=2), 17)
    assert repeated.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    other = await whole.ask(request(session_id=full.session_id ^ 1, session_epoch=1), 17)
    assert other.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_converted_response_keeps_little_before_it_is_sent(tmp_path: Path) -> None:
    """The broker keeps at most one chunk of 50 partitions that have a compressed first batch each."""
    chunk = 4096
    whole = await Whole(tmp_path, pybroker_down_conversion_chunk_bytes=chunk).start()
    await whole.create("t", 50, compression_type="gzip")
    for partition in range(50):
        await whole.ask(produce_request(records.batch_of_values(b"x" * 500), partition=partition), 9)
    response = await settled(whole.send(request(*[0] * 50), 3))
    assert isinstance(response, Outgoing)
    late = [part for part in response.parts if not isinstance(part, bytes | bytearray | memoryview)]
    kept = [part._lazy.kept_bytes for part in late]  # type: ignore[attr-defined]
    assert len(kept) == 50
    assert 0 < sum(kept) <= chunk
    found = partition_responses(whole.read(response, request(), 3))
    assert found == [(0, [(0, b"x" * 500)])] * 50


async def test_the_counters_of_unknown_topics_do_not_grow(tmp_path: Path) -> None:
    whole, _ = await filled(tmp_path)
    for number in range(10):
        await whole.ask(request(0, topic=f"nothing-{number}"), 4)
    assert set(whole.metrics.topics) == {"t"}
    assert whole.metrics.all_topics.failed_fetch_requests == 10


@pytest.mark.parametrize("padding", ["integer-max", "fitted"])
async def test_what_pads_a_converted_partition(tmp_path: Path, padding: str) -> None:
    """Two records of one batch shrink when converted; the rest is one message that is not all there."""
    whole = await Whole(tmp_path, pybroker_down_conversion_padding=padding).start()
    await whole.create("t")
    await whole.ask(produce_request(records.batch_of_values(b"a")), 9)
    response = await whole.ask(request(0), 3)
    data = bytes(response.responses[0].partitions[0].records)
    message_size = 12 + int.from_bytes(data[8:12])
    left = len(data) - message_size
    assert left > 12
    claimed = int.from_bytes(data[message_size + 8 : message_size + 12])
    assert claimed == (0x7FFFFFFF if padding == "integer-max" else max(left + 1, 61))
    assert data[message_size + 12 :] == bytes(left - 12)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_before_version_3_a_first_batch_is_cut_at_the_limit_after_conversion(
    tmp_path: Path, version: int, eager: bool
) -> None:
    whole = await Whole(tmp_path, pybroker_down_conversion_eager=eager).start()
    await whole.create("t")
    batch = records.batch_of_values(*[b"%03d" % n * 30 for n in range(10)])
    for _ in range(2):
        await whole.ask(produce_request(batch), 9)
    converted = down_convert(batch, to_magic=1 if version == 2 else 0, first_offset=Offset(0)).data
    assert len(converted) > len(batch)
    for limit in (1, 11, 12, 100, 500, len(batch) - 1):
        (response,) = (await whole.ask(request(0, limit=limit), version)).responses[0].partitions
        assert (response.error_code, bytes(response.records)) == (0, converted[:limit])
    (nothing,) = (await whole.ask(request(0, limit=0), version)).responses[0].partitions
    assert (nothing.error_code, bytes(nothing.records)) == (0, b"")


@pytest.mark.parametrize("version", [0, 2])
async def test_a_cut_batch_that_cannot_be_converted(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    await whole.ask(produce_request(records.batch_of_values(b"a" * 500, compression=CompressionType.ZSTD)), 9)
    assert partition_responses(await whole.ask(request(0, limit=20), version)) == [(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, [])]


@pytest.mark.parametrize("version", [4, 7, 12])
async def test_aborted_transactions_of_errors_are_an_empty_list_where_nothing_was_read(tmp_path: Path, version: int) -> None:
    whole, _ = await filled(tmp_path)
    response = await whole.ask(request(9, 0, 0), version)
    assert [(a.error_code, a.aborted_transactions) for a in response.responses[0].partitions] == [
        (ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (0, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    ]


@pytest.mark.parametrize("version", [2, 7, 17])
@pytest.mark.parametrize("is_one_topic", [True, False])
async def test_a_partition_that_is_asked_for_twice_is_returned_once_by_the_last_entry(
    tmp_path: Path, version: int, is_one_topic: bool
) -> None:
    whole, topic_id = await filled(tmp_path)
    asked = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=UNLIMITED)
        for partition, offset in ((0, 9), (1, 0), (0, 2))
    ]
    groups = [asked] if is_one_topic else [[one] for one in asked]
    topics = [FetchTopic(topic="t", topic_id=topic_id, partitions=group) for group in groups]
    for session_epoch in (-1, 0) if version >= 7 else (-1,):
        message = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=UNLIMITED, topics=topics, session_epoch=session_epoch)
        response = await whole.ask(message, version)
        assert [partition.partition_index for partition in response.responses[0].partitions] == [0, 1]
        assert partition_responses(response) == [(0, [(2, b"c"), (3, b"d")]), (0, [])]


@pytest.mark.parametrize(("last_fetched_epoch", "code"), [(-1, 0), (0, 0), (1, ErrorCode.OFFSET_OUT_OF_RANGE)])
async def test_the_leader_s_epoch_is_known_before_its_first_record(tmp_path: Path, last_fetched_epoch: int, code: int) -> None:
    whole, _ = await filled(tmp_path)
    message = request(4, 0)
    for partition in message.topics[0].partitions:
        partition.last_fetched_epoch = last_fetched_epoch
    assert partition_responses(await whole.ask(message, 12)) == [(code, []), (code, [])]


@pytest.mark.parametrize(("max_wait_ms", "left"), [((1 << 31) - 1, 0), (500, 1)])
async def test_a_fetch_that_waits_for_long_ends_with_its_connection(tmp_path: Path, max_wait_ms: int, left: int) -> None:
    whole, _ = await filled(tmp_path)
    purgatory = whole.replicas.fetch_purgatory
    sent = whole.send(request(4, max_wait_ms=max_wait_ms), 11)
    assert purgatory.delayed == 1
    sent.cancel()
    await asyncio.sleep(0)
    assert purgatory.delayed == left


async def test_a_fetch_that_waits_for_long_gets_what_comes(tmp_path: Path) -> None:
    whole, _ = await filled(tmp_path)
    sent = whole.send(request(4, max_wait_ms=(1 << 31) - 1), 11)
    await whole.ask(produce_request(records.batch_of_values(b"e")), 9)
    response = whole.read(await settled(sent), request(4), 11)
    assert bytes(response.responses[0].partitions[0].records)
