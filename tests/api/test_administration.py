"""The small APIs of administration, each in every version that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.api.handlers import describe_producers
from pybroker.log.producers.producer_entry import ProducerBatch
from pybroker.model import ZERO_TOPIC_ID, Offset, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import alter_replica_log_dirs as move_dirs
from pybroker.protocol.messages import elect_leaders
from pybroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pybroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pybroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pybroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.messages.push_telemetry import PushTelemetryRequest
from pybroker.records.batch import batches
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import NOW_MS, Whole, settled
from testing.turns import watched

PRODUCERS = 20_000


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


@pytest.mark.parametrize("version", versions(21))
async def test_records_are_deleted(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    assert await cut(whole, version, "t", p0=3, p1=-1, p7=0) == {
        0: (3, 0),
        1: (0, 0),
        7: (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert await cut(whole, version, "t", p0=1) == {0: (3, 0)}
    assert await cut(whole, version, "t", p0=6) == {0: (-1, ErrorCode.OFFSET_OUT_OF_RANGE)}
    assert await cut(whole, version, "t", p0=-2) == {0: (-1, ErrorCode.OFFSET_OUT_OF_RANGE)}
    assert await cut(whole, version, "t", p0=-1) == {0: (5, 0)}
    assert await cut(whole, version, "nope", p0=0) == {0: (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}


async def test_records_of_compacted_and_internal_topics_stay(tmp_path: Path) -> None:
    whole = await started(tmp_path, cleanup_policy="compact")
    assert await cut(whole, 2, "t", p0=3) == {0: (-1, ErrorCode.POLICY_VIOLATION)}
    await whole.create("__consumer_offsets")
    assert await cut(whole, 2, "__consumer_offsets", p0=0) == {0: (-1, ErrorCode.INVALID_TOPIC_EXCEPTION)}


@pytest.mark.parametrize("version", versions(35))
async def test_directories_are_described(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)

    async def ask(*topics: DescribableLogDirTopic) -> Any:
        return await whole.ask(DescribeLogDirsRequest(topics=list(topics) or None), version)

    (directory,) = (await ask()).results
    assert (directory.error_code, directory.log_dir) == (0, str(tmp_path))
    ((topic),) = directory.topics
    size = (tmp_path / "t-0" / f"{0:020}.log").stat().st_size
    assert [(one.partition_index, one.partition_size, one.offset_lag) for one in topic.partitions] == [(0, size, 0), (1, 0, 0)]
    if version >= 4:
        assert 0 < directory.usable_bytes <= directory.total_bytes
    (directory,) = (await ask(DescribableLogDirTopic(topic="t", partitions=[1, 9, 1]))).results
    assert [[one.partition_index for one in topic.partitions] for topic in directory.topics] == [[1]]
    whole.logs.directories[0].fail(OSError("broken"))
    (directory,) = (await ask()).results
    assert (directory.error_code, directory.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


@pytest.mark.parametrize("version", versions(34))
async def test_replicas_stay_in_their_directory(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    topics = [move_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0, 9])]
    request = move_dirs.AlterReplicaLogDirsRequest(
        dirs=[move_dirs.AlterReplicaLogDir(path=path, topics=topics) for path in (str(tmp_path), "/nope")]
    )
    (topic,) = (await whole.ask(request, version)).results
    unknown, elsewhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_DIR_NOT_FOUND
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, 0),
        (9, unknown),
        (0, elsewhere),
        (9, elsewhere),
    ]


@pytest.mark.parametrize("version", versions(34))
async def test_replicas_move_between_directories(tmp_path: Path, version: int) -> None:
    """Assert that a moving replica is in both directories and serves fetches, and that a waiting fetch ends in the new place."""
    folders = [tmp_path / "a", tmp_path / "b"]
    whole = await Whole(tmp_path, log_dirs=tuple(map(str, folders))).start()
    turns: list[Any] = []
    whole.replicas.moves._later = turns.append
    await whole.create("t")
    await produce(whole, batch_of_values(*[b"v"] * 5))
    (source, target) = folders if (folders[0] / "t-0").is_dir() else folders[::-1]

    async def where() -> dict[str, list[tuple[int, bool]]]:
        results = (await whole.ask(DescribeLogDirsRequest(topics=None), 4)).results
        return {
            one.log_dir: [
                (partition.offset_lag, partition.is_future_key) for topic in one.topics for partition in topic.partitions
            ]
            for one in results
        }

    request = move_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            move_dirs.AlterReplicaLogDir(path=str(target), topics=[move_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])])
        ]
    )
    waiting = whole.send(fetch(5), 4)
    (topic,) = (await whole.ask(request, version)).results
    assert topic.partitions[0].error_code == 0
    assert await where() == {str(source): [(0, False)], str(target): [(5, True)]}
    while turns:
        turns.pop(0)()
    assert await where() == {str(source): [], str(target): [(0, False)]}
    await produce(whole, batch_of_values(b"w"))
    response = whole.read(await settled(waiting), fetch(5), 4)
    assert response.responses[0].partitions[0].error_code == 0
    response = await whole.ask(fetch(0), 4)
    (partition,) = response.responses[0].partitions
    assert (partition.high_watermark, partition.error_code) == (6, 0)
    assert [one.last_offset for one in batches(bytes(partition.records))] == [4, 5]


def fetch(offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(replica_id=-1, max_wait_ms=1000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])


@pytest.mark.parametrize("version", versions(43))
async def test_no_election_is_needed(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    topics = [
        elect_leaders.TopicPartitions(topic="t", partitions=[0, 9]),
        elect_leaders.TopicPartitions(topic="nope", partitions=[0]),
    ]
    response = await whole.ask(elect_leaders.ElectLeadersRequest(topic_partitions=topics), version)
    not_needed, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[one.error_code for one in topic.partition_result] for topic in response.replica_election_results] == [
        [not_needed, unknown],
        [unknown],
    ]
    response = await whole.ask(elect_leaders.ElectLeadersRequest(topic_partitions=None), version)
    assert (response.error_code, response.replica_election_results) == (0, [])
    if version >= 1:
        response = await whole.ask(elect_leaders.ElectLeadersRequest(topic_partitions=topics, election_type=5), version)
        assert response.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", versions(45))
async def test_partitions_move_to_where_they_are(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    wanted: list[tuple[int, list[int] | None]] = [(0, [1]), (0, [7]), (0, []), (0, [1, 1]), (0, None), (9, [1])]
    partitions = [ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in wanted]
    topics = [
        ReassignableTopic(name="t", partitions=partitions),
        ReassignableTopic(name="nope", partitions=partitions[:1]),
    ]
    response = await whole.ask(AlterPartitionReassignmentsRequest(topics=topics), version)
    bad, unknown = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert response.error_code == 0
    assert [[one.error_code for one in topic.partitions] for topic in response.responses] == [
        [0, bad, bad, bad, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, unknown],
        [unknown],
    ]


async def test_no_partition_is_being_moved(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    for topics in (None, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]):
        response = await whole.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (response.error_code, response.topics) == (0, [])


async def test_no_telemetry_is_wanted(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    response = await whole.ask(GetTelemetrySubscriptionsRequest(), 0)
    assert (response.error_code, response.requested_metrics) == (0, [])
    assert response.client_instance_id != ZERO_TOPIC_ID
    again = await whole.ask(GetTelemetrySubscriptionsRequest(client_instance_id=response.client_instance_id), 0)
    assert again.client_instance_id == response.client_instance_id
    pushed = await whole.ask(PushTelemetryRequest(client_instance_id=response.client_instance_id), 0)
    assert pushed.error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert (await whole.ask(PushTelemetryRequest(), 0)).error_code == ErrorCode.INVALID_REQUEST


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


@pytest.mark.judges_time
async def test_very_many_producers_are_described_in_steps(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    log = whole.logs.get(TopicPartition("t", 0))
    assert log is not None
    for number in range(PRODUCERS):
        offset = Offset(number)
        log.producers.update(
            ProducerBatch(ProducerId(number), ProducerEpoch(0), 0, offset, offset, NOW_MS, is_transactional=False)
        )
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    with watched(limit_ms=20) as turns:
        steps = describe_producers._describe(whole.services, request)
        while turns.run(next, steps, "over") is None:
            pass
    assert turns.long_texts() == []
    assert turns.count > 100
    response = await whole.ask(request, 0)
    assert [one.producer_id for one in response.topics[0].partitions[0].active_producers] == list(range(PRODUCERS))
