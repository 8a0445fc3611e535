"""The group coordinator as the request handlers see it. It finds the shard of a group, and keeps a shard for each partition that
this broker leads.

The hash of a group's name determines the partition of `__consumer_offsets` to which the group belongs; the leader of that
partition coordinates the group. The topic is created when the first client looks for a coordinator. The coordinator passes each
outcome, a response or an ErrorCode, to a callback, in most cases before the call returns.

Source: GroupCoordinatorService.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator import administration, expiry, offsets
from pybroker.coordinator.classic.describe import describe as describe_classic
from pybroker.coordinator.classic.requests import ClassicGroupRequests
from pybroker.coordinator.consumer.classic_requests import ClassicRequestsToConsumerGroup
from pybroker.coordinator.consumer.describe import describe as describe_consumer
from pybroker.coordinator.consumer.draft import ConsumerGroupSettings
from pybroker.coordinator.consumer.heartbeat import ConsumerHeartbeat, heartbeat
from pybroker.coordinator.hashing import partition_of, positive_hash
from pybroker.coordinator.loading import end_lost_transactions, first_operation, replay_batch, replay_marker
from pybroker.coordinator.runtime.appender import RuntimeSettings
from pybroker.coordinator.runtime.loader import Loader
from pybroker.coordinator.runtime.result import CoordinatorResult, TimerChange
from pybroker.coordinator.runtime.runtime import CoordinatorRuntime, Done
from pybroker.coordinator.state.records import least_size, to_bytes
from pybroker.coordinator.state.shard import GroupSettings, GroupShard
from pybroker.coordinator.topic import CoordinatorTopic
from pybroker.metadata.image import GROUP_KIND
from pybroker.metadata.names import OFFSETS_TOPIC
from pybroker.model import NO_MEMBER_EPOCH, BrokerId, GroupId, MemberEpoch, MemberId, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.compression import CompressionType

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.coordinator.offsets import NewOffsets
    from pybroker.coordinator.runtime.gathered import Source
    from pybroker.coordinator.runtime.result import Operation
    from pybroker.coordinator.state.group import Committer, GroupRequests, JoinRequest
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from pybroker.protocol.messages.heartbeat import HeartbeatRequest
    from pybroker.protocol.messages.leave_group import LeaveGroupRequest
    from pybroker.protocol.messages.list_groups import ListedGroup
    from pybroker.protocol.messages.sync_group import SyncGroupRequest
    from pybroker.purgatory.timer import OperationTimer
    from pybroker.replication.partition import Partition
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)


HASHES_MAX: Final = 10_000
"""The number of groups whose hashes are kept."""

CLEAN_UP_STEPS: Final = 100

CLEAN_UP_PAUSE_MS: Final = 10
"""The time between two slices of a clean-up. A slice takes about 5 ms if all that it looks at expires."""


def group_settings(config: BrokerConfig, new_member_id: Callable[[str], MemberId]) -> GroupSettings:
    """Return the settings of groups from the broker's configuration."""
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        may_upgrade=config.group_consumer_migration_policy.lower() in {"bidirectional", "upgrade"},
        may_downgrade=config.group_consumer_migration_policy.lower() in {"bidirectional", "downgrade"},
        new_member_id=new_member_id,
    )


def random_member_id(name: str) -> MemberId:
    """Return an id that no other member has, and in which a person recognizes the client."""
    return MemberId(f"{name}-{uuid.uuid4()}")


class GroupCoordinator:
    """The coordinator of the groups whose partitions this broker leads. It is used from the event loop only.

    `call_soon` runs its argument in the loop's next iteration. `freeze` is the loader's.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        timer: OperationTimer,
        replicas: ReplicaManager,
        controller: Controller,
        call_soon: Callable[[Callable[[], None]], object],
        new_member_id: Callable[[str], MemberId] = random_member_id,
        freeze: Callable[[], None] | None = None,
    ) -> None:
        self._config = config
        self._controller = controller
        self.topic = CoordinatorTopic(OFFSETS_TOPIC, controller, replicas)
        self._hashes: dict[str, int] = {}  # by group, because every request asks for it
        self._loaded = 0  # the number of shards that were loaded since the start
        self._settings = settings = group_settings(config, new_member_id)
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            RuntimeSettings(
                topic=OFFSETS_TOPIC,
                timeout_ms=config.offsets_commit_timeout_ms,
                required_acks=config.offsets_commit_required_acks,
                compression=CompressionType(config.offsets_topic_compression_codec),
                least_size=least_size,
            ),
            clock=clock,
            timer=timer,
            replicas=replicas,
            new_shard=lambda: GroupShard(settings),
            serialize=to_bytes,
            call_soon=call_soon,
        )
        self._loader = Loader(
            self.runtime,
            call_soon,
            replay_batch=replay_batch,
            replay_marker=replay_marker,
            bytes_max=config.offsets_load_buffer_size,
            freeze=freeze,
        )

    # Where groups are coordinated

    def start(self) -> None:
        """Load the groups of the partitions that this broker leads."""
        self.follow_leadership()

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as no partition is being loaded, which may be at once."""
        self._loader.when_done(callback)

    def stop(self) -> None:
        """Respond NOT_COORDINATOR to the requests that wait; their clients find the next coordinator."""
        for partition in self.runtime.partitions():
            self._unload(partition)

    def apply_image(self, _old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> Iterator[None]:
        """Follow a change of the cluster. The replica manager must have followed it before, and its rest come before the rest."""
        rest = self.topic.follow_change(delta, self.runtime.leader_epochs, self._load, self._unload)
        partition_counts = {
            topic.name: 0 for topic in delta.removed
        }  # a topic that was created again counts too: it is another topic
        partition_counts |= {
            topic.name: len(topic.partitions) for old, topic in delta.changed if len(topic.partitions) < len(old.partitions)
        }
        if partition_counts:
            self.runtime.write_to_all(lambda shard, now_ms: offsets.forget_topics(shard, partition_counts, now_ms))
        return rest

    def follow_leadership(self) -> None:
        """Load and unload partitions by what this broker leads now, also without a change of the cluster."""
        self.topic.follow_leadership(self.runtime.leader_epochs(), self._load, self._unload)

    def _load(self, number: int, replica: Partition) -> None:
        self._loader.start(number, replica.log, self._first_operation, partial(end_lost_transactions, replica.log))

    def _first_operation(self, shard: GroupShard, now_ms: int) -> Pausing[CoordinatorResult]:
        result = yield from first_operation(shard, self._partition_count, now_ms)
        for group in shard.all_groups():
            self._requests(shard, group.group_id).resume(result, now_ms)
            yield
        # The partitions look for old offsets a thousandth of the interval apart, so that they do not all hold up the loop at
        # once.
        interval_ms, self._loaded = self._config.offsets_retention_check_interval_ms, self._loaded + 1
        result.timers.append(self._next_clean_up(self._loaded % CLEAN_UP_STEPS * interval_ms // 1000))
        return result

    def _partition_count(self, topic: str) -> int:
        image = self._controller.image.topics.get(topic)
        return 0 if image is None else len(image.partitions)

    def _next_clean_up(self, more_ms: int = 0) -> TimerChange:
        interval_ms = self._config.offsets_retention_check_interval_ms
        return TimerChange("clean up", interval_ms + more_ms, self._clean_up, is_look=True)

    def _clean_up(self, shard: GroupShard, now_ms: int) -> Pausing[CoordinatorResult]:
        return self._clean_up_some(expiry.places(shard), shard, now_ms)

    def _clean_up_some(self, rest: expiry.Places, shard: GroupShard, now_ms: int) -> Pausing[CoordinatorResult]:
        result, is_done = yield from expiry.clean_up(shard, rest, now_ms)
        if result.records:
            logger.info("The coordinator writes %d tombstones for expired offsets and empty groups", len(result.records))
        continue_ = partial(self._clean_up_some, rest)
        result.timers.append(self._next_clean_up() if is_done else TimerChange("clean up", CLEAN_UP_PAUSE_MS, continue_))
        return result

    def _unload(self, partition: int) -> None:
        shard = self.runtime.unload(partition)
        if shard is None:
            return
        for group in shard.all_groups():
            for respond, response in self._requests(shard, group.group_id).refuse_waiting(ErrorCode.NOT_COORDINATOR):
                respond(response)

    def leader_of(self, group_id: GroupId) -> BrokerId | None:
        """Return the broker that coordinates the group, or None while the partition has no leader or the topic is missing."""
        return self.topic.leader_of(partial(partition_of, group_id))

    def _partition(self, group_id: GroupId) -> int:
        value = self._hashes.get(group_id)
        if value is None:
            if len(self._hashes) >= HASHES_MAX:
                self._hashes.clear()
            value = self._hashes[group_id] = positive_hash(group_id)
        return value % (self.topic.partition_count or 1)

    # Members

    def join(self, request: JoinRequest) -> None:
        """Serve a JoinGroup; `request.respond` gets a response or an ErrorCode."""
        group_id = request.group_id
        self.write(group_id, lambda shard, _now_ms: self._requests(shard, group_id).make_way(request), _ignore)
        self.write(group_id, lambda shard, now_ms: self._requests(shard, group_id).join(request, now_ms), request.respond)

    def sync(self, request: SyncGroupRequest, done: Done) -> None:
        """Serve a SyncGroup."""
        group_id = GroupId(request.group_id)
        self.write(group_id, lambda shard, now_ms: self._requests(shard, group_id).sync(request, done, now_ms), done)

    def heartbeat(self, request: HeartbeatRequest, done: Done) -> None:
        """Serve a Heartbeat."""
        group_id = GroupId(request.group_id)
        self.write(group_id, lambda shard, now_ms: self._requests(shard, group_id).heartbeat(request, now_ms), done)

    def leave(self, request: LeaveGroupRequest, done: Done) -> None:
        """Serve a LeaveGroup, in its form from v3."""
        group_id = GroupId(request.group_id)
        self.write(group_id, lambda shard, now_ms: self._requests(shard, group_id).leave(request, now_ms), done)

    def write(self, group_id: GroupId, operation: Operation, done: Done) -> None:
        """Run an operation on the shard of a group; `done` gets the response of its result, or an ErrorCode."""
        self.runtime.write(self._partition(group_id), operation, done)

    def _requests(self, shard: GroupShard, group_id: GroupId) -> GroupRequests:
        """Return what serves the group's members, which differs by kind. Only this method asks of which kind the group is."""
        group = shard.consumer_groups.get(group_id)
        if group is None:
            return ClassicGroupRequests(shard, group_id)
        return ClassicRequestsToConsumerGroup(shard, group, self._controller.image, self._consumer_settings(group_id))

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, *, version: int, client_id: str, client_host: str, done: Done
    ) -> None:
        """Serve a ConsumerGroupHeartbeat."""
        beat = ConsumerHeartbeat(
            request=request,
            version=version,
            client_id=client_id,
            client_host=client_host,
            image=self._controller.image,
            settings=self._consumer_settings(GroupId(request.group_id)),
        )
        self.write(GroupId(request.group_id), lambda shard, now_ms: heartbeat(shard, beat, now_ms), done)

    def _consumer_settings(self, group_id: GroupId) -> ConsumerGroupSettings:
        """Return the settings of the group: its own where they are set, otherwise the broker's."""
        config = self._config
        values = self._controller.image.configs_of(GROUP_KIND, group_id)
        return ConsumerGroupSettings(
            session_timeout_ms=int(values.get("consumer.session.timeout.ms", config.group_consumer_session_timeout_ms)),
            heartbeat_interval_ms=int(values.get("consumer.heartbeat.interval.ms", config.group_consumer_heartbeat_interval_ms)),
            max_size=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
        )

    # Offsets

    def commit(
        self,
        committer: Committer,
        new: NewOffsets,
        retention_ms: int,
        done: Done,
        *,
        source: Source,
    ) -> None:
        """Commit offsets by topic; `done` gets the errors of those that are refused (`offsets.Refused`), or the error of all.

        `source` is the connection that sent the commit; commits of several connections may share a batch.
        """
        self.runtime.gather(
            self._partition(committer.group_id),
            lambda shard, now_ms: offsets.commit(
                shard,
                self._requests(shard, committer.group_id),
                committer,
                new,
                retention_ms=retention_ms,
                now_ms=now_ms,
            ),
            done,
            source,
        )

    def topic_partition(self, group_id: GroupId) -> TopicPartition:
        """Return the partition of `__consumer_offsets` that holds the group."""
        return TopicPartition(OFFSETS_TOPIC, self._partition(group_id))

    def commit_in_transaction(
        self,
        committer: Committer,
        new: NewOffsets,
        guard: Callable[[], ErrorCode],
        done: Done,
    ) -> None:
        """Commit offsets by topic in the transaction of the committer's producer; `done` gets what that of `commit` gets.

        `guard` is asked right before the append, and refuses it with an error.
        """

        def operation(shard: GroupShard, now_ms: int) -> CoordinatorResult:
            if code := guard():
                raise KafkaError(code)
            requests = self._requests(shard, committer.group_id)
            return offsets.commit(shard, requests, committer, new, retention_ms=-1, now_ms=now_ms)

        self.write(committer.group_id, operation, done)

    def complete_transaction(
        self, partition: int, marker: memoryview, producer_id: ProducerId, done: Callable[[ErrorCode], None], *, is_commit: bool
    ) -> None:
        """Append a marker to a partition of `__consumer_offsets`: the offsets of the producer's transaction count, or are gone.

        `done` gets NONE when the marker is durable, or the error.
        """
        self.runtime.complete_transaction(partition, marker, lambda shard: replay_marker(shard, producer_id, is_commit), done)

    def fetch(
        self,
        group_id: GroupId,
        select: Callable[[offsets.OffsetsOfGroup], Any],
        done: Done,
        *,
        member_id: MemberId | None = None,
        member_epoch: MemberEpoch = NO_MEMBER_EPOCH,
        is_stable: bool = False,
    ) -> None:
        """Fetch offsets of the group. `select` is called when no long work is under way, which is at once in most cases; `done`
        gets its result when all that it saw is durable. It may be a generator that returns the result; the offsets do not change
        meanwhile.

        `done` gets an ErrorCode instead when a KIP-848 member is unknown or its epoch is stale. `is_stable` asks which offsets
        open transactions have written.
        """

        def query(shard: GroupShard) -> Any:
            code = offsets.check_fetch(shard, group_id, member_id, member_epoch)
            return code or select(offsets.offsets_of(shard, group_id, is_stable=is_stable))

        self._read(group_id, query, done)

    def delete_offsets(self, group_id: GroupId, unwanted: Sequence[TopicPartition], done: Done) -> None:
        """Delete offsets; `done` gets a code for each partition, or a single code for all of them."""
        self.write(group_id, lambda shard, now_ms: offsets.delete_offsets(shard, group_id, unwanted, now_ms), done)

    def _read(self, group_id: GroupId, query: Callable[[GroupShard], Any], done: Done) -> None:
        self.runtime.read(self._partition(group_id), query, done)

    # Administration

    def list_groups(
        self, states: frozenset[str] | None, types: frozenset[str] | None
    ) -> Iterator[ListedGroup | None] | ErrorCode:
        """Return the groups that this broker coordinates, None for each that does not pass the filters, to be looked at one after
        the other; or COORDINATOR_LOAD_IN_PROGRESS while some are still being loaded. Groups may change in between.
        """
        if self.runtime.loading_count:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return (group for shard in tuple(self.runtime.shards) for group in administration.list_groups(shard, states, types))

    def describe(self, group_id: GroupId, done: Done) -> None:
        """Describe a classic group; `done` gets a DescribedGroup, or GROUP_ID_NOT_FOUND."""
        self._read(group_id, lambda shard: describe_classic(shard, group_id) or ErrorCode.GROUP_ID_NOT_FOUND, done)

    def describe_consumer_group(self, group_id: GroupId, done: Done) -> None:
        """Describe a KIP-848 group; `done` gets a DescribedGroup of ConsumerGroupDescribe, or GROUP_ID_NOT_FOUND."""
        image, default = self._controller.image, self._config.group_consumer_assignors[0]

        def query(shard: GroupShard) -> Pausing[Any]:
            found = yield from describe_consumer(shard, group_id, image, default)
            return found or ErrorCode.GROUP_ID_NOT_FOUND

        self._read(group_id, query, done)

    def delete_groups(self, group_ids: Iterable[GroupId], done: Callable[[dict[GroupId, ErrorCode]], None]) -> None:
        """Delete groups with their offsets; `done` gets a code for each group."""
        by_partition: dict[int, list[GroupId]] = {}
        for group_id in group_ids:
            by_partition.setdefault(self._partition(group_id), []).append(group_id)
        codes: dict[GroupId, ErrorCode] = {}
        pending_count = len(by_partition)
        if not pending_count:
            done(codes)

        def collector(names: list[GroupId]) -> Done:
            def collect_codes(outcome: Any) -> None:
                nonlocal pending_count
                codes.update(dict.fromkeys(names, outcome) if isinstance(outcome, ErrorCode) else outcome)
                pending_count -= 1
                if not pending_count:
                    done(codes)

            return collect_codes

        for partition, names in by_partition.items():
            self.runtime.write(
                partition,
                lambda shard, now_ms, names=names: administration.delete_groups(shard, names, now_ms),  # type: ignore[misc]
                collector(names),
            )


def _ignore(_outcome: object) -> None:
    """Ignore the outcome of an operation for which no client waits."""
