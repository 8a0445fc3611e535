"""A Produce of several partitions: each has its result, at once and in slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.model import TopicPartition
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.sharing import work as sharing
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole
from testing.scenes.logs import batch
from tests.api.transactions import TID, Producer, broker


def request(acks: int, *, records: bytes | None = None, topic_id: bytes = bytes(16)) -> ProduceRequest:
    """Return a request with records for partitions 0 and 1 of `t`, for one that is not there, and without records for one."""
    data = [batch() if records is None else records] * 3
    partitions = [PartitionProduceData(index=index, records=memoryview(bytearray(one))) for index, one in enumerate(data)]
    partitions.append(PartitionProduceData(index=3, records=None))
    return ProduceRequest(
        acks=acks, timeout_ms=100, topic_data=[TopicProduceData(name="t", topic_id=topic_id, partition_data=partitions)]
    )


def codes(response: Any) -> list[int]:
    return [one.error_code for topic in response.responses for one in topic.partition_responses]


@pytest.fixture(params=[False, True], ids=["at once", "in slices"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Pause all requests of the test wherever they may be, or none."""
    if request.param:
        monkeypatch.setattr(sharing, "SLICE_S", -1.0)
    return bool(request.param)


async def started(directory: Path) -> Whole:
    whole = await Whole(directory, auto_create_topics_enable=False).start()
    await whole.create("t", partitions=2)
    return whole


@pytest.mark.usefixtures("steps")
async def test_each_partition_has_its_result(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    expected = [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_RECORD]
    assert codes(await whole.ask(request(1), 9)) == expected
    assert codes(await whole.ask(request(-1), 9)) == expected
    assert codes(await whole.ask(request(2), 9)) == [ErrorCode.INVALID_REQUIRED_ACKS] * 3 + [ErrorCode.INVALID_RECORD]
    assert codes(await whole.ask(request(1, topic_id=b"x" * 16), 13)) == [ErrorCode.UNKNOWN_TOPIC_ID] * 4
    assert [whole.replicas.partitions[TopicPartition("t", index)].log.log_end_offset for index in (0, 1)] == [2, 2]


@pytest.mark.usefixtures("steps")
async def test_a_batch_of_a_transaction_without_an_id_refuses_all(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    records = bytearray(batch())
    records[22] |= 0x10
    unauthorized = codes(await whole.ask(request(1, records=bytes(records)), 9))
    assert unauthorized == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 4


@pytest.mark.usefixtures("steps")
async def test_a_failure_without_acks_closes_the_connection(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    with pytest.raises(ProtocolViolation, match="t-2: UNKNOWN_TOPIC_OR_PARTITION"):
        await whole.ask(request(0), 9)


def of_transaction(producer: Producer) -> ProduceRequest:
    """Return a request with a batch of the producer's transaction for partitions 0 and 1 of `t` and one that is not there."""
    records = batch_of_values(
        b"v", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0, is_transactional=True
    )
    asked = request(-1, records=bytes(records))
    asked.transactional_id = TID
    return asked


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("version", [11, 12])
async def test_each_partition_of_a_transaction_has_its_result(tmp_path: Path, version: int) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, version - 10)
    await producer.init()
    first = ErrorCode.NONE
    if version < 12:
        assert await producer.add(1) == [ErrorCode.NONE]
        first = ErrorCode.TRANSACTION_ABORTABLE
    expected = [first, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_RECORD]
    assert codes(await whole.ask(of_transaction(producer), version)) == expected
    ends = [whole.replicas.partition_or_raise(TopicPartition("t", number)).log.log_end_offset for number in (0, 1)]
    assert ends == [int(not first), 1]
