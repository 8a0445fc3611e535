"""The durable state of KIP-848 groups, in a form that tests can compare."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.consumer_member import partitions_of
from pybroker.model import GroupId
from testing.scenes.api.whole import Whole

DURABLE = ("epoch", "group_id", "members", "owners", "regexes", "static_members", "target_epoch", "targets", "topics")


def group_of(whole: Whole, group_id: str) -> ConsumerGroup | None:
    shards = whole.groups.runtime.shards
    return next((shard.consumer_groups[GroupId(group_id)] for shard in shards if group_id in shard.consumer_groups), None)


def state_of(group: ConsumerGroup | None) -> dict[str, Any] | None:
    if group is None:
        return None
    state: dict[str, Any] = {name: getattr(group, name) for name in DURABLE}
    return state | {name: dict(state[name]) for name in ("members", "owners", "regexes", "static_members", "targets", "topics")}


def check_subscriptions(group: ConsumerGroup) -> None:
    """Check what the group knows of its members' subscriptions against the members."""
    members = group.members.values()
    assert group.named_topics == Counter(name for member in members for name in member.topic_names)
    assert group.subscribed_regexes == Counter(member.topic_regex for member in members if member.topic_regex)
    for topic in {*group.topics, *(name for names in group.regexes.values() for name in names), "other"}:
        assert group.is_subscribed_to(topic) is any(
            topic in member.topic_names or topic in group.regexes.get(member.topic_regex or "", ()) for member in members
        )


def check_owned_once(group: ConsumerGroup) -> None:
    """Check that no partition has two owners, where a member that still has to give up a partition counts as an owner."""
    owned = [
        (partition, member.member_id)
        for member in group.members.values()
        for partition in (*partitions_of(member.assigned), *partitions_of(member.pending_revocation))
    ]
    assert len({partition for partition, _ in owned}) == len(owned), owned
    assert dict(owned) == group.owners
