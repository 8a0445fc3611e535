"""The groups and the committed offsets of one partition of `__consumer_offsets`, and how records become that state.

Source: GroupCoordinatorShard, GroupMetadataManager.replay, OffsetMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from pybroker.coordinator.committed import CommittedOffset, OffsetKey
from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.consumer_replay import REPLAYS
from pybroker.coordinator.state.pending import PendingOffsets
from pybroker.model import GenerationId
from pybroker.protocol.messages.group_records import RecordType

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord
    from pybroker.coordinator.state.group import Group
    from pybroker.model import GroupId, MemberId, ProducerId
    from pybroker.sharing.work import Pausing

TopicOffsets = dict[str, dict[int, CommittedOffset]]


@dataclass(slots=True, frozen=True, kw_only=True)
class GroupSettings:
    """The broker's settings of groups; times in ms."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int
    offset_metadata_max_bytes: int
    offsets_retention_ms: int
    may_upgrade: bool
    """Whether a classic group with members may become a KIP-848 group."""
    may_downgrade: bool
    """Whether a KIP-848 group with members may become a classic group."""
    new_member_id: Callable[[str], MemberId]
    """Makes a member id that no other member has from the name of a client or an instance."""


class GroupShard:
    """The state of one partition, without behaviour.

    Only `replay` and its siblings change offsets and whatever the log holds of groups. Classic members that join and leave are
    soft state.
    """

    __slots__ = ("_replays", "classic_groups", "consumer_groups", "offsets", "pending", "settings")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.classic_groups: dict[GroupId, ClassicGroup] = {}
        self.consumer_groups: dict[GroupId, ConsumerGroup] = {}  # of KIP-848; a name is in at most one of the two
        self.offsets: dict[GroupId, TopicOffsets] = {}
        self.pending = PendingOffsets()  # of open transactions
        self._replays: dict[int, Callable[[Any, Any], None]] = {
            RecordType.LEGACY_OFFSET_COMMIT: self._replay_offset,
            RecordType.OFFSET_COMMIT: self._replay_offset,
            RecordType.GROUP_METADATA: self._replay_group,
        }

    def find_group(self, group_id: GroupId) -> Group | None:
        """Return the group of that name, whatever its kind."""
        return self.classic_groups.get(group_id) or self.consumer_groups.get(group_id)

    def all_groups(self) -> Iterator[Group]:
        """Return the groups of all kinds."""
        return chain(self.classic_groups.values(), self.consumer_groups.values())

    def classic_group(self, group_id: GroupId) -> ClassicGroup:
        """Return the classic group of that name, and make the group if there is none."""
        group = self.classic_groups.get(group_id)
        if group is None:
            group = self.classic_groups[group_id] = ClassicGroup(group_id)
        return group

    def offset(self, group_id: GroupId, topic: str, partition: int) -> CommittedOffset | None:
        """Return what the group has committed for the partition, if anything."""
        return self.offsets.get(group_id, {}).get(topic, {}).get(partition)

    def replay(self, record: CoordinatorRecord) -> bool:
        """Apply the record to the state. Returns False for a type of record that means nothing here."""
        replay = self._replays.get(record.type_id)
        if replay is None:
            return self._replay_consumer_group(record)
        replay(record.key, record.value)
        return True

    def _replay_offset(self, key: OffsetKey, committed: CommittedOffset | None) -> None:
        group_id, topic, partition = key
        if committed is None:
            self._forget_offset(group_id, topic, partition)
            self.pending.remove(key)
        else:
            self.replay_offset(group_id, topic, partition, committed)

    def replay_offset(self, group_id: GroupId, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Replay a committed offset, as `replay` does with its record."""
        self._offsets_of(group_id, topic)[partition] = committed
        if self.pending.by_key:
            self.pending.supersede(OffsetKey(group_id, topic, partition))

    def replay_offsets(self, group_id: GroupId, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Replay the committed offsets of several partitions."""
        self._offsets_of(group_id, topic).update(offsets)
        if self.pending.by_key:
            for partition in offsets:
                self.pending.supersede(OffsetKey(group_id, topic, partition))

    def replay_pending(
        self, producer_id: ProducerId, group_id: GroupId, topic: str, offsets: Mapping[int, CommittedOffset]
    ) -> None:
        """Replay the offsets of several partitions that a producer has written in its transaction, which is open."""
        self._ensure_group(group_id)
        self.pending.put(producer_id, group_id, topic, offsets)

    def replay_marker(self, producer_id: ProducerId, *, is_commit: bool) -> Pausing[None]:
        """Replay the end of a producer's transaction: its offsets count, or are gone."""
        for counting in self.pending.end(producer_id, is_commit=is_commit):
            for (group_id, topic, partition), committed in counting:
                self._offsets_of(group_id, topic)[partition] = committed
            yield

    def _ensure_group(self, group_id: GroupId) -> None:
        """Make a simple group for an offset without a group: Empty, without a protocol."""
        if group_id not in self.classic_groups and group_id not in self.consumer_groups:
            self.classic_group(group_id)

    def _offsets_of(self, group_id: GroupId, topic: str) -> dict[int, CommittedOffset]:
        """Return the offsets of a topic by partition, to which some are added now."""
        self._ensure_group(group_id)
        topics = self.offsets.get(group_id)
        if topics is None:
            topics = self.offsets[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        return partitions

    def _forget_offset(self, group_id: GroupId, topic: str, partition: int) -> None:
        topics = self.offsets.get(group_id)
        if topics is None or (partitions := topics.get(topic)) is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
        if not topics:
            del self.offsets[group_id]

    def _replay_consumer_group(self, record: CoordinatorRecord) -> bool:
        replay = REPLAYS.get(record.type_id)
        if replay is None:
            return False
        group_id = record.key.group_id
        if record.type_id == RecordType.CONSUMER_GROUP_METADATA and record.value is None:
            has_offsets = group_id in self.offsets or self.pending.keys_of(group_id)
            if self.consumer_groups.pop(group_id, None) is not None and has_offsets:
                self.classic_group(group_id)
            return True
        group = self.consumer_groups.get(group_id)
        if group is None:
            if record.value is None:
                return True
            group = ConsumerGroup(group_id)
        replay(group, record.key, record.value)  # raises before it changes anything
        if group_id not in self.consumer_groups:
            self.consumer_groups[group_id] = group
            self.classic_groups.pop(group_id, None)  # a simple group, made by offsets that compaction has left before this record
        return True

    def _replay_group(self, key: Any, value: Any) -> None:
        if value is None:
            group = self.classic_groups.pop(key.group, None)
            if group is not None:
                group.state = GroupState.DEAD
            return
        group = ClassicGroup(
            key.group,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            generation_id=GenerationId(value.generation),
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader_id=value.leader,
            state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        )
        for member in value.members:
            group.add(
                ClassicMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout,
                    session_timeout_ms=member.session_timeout,
                    protocol_type=value.protocol_type,
                    protocols=((value.protocol or "", member.subscription),),
                    assignment=member.assignment,
                ),
                None,
            )
        group.topics = group.computed_topics()
        self.classic_groups[key.group] = group
