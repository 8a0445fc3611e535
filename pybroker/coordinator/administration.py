"""What administrators ask: which groups there are, what they look like, and that they go.

Source: GroupMetadataManager.listGroups, describeGroups; GroupCoordinatorShard.deleteGroups; KIP-518, KIP-848, KIP-1043.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pybroker.coordinator import offsets
from pybroker.coordinator.classic.group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.consumer.group import PROTOCOL_TYPE, ConsumerGroupState
from pybroker.coordinator.consumer.records import group_tombstones
from pybroker.coordinator.records import group_tombstone
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from pybroker.protocol.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from pybroker.coordinator.shard import GroupShard

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


def list_groups(shard: GroupShard, states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
    """The groups that pass both filters, which are in lower case; an empty one passes all."""
    listed: list[ListedGroup] = []
    if not types or CLASSIC in types:
        listed += [_listed(group.group_id, group.protocol_type or "", group.state, CLASSIC) for group in shard.groups.values()]
    if not types or CONSUMER in types:
        listed += [_listed(group.group_id, PROTOCOL_TYPE, group.state, CONSUMER) for group in shard.consumer_groups.values()]
    return [group for group in listed if not states or group.group_state.lower() in states]


def _listed(group_id: str, protocol_type: str, state: GroupState | ConsumerGroupState, kind: str) -> ListedGroup:
    return ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state.value, group_type=kind)


def describe(shard: GroupShard, group_id: str) -> DescribedGroup | None:
    """None if there is no such group. Metadata and assignments are told of a Stable group only, as otherwise they change."""
    group = shard.groups.get(group_id)
    if group is None:
        return None
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_member(group, member, is_stable=is_stable) for member in group.members.values()],
    )


def _member(group: ClassicGroup, member: ClassicMember, *, is_stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
        member_assignment=member.assignment if is_stable else b"",
    )


def delete_groups(shard: GroupShard, group_ids: Sequence[str], _now_ms: int) -> CoordinatorResult:
    """Response: a code for each group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or NONE when it is gone with its offsets."""
    result = CoordinatorResult()
    codes: dict[str, ErrorCode] = {}
    for group_id in group_ids:
        if group_id in codes:
            continue
        group = shard.groups.get(group_id)
        consumers = shard.consumer_groups.get(group_id)
        if consumers is not None and not consumers.members:
            codes[group_id] = ErrorCode.NONE
            result.records += [*offsets.tombstones_of_group(shard, group_id), *group_tombstones(consumers)]
        elif group is None and consumers is None:
            codes[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
        elif group is None or group.state is not GroupState.EMPTY:
            codes[group_id] = ErrorCode.NON_EMPTY_GROUP
        else:
            codes[group_id] = ErrorCode.NONE
            result.records += [*offsets.tombstones_of_group(shard, group_id), group_tombstone(group_id)]
    result.response = codes
    return result


def remove_empty_consumer_group(shard: GroupShard, group_id: str) -> CoordinatorResult:
    """An empty KIP-848 group gives way to a classic one, which takes over its offsets."""
    group = shard.consumer_groups.get(group_id)
    return CoordinatorResult(records=[] if group is None or group.members else group_tombstones(group))
