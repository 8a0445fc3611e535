"""The place that changes the cluster for requests: topics, settings and features are created, changed and deleted.

Idea
    An operation plans its changes from the current image, commits them to the store with the revisions that it saw,
    and plans again if another commit was faster. The image follows the store only through the watch, and the listeners
    follow before the operation returns. So when a client reads that its topic exists, the logs exist.

Large operations
    An operation handles each of its 10,000 topics or partitions in slices, between which the loop serves others. One operation
    runs at a time; the others wait in the order in which they came. `following` describes what other requests see between the
    slices.

Crash order
    The store changes first, then the logs. After a crash in between, the broker starts with the store's topics and
    makes the logs that are missing. A directory whose topic the store does not have, or has under another id, is a
    stray.

A listener that fails
    If a listener fails on new topics (a broken log directory), the topics are removed from the store again and the
    request fails; every listener sees them removed, including the listener that took only some of them. If it fails
    on a deletion, the topic is deleted nevertheless: the rest of its directory is a stray at the next start. If it
    fails on new partitions or settings, the previous entries are put back. All this is so for a broker that is alone; in
    a cluster a change stays, because other brokers follow it too.

Settings
    `config` is the configuration in force for this broker: the one it was started with and the dynamic settings of
    the image. A change of these replaces the object before the listeners are called.

Source: ReplicationControlManager, ControllerApis.deleteTopics, AutoTopicCreationManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from pybroker.config.dynamic import in_force
from pybroker.config.hosts import HostLookups
from pybroker.config.setting import ConfigError
from pybroker.failures import drop_frames
from pybroker.metadata import names
from pybroker.metadata.config_changes import CheckOfBroker, ConfigChange, Settings, limits_to_set, plan_config_changes
from pybroker.metadata.entries import (
    CLUSTER_ID_KEY,
    LEADER_EPOCH_KEY,
    apply_changes,
    encode_leader_epoch,
    encode_topic,
    leader_epoch_floor_key,
    partition_key,
    topic_key,
)
from pybroker.metadata.features import FeatureUpdate, plan_feature_updates
from pybroker.metadata.following import Listener, Preparation, StoreFollower
from pybroker.metadata.image import (
    BROKER_KIND,
    ClusterImage,
    ConfigResource,
    ImageDelta,
    TopicImage,
    empty_image,
    has_others,
)
from pybroker.metadata.internal_topics import automatic_topic
from pybroker.metadata.member_entries import broker_key, encode_broker, session_key
from pybroker.metadata.more_partitions import MorePartitions, plan_more_partitions
from pybroker.metadata.new_topic import EXCESSIVE, PARTITIONS_PER_REQUEST_MAX, NewTopic, TopicPlanner, fewer_replicas
from pybroker.metadata.producer_ids import ProducerIds
from pybroker.metadata.store.base import (
    ABSENT,
    Change,
    Conflict,
    OutcomeUnknownError,
    Session,
    Store,
    StoreError,
    UnreachableError,
)
from pybroker.metadata.uninterrupted import Uninterrupted
from pybroker.model import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicId, topic_id_text
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.image import PartitionChange, PartitionImage
    from pybroker.metadata.members import BrokerRegistration
    from pybroker.metadata.plan import Plan
    from pybroker.model import TopicPartition
    from pybroker.sharing.work import Pausing, Work

logger = logging.getLogger(__name__)

Element = TypeVar("Element")
Result = TypeVar("Result")


@dataclass(slots=True, frozen=True)
class TopicOutcome:
    """The result for one topic of a request: its image (planned, created or deleted), or the error."""

    topic: TopicImage | None = None
    error: KafkaError | None = None


class Controller:
    """The cluster's state and its changes, for a broker `broker_id` that is its own controller. Call `start` first."""

    def __init__(
        self,
        store: Store,
        config: BrokerConfig,
        *,
        broker_id: BrokerId,
        random: Random | None = None,
        hosts: HostLookups | None = None,
    ) -> None:
        self._store, self._random = store, random or Random()  # noqa: S311 - spreads load
        self.hosts = hosts or HostLookups()
        self.static_config = self.config = config
        self.check: CheckOfBroker | None = None
        self.broker_id = broker_id
        self.image: ClusterImage = empty_image(broker_id)
        self.producer_ids = ProducerIds(store)
        self._follower = StoreFollower(lambda: self.image, self._take_over, self._listener_failed)
        self._listener_failures: list[Exception] = []  # of the commit that is running
        self._reported = ""  # the message of a failed disk that was logged last
        self._one_change = asyncio.Lock()
        self._uninterrupted = Uninterrupted()

    async def start(self, cluster_id: str | None = None) -> None:
        """Read the store, and follow it. A new store gets `cluster_id`, or a random id. Raises StoreError."""
        new_id = topic_id_text(names.random_topic_id()) if cluster_id is None else cluster_id
        await self._store.commit(puts={CLUSTER_ID_KEY: new_id.encode()}, compare={CLUSTER_ID_KEY: ABSENT})
        self._store.watch("", self._follower.follow)
        entries, revision = await self._store.list()
        self.image, _ = apply_changes(self.image, [Change(*entry) for entry in entries], revision)
        self._follower.begin()
        self._take_over_settings()
        logger.info("Cluster %s: %d topics in the metadata store", self.image.cluster_id, len(self.image.topics))

    def subscribe(self, listener: Listener, preparation: Preparation | None = None) -> None:
        """Call `listener` at every later change, when the image is replaced and before the operation that made the
        change returns; run its `preparation` before the image is replaced.
        """
        self._follower.subscribe(listener, preparation)

    def unsubscribe(self, listener: Listener) -> None:
        """Do not call `listener` any more."""
        self._follower.unsubscribe(listener)

    async def close(self) -> None:
        """Wait for the operation that runs, so that no log is made or deleted any more. Nothing may be changed after this."""
        async with self._one_change:
            await self._follower.settled()

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Make the broker one of the cluster, or change its addresses; `metadata.membership` makes it live. Raises StoreError."""
        key, known = broker_key(registration.broker_id), self.image.registered.get(registration.broker_id)
        if known is None or encode_broker(known) != encode_broker(registration):
            await self.commit(puts={key: encode_broker(registration)})
            logger.info("Broker %d registered", registration.broker_id)

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        """Take a broker that is not live out of the cluster; partitions keep it among their replicas. Raises KafkaError."""
        await self._uninterrupted.run(self._unregister_broker(broker_id))

    async def commit(
        self,
        *,
        puts: Mapping[str, bytes] | None = None,
        deletes: Sequence[str] = (),
        compare: Mapping[str, int] | None = None,
        session: Session | None = None,
    ) -> int | Conflict:
        """Commit entries as `Store.commit` does. When this returns, the image has the outcome. Raises StoreError."""
        outcome = await self._store.commit(puts=puts, deletes=deletes, compare=compare, session=session)
        await self._follower.settled()
        return outcome

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[TopicOutcome]:
        """Create all valid topics, in one commit where the store has no limit. Returns an outcome for each of `topics`, whose
        names must be distinct.
        """
        if sum(topic.requested_partitions(self.config.num_partitions) for topic in topics) > PARTITIONS_PER_REQUEST_MAX:
            refusal = KafkaError(ErrorCode.POLICY_VIOLATION, EXCESSIVE)
            return [TopicOutcome(error=refusal)] * len(topics)
        return await self._in_commits(topics, lambda some: self._create_topics(some, validate_only=validate_only))

    async def create_missing_topics(self, missing: Sequence[str]) -> dict[str, TopicOutcome]:
        """Create topics that a client asked about, with the broker's defaults; a topic that another client just created
        is fine.
        """
        outcomes = await self.create_topics([automatic_topic(name, self.config, len(self.image.registered)) for name in missing])
        return {
            name: TopicOutcome(topic=self.image.topics[name]) if name in self.image.topics else outcome
            for name, outcome in zip(missing, outcomes, strict=True)
        }

    async def delete_topics(self, topic_ids: Sequence[TopicId]) -> list[TopicOutcome]:
        """Delete topics, in one commit where the store has no limit. Returns an outcome for each of `topic_ids`, which must be
        distinct.
        """
        return await self._in_commits(topic_ids, self._delete_topics)

    async def alter_configs(self, changes: Sequence[ConfigChange], *, validate_only: bool = False) -> Sequence[KafkaError | None]:
        """Change settings of distinct resources. Returns an error or None for each of `changes`."""
        unusable: dict[str, ConfigError] = {}
        for limits in limits_to_set(changes):  # before the change, which others wait for
            try:
                await self.hosts.look_up(limits, is_new=True)
            except ConfigError as error:
                unusable[limits] = drop_frames(error)
        return await self._in_commits(
            changes,
            lambda some: self._carry_out(
                lambda: plan_config_changes(self.image, Settings(self.static_config, self.config, unusable, self.check), some),
                validate_only=validate_only,
            ),
        )

    async def create_partitions(
        self, wanted: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> Sequence[KafkaError | None]:
        """Add partitions to distinct topics. Returns an error or None for each of `wanted`."""
        return await self._in_commits(
            wanted,
            lambda some: self._carry_out(
                lambda: plan_more_partitions(self.image, self._random, some), validate_only=validate_only
            ),
        )

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, all_or_none: bool, validate_only: bool = False
    ) -> Sequence[KafkaError | None]:
        """Set the levels of distinct features in one commit. Returns an error or None for each of `updates`."""
        return await self._uninterrupted.run(
            self._carry_out(
                lambda: plan_feature_updates(self.image, updates, all_or_none=all_or_none), validate_only=validate_only
            )
        )

    async def carry_out(self, make_plan: Callable[[], Pausing[Plan]]) -> Sequence[KafkaError | None]:
        """Commit what a plan of the image changes, as a whole. Returns the errors of the plan."""
        return await self._uninterrupted.run(self._carry_out(make_plan, validate_only=False))

    async def raise_leader_epochs(self, above: LeaderEpoch = NO_LEADER_EPOCH) -> LeaderEpoch:
        """Give every partition that this broker leads a leader epoch that was never used, above `above`. Returns the
        least of them.

        This is one commit, whatever the number of partitions. Raises StoreError.
        """
        return await self._uninterrupted.run(self._raise_leader_epochs(above))

    async def elect_leaders(self, partitions: Collection[TopicPartition], *, is_unclean: bool) -> None:
        """Have the first replica of each partition lead, where it can; or with `is_unclean` any live replica, where there is no
        leader. The image has the outcome; a partition that does not exist is left out. Raises KafkaError.
        """
        # A broker alone has no elections.
        from pybroker.metadata.elections import Election, candidates, min_isr_of, plan_of_named  # noqa: PLC0415
        from pybroker.metadata.partition_commits import carry_out  # noqa: PLC0415

        def planned(image: ClusterImage, epoch: LeaderEpoch) -> Pausing[list[PartitionChange]]:
            election = Election(candidates(image), epoch)

            def after(topic: TopicImage, number: int) -> PartitionImage | None:
                if not is_unclean:
                    return election.preferred(topic.partitions[number])
                return election.after(topic.partitions[number], min_isr=min_isr_of(topic, self.config), is_unclean_allowed=True)

            return plan_of_named(image, partitions, after)

        try:
            await self._uninterrupted.run(carry_out(self, self._store.limits.operations_max, planned))
        except StoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    async def _in_commits(
        self, elements: Sequence[Element], operation: Callable[[Sequence[Element]], Coroutine[Any, Any, Sequence[Result]]]
    ) -> list[Result]:
        """Carry out an operation, which changes one entry for each of its elements, in as many commits as the store needs."""
        count_max, results = self._store.limits.operations_max, list[Result]()
        for start in range(0, len(elements), count_max):
            results += await self._uninterrupted.run(operation(elements[start : start + count_max]))
        return results

    async def _unregister_broker(self, broker_id: BrokerId) -> None:
        async with self._one_change:
            while True:
                if broker_id not in self.image.registered:
                    raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
                if broker_id in self.image.brokers:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"Broker {broker_id} is live: stop it before it is unregistered. If it was killed, try again when its "
                        f"session has ended, {self.config.broker_session_timeout_ms} ms after that (broker.session.timeout.ms)",
                    )
                failure = await self._commit(deletes=[broker_key(broker_id)], compare={session_key(broker_id): ABSENT})
                if isinstance(failure, KafkaError):
                    raise failure
                if failure is None:
                    logger.info("Broker %d is not registered any more", broker_id)
                    return

    async def _raise_leader_epochs(self, above: LeaderEpoch) -> LeaderEpoch:
        async with self._one_change:
            while True:
                epochs = self.image.leader_epochs
                floor = epochs.next_after(above)
                value = encode_leader_epoch(floor)
                puts = {LEADER_EPOCH_KEY: value, leader_epoch_floor_key(self.broker_id): value}
                outcome = await self._store.commit(puts=puts, compare={LEADER_EPOCH_KEY: epochs.revision})
                await self._follower.settled()
                if not isinstance(outcome, Conflict):
                    return floor

    async def _carry_out(self, make_plan: Callable[[], Work[Plan]], *, validate_only: bool) -> Sequence[KafkaError | None]:
        async with self._one_change:
            while True:
                plan = await complete(make_plan())
                if validate_only or not plan.entries:
                    return plan.errors
                self._follower.planned = plan.topics
                failure = await self._commit_entries(plan.entries, plan.compare)
                self._follower.planned = {}
                if isinstance(failure, Conflict):
                    continue
                if failure is not None:
                    if self._is_to_take_back:
                        await self._commit_entries(plan.before, {})
                    return [failure if error is None else error for error in plan.errors]
                await complete(_logged(("%s", note) for note in plan.notes))
                return plan.errors

    async def _commit_entries(self, entries: Mapping[str, bytes | None], compare: dict[str, int]) -> Conflict | KafkaError | None:
        puts = {key: value for key, value in entries.items() if value is not None}
        return await self._commit(puts=puts, deletes=[key for key in entries if key not in puts], compare=compare)

    async def _create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool) -> list[TopicOutcome]:
        async with self._one_change:
            while True:
                planned = await complete(self._plan(topics))
                created = [outcome.topic for outcome in planned if outcome.topic is not None]
                if validate_only or not created:
                    return planned
                puts = await complete(_entries(created))
                self._follower.planned = dict(zip(puts.values(), created, strict=True))
                failure = await self._commit(puts=puts, compare=dict.fromkeys(puts, ABSENT))
                self._follower.planned = {}
                if isinstance(failure, Conflict):
                    continue
                if failure is not None:
                    if self._is_to_take_back:
                        await self._take_back(created)
                    return [outcome if outcome.topic is None else TopicOutcome(error=failure) for outcome in planned]
                self._reported = ""
                await complete(
                    _logged(("Created topic %s with id %s and %d partitions", *_described(topic)) for topic in created)
                )
                await complete(_logged(fewer_replicas(topics, created, self.config.default_replication_factor)))
                return planned

    def _plan(self, topics: Sequence[NewTopic]) -> Pausing[list[TopicOutcome]]:
        planner = TopicPlanner(self.image, self.config, self._random)
        outcomes = []
        for topic in topics:
            try:
                outcomes.append(TopicOutcome(topic=planner.plan(topic)))
            except KafkaError as error:
                outcomes.append(TopicOutcome(error=drop_frames(error)))
            yield
        return outcomes

    async def _delete_topics(self, topic_ids: Sequence[TopicId]) -> list[TopicOutcome]:
        async with self._one_change:
            while True:
                found = [self.image.topics_by_id.get(topic_id) for topic_id in topic_ids]
                deleted = [topic for topic in found if topic is not None]
                failure = await self._commit(
                    deletes=[topic_key(topic.name) for topic in deleted],
                    compare={topic_key(topic.name): topic.revision for topic in deleted},
                )
                if isinstance(failure, Conflict):
                    continue
                if failure is not None and any(topic.topic_id in self.image.topics_by_id for topic in deleted):
                    return [TopicOutcome(error=failure) if topic is not None else _unknown_id() for topic in found]
                await self._delete_own_entries(deleted)
                await complete(
                    _logged(("Deleted topic %s with id %s and %d partitions", *_described(topic)) for topic in deleted)
                )
                return [TopicOutcome(topic=topic) if topic is not None else _unknown_id() for topic in found]

    async def _delete_own_entries(self, topics: Sequence[TopicImage]) -> None:
        """Delete the entries of the partitions of deleted topics. If that fails, they are left, and harm nothing."""
        keys = [
            partition_key(topic.topic_id, number)
            for topic in topics
            for number, partition in enumerate(topic.partitions)
            if partition.revision
        ]
        count_max = self._store.limits.operations_max
        for start in range(0, len(keys), count_max):
            await self._commit(deletes=keys[start : start + count_max], compare={})

    async def _commit(
        self, *, compare: dict[str, int], puts: dict[str, bytes] | None = None, deletes: Sequence[str] = ()
    ) -> Conflict | KafkaError | None:
        """Return None if the commit is done and every listener took it; KafkaError if the store or a listener failed."""
        self._listener_failures.clear()
        try:
            outcome = await self._store.commit(puts=puts, deletes=deletes, compare=compare)
            await self._follower.settled()
        except OutcomeUnknownError as error:
            logger.warning("A request that changes the metadata gets the response REQUEST_TIMED_OUT: %s", error)
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
        except UnreachableError as error:
            logger.error("A request that changes the metadata is refused, and nothing was changed: %s", error)  # noqa: TRY400 - no bug
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except StoreError as error:
            logger.exception("The metadata store could not write a change; the operation fails")
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if isinstance(outcome, Conflict):
            return outcome
        if not self._is_to_take_back:
            return None  # in a cluster, this broker's disk decides nothing: its replica is offline, and others may lead
        failure = self._listener_failures[0]
        if isinstance(failure, KafkaError):
            return failure
        code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(failure, OSError) else ErrorCode.UNKNOWN_SERVER_ERROR
        return KafkaError(code, str(failure))

    @property
    def _is_to_take_back(self) -> bool:
        """Whether this broker could not follow the last commit, and is alone. In a cluster, this broker's disk decides nothing:
        its replica is offline, and others may lead. A commit whose outcome is not known is never taken back.
        """
        return bool(self._listener_failures) and not has_others(self.image)

    async def _take_back(self, created: Sequence[TopicImage]) -> None:
        """Delete the topics that a listener could not take. After a failure of the store there is nothing to delete."""
        standing = [topic for topic in created if topic.topic_id in self.image.topics_by_id]
        if standing:
            await self._commit(deletes=[topic_key(topic.name) for topic in standing], compare={})

    def _take_over(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Replace the image, and the settings in force if the change has some; the listeners are called next."""
        self.image = image
        if delta.configs_changed & {ConfigResource(BROKER_KIND, ""), ConfigResource(BROKER_KIND, str(self.broker_id))}:
            self._take_over_settings()

    def _listener_failed(self, error: Exception) -> None:
        self._report(error)
        self._listener_failures.append(error)

    def _report(self, error: Exception) -> None:
        """Log that a listener failed. A client that asks for a topic again and again, for which a disk has no room, causes one
        line until a topic can be created.
        """
        if not isinstance(error, KafkaError) or error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            logger.error("This broker could not apply a change of the cluster", exc_info=error)
        elif error.message != self._reported:  # the disk's line shows why
            self._reported = error.message
            logger.warning("This broker could not apply a change of the cluster: %s", error.message)

    def _take_over_settings(self) -> None:
        """Resolve the settings in force. If another version wrote values that are invalid here, the previous settings
        remain in force.
        """
        of_all, of_this = (self.image.configs_of(BROKER_KIND, name) for name in ("", str(self.broker_id)))
        try:
            self.config = in_force(self.static_config, of_all, of_this)
        except ConfigError as error:
            logger.error("A dynamic setting of the broker is invalid, so all settings remain as they were: %s", error)  # noqa: TRY400 - no bug


def _entries(topics: Sequence[TopicImage]) -> Pausing[dict[str, bytes]]:
    entries = {}
    for topic in topics:
        entries[topic_key(topic.name)] = encode_topic(topic)
        yield
    return entries


def _logged(lines: Iterable[tuple[Any, ...]]) -> Pausing[None]:
    """Log each line, a format and its arguments."""
    for line in lines:
        logger.info(*line)
        yield


def _described(topic: TopicImage) -> tuple[str, str, int]:
    return topic.name, topic_id_text(topic.topic_id), len(topic.partitions)


def _unknown_id() -> TopicOutcome:
    return TopicOutcome(error=KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
