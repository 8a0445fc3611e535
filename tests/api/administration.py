"""A broker with a topic that administrators look at and change."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.codec import message_versions
from pybroker.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole


def versions(key: int) -> range:
    return range(message_versions(key)[1] + 1)


async def started(directory: Path, **configs: str) -> Whole:
    """Start a broker with a topic "t" of two partitions, the first of which has 5 records."""
    whole = await Whole(directory).start()
    await whole.create("t", 2, **configs)
    await produce(whole, batch_of_values(*[b"v"] * 5))
    return whole


async def produce(whole: Whole, records: bytes) -> None:
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    (topic,) = (await whole.ask(request, 9)).responses
    assert topic.partition_responses[0].error_code == 0


async def cut(whole: Whole, version: int, topic: str, **offsets: int) -> dict[int, tuple[int, int]]:
    partitions = [DeleteRecordsPartition(partition_index=int(name[1:]), offset=offset) for name, offset in offsets.items()]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1000)
    (result,) = (await whole.ask(request, version)).topics
    assert result.name == topic
    return {one.partition_index: (one.low_watermark, one.error_code) for one in result.partitions}
