"""Partitions follow the image; each partition of a request gets a response of its own."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pybroker.metadata.members import BrokerRegistration
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.model import BrokerId, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.errors import RecordError, RecordValidationError
from pybroker.replication import own_partitions
from pybroker.replication.partition import Partition
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.replication.appended import append_records
from testing.scenes.replication.scene import BROKER, MIB, ReplicaScene, params, topic_id, wanted
from testing.turns import watched

if TYPE_CHECKING:
    from pybroker.replication.produce_data import PartitionProduceResult

MANY = 10_000


def test_partitions_and_logs_come_and_go_with_the_image() -> None:
    scene = ReplicaScene()
    scene.topic("t", 2)
    scene.topic("elsewhere", leader=7, replicas=(7,))
    assert set(scene.manager.partitions) == {("t", 0), ("t", 1)} == set(scene.logs.logs)
    scene.topic("t", 3)
    assert set(scene.logs.logs) == {("t", 0), ("t", 1), ("t", 2)}
    scene.remove("t")
    assert (dict(scene.manager.partitions), scene.logs.logs) == ({}, {})
    assert scene.manager.partition(TopicPartition("t", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert scene.manager.partition(TopicPartition("elsewhere", 0)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert scene.manager.partition(TopicPartition("elsewhere", 1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_step_that_removes_many_partitions_makes_and_frees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ReplicaScene()
    scene.topic("t", MANY)
    scene.topic("u")
    new, delta = scene.image.changed(revision=scene.image.revision + 1, removed_topics=["t"])
    for _ in scene.manager.prepare(new, delta):
        assert len(scene.manager.partitions) == MANY + 1, "others still see the image before"
    assert scene.manager.partition(TopicPartition("t", 0)) is scene.partition("t")
    made: list[TopicPartition] = []
    freed: list[None] = []

    class Counted(Partition):
        __slots__ = ()

        def __del__(self) -> None:
            freed.append(None)

    for partition in scene.manager.partitions.values():
        partition.__class__ = Counted
    del partition

    def counted(topic: str, number: int) -> TopicPartition:
        made.append(TopicPartition(topic, number))
        return made[-1]

    monkeypatch.setattr(own_partitions, "TopicPartition", counted)
    rest = scene.manager.follow(scene.image, new, delta)
    assert (made, freed) == ([], [])
    assert list(scene.manager.partitions) == [("u", 0)]
    assert scene.manager.partition(TopicPartition("t", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    before = 0
    for _ in rest:
        assert len(freed) - before <= 1, "none waits for others"
        before = len(freed)
    assert (before, len(scene.logs.deleted), len(scene.logs.logs)) == (MANY, MANY, 1)


def test_a_topic_made_again_has_a_new_log() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.produce("t", 10)
    scene.topic("t", identity=topic_id("t2"))
    assert scene.log("t").topic_id == topic_id("t2")
    assert scene.partition("t").high_watermark == 0


def test_new_configs_reach_the_log() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.topic("t", configs={"max.message.bytes": "77"})
    assert scene.log("t").config.max_message_bytes == 77


def test_a_partition_that_moved_away_is_removed() -> None:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2))
    scene.topic("t", leader=2, leader_epoch=1, replicas=(2,))
    assert scene.logs.deleted == [TopicPartition("t", 0)]
    assert scene.manager.partition(TopicPartition("t", 0)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_log_that_cannot_be_made_fails_the_change_and_can_be_taken_back() -> None:
    scene = ReplicaScene()
    scene.logs.failing.add(TopicPartition("t", 1))
    with pytest.raises(OSError, match="no space"):
        scene.topic("t", 2)
    scene.remove("t")
    assert scene.logs.deleted == [TopicPartition("t", 0)]
    assert dict(scene.manager.partitions) == {}


def test_a_log_that_cannot_be_made_is_an_offline_replica_in_a_cluster_which_others_may_lead() -> None:
    scene = ReplicaScene()
    brokers = {BrokerId(one): BrokerRegistration(broker_id=BrokerId(one), endpoints={}) for one in (1, 2)}
    scene.image = replace(scene.image, members=replace(scene.image.members, registered=brokers))
    given_up: list[TopicPartition] = []
    scene.manager.cluster.give_up = given_up.extend
    scene.logs.failing.add(TopicPartition("t", 0))
    with pytest.raises(OSError, match="no space"):  # which is logged
        scene.topic("t", 2, replicas=(1, 2))
    assert scene.manager.partition(TopicPartition("t", 0)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(scene.manager.partitions) == [TopicPartition("t", 1)]
    assert given_up == [TopicPartition("t", 0)]
    scene.remove("t")
    assert scene.manager.partition(TopicPartition("t", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_at_the_start_a_log_that_cannot_be_had_is_offline_and_the_others_are_served(caplog: pytest.LogCaptureFixture) -> None:
    scene = ReplicaScene()
    scene.topic("t", 2)
    scene.topic("replicated", replicas=(1, 2))
    scene.produce("replicated", 10, 10)
    scene.logs.failing.add(TopicPartition("t", 0))
    scene.logs.high_watermarks = {TopicPartition("t", 1): 7, TopicPartition("replicated", 0): 1}
    old = scene.manager
    manager = ReplicaManager(
        broker_id=BrokerId(BROKER),
        config=old._own._config,
        clock=scene.clock,
        log_manager=scene.logs,  # type: ignore[arg-type]  # a model of it
        image=scene.image,
        fetch_purgatory=old.fetch_purgatory,
        timer=scene.timer,
        metrics=BrokerMetrics(),
    )
    with caplog.at_level(logging.ERROR):
        manager.start()
    assert "t-0" in caplog.text
    assert manager.partition(TopicPartition("t", 0)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert set(manager.partitions) == {("t", 1), ("replicated", 0)}
    assert manager.offline_count == 1
    known = {tp: manager.known_high_watermark(tp) for tp in manager.partitions}
    assert known == {("t", 1): 0, ("replicated", 0): 1}, "the checkpoint's, within the log"
    assert manager.known_high_watermark(TopicPartition("t", 0)) is None


def test_each_partition_of_an_append_has_a_result_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    scene = ReplicaScene()
    for name in ("good", "full", "broken", "bad"):
        scene.topic(name)
    scene.log("full").error = OSError("no space left")
    scene.log("broken").error = RuntimeError("a bug")
    scene.log("bad").error = RecordValidationError([RecordError(3, "no key")], ErrorCode.INVALID_RECORD, count=1)
    responses: list[dict[TopicPartition, PartitionProduceResult]] = []
    names = ("good", "full", "broken", "bad", "absent", "__consumer_offsets")
    entries = {TopicPartition(name, 0): memoryview(bytes(9)) for name in names}
    with caplog.at_level(logging.ERROR):
        append_records(scene.manager, timeout_ms=1000, acks=-1, entries=entries, on_complete=responses.append)
    (results,) = responses
    assert [results[TopicPartition(name, 0)].error_code for name in names] == [
        ErrorCode.NONE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    good, bad = results[TopicPartition("good", 0)], results[TopicPartition("bad", 0)]
    assert (good.base_offset, good.log_start_offset, good.log_append_time_ms) == (0, 0, -1)
    assert (bad.base_offset, bad.log_start_offset, list(bad.record_errors)) == (-1, 0, [(3, "no key")])
    assert bad.error_message is not None
    assert "a bug" in caplog.text


def test_internal_topics_take_records_from_internal_clients() -> None:
    scene = ReplicaScene()
    scene.topic("__consumer_offsets")
    responses: list[dict[TopicPartition, PartitionProduceResult]] = []
    entries = {TopicPartition("__consumer_offsets", 0): memoryview(bytes(9))}
    append_records(
        scene.manager, timeout_ms=1000, acks=1, entries=entries, on_complete=responses.append, is_internal_allowed=True
    )
    append_records(scene.manager, timeout_ms=1000, acks=1, entries=entries, on_complete=responses.append)
    codes = [results[TopicPartition("__consumer_offsets", 0)].error_code for results in responses]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("acks", [2, -2])
def test_acks_that_do_not_exist(acks: int) -> None:
    scene = ReplicaScene()
    scene.topic("t")
    ((result,),) = (response.values() for response in scene.produce("t", 10, acks=acks))
    assert result.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert scene.log("t").log_end_offset == 0


def test_a_response_that_raises_has_woken_the_waiting_fetches() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    responses = scene.fetch(params(max_wait_ms=500), wanted("t", 0))

    def refuse(_: object) -> None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    with pytest.raises(KafkaError):
        append_records(
            scene.manager, timeout_ms=1000, acks=0, entries={TopicPartition("t", 0): memoryview(bytes(9))}, on_complete=refuse
        )
    assert len(responses) == 1


@pytest.mark.parametrize("offset", [-1, 3])
def test_outside_of_the_log_completes_at_once_and_returns_nothing_else(offset: int) -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.produce("t", 10, 10)
    (((_, data),),) = scene.fetch(params(max_wait_ms=500), wanted("t", offset))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset, data.records) == (-1, -1, -1, None)


def test_errors_of_a_fetch(caplog: pytest.LogCaptureFixture) -> None:
    scene = ReplicaScene()
    scene.topic("t", leader_epoch=3)
    scene.topic("followed", leader=2, replicas=(1, 2))
    scene.topic("broken")
    scene.log("broken").error = RuntimeError("a bug")
    scene.topic("failing")
    scene.log("failing").error = OSError("a disk")
    for name in ("broken", "failing"):
        scene.log(name).add(10)
        scene.partition(name).apply_image(scene.image.topics[name].partitions[0])
    asked = [
        wanted("absent", 0),
        wanted("t", 0, topic_id=TopicId(bytes([9] * 16))),
        wanted("t", 0, topic_id=topic_id("t")),
        wanted("t", 0, current_leader_epoch=2),
        wanted("t", 0, current_leader_epoch=4),
        wanted("t", 0, current_leader_epoch=3),
        wanted("followed", 0),
        wanted("broken", 0),
        wanted("failing", 0),
    ]
    with caplog.at_level(logging.ERROR):
        (results,) = scene.fetch(params(max_wait_ms=500), *asked)
    assert [data.error_code for _, data in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]


def test_an_offline_partition() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.manager.mark_offline(TopicPartition("t", 0))
    (((_, data),),) = scene.fetch(params(), wanted("t", 0))
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as caught:
        scene.manager.partition_or_raise(TopicPartition("t", 0))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.judges_time
def test_a_directory_that_fails_takes_very_many_partitions_offline_in_slices() -> None:
    scene = ReplicaScene()
    scene.topic("t", MANY)
    scene.topic("gone", 1)
    logs = [log for place, log in scene.logs.logs.items() if place != TopicPartition("t", 0)]
    waiting = [scene.fetch(params(max_wait_ms=1000), wanted("t", 0, partition=number)) for number in range(0, MANY, 10)]
    assert not any(waiting)
    work = scene.manager.follow_failure(logs)  # type: ignore[arg-type]  # models
    with watched() as turns:
        turns.run(next, work)
        assert 0 < scene.manager.offline_count < MANY // 100
        scene.remove("gone")
        while turns.run(next, work, "over") != "over":
            pass
    assert turns.long_texts() == []
    assert scene.manager.offline_count == MANY - 1, "t-0 is in another directory"
    (elsewhere, *responses) = waiting
    assert elsewhere == []
    assert [data.error_code for (((_, data),),) in responses] == [ErrorCode.KAFKA_STORAGE_ERROR] * len(responses)


def test_a_followers_fetch_moves_the_high_watermark_and_reads_to_the_end() -> None:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2))
    scene.produce("t", 10, 20)
    (((_, data),),) = scene.fetch(params(replica_id=2), wanted("t", 1))
    assert data.records is not None
    assert (data.records.size, scene.partition("t").high_watermark) == (20, 1)
    (((_, data),),) = scene.fetch(params(replica_id=9), wanted("t", 1))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "no replica of it"


def test_a_topic_whose_disk_failed_can_be_deleted_and_made_again() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    scene.manager.mark_offline(TopicPartition("t", 0))
    scene.topic("t", identity=topic_id("t2"))
    assert scene.partition("t").topic_id == topic_id("t2")
    assert scene.manager.offline_count == 0


def test_limits_do_not_apply_to_what_is_not_there() -> None:
    scene = ReplicaScene()
    scene.topic("t", 3)
    scene.produce("t", 10, partition=2)
    (results,) = scene.fetch(params(), *(wanted("t", 0, MIB, number) for number in range(3)))
    assert [data.records and data.records.size for _, data in results] == [None, None, 10]
