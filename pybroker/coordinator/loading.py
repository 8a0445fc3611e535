"""The part of loading that knows groups: it replays the records of a batch, and it finishes a shard that has replayed all of
them.

Source: GroupMetadataManager.onLoaded, GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.offsets import forget_topics
from pybroker.coordinator.state.records import (
    OFFSET_PREFIX,
    from_bytes,
    offset_from_bytes,
    offset_key_from_bytes,
)
from pybroker.model import GroupId
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from collections import Counter

    from pybroker.coordinator.runtime.result import CoordinatorResult
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.log.log import Log
    from pybroker.model import ProducerId
    from pybroker.records.batch import BatchView
    from pybroker.records.entries import Entry
    from pybroker.sharing.work import Pausing


logger = logging.getLogger(__name__)


LARGE_BYTES: Final = 4_096
"""The work yields after each larger record of a group, because its members' subscriptions take up to 10 ms to read."""


def replay_batch(shard: GroupShard, batch: BatchView, some: Iterator[Entry], skipped: Counter[int]) -> Iterator[None]:
    """Replay some records of a batch, and count those of types that mean nothing here in `skipped`. Yields after a large one."""
    names: bytes | None = None
    group_id, topic = GroupId(""), ""
    for key, value in some:
        if key is None:
            continue
        if key.startswith(OFFSET_PREFIX) and value is not None:  # nearly every record
            if key[:-4] != names:  # offsets that were committed together have the same names
                group_id, topic, _ = offset_key_from_bytes(key)
                names = key[:-4]
            partition, committed = int.from_bytes(key[-4:], signed=True), offset_from_bytes(value)
            if batch.is_transactional:
                shard.replay_pending(batch.producer_id, group_id, topic, {partition: committed})
            else:
                shard.replay_offset(group_id, topic, partition, committed)
            continue
        record = from_bytes(key, value)
        if record is None or not shard.replay(record):
            skipped[int.from_bytes(key[:2])] += 1
        if value is not None and len(value) > LARGE_BYTES:
            yield


def replay_marker(shard: GroupShard, producer_id: ProducerId, is_commit: bool) -> Pausing[None]:
    """Replay the marker of a transaction."""
    return shard.replay_marker(producer_id, is_commit=is_commit)


def end_lost_transactions(log: Log, shard: GroupShard) -> Pausing[None]:
    """End the transactions whose marker is damaged, after the loading: the log itself knows that they are over.

    Without this their offsets would never be stable. They count if no transaction of the producer was aborted here.
    """
    for producer_id in shard.pending.producers():
        entry = log.producers.producers.get(producer_id)
        if entry is not None and entry.transaction_first_offset >= 0:
            continue  # it is open
        aborted = log.aborted_transactions(fetch_offset=log.log_start_offset, upper_offset=log.log_end_offset)
        is_commit = all(one.producer_id != producer_id for one in aborted)
        logger.error(
            "%s: the marker of a transaction of producer %d is damaged; its offsets %s",
            log.topic_partition,
            producer_id,
            "count, because no transaction of this producer was aborted" if is_commit else "do not count: consumers read again",
        )
        yield from shard.replay_marker(producer_id, is_commit=is_commit)
        yield


def first_operation(shard: GroupShard, partitions_of: Callable[[str], int], now_ms: int) -> Pausing[CoordinatorResult]:
    """Delete the offsets of topics that were deleted while no broker led this partition, after the loading.

    `partitions_of` returns the number of partitions of a topic, 0 if the topic does not exist.
    """
    topics: set[str] = set()
    for offsets_by_topic in shard.offsets.values():
        topics.update(offsets_by_topic)
        yield
    for some in portions(tuple(shard.pending.by_key)):
        topics.update([key.topic for key in some])
        yield
    return (yield from forget_topics(shard, {topic: partitions_of(topic) for topic in topics}, now_ms))
