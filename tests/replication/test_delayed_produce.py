"""acks=all waits for the in-sync replicas, and no longer than it may."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pybroker.model import Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.partition import Partition
from pybroker.replication.produce_data import PartitionProduceResult, ProduceResults
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
    assert scene.manager.produce_purgatory.expirations == 1
    replicated(scene, offset=1, name="slow")
    assert len(responses) == 1, "exactly once"


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


MANY = 1_000


def wait_for(scene: ReplicaScene, offset: int, responses: list[Any], *, timeout_ms: int = 1000, acks: int = -1) -> None:
    """Wait until the partition has reached `offset`; then `responses` gets it with the error code."""
    scene.manager.await_settled(
        timeout_ms=timeout_ms,
        acks=acks,
        results={T: PartitionProduceResult()},
        unsettled={T: Offset(offset)},
        on_complete=lambda results: responses.append((offset, results[T].error_code)),
    )


def with_records(count: int) -> ReplicaScene:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2))
    replicated(scene, offset=0)
    scene.produce("t", *[9] * count, acks=1)
    return scene


def test_an_event_settles_waits_from_the_front_and_looks_at_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, responses = with_records(MANY), list[Any]()
    for number in range(MANY):
        wait_for(scene, number + 1, responses)
    looked: list[int] = []
    check = Partition.check_replicated
    monkeypatch.setattr(Partition, "check_replicated", lambda self, offset: looked.append(offset) or check(self, offset))
    scene.manager.wake(T)
    assert looked == [1]
    replicated(scene, offset=3)
    assert looked == [1, 1, 2, 3, 4]
    assert responses == [(1, ErrorCode.NONE), (2, ErrorCode.NONE), (3, ErrorCode.NONE)]
    assert scene.manager.produce_purgatory.delayed == scene.manager.produce_purgatory.watched == MANY - 3


def test_a_wait_for_a_batch_that_was_sent_twice_is_settled_with_the_first() -> None:
    scene, responses = with_records(3), list[Any]()
    for offset in (2, 3, 1, 2):
        wait_for(scene, offset, responses)
    replicated(scene, offset=1)
    assert responses == [(1, ErrorCode.NONE)]
    replicated(scene, offset=2)
    assert responses[1:] == [(2, ErrorCode.NONE), (2, ErrorCode.NONE)]
    replicated(scene, offset=3)
    assert responses[3:] == [(3, ErrorCode.NONE)]


def test_all_waits_of_a_partition_end_with_its_leadership() -> None:
    scene, responses = with_records(3), list[Any]()
    for offset in (1, 2, 3):
        wait_for(scene, offset, responses)
    scene.topic("t", leader=2, leader_epoch=1, replicas=(1, 2))
    assert responses == [(offset, ErrorCode.NOT_LEADER_OR_FOLLOWER) for offset in (1, 2, 3)]
    assert scene.manager.produce_purgatory.watchers == {}


def test_a_request_that_may_not_wait_times_out_at_once() -> None:
    scene, responses = with_records(1), list[Any]()
    wait_for(scene, 1, responses, timeout_ms=0)
    assert responses == [(1, ErrorCode.REQUEST_TIMED_OUT)]
    assert scene.manager.produce_purgatory.watchers == {}


def test_an_event_that_a_completion_causes_is_looked_at_after_it_without_a_deeper_stack() -> None:
    scene, order = with_records(MANY), list[Any]()

    def done(results: ProduceResults) -> None:
        order.append(results[T].base_offset)
        scene.manager.wake(T)  # would complete the next within this one
        order.append(results[T].base_offset)

    for number in range(MANY):
        scene.manager.await_settled(
            timeout_ms=1000,
            acks=-1,
            results={T: PartitionProduceResult(base_offset=Offset(number))},
            unsettled={T: Offset(number + 1)},
            on_complete=done,
        )
    replicated(scene, offset=MANY)
    assert order == [number for number in range(MANY) for _ in range(2)]


def test_what_is_not_settled_within_a_slice_is_settled_in_the_next_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, responses = with_records(MANY), list[Any]()
    turns: list[Any] = []
    monkeypatch.setattr(scene.timer, "slice_s", 0)
    monkeypatch.setattr(type(scene.timer), "soon", lambda _, work: turns.append(work))
    for number in range(MANY):
        wait_for(scene, number + 1, responses)
    replicated(scene, offset=MANY)
    assert 0 < len(responses) < MANY
    while turns:
        turns.pop(0)()
    assert [offset for offset, _ in responses] == list(range(1, MANY + 1))


def test_a_request_that_fails_at_its_end_keeps_none_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    scene, responses = with_records(2), list[Any]()

    def broken(_: object) -> None:
        raise ZeroDivisionError

    scene.manager.await_settled(
        timeout_ms=1000, acks=-1, results={T: PartitionProduceResult()}, unsettled={T: Offset(1)}, on_complete=broken
    )
    wait_for(scene, 2, responses)
    replicated(scene, offset=2)
    assert responses == [(2, ErrorCode.NONE)]
    assert "t-0" in caplog.text


def test_at_the_end_of_a_broker_all_that_waits_has_timed_out() -> None:
    scene, responses = with_records(2), list[Any]()
    wait_for(scene, 1, responses)
    wait_for(scene, 2, responses)
    scene.manager.produce_purgatory.complete_all()
    assert responses == [(1, ErrorCode.REQUEST_TIMED_OUT), (2, ErrorCode.REQUEST_TIMED_OUT)]
    assert scene.manager.produce_purgatory.delayed == scene.manager.produce_purgatory.watched == 0


@pytest.mark.parametrize("seed", range(20))
def test_waits_of_random_offsets_and_times_end_as_a_look_at_each_would_end_them(seed: int) -> None:
    """The model looks at every wait after every event."""
    draw = random.Random(seed)
    scene, count = with_records(40), 40
    ended: list[tuple[int, ErrorCode]] = []
    expected: list[tuple[int, ErrorCode]] = []
    model: list[tuple[int, int]] = []  # the offset and the time of each wait
    reached, now_ms = 0, 0
    purgatory = scene.manager.produce_purgatory
    for _ in range(150):
        step = draw.random()
        if step < 0.6:
            offset, timeout_ms = draw.randint(1, count), draw.randint(1, 60)
            wait_for(scene, offset, ended, timeout_ms=timeout_ms)
            model.append((offset, now_ms + timeout_ms))
        elif step < 0.8:
            now_ms += 7
            scene.pass_time(7)
        else:
            reached = min(count, reached + draw.randint(0, 3))
            replicated(scene, offset=reached)
        expected += [(offset, ErrorCode.NONE) for offset, _ in model if offset <= reached]
        model = [one for one in model if one[0] > reached]
        expected += [(offset, ErrorCode.REQUEST_TIMED_OUT) for offset, end_ms in model if end_ms <= now_ms]
        model = [one for one in model if one[1] > now_ms]
        assert sorted(ended) == sorted(expected)
        assert purgatory.delayed == purgatory.watched == len(model)
    assert {code for _, code in ended} == {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}
