"""Committed offsets: commit, fetch, delete.

A commit is taken from a member of the group in its generation, which keeps its session alive, or from somebody who is no member,
while the group is Empty: an administrator, or a consumer that assigns its partitions itself. For the latter a group is made that
has no protocol, a simple one.

Source: OffsetMetadataManager; ClassicGroup.validateOffsetCommit, validateOffsetDelete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.records import NO_LEADER_EPOCH, NO_TIMESTAMP, CommittedOffset, offset_record, offset_tombstone
from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from pybroker.model import GroupId, MemberId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pybroker.coordinator.shard import GroupShard

NO_OFFSET: Final = CommittedOffset(-1, NO_LEADER_EPOCH, "", NO_TIMESTAMP)
"""How a fetch says that nothing is committed."""


class Committer(NamedTuple):
    """Who commits. `generation_id` is negative, `member_id` empty and the instance None for somebody who is no member.

    `unknown_group` is the error when a member commits to a group that is not there: it depends on the version. So does
    `knows_epochs`, whether the number may be the epoch of a KIP-848 member.
    """

    group_id: GroupId
    generation_id: int
    member_id: MemberId
    group_instance_id: str | None
    unknown_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION
    knows_epochs: bool = False


class NewOffset(NamedTuple):
    """What is to be committed for one partition. `commit_ms` is -1 for now, but for clients that say it (v1)."""

    offset: int
    leader_epoch: int
    metadata: str | None
    commit_ms: int = NO_TIMESTAMP


Codes = dict[TopicPartition, ErrorCode]


def commit(
    shard: GroupShard, committer: Committer, new: Mapping[TopicPartition, NewOffset], *, retention_ms: int, now_ms: int
) -> CoordinatorResult:
    """Response: a code for each partition. `retention_ms` is -1 for the broker's (v2 to v4 may ask for another)."""
    group = shard.find_group(committer.group_id)
    if group is not None:
        code = group.check_commit(committer)
    else:  # a commit from outside makes a simple group
        code = ErrorCode.NONE if committer.generation_id < 0 else committer.unknown_group
    if code:
        return CoordinatorResult(response=dict.fromkeys(new, code))
    result = CoordinatorResult(too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    classic = shard.classic_groups.get(committer.group_id)
    if classic is not None and (member := classic.members.get(committer.member_id)) is not None:
        rebalance.restart_session(result, classic, member)
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
    """As Java counts: characters beyond the first 65,536 are two."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def check_fetch(shard: GroupShard, group_id: GroupId, member_id: MemberId | None, member_epoch: int) -> ErrorCode:
    """Whether a fetch may be answered: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH for a KIP-848 member that is not as it says."""
    group = shard.find_group(group_id)
    return ErrorCode.NONE if group is None else group.check_fetch(member_id, member_epoch)


def fetch(shard: GroupShard, group_id: GroupId, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
    """What is committed, NO_OFFSET where nothing is."""
    topics = shard.offsets.get(group_id, {})
    return {tp: topics.get(tp.topic, {}).get(tp.partition, NO_OFFSET) for tp in wanted}


def fetch_all(shard: GroupShard, group_id: GroupId) -> dict[TopicPartition, CommittedOffset]:
    """All that is committed."""
    return {
        TopicPartition(topic, partition): committed
        for topic, partitions in shard.offsets.get(group_id, {}).items()
        for partition, committed in partitions.items()
    }


def delete_offsets(shard: GroupShard, group_id: GroupId, unwanted: Sequence[TopicPartition], _now_ms: int) -> CoordinatorResult:
    """Response: an ErrorCode for the whole, or a code for each partition."""
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
    """For every offset of the group."""
    return [offset_tombstone(group_id, *topic_partition) for topic_partition in fetch_all(shard, group_id)]


def forget_topics(shard: GroupShard, partition_counts: Mapping[str, int], _now_ms: int) -> CoordinatorResult:
    """Delete the offsets of topics that are gone; `is_gone` has the number of partitions that each still has, 0 for none."""
    records = [
        offset_tombstone(group_id, topic, partition)
        for group_id, topics in shard.offsets.items()
        for topic in topics.keys() & partition_counts.keys()
        for partition in topics[topic]
        if partition >= partition_counts[topic]
    ]
    return CoordinatorResult(records=records, is_atomic=False)
