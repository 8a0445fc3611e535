"""Committed offsets: commit, fetch, delete.

A group takes a commit from a member in its generation; in a classic group the commit keeps the session of the member alive. While
the group is Empty it also takes commits from clients that are not members: an administrator, or a consumer that assigns its
partitions itself. Such a commit to a group that does not exist makes a group without a protocol, a simple group.

Source: OffsetMetadataManager; ClassicGroup.validateOffsetCommit, validateOffsetDelete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.coordinator.records import NO_TIMESTAMP, CommittedOffset, offset_record, offset_tombstone
from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from pybroker.model import NO_LEADER_EPOCH, NO_OFFSET, GenerationId, GroupId, LeaderEpoch, MemberEpoch, MemberId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pybroker.coordinator.group import GroupRequests
    from pybroker.coordinator.shard import GroupShard
    from pybroker.model import Offset

NOTHING_COMMITTED: Final = CommittedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", NO_TIMESTAMP)
"""The offset that a fetch returns where nothing is committed."""


class Committer(NamedTuple):
    """The client that commits. `generation_id` is negative, `member_id` empty and the instance None for a client that is no
    member.

    `unknown_group` is the error when a member commits to a group that does not exist; it depends on the version of the request.
    So does `knows_epochs`, which says whether `generation_id` may be the epoch of a KIP-848 member.
    """

    group_id: GroupId
    generation_id: GenerationId
    member_id: MemberId
    group_instance_id: str | None
    unknown_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION
    knows_epochs: bool = False


class NewOffset(NamedTuple):
    """The offset to commit for one partition. `commit_ms` is -1, for "now", unless the client names a time (v1)."""

    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str | None
    commit_ms: int = NO_TIMESTAMP


Codes = dict[TopicPartition, ErrorCode]


def commit(
    shard: GroupShard,
    requests: GroupRequests,
    committer: Committer,
    new: Mapping[TopicPartition, NewOffset],
    *,
    retention_ms: int,
    now_ms: int,
) -> CoordinatorResult:
    """Commit offsets; the response is a code for each partition. `requests` are those of the group.

    `retention_ms` is -1 for the broker's retention; clients of v2 to v4 may ask for another.
    """
    group = shard.find_group(committer.group_id)
    if group is not None:
        code = group.check_commit(committer)
    else:  # a commit by a client that is no member makes a simple group
        code = ErrorCode.NONE if committer.generation_id < 0 else committer.unknown_group
    if code:
        return CoordinatorResult(response=dict.fromkeys(new, code))
    result = CoordinatorResult(too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    requests.note_commit(result, committer.member_id)
    codes: Codes = {}
    limit = shard.settings.offset_metadata_max_bytes
    expire_ms = NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms
    for topic_partition, (offset, leader_epoch, metadata, commit_ms) in new.items():
        if metadata and _utf16_length(metadata) > limit:
            codes[topic_partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        codes[topic_partition] = ErrorCode.NONE
        since_ms = now_ms if commit_ms == NO_TIMESTAMP else commit_ms
        committed = CommittedOffset(offset, leader_epoch, metadata or "", since_ms, expire_ms)
        result.records.append(offset_record(committer.group_id, *topic_partition, committed))
    result.response = codes
    return result


def _utf16_length(text: str) -> int:
    """Return the length as Java counts it: characters beyond the first 65,536 count twice."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def check_fetch(shard: GroupShard, group_id: GroupId, member_id: MemberId | None, member_epoch: MemberEpoch) -> ErrorCode:
    """Return NONE if the fetch is served, or what is wrong with a KIP-848 member: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH."""
    group = shard.find_group(group_id)
    return ErrorCode.NONE if group is None else group.check_fetch(member_id, member_epoch)


def fetch(shard: GroupShard, group_id: GroupId, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
    """Return what is committed for the partitions `wanted`, NOTHING_COMMITTED where nothing is."""
    topics = shard.offsets.get(group_id, {})
    return {tp: topics.get(tp.topic, {}).get(tp.partition, NOTHING_COMMITTED) for tp in wanted}


def fetch_all(shard: GroupShard, group_id: GroupId) -> dict[TopicPartition, CommittedOffset]:
    """Return all committed offsets of the group."""
    return {
        TopicPartition(topic, partition): committed
        for topic, partitions in shard.offsets.get(group_id, {}).items()
        for partition, committed in partitions.items()
    }


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
        if shard.offset(group_id, *topic_partition) is not None:
            result.records.append(offset_tombstone(group_id, *topic_partition))
    result.response = codes
    return result


def tombstones_of_group(shard: GroupShard, group_id: GroupId) -> list[CoordinatorRecord]:
    """Return a tombstone for every offset of the group."""
    return [offset_tombstone(group_id, *topic_partition) for topic_partition in fetch_all(shard, group_id)]


def forget_topics(shard: GroupShard, partition_counts: Mapping[str, int], _now_ms: int) -> CoordinatorResult:
    """Delete the offsets of partitions that were removed. `partition_counts` has the number of partitions that each topic still
    has, 0 for a topic that was deleted.
    """
    records = [
        offset_tombstone(group_id, topic, partition)
        for group_id, topics in shard.offsets.items()
        for topic in topics.keys() & partition_counts.keys()
        for partition in topics[topic]
        if partition >= partition_counts[topic]
    ]
    return CoordinatorResult(records=records, is_atomic=False)
