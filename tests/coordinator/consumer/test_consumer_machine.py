"""Random lives of KIP-848 groups: whatever members, topics and the network do, no partition is owned twice, epochs only grow, the
log always agrees with the state, and in the end every partition is owned once.

The test calls the operations without a broker and carries out their results itself; records pass through their bytes.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pybroker.coordinator.consumer import member_timers
from pybroker.coordinator.consumer.classic_requests import ClassicRequestsToConsumerGroup
from pybroker.coordinator.consumer.draft import ConsumerGroupSettings
from pybroker.coordinator.consumer.heartbeat import ConsumerHeartbeat, heartbeat
from pybroker.coordinator.runtime.result import CoordinatorResult, Operation
from pybroker.coordinator.state.consumer_group import ConsumerGroup, ConsumerGroupState
from pybroker.coordinator.state.consumer_member import partitions_of
from pybroker.coordinator.state.group import GroupRequests, JoinRequest
from pybroker.coordinator.state.records import from_bytes, to_bytes
from pybroker.coordinator.state.shard import GroupSettings, GroupShard
from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage, empty_image
from pybroker.model import BrokerId, GroupId, LeaderEpoch, MemberId, TopicId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.sync_group import SyncGroupRequest
from pybroker.sharing.work import Pausing, run_through
from testing.error_codes import error_code
from tests.coordinator.consumer.consumer_state import check_owned_once, check_subscriptions, state_of
from tests.coordinator.scenario import assigned, subscription

GROUP = "g"
CLIENTS = 4
TOPICS = ("a", "b", "bb")
REGEXES = ("b+", "a|bb", "none")
SESSION_MS, REBALANCE_MS = 10_000, 6_000
SETTINGS = ConsumerGroupSettings(
    session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000, max_size=100, assignors=("uniform", "range")
)

Partition = tuple[bytes, int]


def at_once(result: CoordinatorResult | Pausing[CoordinatorResult]) -> CoordinatorResult:
    """Return the result of an operation, all of whose steps are done at once."""
    return result if isinstance(result, CoordinatorResult) else run_through(result)


class Coordinator:
    """A shard, its log and its timers."""

    def __init__(self) -> None:
        self._ids = itertools.count()  # no id is given out twice, not even after a restart
        self.shard = new_shard(self._ids)
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self._timers: dict[Hashable, tuple[int, int]] = {}
        self._due: list[tuple[int, int, Hashable, Operation]] = []
        self._numbers = itertools.count()

    def run(self, operation: Operation) -> Any:
        """Run an operation; return the response, or the code of the error."""
        try:
            result = at_once(operation(self.shard, self.now_ms))
        except KafkaError as error:
            return error.code
        self._carry_out(result)
        return result.response

    def _carry_out(self, result: CoordinatorResult) -> None:
        for record in result.records:
            key, value = to_bytes(record)
            self.log.append((key, value))
            if result.is_replayed:
                replay(self.shard, key, value)
        for key_, delay_ms, operation, is_kept, _ in result.timers:
            if is_kept and key_ in self._timers:
                continue
            self._timers.pop(key_, None)
            if delay_ms is not None:
                assert operation is not None
                entry = (self.now_ms + delay_ms, next(self._numbers))
                self._timers[key_] = entry
                heapq.heappush(self._due, (*entry, key_, operation))
        if result.on_durable is not None:
            self._carry_out(at_once(result.on_durable(ErrorCode.NONE, self.now_ms)))

    def pass_time(self, delta_ms: int) -> None:
        end_ms = self.now_ms + delta_ms
        while self._due and self._due[0][0] <= end_ms:
            when_ms, number, key, operation = heapq.heappop(self._due)
            if self._timers.get(key) == (when_ms, number):
                del self._timers[key]
                self.now_ms = max(self.now_ms, when_ms)
                self.run(operation)
        self.now_ms = end_ms

    def restart(self) -> None:
        """Start again with what is in the log."""
        self.shard = self.loaded()
        self._timers, self._due = {}, []
        result = CoordinatorResult()
        for group in self.shard.consumer_groups.values():
            member_timers.restart_timers(result, group, SESSION_MS)
        self._carry_out(result)

    def loaded(self) -> GroupShard:
        shard = new_shard(self._ids)
        for key, value in self.log:
            replay(shard, key, value)
        return shard

    @property
    def group(self) -> ConsumerGroup | None:
        return self.shard.consumer_groups.get(GroupId(GROUP))


def replay(shard: GroupShard, key: bytes, value: bytes | None) -> None:
    record = from_bytes(key, value)
    assert record is not None
    assert shard.replay(record)


def new_shard(numbers: Iterator[int]) -> GroupShard:
    return GroupShard(
        GroupSettings(
            min_session_timeout_ms=1, max_session_timeout_ms=60_000, initial_rebalance_delay_ms=0, max_size=100,
            offset_metadata_max_bytes=100, offsets_retention_ms=1, may_upgrade=True, may_downgrade=False,
            new_member_id=lambda name: MemberId(f"{name}-{next(numbers)}"),
        )
    )  # fmt: skip


@dataclass
class Client:
    """A consumer. `assignment` is its last assignment, `owned` is what it works on."""

    number: int
    member_id: str = ""
    life: int = 0
    epoch: int = 0
    is_in: bool = False
    is_classic: bool = False
    names: tuple[str, ...] = ()
    regex: str | None = None
    assignment: set[Partition] = field(default_factory=set)
    owned: set[Partition] = field(default_factory=set)

    @property
    def instance(self) -> str | None:
        return f"i{self.number}" if self.number == 0 else None

    def forget(self) -> None:
        self.is_in, self.epoch, self.assignment, self.owned = False, 0, set(), set()


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.image: ClusterImage = empty_image(BrokerId(1))
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.epochs: dict[str, int] = {}
        self.ids = itertools.count(1)

    @initialize()
    def first_topic(self) -> None:
        self.set_topic("a", 4)

    # events

    @rule(name=st.sampled_from(TOPICS), count=st.integers(1, 6))
    def set_topic(self, name: str, count: int) -> None:
        """Create a topic, or add partitions to it."""
        known = self.image.topics.get(name)
        topic_id = TopicId(next(self.ids).to_bytes(16)) if known is None else known.topic_id
        count = max(count, 0 if known is None else len(known.partitions))
        one = PartitionImage(
            leader=BrokerId(1), leader_epoch=LeaderEpoch(0), replicas=(BrokerId(1),), isr=(BrokerId(1),), partition_epoch=0
        )
        topic = TopicImage(name=name, topic_id=topic_id, partitions=(one,) * count, configs={})
        self.image, _ = self.image.changed(revision=self.image.revision + 1, topics=[topic])

    @rule(name=st.sampled_from(TOPICS))
    def delete_topic(self, name: str) -> None:
        self.image, _ = self.image.changed(revision=self.image.revision + 1, removed_topics=[name])

    @rule(
        number=st.integers(0, CLIENTS - 1),
        names=st.sets(st.sampled_from(TOPICS)),
        regex=st.sampled_from((None, None, *REGEXES)),
        is_classic=st.booleans(),
    )
    def join(self, number: int, names: set[str], regex: str | None, is_classic: bool) -> None:
        """Start a client, or start it again although it has not left."""
        client = self.clients[number]
        client.forget()
        client.life += 1
        client.member_id = "" if is_classic else f"c{number}-{client.life}"
        client.is_classic, client.names, client.regex = is_classic, tuple(sorted(names)), None if is_classic else regex
        if is_classic:
            self.rejoin(client, gives_up=True)
        else:
            self.report(client, is_full=True)

    @rule(number=st.integers(0, CLIENTS - 1), gives_up=st.booleans(), is_full=st.booleans(), is_lost=st.booleans())
    def beat(self, number: int, gives_up: bool, is_full: bool, is_lost: bool) -> None:
        """Send a heartbeat, perhaps after the client gave up what it must; perhaps the response is lost."""
        client = self.clients[number]
        if not client.is_in:
            return
        if gives_up:
            client.owned &= client.assignment
        if not client.is_classic:
            self.report(client, is_full=is_full, is_lost=is_lost)
            return
        request = HeartbeatRequest(
            group_id=GROUP, member_id=client.member_id, generation_id=client.epoch, group_instance_id=client.instance
        )
        if self.classic(client, lambda requests, now_ms: requests.heartbeat(request, now_ms)) == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin(client, gives_up=gives_up)

    @rule(number=st.integers(0, CLIENTS - 1), names=st.sets(st.sampled_from(TOPICS), min_size=1))
    def subscribe(self, number: int, names: set[str]) -> None:
        client = self.clients[number]
        if client.is_in:
            client.names = tuple(sorted(names))
            if client.is_classic:
                self.rejoin(client, gives_up=False)
            else:
                self.report(client, is_full=True)

    @rule(number=st.integers(0, CLIENTS - 1), is_awhile=st.booleans())
    def leave(self, number: int, is_awhile: bool) -> None:
        client = self.clients[number]
        if not client.is_in:
            return
        if client.is_classic:
            identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance)
            request = LeaveGroupRequest(group_id=GROUP, members=[identity])
            self.classic(client, lambda requests, now_ms: requests.leave(request, now_ms))
        else:
            epoch = -2 if is_awhile and client.instance else -1
            self.send(
                ConsumerGroupHeartbeatRequest(
                    group_id=GROUP, member_id=client.member_id, member_epoch=epoch, instance_id=client.instance
                )
            )
        client.forget()

    @rule(number=st.integers(0, CLIENTS - 1))
    def die(self, number: int) -> None:
        self.clients[number].forget()

    @rule(rounds=st.integers(1, 6), seed=st.integers(0, 2**32))
    def live(self, rounds: int, seed: int) -> None:
        """Let all clients send heartbeats, in an order drawn from a seed, because hypothesis prefers stories in which little
        happens.
        """
        random = Random(seed)
        for _ in range(rounds):
            for number in random.sample(range(CLIENTS), CLIENTS):
                self.beat(number, random.random() < 0.4, random.random() < 0.3, random.random() < 0.1)
                self.nothing_is_owned_twice()
                self.epochs_grow()
            self.coordinator.pass_time(random.randrange(3000))

    @rule(delta_ms=st.integers(1, SESSION_MS))
    def wait(self, delta_ms: int) -> None:
        self.coordinator.pass_time(delta_ms)

    @rule()
    def restart(self) -> None:
        self.coordinator.restart()

    # steps of clients

    def send(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        beat = ConsumerHeartbeat(request=request, version=1, client_id="c", client_host="/h", image=self.image, settings=SETTINGS)
        return self.coordinator.run(lambda shard, now_ms: heartbeat(shard, beat, now_ms))

    def report(self, client: Client, *, is_full: bool, is_lost: bool = False) -> None:
        is_full |= client.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=list(client.names) if is_full else None,
            subscribed_topic_regex=(client.regex or "") if is_full else None,
            topic_partitions=message(client.owned),
        )
        response = self.send(request)
        if is_lost:
            return
        if response.error_code:
            client.forget()
            return
        client.is_in, client.epoch = True, response.member_epoch
        if response.assignment is not None:
            client.assignment = {(bytes(t.topic_id), n) for t in response.assignment.topic_partitions for n in t.partitions}
        if client.owned <= client.assignment:  # the client takes new partitions when it has given up the others
            client.owned = set(client.assignment)

    def classic(
        self, client: Client, operation: Callable[[GroupRequests, int], CoordinatorResult | Pausing[CoordinatorResult]]
    ) -> int:
        group = self.coordinator.group
        if group is None:
            client.forget()
            return ErrorCode.UNKNOWN_MEMBER_ID
        requests = ClassicRequestsToConsumerGroup(self.coordinator.shard, group, self.image, SETTINGS)
        outcome = self.coordinator.run(lambda _shard, now_ms: operation(requests, now_ms))
        code = outcome if isinstance(outcome, ErrorCode) else error_code(outcome.error_code)
        if code not in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
            client.forget()
        self.response = outcome
        return code

    def rejoin(self, client: Client, *, gives_up: bool) -> None:
        """Send JoinGroup and SyncGroup. Without a KIP-848 group a classic group would serve them, which this test leaves out."""
        if self.coordinator.group is None or not self.coordinator.group.members:
            client.forget()
            return
        if gives_up:
            client.owned = set()
        names = {bytes(topic.topic_id): topic.name for topic in self.image.topics.values()}
        owned = [f"{names[topic_id]}-{number}" for topic_id, number in sorted(client.owned) if topic_id in names]
        request = JoinRequest(
            group_id=GroupId(GROUP), member_id=MemberId(client.member_id), group_instance_id=client.instance,
            client_id="c", client_host="/h",
            protocol_type="consumer", protocols=(("range", subscription(",".join(client.names), ",".join(owned) or "none")),),
            session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS, requires_member_id=False,
            can_skip_assignment=True, respond=lambda _response: None,
        )  # fmt: skip
        if self.classic(client, lambda requests, now_ms: requests.join(request, now_ms)):
            client.forget()
            return
        client.member_id, client.epoch, client.is_in = self.response.member_id, self.response.generation_id, True
        sync = SyncGroupRequest(
            group_id=GROUP, member_id=client.member_id, generation_id=client.epoch, group_instance_id=client.instance
        )
        if self.classic(client, lambda requests, now_ms: at_once(requests.sync(sync, request.respond, now_ms))):
            return
        ids = {topic.name: bytes(topic.topic_id) for topic in self.image.topics.values()}
        given = assigned(self.response.assignment)
        assignment = [] if given == "no partitions" else [part.rpartition("-") for part in given.split(" ")]
        client.assignment = {(ids[name], int(n)) for name, _, numbers in assignment if name in ids for n in numbers.split(",")}
        if client.owned <= client.assignment:
            client.owned = set(client.assignment)

    # invariants

    @invariant()
    def nothing_is_owned_twice(self) -> None:
        group = self.coordinator.group
        if group is None:
            return
        check_owned_once(group)
        check_subscriptions(group)
        working: dict[Partition, int] = {}
        for client in self.clients:
            if client.is_in and client.member_id in group.members:
                for partition in client.owned:
                    assert partition not in working, (partition, client, self.clients[working[partition]])
                    working[partition] = client.number

    @invariant()
    def epochs_grow(self) -> None:
        group = self.coordinator.group
        if group is None:
            return
        now: dict[str, int] = {"group": group.epoch, "target": group.target_epoch}
        now |= {member.member_id: member.epoch for member in group.members.values() if member.epoch >= 0}
        for what, epoch in now.items():
            assert epoch >= self.epochs.get(what, 0), what
            assert epoch <= group.epoch
        self.epochs = now

    @invariant()
    def the_log_has_the_same_state(self) -> None:
        assert state_of(self.coordinator.loaded().consumer_groups.get(GroupId(GROUP))) == state_of(self.coordinator.group)

    def teardown(self) -> None:
        """Let clients that are alive continue until the coordinator has removed the dead ones."""
        self.set_topic("a", 1)
        self.join(1, {"a", "b", "bb"}, None, is_classic=False)  # so that there is a member
        for _ in range(30):
            self.coordinator.pass_time(1000)
            for client in self.clients:
                if client.is_in:
                    self.beat(client.number, gives_up=True, is_full=False, is_lost=False)
                    self.nothing_is_owned_twice()
        group = self.coordinator.group
        assert group is not None
        assert group.state is ConsumerGroupState.STABLE, group.members
        living = {client.member_id: client for client in self.clients if client.is_in}
        assert group.members.keys() == living.keys()
        for member in group.members.values():
            assert (
                living[member.member_id].owned
                == {*partitions_of(member.assigned)}
                == {*partitions_of(group.target(member.member_id))}
            )
        everything = {(bytes(t.topic_id), n) for t in self.image.topics.values() for n in range(len(t.partitions))}
        assert group.owners.keys() == everything, "every partition is owned once"


def message(owned: set[Partition]) -> list[TopicPartitions]:
    ids = sorted({topic_id for topic_id, _ in owned})
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(n for id_, n in owned if id_ == topic_id)) for topic_id in ids]


Machine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestConsumerGroups = Machine.TestCase
