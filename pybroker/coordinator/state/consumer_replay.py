"""The replay of the records of consumer groups: what each means for its group. A tombstone's value is None.

A member is in two records: its reports about itself, and what it has. The replay of either keeps the other half.

Source: GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator.state.consumer_member import NOTHING, Assignment, ClassicMetadata, ConsumerMember, MemberState
from pybroker.model import NO_GROUP_EPOCH, NO_MEMBER_EPOCH, MemberEpoch, group_epoch
from pybroker.protocol.messages.group_records import RecordType
from pybroker.protocol.wire import DecodeError

if TYPE_CHECKING:
    from pybroker.coordinator.state.consumer_group import ConsumerGroup


def _epoch(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.epoch = group_epoch(value.epoch)


def _topics(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.topics = {} if value is None else {t.topic_name: (bytes(t.topic_id), t.num_partitions) for t in value.topics}


def _member(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    member = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    classic_metadata = value.classic_member_metadata
    group.put(
        replace(
            member,
            classic=None
            if classic_metadata is None
            else ClassicMetadata(
                classic_metadata.session_timeout_ms,
                tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic_metadata.supported_protocols),
            ),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
        )
    )


def _current_assignment(group: ConsumerGroup, key: Any, value: Any) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(
                replace(
                    member, epoch=NO_MEMBER_EPOCH, previous_epoch=NO_MEMBER_EPOCH, assigned=NOTHING, pending_revocation=NOTHING
                )
            )
        return
    member = member or ConsumerMember(member_id=key.member_id)
    group.put(
        replace(
            member,
            epoch=MemberEpoch(value.member_epoch),
            previous_epoch=MemberEpoch(value.previous_member_epoch),
            state=_state(value.state),
            assigned=_assignment(value.assigned_partitions),
            pending_revocation=_assignment(value.partitions_pending_revocation),
        )
    )


def _target(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = _assignment(value.topic_partitions)


def _target_epoch(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.target_epoch = NO_GROUP_EPOCH if value is None else group_epoch(value.assignment_epoch)


def _regex(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = frozenset(value.topics)


def _state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError as error:
        raise DecodeError(f"a member has the unknown state {number}") from error


def _assignment(topics: Iterable[Any]) -> Assignment:
    return {bytes(topic.topic_id): frozenset(topic.partitions) for topic in topics if topic.partitions}


REPLAYS: Final[Mapping[int, Callable[[ConsumerGroup, Any, Any], None]]] = MappingProxyType(
    {
        RecordType.CONSUMER_GROUP_METADATA: _epoch,
        RecordType.CONSUMER_GROUP_PARTITION_METADATA: _topics,
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: _member,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _target_epoch,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _target,
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _current_assignment,
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _regex,
    }
)
"""The effect of each type of record on its group. The shard handles the tombstone of the epoch, which removes the group."""
