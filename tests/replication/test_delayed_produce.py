"""acks=all waits for the in-sync replicas, and no longer than it may."""

from __future__ import annotations

from typing import Any

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.replication.setting import Setting, params, wanted

T = TopicPartition("t", 0)


def replicated(setting: Setting, *, offset: int, name: str = "t") -> None:
    setting.fetch(params(replica_id=2), wanted(name, offset))


def waiting() -> tuple[Setting, list[Any]]:
    setting = Setting()
    setting.topic("t", replicas=(1, 2), configs={"min.insync.replicas": "2"})
    replicated(setting, offset=0)
    return setting, setting.produce("t", 100, acks=-1)


def test_with_one_replica_nothing_waits() -> None:
    setting = Setting()
    setting.topic("t")
    (results,) = setting.produce("t", 100, acks=-1)
    assert (results[T].error_code, results[T].base_offset) == (ErrorCode.NONE, 0)
    assert setting.manager.produce_purgatory.delayed == 0


def test_acks_1_does_not_wait_for_followers() -> None:
    setting = Setting()
    setting.topic("t", replicas=(1, 2))
    (results,) = setting.produce("t", 100, acks=1)
    assert results[T].error_code == ErrorCode.NONE


def test_case_c2_the_followers_have_it() -> None:
    setting, answers = waiting()
    replicated(setting, offset=0)
    assert answers == []
    replicated(setting, offset=1)
    assert (answers[0][T].error_code, answers[0][T].base_offset) == (ErrorCode.NONE, 0)
    assert setting.manager.produce_purgatory.watched == 0


def test_case_c1_they_have_it_but_are_too_few_by_now() -> None:
    setting, answers = waiting()
    partition = setting.partition("t")
    partition.high_watermark_metadata = partition.log.end_offset_metadata  # replicated, and before anyone looked:
    setting.topic("t", replicas=(1, 2), isr=(1,), configs={"min.insync.replicas": "2"}, leader_epoch=1)
    assert answers[0][T].error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_case_a_the_topic_was_deleted() -> None:
    setting, answers = waiting()
    setting.remove("t")
    assert answers[0][T].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_case_b_another_leads() -> None:
    setting, answers = waiting()
    setting.topic("t", leader=2, leader_epoch=1, replicas=(1, 2), configs={"min.insync.replicas": "2"})
    assert answers[0][T].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_each_partition_has_its_own_answer_when_the_time_comes() -> None:
    setting = Setting()
    for name in ("t", "slow", "gone"):
        setting.topic(name, replicas=(1, 2))
        replicated(setting, offset=0, name=name)
    answers: list[Any] = []
    entries = {TopicPartition(name, 0): memoryview(bytes(9)) for name in ("t", "slow", "gone", "absent")}
    setting.manager.append_records(1000, -1, entries, answers.append)
    replicated(setting, offset=1)
    setting.remove("gone")
    assert answers == []
    setting.pass_time(999)
    assert answers == []
    setting.pass_time(1)
    assert {tp.topic: result.error_code for tp, result in answers[0].items()} == {
        "t": ErrorCode.NONE,
        "slow": ErrorCode.REQUEST_TIMED_OUT,
        "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert setting.manager.produce_expirations == 1
    replicated(setting, offset=1, name="slow")
    assert len(answers) == 1, "exactly once"
