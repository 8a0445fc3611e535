"""Makes the image of a topic from a client's request, or the code and text of Kafka's refusal.

The module is pure: it decides from one image. The order of the checks is Kafka's, because a request with two faults
gets one code.
Source: ReplicationControlManager.createTopic, validateNewTopicNames, validateManualPartitionAssignment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.config.setting import ConfigError
from pybroker.config.topic import TopicConfig
from pybroker.metadata import names
from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pybroker.metadata.placement import place_replicas
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

    from pybroker.config.broker import BrokerConfig
    from pybroker.model import BrokerId, LeaderEpoch

BROKER_DEFAULT: Final = -1
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""A request for more is refused as a whole: one short request must not make the broker open a million files."""
EXCESSIVE: Final = "Excessively large number of partitions per request."


@dataclass(slots=True, frozen=True, kw_only=True)
class NewTopic:
    """A topic to create. With `assignments`, pairs of a partition and its brokers, both numbers must be BROKER_DEFAULT."""

    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    configs: Mapping[str, str | None]

    def requested_partitions(self, default: int) -> int:
        """Return how many partitions it requests, before any check."""
        if self.assignments:
            return len(self.assignments)
        return default if self.partition_count == BROKER_DEFAULT else max(self.partition_count, 0)

    def requested_replicas(self, default: int) -> int:
        """Return how many replicas each partition is to have, before any check."""
        if self.assignments:
            return len(self.assignments[0][1])
        return default if self.replication_factor == BROKER_DEFAULT else self.replication_factor


class TopicPlanner:
    """Plans the topics of one request; a later topic collides with a planned topic as it does with an existing one."""

    def __init__(self, image: ClusterImage, config: BrokerConfig, random: Random) -> None:
        self._image, self._config, self._random = image, config, random
        self._collisions = {names.collision_key(name): name for name in image.topics if names.has_collision_characters(name)}

    def plan(self, topic: NewTopic) -> TopicImage:
        """Return the image of the topic, with a new id. Raises KafkaError."""
        self._check_name(topic.name)
        configs = self._checked_configs(topic.configs)
        replicas = self._assigned(topic) if topic.assignments else self._placed(topic)
        if names.has_collision_characters(topic.name):
            self._collisions[names.collision_key(topic.name)] = topic.name
        epoch = self._image.leader_epochs.counter  # not below the epoch of an earlier topic of this name
        partitions = new_partitions(self._image, replicas, epoch)
        return TopicImage(name=topic.name, topic_id=names.random_topic_id(), partitions=partitions, configs=configs)

    def _check_name(self, name: str) -> None:
        if name in self._image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if name == names.CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if (reason := names.invalid_name_reason(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        if names.has_collision_characters(name) and (other := self._collisions.get(names.collision_key(name))) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _checked_configs(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        nulls = [key for key, value in configs.items() if value is None]
        if nulls:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
        overrides = {key: value for key, value in configs.items() if value is not None}
        if not overrides:
            return overrides  # most topics; resolving costs more than all the rest
        try:
            TopicConfig.resolve(self._config, overrides)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.client_message) from error
        return overrides

    def _placed(self, topic: NewTopic) -> list[tuple[BrokerId, ...]]:
        if topic.replication_factor < BROKER_DEFAULT or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.partition_count < BROKER_DEFAULT or topic.partition_count == 0:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
        factor = topic.requested_replicas(self._config.default_replication_factor)
        if len(self._image.registered) == 1 and self._config.pybroker_replication_factor_accept == "any":
            factor = min(factor, 1)
        return place_replicas(
            self._image.registered,
            partition_count=topic.requested_partitions(self._config.num_partitions),
            replication_factor=factor,
            random=self._random,
        )

    def _assigned(self, topic: NewTopic) -> list[tuple[BrokerId, ...]]:
        for given, label in ((topic.replication_factor, "replication factor"), (topic.partition_count, "numPartitions")):
            if given != BROKER_DEFAULT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"A manual partition assignment was specified, but {label} was not set to -1."
                )
        by_partition: dict[int, tuple[BrokerId, ...]] = {}
        factor = len(topic.assignments[0][1])
        for partition, brokers in topic.assignments:
            if partition in by_partition:
                raise _bad_assignment(f"Found multiple manual partition assignments for partition {partition}")
            check_assignment(self._image, brokers, factor)
            by_partition[partition] = brokers
        if by_partition.keys() != {*range(len(by_partition))}:
            raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
        return [by_partition[partition] for partition in range(len(by_partition))]


def fewer_replicas(wanted: Sequence[NewTopic], created: Sequence[TopicImage], default: int) -> Iterator[tuple[object, ...]]:
    """Return log lines about the new topics that have fewer replicas than their requests, which a single broker may accept."""
    factors = {topic.name: topic.requested_replicas(default) for topic in wanted}
    for topic in created:
        if factors[topic.name] > (count := len(topic.partitions[0].replicas)):
            yield (
                "Topic %s has %d replica instead of %d, because there is a single broker",
                topic.name,
                count,
                factors[topic.name],
            )


def new_partitions(
    image: ClusterImage, replicas: Sequence[tuple[BrokerId, ...]], epoch: LeaderEpoch
) -> tuple[PartitionImage, ...]:
    """Return new partitions with these replicas; those with the same replicas are one object. The replicas that are live are in
    sync, and the first of them leads.

    Raises INVALID_REPLICA_ASSIGNMENT for a partition of which no replica is live, or only one that stops.
    """
    electable = {broker_id for broker_id, broker in image.brokers.items() if not broker.is_stopping}
    by_replicas: dict[tuple[BrokerId, ...], PartitionImage] = {}
    for brokers in set(replicas):
        isr = tuple(one for one in brokers if one in electable)
        if not isr:
            number = replicas.index(brokers)
            raise _bad_assignment(
                f"All brokers specified in the manual partition assignment for partition {number} are fenced or in controlled "
                "shutdown."
            )
        by_replicas[brokers] = PartitionImage(leader=isr[0], leader_epoch=epoch, replicas=brokers, isr=isr, partition_epoch=0)
    return tuple(by_replicas[brokers] for brokers in replicas)


def check_assignment(image: ClusterImage, brokers: tuple[BrokerId, ...], factor: int) -> None:
    """Check that a partition can be on these brokers, in a topic with `factor` replicas. Raises INVALID_REPLICA_ASSIGNMENT."""
    if not brokers:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    for before, broker in zip((None, *sorted(brokers)), sorted(brokers), strict=False):
        if broker not in image.registered:
            raise _bad_assignment(f"The manual partition assignment includes broker {broker}, but no such broker is registered.")
        if broker == before:
            raise _bad_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
    if len(brokers) != factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )


def _bad_assignment(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
