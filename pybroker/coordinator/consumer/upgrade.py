"""A classic group of consumers with members becomes a KIP-848 group when the first member of the consumer protocol joins.

The generation becomes the first epoch. Each member has what the last assignment gave it, and its target is the same. The new
member raises the epoch, and the responses to heartbeats make the others join again (`classic_requests`). Requests that wait
for a generation or an assignment get REBALANCE_IN_PROGRESS at once.

Source: GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup, ConsumerGroup.fromClassicGroup; KIP-848.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.coordinator.classic.rebalance import refuse_waiting
from pybroker.coordinator.consumer import member_timers
from pybroker.coordinator.embedded_protocol import read_assignment, read_subscription
from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.consumer_member import NAMES_MAX, ClassicMetadata, ConsumerMember, assignment_of
from pybroker.coordinator.state.consumer_records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from pybroker.coordinator.state.consumer_replay import REPLAYS
from pybroker.coordinator.state.records import group_tombstone
from pybroker.model import MemberEpoch, group_epoch
from pybroker.protocol.codec import DecodeError
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
    from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember
    from pybroker.metadata.image import ClusterImage
    from pybroker.model import GroupEpoch, GroupId
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)


class Upgrade:
    """The change of a group. It does not touch the classic group before `finish`.

    Attributes:
        group: the KIP-848 group as it will be when `records` are replayed.
        records: the end of the classic group, and the members of the new group.
    """

    def __init__(self, classic: ClassicGroup) -> None:
        """Begin the change, with a new group that has no members yet."""
        self._classic = classic
        self.group = ConsumerGroup(classic.group_id)
        self.records = [group_tombstone(classic.group_id)]

    def add(self, record: CoordinatorRecord) -> None:
        """Add a record, and what it means for the new group."""
        self.records.append(record)
        REPLAYS[record.type_id](self.group, record.key, record.value)

    def finish(self, result: CoordinatorResult) -> Pausing[None]:
        """Respond to the requests that wait, and start the sessions of the new group's members.

        If the new group is not made, because its records cannot be written, these sessions do nothing.
        """
        classic, code = self._classic, ErrorCode.REBALANCE_IN_PROGRESS
        logger.info(
            "Group %s in generation %d becomes a consumer group with %d members of the classic protocol",
            *(classic.group_id, classic.generation_id, len(classic.members)),
        )
        for classic_member in classic.members.values():
            result.parked_responses += refuse_waiting(classic, classic_member, code, member_id=classic_member.member_id)
            yield
        for member in self.group.members.values():
            member_timers.restart_session(result, classic.group_id, member, member.rebalance_timeout_ms)
            yield


def upgrade(classic: ClassicGroup, image: ClusterImage, *, is_allowed: bool, max_size: int, now_ms: int) -> Pausing[Upgrade]:
    """Prepare the change. Raises KafkaError with GROUP_ID_NOT_FOUND when the group cannot change."""
    group_id = classic.group_id
    refusal = "Cannot upgrade classic group {} to consumer group because {}."
    if not is_allowed:
        raise _not_found(refusal.format(group_id, "online upgrade is disabled"))
    if not classic.is_consumer_group:
        raise _not_found(refusal.format(group_id, "the group does not use the consumer embedded protocol"))
    if len(classic.members) > max_size:
        raise _not_found(refusal.format(group_id, "the group size exceeds the consumer group maximum size"))
    try:
        members = yield from _members(classic, image)
    except DecodeError as error:
        logger.info("Classic group %s cannot become a consumer group, and refuses the new member: %s", group_id, error)
        raise _not_found(refusal.format(group_id, "the embedded consumer protocol is malformed")) from error
    change = Upgrade(classic)
    for record in _records(group_id, members, group_epoch(classic.generation_id), now_ms):
        change.add(record)
        yield
    return change


def _records(group_id: GroupId, members: list[ConsumerMember], epoch: GroupEpoch, now_ms: int) -> Iterator[CoordinatorRecord]:
    """Return the records of the new group."""
    for member in members:
        yield member_record(group_id, member)
    yield epoch_record(group_id, epoch)
    for member in members:
        yield target_record(group_id, member.member_id, member.assigned)
    yield target_epoch_record(group_id, epoch=epoch, now_ms=now_ms)
    for member in members:
        yield current_record(group_id, member)


def _members(classic: ClassicGroup, image: ClusterImage) -> Pausing[list[ConsumerMember]]:
    """Return the members of the KIP-848 group. Raises DecodeError."""
    members: list[ConsumerMember] = []
    if not classic.members:
        return members
    protocol = classic.elected_protocol()
    already_owned: set[tuple[bytes, int]] = set()
    for member in classic.members.values():
        members.append(_member(member, protocol, group_epoch(classic.generation_id), image, already_owned))
        yield
    return members


def _member(
    member: ClassicMember, protocol: str, epoch: MemberEpoch, image: ClusterImage, already_owned: set[tuple[bytes, int]]
) -> ConsumerMember:
    """Return a member of the KIP-848 group. `already_owned` has what other members own, and grows by what this member owns: a
    leader may have given a partition to two members.

    A member that has no assignment, because a rebalance began again before it had any, may still own what its JoinGroup reported.
    """
    subscription = read_subscription(member.metadata(protocol), NAMES_MAX)
    owned_topics = read_assignment(member.assignment) or {
        owned_topic.topic: list(owned_topic.partitions) for owned_topic in subscription.owned_partitions
    }
    owned = {
        (bytes(topic.topic_id), partition)
        for name, partitions in owned_topics.items()
        if (topic := image.topics.get(name)) is not None
        for partition in partitions
        if 0 <= partition < len(topic.partitions)
    } - already_owned
    already_owned |= owned
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        epoch=epoch,
        previous_epoch=epoch,
        assigned=assignment_of(iter(owned)),
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def _not_found(text: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
