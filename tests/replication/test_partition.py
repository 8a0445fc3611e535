"""The high watermark, and which clients may read and write."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.api.handlers.list_offsets import LATEST, look_up
from pybroker.log.leader_epoch_cache import EpochEndOffset
from pybroker.log.results import LogOffsetMetadata
from pybroker.metadata.image import PartitionImage
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.replication.fetch_data import ClientMetadata, FetchIsolation, FetchPartitionData
from pybroker.replication.partition import Partition
from pybroker.sharing.work import run_through
from testing.scenes.replication.model_log import ModelLog
from testing.scenes.replication.scene import BROKER, ReplicaScene, params, topic_id, wanted


def image(
    *, leader: int = BROKER, epoch: int = 0, replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] = (1, 2, 3)
) -> PartitionImage:
    return PartitionImage(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        replicas=tuple(map(BrokerId, replicas)),
        isr=tuple(map(BrokerId, isr)),
        partition_epoch=0,
    )


def replica(partition_image: PartitionImage, *sizes: int, high_watermark: int = 0) -> Partition:
    log = ModelLog(topic_id("t"))
    for size in sizes:
        log.add(size)
    return Partition(TopicPartition("t", 0), log, BROKER, partition_image, high_watermark)  # type: ignore[arg-type]  # a model


def at(partition: Partition, offset: int) -> LogOffsetMetadata:
    return partition.log.offset_metadata(Offset(offset))


def test_alone_in_sync_the_high_watermark_is_the_log_end() -> None:
    partition = replica(image(replicas=(1,), isr=(1,)), 10, 10)
    assert partition.high_watermark == 2
    partition.append_records_to_leader(memoryview(bytes(5)), acks=-1, now_ms=0)
    assert (partition.high_watermark, partition.high_watermark_metadata) == (3, LogOffsetMetadata(Offset(3), Offset(0), 25))
    assert partition.log.producers.high_watermark == 3  # type: ignore[attr-defined]  # the model's


def test_it_is_the_smallest_end_offset_in_sync_and_unknown_until_each_has_fetched() -> None:
    partition = replica(image(), 10, 10, 10, 10)
    assert partition.high_watermark == 0
    assert not partition.update_follower(BrokerId(2), at(partition, 3))
    assert partition.update_follower(BrokerId(3), at(partition, 2))
    assert partition.high_watermark == 2
    assert not partition.update_follower(BrokerId(2), at(partition, 4))
    assert partition.apply_image(image(isr=(1, 2))), "out of sync, 3 no longer holds back the high watermark"
    assert partition.high_watermark == 4


def test_a_new_leader_keeps_the_checkpoint_until_it_hears_from_its_followers() -> None:
    partition = replica(image(), 10, 10, 10, high_watermark=2)
    assert partition.high_watermark == 2
    partition.update_follower(BrokerId(2), at(partition, 1))
    partition.update_follower(BrokerId(3), at(partition, 1))
    assert partition.high_watermark == 2, "it never goes back"
    assert replica(image(), 10, high_watermark=99).high_watermark == 1, "nor beyond the log"


def test_ends_of_transactions_below_the_checkpoint_are_replicated_from_the_start() -> None:
    partition = replica(image(), 10, 10, high_watermark=2)
    assert partition.log.producers.high_watermark == 2  # type: ignore[attr-defined]  # the model's


def test_what_followers_reported_to_an_older_leader_epoch_is_forgotten() -> None:
    partition = replica(image(isr=(1, 2)), 10, 10)
    partition.update_follower(BrokerId(2), at(partition, 1))
    partition.apply_image(image(epoch=1, isr=(1, 2)))
    partition.log.add(10)  # type: ignore[attr-defined]
    assert not partition.apply_image(image(epoch=1, isr=(1, 2)))
    assert partition.high_watermark == 1
    assert partition.leader_epoch_start_offset == 2, "where the epoch began, not where the log ends now"


def test_below_min_insync_replicas_it_stands_still() -> None:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2, 3), isr=(1,), configs={"min.insync.replicas": "2"})
    (results,) = scene.produce("t", 10, acks=1)
    assert next(iter(results.values())).error_code == ErrorCode.NONE
    assert scene.partition("t").high_watermark == 0


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    steps=st.lists(st.tuples(st.sampled_from([2, 3]), st.integers(0, 8)), max_size=20),
    isrs=st.lists(st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3)]), min_size=1, max_size=5),
)
def test_against_the_definition(sizes: list[int], steps: list[tuple[int, int]], isrs: list[tuple[int, ...]]) -> None:
    partition = replica(image(isr=isrs[0]), *sizes)
    ends: dict[int, int] = {}
    expected = len(sizes) if isrs[0] == (1,) else 0
    for number, (follower, offset) in enumerate(steps):
        isr = isrs[number % len(isrs)]
        partition.apply_image(image(isr=isr))
        for step in ("isr", "fetch"):
            if step == "fetch":
                ends[follower] = min(offset, len(sizes))
                partition.update_follower(BrokerId(follower), at(partition, ends[follower]))
            others = [ends.get(other) for other in isr if other != BROKER]
            if None not in others:
                expected = max(expected, min([len(sizes), *(end for end in others if end is not None)]))
            assert partition.high_watermark == expected
            assert partition.high_watermark_metadata.position == sum(sizes[:expected])


def test_acks_all_is_refused_before_anything_is_written() -> None:
    scene = ReplicaScene()
    scene.topic("t", replicas=(1, 2), isr=(1,), configs={"min.insync.replicas": "2"})
    (results,) = scene.produce("t", 10, acks=-1)
    result = results[TopicPartition("t", 0)]
    assert (result.error_code, result.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert scene.log("t").log_end_offset == 0


def test_no_more_replicas_are_required_than_there_are() -> None:
    scene = ReplicaScene()
    scene.topic("t", configs={"min.insync.replicas": "3"})
    (results,) = scene.produce("t", 10, acks=-1)
    assert results[TopicPartition("t", 0)].error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("leader", "epoch", "require_leader", "expected"),
    [
        (1, -1, True, None),
        (1, 5, True, None),
        (1, 4, True, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 6, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, -1, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, -1, False, None),
        (2, 4, False, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_which_requests_are_refused(leader: int, epoch: int, require_leader: bool, expected: ErrorCode | None) -> None:
    partition = replica(image(leader=leader, epoch=5))
    assert partition.refusal(LeaderEpoch(epoch), require_leader=require_leader) == expected


def test_a_follower_does_not_take_records_from_clients() -> None:
    with pytest.raises(KafkaError) as caught:
        replica(image(leader=2)).append_records_to_leader(memoryview(b"x"), acks=1, now_ms=0)
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_reading_ends_where_the_isolation_requires() -> None:
    partition = replica(image(isr=(1, 2)), 10, 20, 30, 40)
    partition.update_follower(BrokerId(2), at(partition, 3))
    partition.log.producers.first_unstable_offset = Offset(1)  # type: ignore[misc]
    ends = {isolation: partition.end_metadata(isolation) for isolation in FetchIsolation}
    assert ends[FetchIsolation.LOG_END] == LogOffsetMetadata(Offset(4), Offset(0), 100)
    assert ends[FetchIsolation.HIGH_WATERMARK] == LogOffsetMetadata(Offset(3), Offset(0), 60)
    assert ends[FetchIsolation.TXN_COMMITTED] == LogOffsetMetadata(Offset(1), Offset(0), 10)
    for asked, size in ((params(), 60), (params(is_read_committed=True), 10), (params(replica_id=2), 100)):
        data = partition.fetch_records(asked, wanted("t", 0), bytes_max=1000, min_one_batch=True)
        assert data.records is not None
        assert data.records.size == size
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 1, 0)
        assert bool(data.aborted_transactions) == (asked.isolation is FetchIsolation.TXN_COMMITTED)


def test_the_last_offset_for_a_consumer_is_known_without_a_lookup_in_the_log() -> None:
    partition = replica(image(isr=(1, 2)), 10, 20, 30, 40)
    partition.update_follower(BrokerId(2), at(partition, 3))
    partition.log.producers.first_unstable_offset = Offset(1)  # type: ignore[misc]
    partition.leader_epoch_start_offset = Offset(0)
    partition.log.error = OSError("a lookup")  # type: ignore[attr-defined]  # of the model
    found = {isolation: run_through(look_up(partition, LATEST, isolation)).offset for isolation in FetchIsolation}
    assert found == {FetchIsolation.LOG_END: 4, FetchIsolation.HIGH_WATERMARK: 3, FetchIsolation.TXN_COMMITTED: 1}


def test_an_open_transaction_beyond_the_high_watermark_changes_nothing() -> None:
    partition = replica(image(isr=(1, 2)), 10, 20)
    partition.update_follower(BrokerId(2), at(partition, 1))
    partition.log.producers.first_unstable_offset = Offset(1)  # type: ignore[misc]
    assert partition.last_stable_offset == 1
    partition.log.producers.first_unstable_offset = None  # type: ignore[misc]
    assert partition.last_stable_offset == 1


def test_a_fetch_from_the_end_reads_no_file_and_shows_the_offsets_of_now() -> None:
    partition = replica(image(replicas=(1,), isr=(1,)), 10)

    def read() -> FetchPartitionData:
        return partition.fetch_records(params(), wanted("t", partition.high_watermark), bytes_max=1000, min_one_batch=True)

    assert (read().log_start_offset, read().high_watermark) == (0, 1)
    partition.log.log_start_offset = Offset(1)
    assert (read().log_start_offset, read().high_watermark) == (1, 1)
    partition.append_records_to_leader(memoryview(b"x"), acks=1, now_ms=0)
    assert read().high_watermark == 2
    assert partition.log.reads == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        (1, 3, None),
        (2, 5, None),
        (1, 4, EpochEndOffset(LeaderEpoch(1), Offset(3))),  # epoch 1 ended before that
        (3, 5, EpochEndOffset(LeaderEpoch(2), Offset(6))),  # there never was an epoch 3
    ],
)
def test_diverging_epochs(epoch: int, offset: int, expected: EpochEndOffset | None) -> None:
    partition = replica(image(replicas=(1,), isr=(1,)), *[10] * 6)
    partition.log.epochs = [EpochEndOffset(LeaderEpoch(1), Offset(3)), EpochEndOffset(LeaderEpoch(2), Offset(6))]  # type: ignore[assignment]
    asked = wanted("t", offset, last_fetched_epoch=epoch)
    data = partition.fetch_records(params(), asked, bytes_max=1000, min_one_batch=True)
    assert data.diverging_epoch == expected
    assert (data.records is None) == (expected is not None)
    assert partition.is_diverging(asked) == (expected is not None)


@pytest.mark.parametrize(("epoch", "offset"), [(0, 5), (2, 1)], ids=["epoch unknown", "before the log start"])
def test_a_last_epoch_of_which_nothing_is_known_is_out_of_range(epoch: int, offset: int) -> None:
    partition = replica(image(epoch=2, replicas=(1,), isr=(1,)), *[10] * 6)
    partition.log.epochs = [EpochEndOffset(LeaderEpoch(1), Offset(3)), EpochEndOffset(LeaderEpoch(2), Offset(6))]  # type: ignore[assignment]
    partition.log.log_start_offset = Offset(2)
    with pytest.raises(KafkaError) as caught:
        partition.fetch_records(params(), wanted("t", offset, last_fetched_epoch=epoch), bytes_max=1000, min_one_batch=True)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("leader", "code"), [(BROKER, ErrorCode.OFFSET_OUT_OF_RANGE), (2, ErrorCode.OFFSET_NOT_AVAILABLE)])
def test_a_follower_that_is_behind_is_no_reason_for_a_consumer_to_begin_again(leader: int, code: ErrorCode) -> None:
    partition = replica(image(leader=leader), *[10] * 3, high_watermark=3)
    consumer = dataclasses.replace(params(), client=ClientMetadata("", "client", "127.0.0.1"))
    with pytest.raises(KafkaError) as caught:
        partition.fetch_records(consumer, wanted("t", 5), bytes_max=1000, min_one_batch=True)
    assert caught.value.code == code


def test_the_log_learns_where_each_epoch_of_this_leader_begins() -> None:
    partition = replica(image(epoch=2, replicas=(1,), isr=(1,)), *[10] * 6)
    log = partition.log
    assert log.leads == [(2, 6)]  # type: ignore[attr-defined]  # the model's
    partition.append_records_to_leader(memoryview(b"x"), acks=1, now_ms=0)
    partition.apply_image(image(epoch=2, replicas=(1,), isr=(1,)))
    partition.apply_image(image(epoch=3, replicas=(1,), isr=(1,)))
    partition.apply_image(image(leader=2, epoch=4))
    assert log.leads == [(2, 6), (3, 7)]  # type: ignore[attr-defined]
    assert partition.leader_epoch_start_offset == 7
