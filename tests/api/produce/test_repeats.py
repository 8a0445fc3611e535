"""Produces that are like the one before on their connection are handled without decoding, with the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pybroker.model import Offset
from pybroker.network.context import ConnectionContext
from pybroker.network.state import REPEATS_LEFT
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.replication.leading import LeaderAppends
from pybroker.replication.produce_data import PartitionProduceResult
from testing.scenes.api.records import batch_of_values, message_set
from testing.scenes.api.whole import NOW_MS, Whole, frame_of, settled


def produce(value: bytes = b"value", name: str = "orders", index: int = 0, acks: int = 1) -> ProduceRequest:
    partition = PartitionProduceData(index=index, records=batch_of_values(value))
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[TopicProduceData(name=name, partition_data=[partition])])


def readable(request: ProduceRequest, version: int) -> ProduceRequest:
    """Return a request with messages of the format of its time."""
    if version < 3:
        request.topic_data[0].partition_data[0].records = message_set(b"value", magic=min(version, 1))
    return request


async def send(whole: Whole, request: Any, version: int = 7, connection: ConnectionContext | None = None) -> Any:
    frame = frame_of(request, version)
    sent = whole.dispatcher.handle(whole.connection if connection is None else connection, frame)
    return whole.read(await settled(sent), request, version)


async def result(whole: Whole, request: ProduceRequest, version: int = 7) -> tuple[int, int]:
    """Return the error code and the base offset for the only partition."""
    response = await send(whole, request, version)
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    assert (topic.name, partition.index) == (request.topic_data[0].name, request.topic_data[0].partition_data[0].index)
    return partition.error_code, partition.base_offset


async def started(directory: Path) -> Whole:
    whole = await Whole(directory).start()
    for name in ("orders", "others"):
        await whole.create(name, partitions=2)
    return whole


@contextmanager
def replaced(whole: Whole, **methods: Any) -> Iterator[None]:
    """Let the broker have other replicas, which have these methods."""
    members = {name: lambda _self, *args, _method=method, **named: _method(*args, **named) for name, method in methods.items()}
    services, before = whole.services, whole.services.replica_manager
    services.replica_manager = type("OtherReplicas", (LeaderAppends,), members)()
    try:
        yield
    finally:
        services.replica_manager = before


def uses(whole: Whole) -> int:
    kept = whole.connection.repeated
    return -1 if kept is None else kept.uses


@pytest.mark.parametrize("version", range(13))
async def test_requests_like_the_one_before_are_handled_by_their_form(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    for number in range(5):
        assert await result(whole, readable(produce(b"v" * number), version), version) == (0, number)
        assert uses(whole) == number
    assert await result(whole, readable(produce(index=1), version), version) == (0, 0)
    assert uses(whole) == 5, "another partition of the topic is no other form"
    counted = whole.metrics.requests[0]
    assert counted.requests == {version: 6}
    assert counted.errors == {"NONE": 6}


async def test_another_topic_has_a_form_of_its_own_and_other_apis_leave_it(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    await result(whole, produce())
    assert await result(whole, produce(name="others")) == (0, 0)
    kept = whole.connection.repeated
    await whole.ask(MetadataRequest(topics=None), 9)
    assert whole.connection.repeated is kept
    assert await result(whole, produce(name="others")) == (0, 1)
    assert uses(whole) == 1


async def test_a_connection_whose_requests_are_never_alike_is_left_alone(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    for number in range(2 * REPEATS_LEFT):
        assert (await result(whole, produce(name=("orders", "others")[number % 2])))[0] == 0
    assert (whole.connection.repeated, whole.connection.repeats_left) == (None, 0)
    await result(whole, produce())
    await result(whole, produce())
    assert whole.connection.repeated is None


async def test_forms_that_were_used_give_the_connection_its_tries_back(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    for number in range(4 * REPEATS_LEFT):
        assert (await result(whole, produce(name=("orders", "others")[number // 4 % 2])))[0] == 0
    assert whole.connection.repeats_left >= REPEATS_LEFT - 1
    assert whole.connection.repeated is not None


async def test_each_connection_has_its_own_form(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    other = ConnectionContext(connection_id=2)
    await result(whole, produce())
    await send(whole, produce(), connection=other)
    assert other.repeated is not None
    assert other.repeated is not whole.connection.repeated
    assert uses(whole) == 0


async def test_a_topic_that_is_deleted_meanwhile_is_unknown(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    await result(whole, produce())
    await result(whole, produce())
    await whole.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3)
    assert await result(whole, produce()) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert uses(whole) == 2
    assert await result(whole, produce(index=9)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    await whole.create("orders", partitions=1)
    assert await result(whole, produce()) == (0, 0)


async def test_a_damaged_batch_is_refused_and_counted(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    await result(whole, produce())
    damaged = produce()
    records = bytearray(batch_of_values(b"value"))
    records[-3] ^= 1
    damaged.topic_data[0].partition_data[0].records = records
    assert await result(whole, damaged) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert whole.metrics.requests[0].errors == {"NONE": 1, "CORRUPT_MESSAGE": 1}
    assert await result(whole, produce()) == (0, 1)


async def test_a_batch_of_a_transaction_is_left_to_the_general_way(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    await result(whole, produce())
    request = produce()
    records = bytearray(batch_of_values(b"value", producer_id=5, producer_epoch=0, base_sequence=0))
    records[22] |= 0x10
    request.topic_data[0].partition_data[0].records = records
    assert await result(whole, request) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
    assert uses(whole) == 0
    assert await result(whole, produce()) == (0, 1)


async def test_a_long_batch_is_left_to_the_general_way_which_appends_it_once(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    assert await result(whole, produce()) == (0, 0)
    request = produce()
    zeros = build_batch([Record(Offset(0), NOW_MS, b"", bytes(4 << 20))], compression=CompressionType.GZIP)
    request.topic_data[0].partition_data[0].records = bytes(zeros)
    assert await result(whole, request) == (0, 1)
    assert uses(whole) == 0
    assert await result(whole, produce()) == (0, 2)
    assert uses(whole) == 1


async def test_a_request_that_must_wait_is_parked(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    await result(whole, produce(acks=-1))
    assert uses(whole) == 0
    deferred: list[Any] = []

    def await_settled(*_: object, on_complete: Any, results: Any, **__: object) -> None:
        deferred.append(lambda: on_complete(results))

    unsettled = (PartitionProduceResult(ErrorCode.NONE, Offset(41)), Offset(42))
    with replaced(whole, append_one=lambda *_: unsettled, await_settled=await_settled, wake=lambda _: None):
        frame = frame_of(produce(acks=-1), 7)
        waiting = whole.dispatcher.handle(whole.connection, frame)
        assert isinstance(waiting, asyncio.Future)
        memory = frame.obj
        frame.release()
        assert isinstance(memory, bytearray)
        memory.append(0)  # raises BufferError if what waits keeps a view of the request
        deferred.pop()()
        response = whole.read(await waiting, produce(acks=-1), 7)
    assert response.responses[0].partition_responses[0].base_offset == 41
    assert uses(whole) == 1


async def test_an_exception_is_a_bug_that_is_logged_and_gets_a_response(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = await started(tmp_path)
    await result(whole, produce())

    def broken(*_: object) -> None:
        raise ZeroDivisionError("broken")

    kept = whole.connection.repeated
    with replaced(whole, append_one=broken):
        assert await result(whole, produce()) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert "Produce v7 from" in caplog.text
    assert whole.metrics.unexpected_errors == 1
    assert whole.connection.repeated is kept
    assert await result(whole, produce()) == (0, 1)
