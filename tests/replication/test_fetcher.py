"""The requests of a follower are about what has changed, and nothing else is looked at for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.model import BrokerId, LeaderEpoch, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from pybroker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pybroker.replication import following
from pybroker.replication.fetcher.fetcher import LOOK_AGAIN_MS, Followed, ReplicaFetcher, Request

TOPIC_ID = TopicId(bytes(16))
SESSION = 7


class CountedLog:
    """A log that counts how often its end was asked for."""

    def __init__(self) -> None:
        self.end, self.log_start_offset, self.looks = 0, 0, 0
        self.room = SimpleNamespace(is_full=False)
        self.log_directory = SimpleNamespace(room=self.room)
        self.epochs = SimpleNamespace(latest_epoch=1)

    @property
    def log_end_offset(self) -> int:
        self.looks += 1
        return self.end

    def increment_log_start_offset(self, offset: int, *, high_watermark: int) -> None:
        assert offset <= high_watermark
        self.log_start_offset = offset


class Scene:
    """A fetcher of five partitions, whose first request has had a response."""

    def __init__(self) -> None:
        self.logs, self.partitions = [CountedLog() for _ in range(5)], list[Any]()
        self.fetcher = ReplicaFetcher(BrokerId(2), broker_id=BrokerId(1), broker_epoch=lambda: 1, config=BrokerConfig())
        for number, log in enumerate(self.logs):
            partition: Any = SimpleNamespace(log=log, leader_epoch=3, is_leader=False)
            self.partitions.append(partition)
            self.fetcher.add(TopicPartition("t", number), Followed(partition, TOPIC_ID, LeaderEpoch(3)))
        self.now_ms = 0
        self.first = self.respond()

    def respond(self, *partitions: PartitionData) -> Request:
        request = self.fetcher.request(self.now_ms)
        assert request is not None
        response = FetchResponse(
            session_id=SESSION, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))]
        )
        for _ in self.fetcher.handle(request, response, lambda: self.now_ms):
            pass
        return request

    def looks(self) -> list[int]:
        found = [log.looks for log in self.logs]
        for log in self.logs:
            log.looks = 0
        return found


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    def append(partition: Any, data: PartitionData, now_ms: int) -> int:
        assert isinstance(data.records, bytes)
        partition.log.end += len(data.records)
        return len(data.records)

    monkeypatch.setattr(following, "append", append)
    return Scene()


def named(request: Request) -> list[tuple[int, int]]:
    assert isinstance(request.message, FetchRequest)
    return [(one.partition, one.fetch_offset) for topic in request.message.topics for one in topic.partitions]


def forgotten(request: Request) -> list[int]:
    assert isinstance(request.message, FetchRequest)
    return [number for topic in request.message.forgotten_topics_data for number in topic.partitions]


def test_a_request_looks_at_the_partitions_of_the_last_response_only(scene: Scene) -> None:
    assert named(scene.first) == [(number, 0) for number in range(5)]
    scene.looks()
    assert named(scene.respond(PartitionData(partition_index=3, records=b"abc", high_watermark=0))) == []
    scene.looks()
    after = scene.respond(PartitionData(partition_index=2, records=b"", high_watermark=0))
    assert (named(after), scene.looks()[:3]) == ([(3, 3)], [0, 0, 1])  # the high watermark of 2 was followed
    assert (named(scene.respond()), scene.looks()) == ([], [0, 0, 0, 0, 0])


def test_a_partition_that_is_refused_is_forgotten_until_its_pause_is_over(scene: Scene) -> None:
    scene.respond(PartitionData(partition_index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert forgotten(scene.respond()) == [1]
    scene.now_ms = 999
    assert (named(last := scene.respond()), forgotten(last)) == ([], [])
    scene.now_ms = 1_000
    assert named(scene.respond()) == [(1, 0)]


def test_a_partition_that_is_removed_is_forgotten_and_one_with_another_epoch_is_named(scene: Scene) -> None:
    scene.fetcher.remove(TopicPartition("t", 0))
    partition: Any = SimpleNamespace(log=scene.logs[4], leader_epoch=4, is_leader=False)
    assert scene.fetcher.add(TopicPartition("t", 4), Followed(partition, TOPIC_ID, LeaderEpoch(4)))
    request = scene.respond()
    assert (forgotten(request), named(request)) == ([0], [(4, 0)])


def test_a_log_start_that_moves_by_itself_is_named_in_time(scene: Scene) -> None:
    scene.logs[2].log_start_offset = 1
    assert named(scene.respond()) == []
    scene.now_ms = LOOK_AGAIN_MS
    assert named(scene.respond()) == [(2, 0)]


def test_a_log_on_a_full_volume_follows_only_the_start_of_the_leaders(scene: Scene) -> None:
    log: Any = scene.logs[1]
    log.end, log.room.is_full = 9, True
    scene.partitions[1].high_watermark = 8
    scene.fetcher.look_again()
    assert forgotten(scene.respond()) == [1], "a fetch from its end would bring it into the ISR"
    for start, room in ((0, False), (4, False), (4, True)):
        asked = scene.fetcher.request(scene.now_ms)
        assert asked is not None
        assert isinstance(asked.message, ListOffsetsRequest)
        assert [one.partition_index for topic in asked.message.topics for one in topic.partitions] == [1]
        found = ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(partition_index=1, offset=start)])
        for _ in scene.fetcher.handle(asked, ListOffsetsResponse(topics=[found]), lambda: scene.now_ms):
            pass
        log.room.is_full = not room
        scene.now_ms += 1_000
        assert named(scene.respond()) == ([(1, 9)] if room else [])
    assert log.log_start_offset == 4


def test_after_a_request_without_a_response_all_are_named_again(scene: Scene) -> None:
    request = scene.fetcher.request(0)
    assert request is not None
    for _ in scene.fetcher.handle(request, None, lambda: 0):
        pass
    scene.now_ms = 1_000
    assert named(scene.respond()) == [(number, 0) for number in range(5)]
