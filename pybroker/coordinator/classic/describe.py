"""DescribeGroups: a classic group as administrators see it.

Source: GroupMetadataManager.describeGroups, ClassicGroup.describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

if TYPE_CHECKING:
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import GroupId


def describe(shard: GroupShard, group_id: GroupId) -> DescribedGroup | None:
    """Return None if there is no such group.

    Only a Stable group shows metadata and assignments, because otherwise they change.
    """
    group = shard.classic_groups.get(group_id)
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
