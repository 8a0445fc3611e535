"""DescribeProducers shows the producers of a partition, their transactions and markers."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import NOW_MS
from tests.api.administration import produce, started
from tests.api.handlers.test_list_transactions import NONE, three


async def test_producers_are_described(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    await produce(whole, batch_of_values(b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=0))
    request = DescribeProducersRequest(
        topics=[TopicRequest(name="t", partition_indexes=[0, 1, 9]), TopicRequest(name="a/b", partition_indexes=[0])]
    )
    known, invalid = (await whole.ask(request, 0)).topics
    assert [one.error_code for one in known.partitions] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (producer,) = known.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset, producer.coordinator_epoch) == (NOW_MS + 1, -1, -1)
    assert known.partitions[1].active_producers == []
    assert invalid.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_partition_names_the_begin_of_its_open_transactions_and_the_epoch_of_the_last_marker(tmp_path: Path) -> None:
    whole, is_open = await three(tmp_path)
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])])

    async def producers() -> list[list[tuple[int, int, int, int]]]:
        response = await whole.ask(request, 0)
        return [
            [
                (one.producer_id, one.producer_epoch, one.coordinator_epoch, one.current_txn_start_offset)
                for one in partition.active_producers
            ]
            for partition in response.topics[0].partitions
        ]

    first, second = await producers()
    assert [(epoch, begin) for _, _, epoch, begin in first] == [(0, -1)]  # of the committed one, which has ended
    assert second == [(is_open.producer_id, 0, -1, 0)]
    assert await is_open.end(commit=False) == NONE
    _, second = await producers()
    assert second == [(is_open.producer_id, 0, 0, -1)]
