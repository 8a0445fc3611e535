"""The short way of a read finds what the general way finds, also while followers are behind, and for followers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pybroker.metadata.image import PartitionImage
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.error_codes import KafkaError
from pybroker.replication import reading
from pybroker.replication.fetch_data import FetchIsolation, FetchParams, FetchPartition
from pybroker.replication.partition import Partition
from pybroker.replication.partition_data import FetchPartitionData, ResponseLimit
from testing.scenes.api import records
from testing.scenes.api.whole import Whole

TOPIC = TopicPartition("t", 0)
SIZES = ((0, 1 << 20), (1, 1 << 20), (0, 300), (1, 300), (1, 10), (0, 0))
KINDS = {
    FetchIsolation.LOG_END: (BrokerId(2), None),
    FetchIsolation.HIGH_WATERMARK: (BrokerId(-1), None),
    FetchIsolation.TXN_COMMITTED: (BrokerId(-1), None),
}

pytestmark = pytest.mark.skipif(not reading.IS_NATIVE, reason="there is no short way in Python")


async def replicated(tmp_path: Path, *, values: int = 12, **configs: str) -> Partition:
    """Return the leader of three replicas in sync, of which one has two records, the other all but two."""
    whole = await Whole(tmp_path).start()
    await whole.create("t", 1, **configs)
    partition = whole.replicas.partitions[TOPIC]
    image = whole.controller.image.topics["t"].partitions[0]
    replicas = (image.leader, BrokerId(2), BrokerId(3))
    partition.apply_image(replace(image, replicas=replicas, isr=replicas, partition_epoch=image.partition_epoch + 1))
    for number in range(values):
        partition.append_records_to_leader(
            memoryview(bytearray(records.batch_of_values(b"v" * 40 * number))), -1, whole.clock.time_ms()
        )
    follow(partition, 2, values - 2)
    follow(partition, 3, 2)
    return partition


def follow(partition: Partition, replica: int, offset: int) -> None:
    partition.update_follower(BrokerId(replica), partition.log.offset_metadata(Offset(offset)))


def general(partition: Partition, wanted: FetchPartition, isolation: FetchIsolation, limit: ResponseLimit) -> Any:
    replica_id, client = KINDS[isolation]
    params = FetchParams(replica_id, 0, 1, limit.bytes_left, isolation, False, client)
    try:
        return shown(
            partition.fetch_records(params, wanted, bytes_max=limit.bytes_max(wanted), min_one_batch=limit.min_one_batch)
        )
    except KafkaError as error:
        return error.code


def shown(data: FetchPartitionData) -> Any:
    found = data.records
    read = None if found is None else (found.position, found.size)
    offsets = data.high_watermark, data.last_stable_offset, data.log_start_offset
    return data.error_code, offsets, read, data.diverging_epoch, data.fetch_offset_metadata, data.cut_batch_size


def wanted(offset: int, *, bytes_max: int = 1 << 20, epoch: int = -1, last: int = -1) -> FetchPartition:
    return FetchPartition(
        "t",
        bytes(16),  # type: ignore[arg-type]  # an id
        0,
        fetch_offset=Offset(offset),
        max_bytes=bytes_max,
        current_leader_epoch=LeaderEpoch(epoch),
        last_fetched_epoch=LeaderEpoch(last),
    )


def ways_agree(partition: Partition) -> dict[FetchIsolation, set[int]]:
    """Return the offsets at which the short way reads records, after asserting that it finds what the general way does."""
    usual: dict[FetchIsolation, set[int]] = {isolation: set() for isolation in KINDS}
    end = partition.log.log_end_offset
    epochs = (-1, partition.leader_epoch, partition.leader_epoch + 1)
    for isolation, offset, (one, size), epoch, last in itertools.product(KINDS, range(end + 3), SIZES, epochs, (-1, 0, 1, 7)):
        asked = wanted(offset, bytes_max=size, epoch=epoch, last=last)
        found = reading.read_usual(partition, asked, isolation, ResponseLimit(1 << 20, bool(one)))
        if found is not None:
            assert shown(found) == general(partition, asked, isolation, ResponseLimit(1 << 20, bool(one)))
            if found.records is not None:
                usual[isolation].add(offset)
    return usual


async def test_clients_read_natively_up_to_the_high_watermark_and_followers_up_to_the_end(tmp_path: Path) -> None:
    partition = await replicated(tmp_path)
    follow(partition, 3, 7)
    usual = ways_agree(partition)
    assert partition.high_watermark == 7
    assert usual[FetchIsolation.HIGH_WATERMARK] == set(range(7))
    assert usual[FetchIsolation.LOG_END] == set(range(12))


async def test_the_ways_agree_in_a_new_leader_epoch_and_over_several_segments(tmp_path: Path) -> None:
    partition = await replicated(tmp_path, segment_bytes="1000")
    assert len(list(partition.log.segments)) > 1
    for offset in range(3, 11):
        follow(partition, 3, offset)
        ways_agree(partition)
    image = partition_image(partition)
    partition.apply_image(replace(image, leader_epoch=LeaderEpoch(1), partition_epoch=9))
    ways_agree(partition)
    partition.append_records_to_leader(memoryview(bytearray(records.batch_of_values(b"new"))), -1, 0)
    follow(partition, 2, 12)
    follow(partition, 3, 12)
    ways_agree(partition)


def partition_image(partition: Partition) -> PartitionImage:
    return PartitionImage(
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replicas),
        isr=tuple(partition.isr),
        partition_epoch=partition.partition_epoch,
    )


async def test_records_that_wait_for_the_disk_are_not_read_by_followers(tmp_path: Path) -> None:
    partition = await replicated(tmp_path)
    log = partition.log
    log.recovery_point, log.unsettled_upto = Offset(5), log.log_end_offset
    assert ways_agree(partition)[FetchIsolation.LOG_END] == set()


async def test_an_append_of_the_leader_leaves_the_high_watermark_while_others_are_in_sync(tmp_path: Path) -> None:
    partition = await replicated(tmp_path)
    follow(partition, 2, 12)
    follow(partition, 3, 12)
    assert partition.high_watermark == 12
    partition.append_records_to_leader(memoryview(bytearray(records.batch_of_values(b"more"))), -1, 0)
    assert partition.high_watermark == 12
    image = partition_image(partition)
    partition.apply_image(replace(image, isr=(image.leader,), partition_epoch=image.partition_epoch + 1))
    assert partition.high_watermark == 13
