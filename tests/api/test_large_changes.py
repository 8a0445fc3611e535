"""Changes of many topics and partitions give the loop back, and what other requests see between their slices."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.metadata.config_changes import ConfigChange, Edit, Operation
from pybroker.metadata.image import ConfigResource
from pybroker.metadata.more_partitions import MorePartitions
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pybroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from testing.scenes.api.whole import Whole
from testing.turns import run_watched
from testing.waiting import turned_until

COUNT = 3_000
TOPIC, BROKER = 2, 4


def creation(name: str, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])


def deletion(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])


def long_turns(tmp_path: Path, *requests: tuple[Any, int]) -> list[str]:
    """Handle the requests in turn with a broker whose loop is watched; return the long turns, without the collector's."""

    async def ask() -> None:
        whole = await Whole(tmp_path).start()
        for request, version in requests:
            sent = whole.send(request, version)
            response = whole.read(await sent if isinstance(sent, asyncio.Future) else sent, request, version)
            for field in ("topics", "responses", "results"):
                assert not any(one.error_code for one in getattr(response, field, ())), request

    return run_watched(ask).long_texts()


@pytest.mark.judges_time
def test_one_topic_of_many_partitions_gives_the_loop_back(tmp_path: Path) -> None:
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2 * COUNT, assignments=None)])
    setting = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[setting])
    alter = IncrementalAlterConfigsRequest(resources=[resource])
    requests = [(creation("t", COUNT), 7), (more, 3), (alter, 1), (deletion("t"), 6)]
    assert long_turns(tmp_path, *requests) == []


@pytest.mark.judges_time
def test_many_topics_give_the_loop_back(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(COUNT // 3)]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=3, assignments=None) for name in names])
    setting = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[setting]) for name in names]
    default = AlterableConfig(name="log.retention.ms", config_operation=0, value="70000")
    of_all = [AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[default])]
    assert (
        long_turns(
            tmp_path,
            (CreateTopicsRequest(topics=topics), 3),  # from v5 on the response has the settings of each topic
            (more, 3),
            (IncrementalAlterConfigsRequest(resources=resources), 1),
            (IncrementalAlterConfigsRequest(resources=of_all), 1),
            (deletion(*names), 6),
        )
        == []
    )


@pytest.fixture
async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Whole:
    """Start a broker that gives the loop back wherever it may."""
    monkeypatch.setattr("pybroker.sharing.work.SLICE_S", 0.0)
    return await Whole(tmp_path).start()


def logs_of(whole: Whole, topic: str) -> int:
    return sum(log.topic_partition.topic == topic for log in whole.logs.all_logs())


def served(whole: Whole, topic: str, count: int) -> list[object]:
    return [whole.replicas.partition(TopicPartition(topic, number)) for number in range(count)]


async def test_a_topic_is_unknown_until_all_its_logs_are_there(whole: Whole) -> None:
    creating = asyncio.ensure_future(whole.ask(creation("t", 50), 7))
    seen = set()
    while not creating.done():
        await asyncio.sleep(0)
        count = logs_of(whole, "t")
        is_known = "t" in whole.controller.image.topics
        assert (
            is_known
            == (TopicPartition("t", 0) in whole.replicas.partitions)
            == (TopicPartition("t", 49) in whole.replicas.partitions)
        )
        assert count == 50 or not is_known
        seen.add((count, is_known))
    assert {(25, False), (50, True)} <= seen, "other requests had their turn meanwhile"
    assert all(partition.is_leader for partition in served(whole, "t", 50))  # type: ignore[attr-defined]  # and no ErrorCode


async def test_a_deleted_topic_is_unknown_at_once_and_gone_when_the_response_is_sent(whole: Whole) -> None:
    await whole.ask(creation("t", 50), 7)
    deleting = asyncio.ensure_future(whole.ask(deletion("t"), 6))
    seen = set()
    while not deleting.done():
        await asyncio.sleep(0)
        is_known = "t" in whole.controller.image.topics
        partitions = served(whole, "t", 50)
        assert is_known == all(not isinstance(one, ErrorCode) for one in partitions)
        assert is_known or partitions == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 50
        seen.add((logs_of(whole, "t"), is_known))
    assert {(50, True), (25, False), (0, False)} <= seen


async def test_requests_at_once_are_done_in_their_order(whole: Whole) -> None:
    """A deletion in the middle of the creation, and a creation in the middle of the deletion."""
    controller = whole.controller
    creating = asyncio.ensure_future(whole.ask(creation("t", 50), 7))
    await turned_until(lambda: logs_of(whole, "t") > 0, "the first log")
    early = await whole.ask(deletion("t"), 6)
    assert [topic.error_code for topic in early.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], "it is not there yet"
    second = asyncio.ensure_future(whole.ask(creation("t", 5), 7))
    grown = asyncio.ensure_future(controller.create_partitions([MorePartitions(name="t", count=60)]))
    change = ConfigChange(resource=ConfigResource("topic", "t"), edits=[Edit("retention.ms", Operation.SET, "5000")])
    altered = asyncio.ensure_future(controller.alter_configs([change]))
    assert [topic.error_code for topic in (await creating).topics] == [0]
    deleting = asyncio.ensure_future(whole.ask(deletion("t"), 6))
    assert [topic.error_code for topic in (await second).topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]
    assert (await grown, await altered) == ([None], [None])
    (log, *_) = [log for log in whole.logs.all_logs() if log.topic_partition.topic == "t"]
    assert log.config.retention_ms == 5000
    again = asyncio.ensure_future(whole.ask(creation("t", 3), 7))
    (deleted,) = (await deleting).responses
    (created,) = (await again).topics
    assert (deleted.error_code, created.error_code) == (0, 0)
    assert deleted.topic_id != created.topic_id
    assert logs_of(whole, "t") == 3
    assert {log.topic_id for log in whole.logs.all_logs()} == {created.topic_id}


async def test_a_creation_that_fails_in_the_middle_leaves_nothing(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    create = whole.logs.create
    made: list[TopicPartition] = []

    def fail_late(topic_partition: TopicPartition, *arguments: Any, **more: Any) -> Any:
        if len(made) == 30:
            raise OSError("no room")
        made.append(topic_partition)
        return create(topic_partition, *arguments, **more)

    monkeypatch.setattr(whole.logs, "create", fail_late)
    (topic,) = (await whole.ask(creation("t", 50), 7)).topics
    assert topic.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert ("t" in whole.controller.image.topics, logs_of(whole, "t"), len(whole.replicas.partitions)) == (False, 0, 0)
    monkeypatch.undo()
    assert [one.error_code for one in (await whole.ask(creation("t", 50), 7)).topics] == [0]


async def test_a_directory_that_fails_in_the_middle_of_a_creation_takes_what_was_made_offline(whole: Whole) -> None:
    creating = asyncio.ensure_future(whole.ask(creation("t", 50), 7))
    await turned_until(lambda: logs_of(whole, "t") >= 10, "ten logs")
    whole.replicas.mark_offline(TopicPartition("t", 3))
    await creating
    assert whole.replicas.partition(TopicPartition("t", 3)) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_stop_waits_for_the_operation_that_runs(whole: Whole) -> None:
    creating = asyncio.ensure_future(whole.controller.create_topics([NewTopic(name="t", partition_count=50, configs={})]))
    await turned_until(lambda: logs_of(whole, "t") > 0, "the first log")
    await whole.controller.close()
    assert logs_of(whole, "t") == 50
    await creating
