"""Produce in every version: what is stored, the response, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.model import Offset
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.scenes.api import records
from testing.scenes.api.whole import NOW_MS, Whole

MAGIC_OF = {0: 0, 1: 0, 2: 1}  # of the records that a client of the version sends; 2 from version 3 on


def sent(version: int, *values: bytes | None) -> bytes:
    if version in MAGIC_OF:
        return records.message_set(*values, magic=MAGIC_OF[version])
    return records.batch_of_values(*values)


def request(data: Any, *, acks: int = 1, name: str = "t", topic_id: bytes = bytes(16), partition: int = 0) -> ProduceRequest:
    partitions = [PartitionProduceData(index=partition, records=data)]
    topics = [TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def only(response: Any) -> Any:
    ((partition,),) = [topic.partition_responses for topic in response.responses]
    return partition


def stored(whole: Whole, topic: str = "t") -> list[tuple[int, bytes | None]]:
    (log,) = [log for log in whole.logs.all_logs() if log.topic_partition.topic == topic]
    fetched = log.read(Offset(0), bytes_max=1 << 20, upper_offset=log.log_end_offset, min_one_batch=True)
    return records.read(fetched.records.read(0, fetched.size)) if fetched.size else []  # type: ignore[union-attr]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("acks", [1, -1])
async def test_every_version_appends_and_learns_the_base_offset(tmp_path: Path, version: int, acks: int) -> None:
    whole = await Whole(tmp_path).start()
    topic_id = await whole.create("t")
    for base_offset in (0, 2):
        response = await whole.ask(request(sent(version, b"a", None), acks=acks, topic_id=topic_id), version)
        partition = only(response)
        assert (partition.error_code, partition.base_offset) == (0, base_offset)
        assert partition.log_append_time_ms == -1
        assert partition.log_start_offset == (0 if version >= 5 else -1)
    assert stored(whole) == [(0, b"a"), (1, None), (2, b"a"), (3, None)]
    assert whole.metrics.all_topics.messages_in == 4
    assert whole.metrics.topic("t").produce_message_conversions == (4 if version < 3 else 0)
    assert (whole.metrics.conversion_ns["Produce"] > 0) == (version < 3)


async def test_log_append_time_is_returned_and_stored(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t", message_timestamp_type="LogAppendTime")
    whole.clock.advance(5)
    partition = only(await whole.ask(request(records.batch_of_values(b"a")), 9))
    assert (partition.error_code, partition.log_append_time_ms) == (0, NOW_MS + 5)


async def test_acks_0_has_no_response_and_a_failure_closes_the_connection(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    assert whole.send(request(records.batch_of_values(b"a"), acks=0), 7) is None
    assert stored(whole) == [(0, b"a")]
    with pytest.raises(ProtocolViolation, match="nothing-0: UNKNOWN_TOPIC_OR_PARTITION"):
        whole.send(request(records.batch_of_values(b"a"), acks=0, name="nothing"), 7)


@pytest.mark.parametrize(
    ("version", "data", "code"),
    [
        (9, None, ErrorCode.INVALID_RECORD),
        (9, b"", ErrorCode.INVALID_RECORD),
        (3, records.message_set(b"a", magic=1), ErrorCode.INVALID_RECORD),
        (9, records.batch_of_values(b"a") * 2, ErrorCode.INVALID_RECORD),
        (9, records.batch_of_values(b"a")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (9, records.batch_of_values(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
async def test_bad_records_are_refused_and_nothing_is_stored(
    tmp_path: Path, version: int, data: bytes | None, code: ErrorCode
) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t", max_message_bytes="1000")
    partition = only(await whole.ask(request(data), version))
    assert (partition.error_code, partition.base_offset) == (code, -1)
    assert stored(whole) == []
    too_large = code is ErrorCode.MESSAGE_TOO_LARGE
    assert whole.metrics.topic("t").bytes_rejected == (len(data) if too_large and data else 0)


async def test_each_partition_fails_by_itself(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t", partitions=2)
    data = records.batch_of_values(b"a")
    topics = [
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=index, records=data) for index in (0, 2, 1)]),
        TopicProduceData(name="nothing", partition_data=[PartitionProduceData(index=0, records=data)]),
    ]
    response = await whole.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 8)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        (topic.name, [(partition.index, partition.error_code) for partition in topic.partition_responses])
        for topic in response.responses
    ] == [("t", [(0, 0), (2, unknown), (1, 0)]), ("nothing", [(0, unknown)])]


async def test_topic_ids_that_are_unknown(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    topic_id = await whole.create("t")
    data = records.batch_of_values(b"a")
    topics = [
        TopicProduceData(topic_id=one, partition_data=[PartitionProduceData(index=0, records=data)])
        for one in (b"?" * 16, topic_id, b"!" * 16)
    ]
    response = await whole.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 13)
    assert [(topic.topic_id, only_code(topic)) for topic in response.responses] == [
        (b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        (topic_id, 0),
        (b"!" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def only_code(topic: Any) -> int:
    (partition,) = topic.partition_responses
    return int(partition.error_code)


@pytest.mark.parametrize("acks", [-2, 2])
async def test_acks_that_do_not_exist(tmp_path: Path, acks: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    assert (
        only(await whole.ask(request(records.batch_of_values(b"a"), acks=acks), 7)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    )
    assert stored(whole) == []


async def test_an_idempotent_producer_s_repetition_gets_the_first_offset(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    first = records.batch_of_values(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    second = records.batch_of_values(b"c", producer_id=7, producer_epoch=0, base_sequence=2)
    late = records.batch_of_values(b"e", producer_id=7, producer_epoch=0, base_sequence=9)
    partitions = [only(await whole.ask(request(data), 9)) for data in (first, second, first, second, late)]
    assert [(partition.error_code, partition.base_offset) for partition in partitions] == [
        (0, 0),
        (0, 2),
        (0, 0),
        (0, 2),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
    ]
    assert stored(whole) == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_a_batch_of_an_unknown_transaction_is_refused(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    data = records.batch_of_values(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    message = request(data)
    message.transactional_id = "tx"
    assert only(await whole.ask(message, 9)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS  # no coordinator yet
    await whole.ask(FindCoordinatorRequest(key="tx", key_type=1), 1)
    assert only(await whole.ask(message, 9)).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert stored(whole) == []


@pytest.mark.parametrize("version", [2, 3, 9, 13])
async def test_a_transactional_batch_without_a_transactional_id_fails_the_whole_request(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    topic_id = await whole.create("t", partitions=2)
    data = records.batch_of_values(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    message = request(data, topic_id=topic_id)
    message.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=records.batch_of_values(b"a")))
    message.topic_data.append(
        TopicProduceData(
            name="?", topic_id=b"?" * 16, partition_data=[PartitionProduceData(index=0, records=records.batch_of_values(b"a"))]
        )
    )
    response = await whole.ask(message, version)
    codes = [partition.error_code for topic in response.responses for partition in topic.partition_responses]
    assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 3
    assert all(log.log_end_offset == 0 for log in whole.logs.all_logs())


async def test_internal_topics_are_unknown_until_they_exist_and_then_refused(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    data = records.batch_of_values(b"a")
    unknown = await whole.ask(request(data, name="__consumer_offsets"), 9)
    assert only(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await whole.create("__consumer_offsets")
    existing = await whole.ask(request(data, name="__consumer_offsets"), 9)
    assert only(existing).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", range(14))
async def test_the_admin_client_id_may_append_to_internal_topics(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    topic_id = await whole.create("__consumer_offsets")
    message = request(sent(version, b"a"), name="__consumer_offsets", topic_id=topic_id)
    response = whole.read(whole.send(message, version, client_id="__admin_client"), message, version)
    assert (only(response).error_code, only(response).base_offset) == (0, 0)
    assert [value for _, value in stored(whole, "__consumer_offsets")] == [b"a"]
