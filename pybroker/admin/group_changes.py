"""Moves the committed offsets of a group, and removes groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.admin.steps import Ask, check
from pybroker.admin.topics import EARLIEST, LATEST, leaders_of, offsets_of
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps

GROUP: Final = 0


def new_offsets(topic: str, partition: int | None, *, to: int, is_time: bool) -> Steps[dict[int, int]]:
    """Return what the offsets of a topic, or of a partition, become: `to` itself, but not outside of the log; EARLIEST or LATEST
    of each; or, if `is_time`, the first offset of a record that is not before `to` ms, the end if there is none.

    Raises KafkaError.
    """
    found = yield from leaders_of(topic)
    starts = yield from offsets_of([found], EARLIEST)
    ends = yield from offsets_of([found], LATEST)
    at = (yield from offsets_of([found], to)) if is_time else {}
    result = {}
    for _, index in sorted(starts):
        if partition not in (None, index):
            continue
        start, end = starts[topic, index], ends.get((topic, index), 0)
        if is_time:
            offset = at.get((topic, index), -1)
            result[index] = end if offset < 0 else offset
        else:
            result[index] = {EARLIEST: start, LATEST: end}.get(to, min(max(to, start), end))
    check(0 if result else 3, f"the topic {topic} has no partition {partition}")
    return result


def move_group(group_id: str, topic: str, offsets: Mapping[int, int]) -> Steps[None]:
    """Commit offsets for a group that has no members. Raises KafkaError, as NON_EMPTY_GROUP."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index, offset in offsets.items()
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    request = OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics)
    response = yield Ask(request, 7, (yield from _coordinator(group_id)))
    for one in response.topics[0].partitions:
        if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            text = f"the group {group_id} has members: its offsets can be moved when it has none"
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, text)
        check(one.error_code)


def delete_group(group_id: str) -> Steps[None]:
    """Remove a group that has no members. Raises KafkaError, as NON_EMPTY_GROUP."""
    response = yield Ask(DeleteGroupsRequest(groups_names=[group_id]), 2, (yield from _coordinator(group_id)))
    (result,) = response.results
    check(result.error_code)


def _coordinator(group_id: str) -> Steps[int]:
    response = yield Ask(FindCoordinatorRequest(key=group_id, key_type=GROUP), 3)
    check(response.error_code, response.error_message)
    return int(response.node_id)
