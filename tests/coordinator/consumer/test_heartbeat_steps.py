"""A large group is changed and described in steps, each of which is short; a small group in a single step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pybroker.coordinator.consumer import heartbeat as heartbeat_module
from pybroker.coordinator.consumer.describe import describe
from pybroker.coordinator.consumer.draft import REGEXES_MAX, ConsumerGroupSettings
from pybroker.coordinator.consumer.heartbeat import ConsumerHeartbeat, heartbeat
from pybroker.coordinator.consumer.heartbeat_request import PARTITIONS_MAX
from pybroker.coordinator.consumer.patterns.matching import MATCHED_MAX
from pybroker.coordinator.consumer.patterns.topic_pattern import TopicPattern
from pybroker.coordinator.embedded_protocol import SUBSCRIPTION_BYTES_MAX, read_subscription
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.consumer_member import NAMES_MAX, Assignment, ConsumerMember
from pybroker.coordinator.state.shard import GroupSettings, GroupShard
from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage, empty_image
from pybroker.model import BrokerId, GenerationId, GroupId, LeaderEpoch, MemberEpoch, MemberId, TopicId, group_epoch
from pybroker.protocol.codec import DecodeError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from pybroker.protocol.messages.group_records import ConsumerGroupMemberMetadataValue
from pybroker.sharing.work import Pausing, run_through
from tests.coordinator.consumer.counted_steps import calls_of_steps
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


def test_what_a_member_reports_is_looked_at_only_if_it_has_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    image, looks = image_of({"t": 1}), 0
    owned = heartbeat_module._owned

    def noted(request: ConsumerGroupHeartbeatRequest) -> Assignment | None:
        nonlocal looks
        looks += 1
        return owned(request)

    monkeypatch.setattr(heartbeat_module, "_owned", noted)
    group = group_of(replace(member(1, "t"), assigned={TopicId(b"t".ljust(16)): frozenset({0})}))
    group.topics, group.image = {"t": (b"t".ljust(16), 1)}, image
    shard = shard_of(group)
    report = [TopicPartitions(topic_id=b"t".ljust(16), partitions=[0])]
    assert run_through(beat(shard, image, "m1", topic_partitions=report)).response.error_code == ErrorCode.NONE
    assert looks == 0
    run_through(beat(shard, image, "m1", topic_partitions=report, subscribed_topic_names=["other"]))
    assert looks == 1


def test_a_heartbeat_of_a_large_group_that_changes_nothing_does_not_pause() -> None:
    names = [f"t{number}" for number in range(6_000)]
    image = image_of(dict.fromkeys(names, 1))
    has = {bytes(topic.topic_id): frozenset({0}) for topic in image.topics.values()}
    group = group_of(*(replace(member(number, *names), assigned={} if number else has) for number in range(20)))
    group.topics = {name: (name.encode().ljust(16), 1) for name in names}
    group.targets, group.image = {MemberId("m0"): has}, image
    shard = shard_of(group)
    for owned in (None, [TopicPartitions(topic_id=topic_id, partitions=[0]) for topic_id in has]):
        with pytest.raises(StopIteration) as stopped:
            next(beat(shard, image, "m0", topic_partitions=owned))
        served = stopped.value.value
        assert (served.response.error_code, served.records) == (ErrorCode.NONE, [])


class Compared(str):
    """A topic's name that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)


def test_whether_a_topic_is_read_is_a_lookup() -> None:
    group = group_of(*(member(number, *(f"t{number}-{n}" for n in range(1000))) for number in range(20)), member(99, regex="r.*"))
    group.regexes["r.*"] = frozenset({"read"})
    Compared.comparisons = 0
    topics = ("t19-999", "t0-0", "read", "other")
    assert [group.is_subscribed_to(Compared(topic)) for topic in topics] == [True, True, True, False]
    assert Compared.comparisons < 20
    group.remove(MemberId("m19"))
    group.remove(MemberId("m99"))
    group.put(member(0, "other"))
    assert [group.is_subscribed_to(topic) for topic in topics] == [False, False, False, True]


def test_no_step_compiles_many_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check it for more expressions than an image remembers, none of which it knows."""
    compiled = 0
    compile_pattern = TopicPattern.__init__

    def noted(pattern: TopicPattern, text: str) -> None:
        nonlocal compiled
        compiled += 1
        compile_pattern(pattern, text)

    monkeypatch.setattr(TopicPattern, "__init__", noted)
    regexes = [f"a{number}" for number in range(MATCHED_MAX + 100)]
    group = group_of(*(member(number, regex=regex) for number, regex in enumerate(regexes)))
    operation = beat(shard_of(group), image_of({"a7": 1, "b": 2}), "m1")
    most = compiled
    while not isinstance(operation, CoordinatorResult):
        before = compiled
        try:
            next(operation)
        except StopIteration as stopped:
            operation = stopped.value
        most = max(most, compiled - before)
    assert (compiled, most) == (len(regexes), 1)
    assert operation.response.error_code == 0
    matched = {
        record.key.regular_expression: record.value.topics
        for record in operation.records
        if hasattr(record.key, "regular_expression")
    }
    assert [regex for regex, names in matched.items() if names] == ["a7"]
    assert matched["a7"] == ["a7"]


def test_a_large_group_is_changed_in_short_steps() -> None:
    """Check that no step looks at what all members name, and that a small part of the whole is a step."""
    names = [f"t{number}" for number in range(4_000)]
    group = group_of(*(member(number, *names[: 3_000 + number]) for number in range(50)))
    image = image_of(dict.fromkeys(names, 1))
    operation = beat(shard_of(group), image, "new", 0, subscribed_topic_names=[*names, "t0"])
    result, calls = calls_of_steps(operation)
    assert result.response.error_code == ErrorCode.NONE
    assert sum(calls) > 150_000
    assert max(calls) < 40_000


@pytest.mark.parametrize(("members", "topics"), [(3, 3), (50, 2_000), (20_000, 0)])
def test_each_member_of_a_group_is_described_in_a_step(members: int, topics: int) -> None:
    image = image_of({f"t{number}": 1 for number in range(topics)})
    has = {bytes(topic.topic_id): frozenset({0}) for topic in image.topics.values()}
    group = group_of(*(replace(member(number, *image.topics), assigned=has) for number in range(members)))
    described, calls = calls_of_steps(describe(shard_of(group), GROUP, image, "uniform"))
    assert described is not None
    assert [len(one.assignment.topic_partitions) for one in described.members] == [topics] * members
    assert max(calls) < 2_000 + 20 * topics + 3 * members


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


def test_a_large_classic_group_changes_in_short_steps() -> None:
    shard = shard_of()
    shard.classic_groups[GROUP] = classic_group_of(300, ",".join(f"t{number}" for number in range(200)))
    operation = beat(shard, image_of({"t": 300}), "new", 0, subscribed_topic_names=["t"])
    result, calls = calls_of_steps(operation)
    assert (result.response.error_code, result.response.member_epoch) == (ErrorCode.NONE, 2)
    assert len([record for record in result.records if isinstance(record.value, ConsumerGroupMemberMetadataValue)]) == 301
    assert sum(calls) > 100_000
    assert max(calls) < 20_000


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
