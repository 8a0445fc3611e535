"""The record of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.coordinator.committed import NO_TIMESTAMP
from pybroker.coordinator.runtime.result import CoordinatorRecord
from pybroker.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata, RecordType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.coordinator.state.classic_group import ClassicGroup
    from pybroker.model import MemberId

_VERSION: Final = 3


def group_record(group: ClassicGroup, assignments: Mapping[MemberId, bytes]) -> CoordinatorRecord:
    """Return the record of the group in its generation, with the assignment of each member."""
    return CoordinatorRecord(
        RecordType.GROUP_METADATA,
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in group.members.values()
            ],
        ),
        _VERSION,
    )
