"""A group as one request changes it: the records to write, and the group as it will be when they are replayed.

The draft does not touch the group itself, and copies nothing that has not changed.

Source: GroupMetadataManager.consumerGroupHeartbeat, TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.consumer.assignors import ASSIGNORS, Subscriber
from pybroker.coordinator.consumer.patterns.matching import match
from pybroker.coordinator.consumer.reconciliation import next_step
from pybroker.coordinator.state.consumer_member import JOIN_EPOCH, NOTHING, Assignment, ConsumerMember
from pybroker.coordinator.state.consumer_records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
    topics_record,
)
from pybroker.model import group_epoch
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord
    from pybroker.coordinator.state.consumer_group import ConsumerGroup
    from pybroker.metadata.image import ClusterImage
    from pybroker.model import MemberId
    from pybroker.sharing.work import Pausing


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupSettings:
    """The settings of a consumer group; times in ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_size: int
    assignors: tuple[str, ...]


REGEXES_MAX: Final = 1_000
"""The number of different regular expressions that members of a group subscribe with. Each of them is looked at for each topic
whose offsets are deleted or may expire, and kept with the topics that it matches.
"""


class GroupDraft:
    """A draft, which belongs to a single operation."""

    def __init__(self, group: ConsumerGroup, image: ClusterImage, now_ms: int) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.members: Mapping[MemberId, ConsumerMember] = group.members
        self.targets: Mapping[MemberId, Assignment] = group.targets
        self._regexes: Mapping[str, frozenset[str]] = group.regexes
        self._topics: Mapping[str, tuple[bytes, int]] = group.topics
        self._image = image
        self._now_ms = now_ms
        self._replaced: MemberId | None = None

    # Members

    def replace_static(self, old: ConsumerMember, member_id: MemberId) -> ConsumerMember:
        """Give a static member a new id. Returns the member, with everything that it had."""
        group_id = self.group.group_id
        member = replace(old, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        target = self.targets.get(old.member_id, NOTHING)
        self._replaced = old.member_id
        self.members = {id_: value for id_, value in self.members.items() if id_ != old.member_id} | {member_id: member}
        self.targets = {id_: value for id_, value in self.targets.items() if id_ != old.member_id} | {member_id: target}
        self.records += [
            *member_tombstones(group_id, old.member_id),
            member_record(group_id, member),
            target_record(group_id, member_id, target),
            current_record(group_id, member),
        ]
        return member

    def put(self, member: ConsumerMember) -> None:
        """Take over what a member reports about itself."""
        self.members = {**self.members, member.member_id: member}
        self.records.append(member_record(self.group.group_id, member))

    # Subscriptions

    def refresh(self, before: ConsumerMember | None, after: ConsumerMember) -> Pausing[None]:
        """Raise the epoch if the group reads other topics than before, or if its subscriptions have changed.

        Raises KafkaError for a regular expression that cannot be used.
        """
        group, image = self.group, self._image
        is_changed = before is None or (before.topic_names, before.topic_regex) != (after.topic_names, after.topic_regex)
        if not is_changed and group.image is image:
            return
        self._check_regex(after.topic_regex)
        records_before = len(self.records)
        is_changed |= yield from self._match_regexes()
        topics = yield from self._read_topics()
        if topics != self._topics:
            self._topics = topics
            self.records.append(topics_record(group.group_id, topics))
            is_changed = True
        if is_changed:
            self.epoch = group_epoch(self.epoch + 1)
            self.records.append(epoch_record(group.group_id, self.epoch))
        if len(self.records) == records_before:
            group.image = image  # the log agrees with the image

    def _check_regex(self, regex: str | None) -> None:
        subscribed = self.group.subscribed_regexes
        if regex and regex not in subscribed and len(subscribed) >= REGEXES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"The group has {len(subscribed)} different regular expressions, and may have {REGEXES_MAX}.",
            )

    def _read_topics(self) -> Pausing[dict[str, tuple[bytes, int]]]:
        """Return the topics that members read, as the image has them."""
        image_topics = self._image.topics
        names: set[str] = set()
        for some in (*(member.topic_names for member in self.members.values()), *self._regexes.values()):
            names.update(name for name in some if name in image_topics)
            yield
        topics: dict[str, tuple[bytes, int]] = {}
        for some in portions(tuple(names)):
            for name in some:
                topic = image_topics[name]
                topics[name] = bytes(topic.topic_id), len(topic.partitions)
            yield
        return topics

    def _match_regexes(self) -> Pausing[bool]:
        """Match the regular expressions again where that is necessary. Returns whether any matches other topics than before."""
        group, image = self.group, self._image
        wanted = {member.topic_regex for member in self.members.values() if member.topic_regex}
        matched: dict[str, frozenset[str]] = {}
        is_changed = False
        for regex in wanted:
            matched_before = group.regexes.get(regex)
            if matched_before is not None and group.image is image:
                matched[regex] = matched_before
                continue
            matched[regex] = yield from match(regex, image, group.image)
            if matched[regex] != matched_before:
                is_changed = True
                self.records.append(
                    regex_record(group.group_id, regex, matched[regex], revision=image.revision, now_ms=self._now_ms)
                )
            yield
        for regex in group.regexes.keys() - wanted:
            self.records.append(regex_tombstone(group.group_id, regex))
        self._regexes = matched
        return is_changed

    # Assignments

    def retarget(self, settings: ConsumerGroupSettings) -> Pausing[None]:
        """Make a new target for all members if the epoch is ahead of the target."""
        if self.epoch <= self.target_epoch:
            return
        group_id = self.group.group_id
        subscribers = yield from self._subscribers()
        counts = dict(self._topics.values())
        assignor = ASSIGNORS[self.group.assignor(self.members, settings.assignors[0])]
        targets = yield from assignor(subscribers, counts)
        for member_id, target in targets.items():
            if target != self.targets.get(member_id):
                self.records.append(target_record(group_id, member_id, target))
            yield
        self.targets = targets
        self.target_epoch = self.epoch
        self.records.append(target_epoch_record(group_id, epoch=self.epoch, now_ms=self._now_ms))

    def _subscribers(self) -> Pausing[list[Subscriber]]:
        """Return the members as assignors see them. Those that read the same topics share one set of them."""
        topics = self._topics
        shared: dict[frozenset[bytes], frozenset[bytes]] = {}
        subscribers: list[Subscriber] = []
        for member in self.members.values():
            matched = self._regexes.get(member.topic_regex or "", ())
            topic_ids = frozenset([topics[name][0] for some in (member.topic_names, matched) for name in some if name in topics])
            topic_ids = shared.setdefault(topic_ids, topic_ids)
            target = self.targets.get(member.member_id, NOTHING)
            subscribers.append(Subscriber(member.member_id, member.instance_id, topic_ids, target))
            yield
        return subscribers

    def step(self, member: ConsumerMember, owned: Callable[[], Assignment | None]) -> ConsumerMember:
        """Return the member after a step towards its target. `owned` returns what it reports to have, and is called only if the
        member has not reached its target: a member may report much, and in most heartbeats it reports nothing new.
        """
        own_ids = {None, member.member_id, self._replaced}
        target = self.targets.get(member.member_id, NOTHING)
        after = next_step(
            member,
            target,
            self.target_epoch,
            is_free=lambda partition: self.group.owners.get(partition) in own_ids,
            owned=None if member.has_reached(self.target_epoch) else owned(),
        )
        if after != member or member.member_id not in self.group.members:
            self.records.append(current_record(self.group.group_id, after))
        return after
