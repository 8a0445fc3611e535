"""A KIP-848 group whose members all speak the classic protocol becomes a classic group again.

The change happens when the last member of the consumer protocol leaves, or when this member is static and joins again with the
classic protocol, if `group.consumer.migration.policy` allows it. The generation of the classic group is the epoch; its members
have their targets of that epoch. They rebalance at once, unless a static member has taken the place of its earlier self and all
members had reached the epoch: then nothing changes for any member.

Source: GroupMetadataManager.convertToClassicGroup, ClassicGroup.fromConsumerGroup; KIP-848.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.embedded_protocol import PROTOCOL_TYPE, write_assignment
from pybroker.coordinator.runtime.result import CoordinatorResult, ParkedResponse, Respond
from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.classic_records import group_record
from pybroker.coordinator.state.consumer_member import NOTHING, Assignment, ConsumerMember
from pybroker.model import NO_MEMBER_ID, GenerationId, GroupEpoch
from pybroker.protocol.messages.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from pybroker.coordinator.state.consumer_group import ConsumerGroup
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import GroupId, MemberId
    from pybroker.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


def is_due(shard: GroupShard, leaving: Collection[ConsumerMember], staying: Mapping[MemberId, ConsumerMember]) -> bool:
    """Return whether the group changes its kind when the members `leaving` leave it and the members `staying` remain."""
    return (
        bool(staying)
        and any(member.classic is None for member in leaving)
        and all(member.classic is not None for member in staying.values())
        and shard.settings.may_downgrade
        and len(staying) <= shard.settings.max_size
    )


def to_classic(
    group: ConsumerGroup,
    members: Mapping[MemberId, ConsumerMember],
    targets: Mapping[MemberId, Assignment],
    *,
    epoch: GroupEpoch,
    now_ms: int,
) -> CoordinatorResult:
    """Return the records of the change. When they are durable, `FinishDowngrade` does the rest."""
    logger.info("Group %s becomes a classic group with %d members in generation %d", group.group_id, len(members), epoch)
    classic = ClassicGroup(
        group.group_id,
        state=GroupState.STABLE,
        generation_id=GenerationId(epoch),
        protocol_type=PROTOCOL_TYPE,
        state_since_ms=now_ms,
    )
    for member in members.values():
        classic.add(_classic_member(member), None)
    classic.protocol_name = classic.elected_protocol()
    names = group.topic_names()
    assignments = {}
    for member_id, classic_member in classic.members.items():
        target = targets.get(member_id, NOTHING)
        topics = {names[topic_id]: partitions for topic_id, partitions in target.items() if topic_id in names}
        assignments[member_id] = write_assignment(topics, classic_member.metadata(classic.protocol_name))
    return CoordinatorResult(records=[*group.tombstones(), group_record(classic, assignments)])


def _classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=member.classic.protocols,
    )


@dataclass(slots=True)
class FinishDowngrade:
    """The work that follows when the records of `to_classic` are durable: it starts sessions and a rebalance.

    `joining` is the id of a member and its JoinGroup, which waits for the rebalance or gets its response at once. `is_settled`
    shows that no rebalance is needed.
    """

    shard: GroupShard
    group_id: GroupId
    members: Mapping[MemberId, ConsumerMember]
    joining: tuple[MemberId, Respond] | None = None
    is_settled: bool = False

    def __call__(self, code: ErrorCode, now_ms: int) -> CoordinatorResult:
        """Do the work, as `CoordinatorResult.on_durable`."""
        follow_up = CoordinatorResult()
        joining_id, respond = self.joining or (NO_MEMBER_ID, None)
        group = self.shard.classic_groups.get(self.group_id)
        if code or group is None:
            if respond is not None:
                follow_up.parked_responses.append(
                    ParkedResponse(respond, JoinGroupResponse(error_code=code, member_id=joining_id))
                )
            return follow_up
        for member_id, member in self.members.items():
            self._restore(follow_up, group, member, respond if member_id == joining_id and not self.is_settled else None)
        if not self.is_settled:
            rebalance.prepare(self.shard, follow_up, group, now_ms)
        elif respond is not None:
            response = rebalance.joined_response(group, group.members[joining_id])
            response.leader, response.members = "", []  # a leader would assign again, and no other member would notice
            follow_up.parked_responses.append(ParkedResponse(respond, response))
        return follow_up

    def _restore(
        self, follow_up: CoordinatorResult, group: ClassicGroup, member: ConsumerMember, respond: Respond | None
    ) -> None:
        """Restore all protocols of a member, because the log keeps only the protocol that the group uses."""
        assert member.classic is not None
        classic = group.members[member.member_id]
        group.update(
            classic,
            protocols=member.classic.protocols,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.classic.session_timeout_ms,
            respond=respond,
        )
        rebalance.restart_session(follow_up, group, classic)
