"""The partitions of this broker, as the cluster's image has them.

A change may bring or remove 10,000 partitions, so it is followed in three steps, the first and the last in slices, as
`metadata/following.py` describes. The logs of new partitions are made, and removed partitions listed, before any request can know
the new image. Then, at once, new partitions are served and removed ones are not: that step looks each of them up, and makes and
frees none. Then the removed partitions are freed, their logs deleted, and settings reach the other logs.

Source: ReplicaManager.applyDelta.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.config.topic import TopicConfig
from pybroker.failures import drop_frames
from pybroker.metadata.image import has_others
from pybroker.model import FIRST_OFFSET, TopicPartition
from pybroker.protocol.error_codes import KafkaError
from pybroker.replication.partition import Partition
from pybroker.replication.refusals import Refusals
from pybroker.sharing.work import emptied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pybroker.config.broker import BrokerConfig
    from pybroker.log.log import Log
    from pybroker.log.manager.directory_moves import DirectoryMoves
    from pybroker.log.manager.manager import LogManager
    from pybroker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage
    from pybroker.model import BrokerId, Offset, TopicId
    from pybroker.replication.in_sync import Cluster
    from pybroker.sharing.work import Work

    _Removed = tuple[TopicPartition, TopicId]

logger = logging.getLogger("pybroker.replication.replica_manager")

LISTED_AT_ONCE: Final = 1_000
"""Partitions that a change removes and that are listed between two yields."""
OFFLINE_AT_ONCE: Final = 20
"""Partitions that are marked offline between two yields; each completes the requests that wait for it."""


class OwnPartitions:
    """The replicas of this broker: those that are online in `online`, the others in `offline`. Belongs to the loop."""

    __slots__ = (
        "_broker_id",
        "_cluster",
        "_config",
        "_log_manager",
        "_prepared",
        "_refusal",
        "_refused",
        "_removed",
        "_wake",
        "image",
        "moves",
        "offline",
        "online",
    )

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        config: BrokerConfig,
        log_manager: LogManager,
        image: ClusterImage,
        wake: Callable[[TopicPartition], None],
        cluster: Cluster,
    ) -> None:
        """Make no partition yet; `wake` checks again the requests that wait for one. `moves` must be set before use."""
        self._broker_id = broker_id
        self._cluster = cluster
        self._config = config
        self._log_manager = log_manager
        self._wake = wake
        self.image = image
        self.online: dict[TopicPartition, Partition] = {}
        self.offline: set[TopicPartition] = set()
        self.moves: DirectoryMoves
        self._prepared: dict[TopicPartition, Partition] = {}  # made for the next image, and not served before
        self._removed: list[_Removed] = []  # by the next image
        self._refusal: KafkaError | OSError | None = None  # why a log could not be made by the last preparation
        self._refused: set[TopicPartition] = set()  # without a log in the next image, which other brokers follow too

    def start(self, image: ClusterImage) -> None:
        """Make the partitions that the image gives this broker. A partition whose log cannot be opened is offline; the others
        work. A log that is not here is begun again where others are in sync: it is copied from them.
        """
        self._take(image)
        high_watermarks = self._log_manager.read_high_watermarks()
        refusals = Refusals()
        resolved = _resolver(self._config)
        for topic in image.topics.values():
            config = resolved(topic.configs)
            for topic_partition, partition_image in self._own(topic):
                try:
                    self.online[topic_partition] = self._made(
                        topic,
                        topic_partition,
                        partition_image,
                        config,
                        high_watermark=high_watermarks.get(topic_partition, FIRST_OFFSET),
                        is_new=len(partition_image.replicas) > 1 and self._broker_id not in partition_image.isr,
                    )
                except KafkaError as error:
                    refusals.add(topic_partition, error.message)
                    self.offline.add(topic_partition)
                except OSError:
                    logger.exception("The log of %s cannot be opened; the partition is offline", topic_partition)
                    self.offline.add(topic_partition)
        refusals.report()

    # Following

    def prepare(self, new: ClusterImage, delta: ImageDelta) -> Iterator[None]:
        """Make the logs of partitions that the change adds, and list those that it removes. `follow` raises the errors of logs
        that cannot be made.
        """
        for topic in delta.removed:
            yield from self._list_removed(topic, range(len(topic.partitions)))
        for old, topic in delta.changed:
            yield from self._list_removed(topic, self._no_longer_own(old, topic))
        yield from self._make(new, delta)

    def _list_removed(self, topic: TopicImage, numbers: Sequence[int]) -> Iterator[None]:
        for start in range(0, len(numbers), LISTED_AT_ONCE):
            some = numbers[start : start + LISTED_AT_ONCE]
            self._removed += [(TopicPartition(topic.name, number), topic.topic_id) for number in some]
            yield

    def _make(self, new: ClusterImage, delta: ImageDelta) -> Iterator[None]:
        """Make logs. After a failure a broker that is alone stops, because the change is taken back; in a cluster the replica is
        offline.
        """
        resolved = _resolver(self._config)
        for topic in (*delta.added, *(topic for _, topic in delta.changed)):
            for topic_partition, image in self._own(topic):
                if topic_partition not in self.online and topic_partition not in self.offline:
                    try:
                        self._prepared[topic_partition] = self._made(topic, topic_partition, image, resolved(topic.configs))
                    except (KafkaError, OSError) as error:
                        self._refusal = drop_frames(error)
                        if not has_others(new):
                            return
                        self._refused.add(topic_partition)
                yield

    def follow(self, new: ClusterImage, delta: ImageDelta) -> Iterator[None]:
        """Serve the partitions that a prepared change adds, and none that it removes. Returns what is left to do, which raises
        OSError or KafkaError if a log could not be made. Logs that were made before are kept until the change is taken back.
        """
        self._take(new)
        for old, topic in delta.changed:
            self._step_down(old, topic)
        removed, self._removed = self._removed, []
        were_online = [self.online.pop(one[0], None) for one in removed]  # kept, because to free many takes long
        were_offline = {one[0] for one in removed if one[0] in self.offline} if self.offline else set()
        self.offline -= were_offline
        self.online |= self._prepared
        added, self._prepared = list(self._prepared), {}
        self._give_up_refused()
        refusal, self._refusal = self._refusal, None
        return self._finish(self._remove(removed, were_online, were_offline), added, delta, refusal)

    def _give_up_refused(self) -> None:
        if self._refused:
            self.offline |= self._refused
            self._cluster.give_up(self._refused)
            self._refused = set()

    def _take(self, image: ClusterImage) -> None:
        self.image = image
        self._cluster.brokers = image.brokers

    def _step_down(self, old: TopicImage, topic: TopicImage) -> None:
        """Lead no more, at once, what another broker leads now: a request that is handled next must not be acknowledged here."""
        if old.partitions is topic.partitions:
            return
        for number, (before, after) in enumerate(zip(old.partitions, topic.partitions, strict=False)):
            if before is not after and before.leader == self._broker_id != after.leader:
                partition = self.online.get(TopicPartition(topic.name, number))
                if partition is not None:
                    partition.step_down()

    def step_down(self) -> None:
        """Lead no partition with several replicas until `lead_again`: this broker's session has ended."""
        self._cluster.is_away = True
        for topic_partition, partition in self.online.items():
            if partition.is_leader and len(partition.replicas) > 1:
                partition.step_down()
                self._wake(topic_partition)

    def lead_again(self) -> None:
        """Lead in the leader epochs of later images: no election before this is in force any more."""
        self._cluster.is_away = False

    def _no_longer_own(self, old: TopicImage, topic: TopicImage) -> list[int]:
        if old.partitions == topic.partitions:
            return []
        owned = {number for number, one in enumerate(topic.partitions) if self._broker_id in one.replicas}
        return [number for number, one in enumerate(old.partitions) if self._broker_id in one.replicas and number not in owned]

    def _remove(
        self, removed: list[_Removed], were_online: list[Partition | None], were_offline: set[TopicPartition]
    ) -> Iterator[None]:
        for number, (topic_partition, topic_id) in enumerate(removed):
            if were_online[number] is not None or topic_partition in were_offline:
                were_online[number] = None
                self._delete(topic_partition, topic_id)
            yield
        for topic_partition, _ in removed:
            self._wake(topic_partition)
            yield
        yield from emptied(removed, were_online, were_offline)

    def _finish(
        self,
        removal: Iterator[None],
        added: list[TopicPartition],
        delta: ImageDelta,
        refusal: KafkaError | OSError | None,
    ) -> Iterator[None]:
        yield from removal
        for topic_partition in added:
            self._wake(topic_partition)
            yield
        resolved = _resolver(self._config)
        for old_topic, topic in delta.changed:
            yield from self._change(old_topic, topic, resolved)
        if delta.removed:  # a topic that was deleted and created again in one change
            yield from self._make(self.image, delta)
            self.online |= self._prepared
            self._prepared = {}
            self._give_up_refused()
            refusal, self._refusal = refusal or self._refusal, None
        if refusal is not None:
            raise refusal

    def _own(self, topic: TopicImage) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        for number, partition_image in enumerate(topic.partitions):
            if self._broker_id in partition_image.replicas:
                yield TopicPartition(topic.name, number), partition_image

    def _made(
        self,
        topic: TopicImage,
        topic_partition: TopicPartition,
        image: PartitionImage,
        config: TopicConfig,
        *,
        high_watermark: Offset = FIRST_OFFSET,
        is_new: bool = True,
    ) -> Partition:
        log = self._log_manager.create(topic_partition, topic.topic_id, config, is_new=is_new)
        self._subscribe(topic_partition, log)
        return Partition(topic_partition, log, self._broker_id, image, high_watermark, self._cluster)

    def _subscribe(self, topic_partition: TopicPartition, log: Log) -> None:
        """Subscribe to the log's `on_settled`, which is called when its records have become durable."""

        def on_settled() -> None:
            partition = self.online.get(topic_partition)
            if partition is not None and partition.log is log:
                partition.on_settled()
                self._wake(topic_partition)

        log.on_settled = on_settled

    def _change(
        self, old_topic: TopicImage, topic: TopicImage, resolved: Callable[[Mapping[str, str]], TopicConfig]
    ) -> Iterator[None]:
        config = resolved(topic.configs) if old_topic.configs != topic.configs else None
        for topic_partition, image in self._own(topic):
            partition = self.online.get(topic_partition)
            if partition is not None:
                if partition.apply_image(image):
                    self._wake(topic_partition)
                if config is not None:
                    partition.log.config = config
            yield

    def _delete(self, topic_partition: TopicPartition, topic_id: TopicId) -> None:
        try:
            self.moves.cancel(topic_partition)
            self._log_manager.delete(topic_partition, topic_id)
        except KafkaError:  # an error of the disk; the partition is deleted, and its files are strays at the next start
            logger.exception("The log of %s cannot be removed; its files are strays at the next start", topic_partition)

    def on_moved(self, topic_partition: TopicPartition, log: Log) -> None:
        """Serve the partition from the log in another directory, which has taken the place of its log."""
        partition = self.online.get(topic_partition)
        if partition is not None:
            self._subscribe(topic_partition, log)
            log.settle_moved()
            partition.replace_log(log)
            self._wake(topic_partition)

    def mark_offline(self, topic_partition: TopicPartition) -> None:
        """Respond with KAFKA_STORAGE_ERROR from now on, also to waiting requests, because the log's directory failed."""
        is_prepared = self._prepared.pop(topic_partition, None) is not None
        if self.online.pop(topic_partition, None) is not None or is_prepared:
            self.offline.add(topic_partition)
            self._wake(topic_partition)

    def follow_failure(self, logs: Sequence[Log]) -> Work[None]:
        """Mark the partitions of `logs` offline, because their directory failed.

        Between two slices some are marked and others not; those refuse records and reads by their logs, but a fetch from the end
        waits. A log that was deleted or moved meanwhile is left out.
        """
        for count, log in enumerate(logs, start=1):
            if self._log_manager.get(log.topic_partition) is log:
                self.mark_offline(log.topic_partition)
            if count % OFFLINE_AT_ONCE == 0:
                yield None

    def reconfigure(self, config: BrokerConfig) -> Iterator[None]:
        """Apply the broker's settings in force: every log gets what its topic inherits from them. Raises ConfigError."""
        self._config = config
        resolved = _resolver(config)
        for topic in tuple(self.image.topics.values()):
            of_topic = resolved(topic.configs)
            for topic_partition, _ in self._own(topic):
                if (partition := self.online.get(topic_partition)) is not None:
                    partition.log.config = of_topic
                yield
        self._log_manager.expire_producers_after(config.producer_id_expiration_ms)


def _resolver(config: BrokerConfig) -> Callable[[Mapping[str, str]], TopicConfig]:
    """Return what finds the settings of a topic from those that were set for it. Topics often have the same, or none."""
    known: dict[tuple[tuple[str, str], ...], TopicConfig] = {}

    def resolved(overrides: Mapping[str, str]) -> TopicConfig:
        key = tuple(overrides.items())
        if key not in known:
            known[key] = TopicConfig.resolve(config, overrides)
        return known[key]

    return resolved
