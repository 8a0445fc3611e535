"""Committed offsets: commit, fetch, delete.

A group takes a commit from a member in its generation; in a classic group the commit keeps the session of the member alive. While
the group is Empty it also takes commits from clients that are not members: an administrator, or a consumer that assigns its
partitions itself. Such a commit to a group that does not exist makes a group without a protocol, a simple group.

Offsets of a transaction are pending until its marker (`pending`). A producer may commit them without a member and generation, as
clients before KIP-447 do; then nothing but its epoch fences it.

Source: OffsetMetadataManager; ClassicGroup.validateOffsetCommit, validateOffsetDelete; KIP-447.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pybroker.coordinator import offset_loops
from pybroker.coordinator.committed import NO_TIMESTAMP, CommittedOffset, OffsetKey
from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from pybroker.coordinator.state.records import OffsetsOfTopic, PendingOffsetsOfTopic, offset_tombstone
from pybroker.model import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    GroupId,
    MemberEpoch,
    MemberId,
    TopicPartition,
)
from pybroker.protocol.error_codes import ErrorCode
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from pybroker.coordinator.state.group import Committer, GroupRequests
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.sharing.work import Pausing

NOTHING_COMMITTED: Final = CommittedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", NO_TIMESTAMP)
"""The offset that a fetch returns where nothing is committed."""

_NO_TOPICS: Final[Mapping[str, Mapping[int, CommittedOffset]]] = MappingProxyType({})

_LAST_MS: Final = 2**63 - 1  # the last time that a record can hold


class NewOffset(Protocol):
    """The offset to commit for one partition, as it is in a request.

    Outside of transactions it also has a `commit_timestamp`, which is -1, for "now", unless the client names a time (v1).
    """

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class OffsetsOfGroup(NamedTuple):
    """The offsets that a group has committed, by topic and partition: the state itself, so look at it at once, and change
    nothing.

    `unstable` has the offsets that open transactions have written, where the fetch asks for stable offsets.
    """

    group_id: GroupId
    topics: Mapping[str, Mapping[int, CommittedOffset]]
    unstable: Collection[OffsetKey]


Codes = dict[TopicPartition, ErrorCode]
Refused = dict[int, ErrorCode]
"""The errors of the partitions that are refused, by their places in the request; the others are committed."""


NewOffsets = Sequence[tuple[str, Sequence[NewOffset]]]
"""The offsets to commit, by topic."""


def commit(
    shard: GroupShard,
    requests: GroupRequests,
    committer: Committer,
    new: NewOffsets,
    *,
    retention_ms: int,
    now_ms: int,
) -> CoordinatorResult:
    """Commit offsets by topic; the response is `Refused`, or the error of all. `requests` are those of the group.

    `retention_ms` is -1 for the broker's retention; clients of v2 to v4 may ask for another.
    """
    group = shard.find_group(committer.group_id)
    if group is not None:
        code = group.check_commit(committer)
    else:  # a commit by a client that is no member makes a simple group
        code = ErrorCode.NONE if committer.generation_id < 0 else committer.unknown_group
    if code:
        return CoordinatorResult(response=code)
    limit = shard.settings.offset_metadata_max_bytes
    refused, bulks = _accept(committer, new, metadata_max_bytes=limit, retention_ms=retention_ms, now_ms=now_ms)
    result = CoordinatorResult(refused, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE, bulks=bulks)
    if committer.producer is None:
        # An offset changes nothing that decides about another, except that the first one makes a group.
        result.may_share = group is not None
        requests.note_commit(result, committer.member_id)
    else:
        result.producer = committer.producer
    return result


def _accept(
    committer: Committer, new: NewOffsets, *, metadata_max_bytes: int, retention_ms: int, now_ms: int
) -> tuple[Refused, list[OffsetsOfTopic]]:
    """Return the errors of the offsets that are refused, and the records of the others."""
    refused: Refused = {}
    bulks: list[OffsetsOfTopic] = []
    place = 0
    expire_ms = NO_TIMESTAMP if retention_ms < 0 else min(now_ms + retention_ms, _LAST_MS)
    producer, no_timestamp = committer.producer, NO_TIMESTAMP
    for topic, partitions in new:
        accepted: dict[int, CommittedOffset] | None = None
        if producer is None and expire_ms == no_timestamp:
            accepted = offset_loops.usual_offsets(CommittedOffset, partitions, now_ms)
        if accepted is None:
            accepted = {}
            for number, one in enumerate(partitions, place):
                metadata = one.committed_metadata
                if metadata and _utf16_length(metadata) > metadata_max_bytes:
                    refused[number] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    continue
                commit_ms = now_ms
                if producer is None and (named_ms := one.commit_timestamp) != no_timestamp:  # type: ignore[attr-defined]
                    commit_ms = named_ms
                accepted[one.partition_index] = CommittedOffset(
                    one.committed_offset,  # type: ignore[arg-type]  # to convert it costs a call, as the epoch's
                    one.committed_leader_epoch,  # type: ignore[arg-type]
                    metadata or "",
                    commit_ms,
                    expire_ms,
                )
        place += len(partitions)
        if accepted and producer is not None:
            bulks.append(PendingOffsetsOfTopic(committer.group_id, topic, accepted, producer.producer_id))
        elif accepted:
            bulks.append(OffsetsOfTopic(committer.group_id, topic, accepted))
    return refused, bulks


def _utf16_length(text: str) -> int:
    """Return the length as Java counts it: characters beyond the first 65,536 count twice."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def check_fetch(shard: GroupShard, group_id: GroupId, member_id: MemberId | None, member_epoch: MemberEpoch) -> ErrorCode:
    """Return NONE if the fetch is served, or what is wrong with a KIP-848 member: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH."""
    group = shard.find_group(group_id)
    return ErrorCode.NONE if group is None else group.check_fetch(member_id, member_epoch)


def offsets_of(shard: GroupShard, group_id: GroupId, *, is_stable: bool) -> OffsetsOfGroup:
    """Return what the group has committed. `is_stable` asks which offsets open transactions have written."""
    unstable = shard.pending.keys_of(group_id) if is_stable else ()
    return OffsetsOfGroup(group_id, shard.offsets.get(group_id, _NO_TOPICS), unstable)


def delete_offsets(shard: GroupShard, group_id: GroupId, unwanted: Sequence[TopicPartition], _now_ms: int) -> CoordinatorResult:
    """Delete offsets; the response is an ErrorCode for the whole request, or a code for each partition."""
    group = shard.find_group(group_id)
    if group is None:
        return CoordinatorResult(response=ErrorCode.GROUP_ID_NOT_FOUND)
    if code := group.check_offset_delete():
        return CoordinatorResult(response=code)
    result = CoordinatorResult()
    codes: Codes = {}
    for topic_partition in unwanted:
        if group.is_subscribed_to(topic_partition.topic):
            codes[topic_partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            continue
        codes[topic_partition] = ErrorCode.NONE
        if shard.offset(group_id, *topic_partition) is not None or OffsetKey(group_id, *topic_partition) in shard.pending.by_key:
            result.records.append(offset_tombstone(group_id, *topic_partition))
    result.response = codes
    return result


def tombstones_of_group(shard: GroupShard, group_id: GroupId) -> Pausing[list[CoordinatorRecord]]:
    """Return a tombstone for every offset of the group, also for those that are only pending."""
    topics = shard.offsets.get(group_id, _NO_TOPICS)
    tombstones: list[CoordinatorRecord] = []
    for topic, partitions in topics.items():
        for some in portions(tuple(partitions)):
            tombstones += [offset_tombstone(group_id, topic, partition) for partition in some]
            yield
    for keys in portions(tuple(shard.pending.keys_of(group_id))):
        tombstones += [offset_tombstone(*key) for key in keys if key.partition not in topics.get(key.topic, ())]
        yield
    return tombstones


def forget_topics(shard: GroupShard, partition_counts: Mapping[str, int], _now_ms: int) -> Pausing[CoordinatorResult]:
    """Delete the offsets of partitions that were removed, also the pending ones.

    `partition_counts` has the number of partitions that each topic still has, 0 for a topic that was deleted.
    """
    tombstones: list[CoordinatorRecord] = []
    for group_id, topics in shard.offsets.items():
        for topic in topics.keys() & partition_counts.keys():
            count = partition_counts[topic]
            for some in portions(tuple(topics[topic])):
                tombstones += [offset_tombstone(group_id, topic, partition) for partition in some if partition >= count]
                yield
        yield
    for keys in portions(tuple(shard.pending.by_key)):
        for key in keys:
            is_gone = key.partition >= partition_counts.get(key.topic, key.partition + 1)
            if is_gone and shard.offset(*key) is None:
                tombstones.append(offset_tombstone(*key))
        yield
    return CoordinatorResult(records=tombstones, is_atomic=False)
