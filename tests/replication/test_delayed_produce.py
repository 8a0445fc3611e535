"""acks=all waits for the in-sync replicas, and no longer than it may."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.replication.appended import append_records
from testing.scenes.replication.scene import ReplicaScene, params, wanted

T = TopicPartition("t", 0)


def replicated(scene: ReplicaScene, *, offset: int, name: str = "t") -> None:
    scene.fetch(params(replica_id=2), wanted(name, offset))


def waiting() -> tuple[ReplicaScene, list[Any]]:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2), configs={"min.insync.replicas": "2"})
    replicated(scene, offset=0)
    return scene, scene.produce("t", 100, acks=-1)


def test_with_one_replica_nothing_waits() -> None:
    scene = ReplicaScene()
    scene.topic("t")
    (results,) = scene.produce("t", 100, acks=-1)
    assert (results[T].error_code, results[T].base_offset) == (ErrorCode.NONE, 0)
    assert scene.manager.produce_purgatory.delayed == 0


def test_acks_1_does_not_wait_for_followers() -> None:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2))
    (results,) = scene.produce("t", 100, acks=1)
    assert results[T].error_code == ErrorCode.NONE


def test_case_c2_the_followers_have_it() -> None:
    scene, responses = waiting()
    replicated(scene, offset=0)
    assert responses == []
    replicated(scene, offset=1)
    assert (responses[0][T].error_code, responses[0][T].base_offset) == (ErrorCode.NONE, 0)
    assert scene.manager.produce_purgatory.watched == 0


def test_case_c1_they_have_it_but_are_too_few_by_now() -> None:
    scene, responses = waiting()
    partition = scene.partition("t")
    partition.high_watermark_metadata = partition.log.end_offset_metadata  # replicated, and before anyone looked:
    scene.topic("t", replicas=(1, 2), isr=(1,), configs={"min.insync.replicas": "2"}, leader_epoch=1)
    assert responses[0][T].error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_case_a_the_topic_was_deleted() -> None:
    scene, responses = waiting()
    scene.remove("t")
    assert responses[0][T].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_case_b_another_leads() -> None:
    scene, responses = waiting()
    scene.topic("t", leader=2, leader_epoch=1, replicas=(1, 2), configs={"min.insync.replicas": "2"})
    assert responses[0][T].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_each_partition_has_its_own_result_when_the_time_comes() -> None:
    scene = ReplicaScene()
    for name in ("t", "slow", "gone"):
        scene.topic(name, replicas=(1, 2))
        replicated(scene, offset=0, name=name)
    responses: list[Any] = []
    entries = {TopicPartition(name, 0): memoryview(bytes(9)) for name in ("t", "slow", "gone", "absent")}
    append_records(scene.manager, timeout_ms=1000, acks=-1, entries=entries, on_complete=responses.append)
    replicated(scene, offset=1)
    scene.remove("gone")
    assert responses == []
    scene.pass_time(999)
    assert responses == []
    scene.pass_time(1)
    assert {tp.topic: result.error_code for tp, result in responses[0].items()} == {
        "t": ErrorCode.NONE,
        "slow": ErrorCode.REQUEST_TIMED_OUT,
        "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert scene.manager.produce_expirations == 1
    replicated(scene, offset=1, name="slow")
    assert len(responses) == 1, "exactly once"


MANY = 2_000


def test_a_request_looks_only_at_the_partition_of_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ReplicaScene()
    scene.topic("t", partitions=5, replicas=(1, 2))
    entries = {TopicPartition("t", number): memoryview(bytes(9)) for number in range(5)}
    responses: list[Any] = []
    for number in range(5):
        scene.fetch(params(replica_id=2), wanted("t", 0, partition=number))
    append_records(scene.manager, timeout_ms=1000, acks=-1, entries=entries, on_complete=responses.append)
    looked: list[TopicPartition] = []
    every = scene.manager.partition
    monkeypatch.setattr(ReplicaManager, "partition", lambda _, one: looked.append(one) or every(one))
    for number in (3, 1, 4, 0, 2):
        assert responses == []
        scene.fetch(params(replica_id=2), wanted("t", 1, partition=number))
    assert [one.partition for one in looked] == [3, 1, 4, 0, 2]
    assert {result.error_code for result in responses[0].values()} == {ErrorCode.NONE}
