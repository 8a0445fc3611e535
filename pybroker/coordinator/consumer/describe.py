"""ConsumerGroupDescribe: a KIP-848 group as administrators see it.

Source: ConsumerGroup.asDescribedGroup; KIP-848.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.model import GroupId, TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

if TYPE_CHECKING:
    from pybroker.coordinator.state.consumer_group import ConsumerGroup
    from pybroker.coordinator.state.consumer_member import Assignment as Owned
    from pybroker.coordinator.state.consumer_member import ConsumerMember
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.metadata.image import ClusterImage
    from pybroker.sharing.work import Pausing

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe(shard: GroupShard, group_id: GroupId, image: ClusterImage, default_assignor: str) -> Pausing[DescribedGroup | None]:
    """Return None if there is no such group, and yield after each member. The assignments leave out topics that were deleted."""
    group = shard.consumer_groups.get(group_id)
    if group is None:
        return None
    members: list[Member] = []
    for member in group.members.values():
        members.append(_member(group, member, image))
        yield
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor(group.members, default_assignor),
        members=members,
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(group.target(member.member_id), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(owned: Owned, image: ClusterImage) -> Assignment:
    topics: list[TopicPartitions] = []
    for topic_id, partitions in owned.items():
        topic = image.topics_by_id.get(TopicId(topic_id))
        if topic is not None:
            topics.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions)))
    return Assignment(topic_partitions=topics)
