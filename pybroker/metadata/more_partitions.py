"""Partitions added to existing topics, as CreatePartitions requests them.

Each topic of a request is independent: a refused topic is unchanged, and the others grow in one commit.

Errors
    UNKNOWN_TOPIC_OR_PARTITION; INVALID_PARTITIONS unless the number grows; INVALID_REPLICA_ASSIGNMENT.

Source: ReplicationControlManager.createPartitions; KIP-195.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pybroker.failures import drop_frames
from pybroker.metadata.new_topic import EXCESSIVE, PARTITIONS_PER_REQUEST_MAX, check_assignment, new_partitions
from pybroker.metadata.placement import place_replicas
from pybroker.metadata.plan import Plan
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

    from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage
    from pybroker.model import BrokerId
    from pybroker.sharing.work import Pausing


@dataclass(slots=True, frozen=True, kw_only=True)
class MorePartitions:
    """A topic that is to have `count` partitions in all; `assignments` are the brokers of the new ones, None to place them."""

    name: str
    count: int
    assignments: Sequence[Sequence[BrokerId]] | None = None


def plan_more_partitions(image: ClusterImage, random: Random, wanted: Sequence[MorePartitions]) -> Pausing[Plan]:
    """Make a plan with an error or None for each of `wanted`, whose names must be distinct. It yields between topics."""
    plan = Plan()
    room = PARTITIONS_PER_REQUEST_MAX
    for one in wanted:
        try:
            topic = _found(image, one)
            room -= one.count - len(topic.partitions)
            if room < 0:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, EXCESSIVE)
            partitions = (*topic.partitions, *_new_partitions(image, random, topic, one))
            plan.change_topic(topic, replace(topic, partitions=partitions))
            plan.notes.append(f"Topic {topic.name} grew from {len(topic.partitions)} to {len(partitions)} partitions")
            plan.errors.append(None)
        except KafkaError as error:
            plan.errors.append(drop_frames(error))
        yield
    return plan


def _found(image: ClusterImage, wanted: MorePartitions) -> TopicImage:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(topic.partitions)
    if wanted.count == count:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if wanted.count < count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {count} partition(s); {wanted.count} would not be an increase.",
        )
    return topic


def _new_partitions(image: ClusterImage, random: Random, topic: TopicImage, wanted: MorePartitions) -> tuple[PartitionImage, ...]:
    additional = wanted.count - len(topic.partitions)
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        replicas = place_replicas(image.registered, partition_count=additional, replication_factor=factor, random=random)
    else:
        if len(wanted.assignments) != additional:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified.",
            )
        replicas = [tuple(brokers) for brokers in wanted.assignments]
        for brokers in replicas:
            check_assignment(image, brokers, factor)
    return new_partitions(image, replicas, image.leader_epochs.counter)
