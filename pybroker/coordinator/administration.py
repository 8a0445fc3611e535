"""Lists and deletes groups of every kind for administrators.

Source: GroupMetadataManager.listGroups; GroupCoordinatorShard.deleteGroups; KIP-518, KIP-848, KIP-1043.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pybroker.coordinator import offsets
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.classic_group import GroupState
from pybroker.coordinator.state.consumer_group import ConsumerGroupState
from pybroker.coordinator.state.group import GroupType
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import GroupId
    from pybroker.sharing.work import Pausing

STATES: Final = frozenset(state.value.lower() for state in (*GroupState, *ConsumerGroupState))
"""The states that a group may have, in lower case."""

TYPES: Final = frozenset(type_.value for type_ in GroupType)


def list_groups(shard: GroupShard, states: frozenset[str] | None, types: frozenset[str] | None) -> Iterator[ListedGroup | None]:
    """Yield the groups that pass both filters, and None for each other. The filters are in lower case; None passes
    every group. Groups may begin and end in between.
    """
    for group in tuple(shard.all_groups()):
        if (types is None or group.type.value in types) and (states is None or group.state_name.lower() in states):
            yield ListedGroup(
                group_id=group.group_id,
                protocol_type=group.listed_protocol_type,
                group_state=group.state_name,
                group_type=group.type.value,
            )
        else:
            yield None


def delete_groups(shard: GroupShard, group_ids: Sequence[GroupId], _now_ms: int) -> Pausing[CoordinatorResult]:
    """Delete groups with their offsets. The response is a code for each group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP or
    NONE.
    """
    result = CoordinatorResult()
    codes: dict[GroupId, ErrorCode] = {}
    for group_id in group_ids:
        if group_id in codes:
            continue
        group = shard.find_group(group_id)
        codes[group_id] = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
        if group is not None and not codes[group_id]:
            result.records += yield from offsets.tombstones_of_group(shard, group_id)
            result.records += group.tombstones()
    result.response = codes
    return result
