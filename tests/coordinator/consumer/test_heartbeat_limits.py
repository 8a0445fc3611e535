"""How much a ConsumerGroupHeartbeat may name, and a group may subscribe with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pybroker.coordinator.consumer.draft import REGEXES_MAX, ConsumerGroupSettings
from pybroker.coordinator.consumer.heartbeat import ConsumerHeartbeat, heartbeat
from pybroker.coordinator.consumer.heartbeat_request import PARTITIONS_MAX
from pybroker.coordinator.embedded_protocol import SUBSCRIPTION_BYTES_MAX, read_subscription
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.consumer_member import NAMES_MAX, ConsumerMember
from pybroker.coordinator.state.shard import GroupSettings, GroupShard
from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage, empty_image
from pybroker.model import BrokerId, GenerationId, GroupId, LeaderEpoch, MemberEpoch, MemberId, TopicId, group_epoch
from pybroker.protocol.codec import DecodeError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from pybroker.protocol.messages.group_records import ConsumerGroupMemberMetadataValue
from pybroker.sharing.work import Pausing, run_through
from tests.coordinator.scenario import assignment, subscription

GROUP = GroupId("g")
SETTINGS = ConsumerGroupSettings(
    session_timeout_ms=10_000, heartbeat_interval_ms=1000, max_size=100_000, assignors=("uniform", "range")
)


def image_of(topics: Mapping[str, int]) -> ClusterImage:
    """Return an image of topics with these numbers of partitions."""
    one = PartitionImage(
        leader=BrokerId(1), leader_epoch=LeaderEpoch(0), replicas=(BrokerId(1),), isr=(BrokerId(1),), partition_epoch=0
    )
    made = [
        TopicImage(name=name, topic_id=TopicId(name.encode().ljust(16)), partitions=(one,) * count, configs={})
        for name, count in topics.items()
    ]
    return empty_image(BrokerId(1)).changed(revision=1, topics=made)[0]


def shard_of(*groups: ConsumerGroup) -> GroupShard:
    shard = GroupShard(
        GroupSettings(
            min_session_timeout_ms=1, max_session_timeout_ms=60_000, initial_rebalance_delay_ms=0, max_size=100,
            offset_metadata_max_bytes=100, offsets_retention_ms=1, may_upgrade=True, may_downgrade=False,
            new_member_id=MemberId,
        )
    )  # fmt: skip
    shard.consumer_groups.update({group.group_id: group for group in groups})
    return shard


def group_of(*members: ConsumerMember) -> ConsumerGroup:
    """Return a group in epoch 1, as are its members."""
    group = ConsumerGroup(GROUP)
    group.epoch = group.target_epoch = group_epoch(1)
    for member in members:
        group.put(member)
    return group


def member(number: int, *names: str, regex: str | None = None) -> ConsumerMember:
    return ConsumerMember(
        member_id=MemberId(f"m{number}"),
        epoch=MemberEpoch(1),
        topic_names=names,
        topic_regex=regex,
        client_id="c",
        client_host="/h",
    )


def beat(shard: GroupShard, image: ClusterImage, member_id: str, epoch: int = 1, **fields: Any) -> Pausing[CoordinatorResult]:
    """Begin to serve a heartbeat."""
    joining = {"rebalance_timeout_ms": 30_000, "topic_partitions": []} if epoch == 0 else {}
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **{**joining, **fields})
    return heartbeat(
        shard,
        ConsumerHeartbeat(request=request, version=1, client_id="c", client_host="/h", image=image, settings=SETTINGS),
        now_ms=0,
    )


MANY_NAMES = [f"t{number}" for number in range(NAMES_MAX)]


@pytest.mark.parametrize(
    "fields",
    [
        {"subscribed_topic_names": [*MANY_NAMES, "other"]},
        {"subscribed_topic_names": ["t" * 32_767] * 200},
        {"topic_partitions": [TopicPartitions(topic_id=bytes(16), partitions=[])] * (NAMES_MAX + 1)},
        {"topic_partitions": [TopicPartitions(topic_id=bytes(16), partitions=[0] * PARTITIONS_MAX)] * 2},
    ],
    ids=["names", "letters", "topics", "partitions"],
)
def test_a_heartbeat_that_names_too_much_is_refused(fields: dict[str, Any]) -> None:
    shard, image = shard_of(group_of(member(1, "t"))), image_of({"t": 1})
    refused = run_through(beat(shard, image, "m1", **fields))
    assert (refused.response.error_code, refused.records, refused.timers) == (ErrorCode.INVALID_REQUEST, [], [])
    assert "can't have more than" in refused.response.error_message


def test_a_heartbeat_that_names_as_much_as_it_may_is_served() -> None:
    shard, image = shard_of(group_of(member(1, "t"))), image_of({"t": 1})
    owned = [TopicPartitions(topic_id=bytes(16), partitions=list(range(PARTITIONS_MAX)))]
    served = run_through(beat(shard, image, "m1", subscribed_topic_names=MANY_NAMES, topic_partitions=owned))
    assert served.response.error_code == ErrorCode.NONE
    (written,) = [record for record in served.records if isinstance(record.value, ConsumerGroupMemberMetadataValue)]
    assert written.value.subscribed_topic_names == sorted(MANY_NAMES)


def classic_group_of(members: int, names: str) -> ClassicGroup:
    """Return a stable group of members that subscribe to topics of these names."""
    classic = ClassicGroup(
        GROUP, state=GroupState.STABLE, generation_id=GenerationId(1), protocol_type="consumer", protocol_name="range"
    )
    for number in range(members):
        joined = ClassicMember(
            member_id=MemberId(f"m{number}"), group_instance_id=None, client_id="c", client_host="/h", rebalance_timeout_ms=1,
            session_timeout_ms=1, protocol_type="consumer", protocols=(("range", subscription(names)),),
            assignment=assignment(f"t-{number}"),
        )  # fmt: skip
        classic.add(joined, None)
    return classic


def test_a_classic_member_that_names_too_many_topics_cannot_be_in_a_consumer_group() -> None:
    shard, image = shard_of(), image_of({"t": 1})
    for count, code in ((NAMES_MAX + 1, ErrorCode.GROUP_ID_NOT_FOUND), (NAMES_MAX, ErrorCode.NONE)):
        shard.classic_groups[GROUP] = classic_group_of(1, ",".join(f"t{number}" for number in range(count)))
        result = run_through(beat(shard, image, "new", 0, subscribed_topic_names=["t"]))
        assert result.response.error_code == code
    for metadata in (subscription("t,u,v"), subscription("t") + bytes(SUBSCRIPTION_BYTES_MAX)):
        with pytest.raises(DecodeError, match="too large"):
            read_subscription(metadata, topics_max=2)
    assert read_subscription(subscription("t,u"), topics_max=2).topics == ["t", "u"]


def test_a_group_has_a_bounded_number_of_different_expressions() -> None:
    image = image_of({"a": 1})
    group = group_of(*(member(number, regex=f"a{number}") for number in range(REGEXES_MAX)))
    group.regexes = {f"a{number}": frozenset() for number in range(REGEXES_MAX)}
    group.image = image
    shard = shard_of(group)
    refused = run_through(beat(shard, image, "new", 0, subscribed_topic_regex="other"))
    assert refused.response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert f"may have {REGEXES_MAX}" in refused.response.error_message
    assert refused.records == []
    for fields in ({"subscribed_topic_regex": "a7"}, {"subscribed_topic_names": ["a"]}):
        assert run_through(beat(shard, image, "new", 0, **fields)).response.error_code == ErrorCode.NONE
